"""The reference page of the JSON that commands print, from ``docs/results.schema.json``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["describe_schemas"]


def describe_schemas(path: Path) -> str:
    """Return the page in Markdown."""
    schema = json.loads(path.read_text())
    definitions = schema["$defs"]
    lines = [
        "# JSON schemas",
        "",
        "This page is generated from [results.schema.json](../results.schema.json). It has one entry for every command",
        "that prints JSON, and for the parts that they share.",
        "[JSON, CSV and LaTeX output](../json.md) explains the names.",
        "",
    ]
    for name, definition in definitions.items():
        lines += [f"(json-{_anchor(name)})=", f"## `{name}`", ""]
        if text := definition.get("description"):
            lines += [_escape(text[0].upper() + text[1:]) + ".", ""]
        rows = list(_list_fields(definition))
        if rows and not any(meaning for _, _, meaning in rows):
            lines += ["| name | type |", "|---|---|", *(f"| {name} | {kind} |" for name, kind, _ in rows)]
        elif rows:
            lines += ["| name | type | meaning |", "|---|---|---|"]
            lines += [f"| {name} | {kind} | {meaning} |" for name, kind, meaning in rows]
        elif not text or "type" in definition:
            lines += [f"Type: {_name_type(definition)}"]
        lines += [""]
    return "\n".join(lines)


def _list_fields(
    definition: dict[str, Any], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of every field, those of inner objects after their names."""
    for part in (*definition.get("allOf", ()), *definition.get("anyOf", ()), *definition.get("oneOf", ())):
        yield from _list_fields(part, prefix, depth)
    if depth > 4:
        return
    required = definition.get("required", ())
    for name, field in definition.get("properties", {}).items():
        optional = "" if name in required else " (optional)"
        yield f"`{prefix}{name}`{optional}", _name_type(field), _escape(field.get("description", ""))
        yield from _list_fields(field, f"{prefix}{name}.", depth + 1)
        if isinstance(items := field.get("items"), dict):
            yield from _list_fields(items, f"{prefix}{name}[].", depth + 1)


def _name_type(field: Any) -> str:
    if not isinstance(field, dict):
        return "any"
    if reference := field.get("$ref"):
        name = reference.rsplit("/", 1)[-1]
        return f"[{name}](#json-{_anchor(name)})"
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return " or ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in field:
            return " or ".join(dict.fromkeys(_name_type(part) for part in field[several]))
    kind = field.get("type", "any")
    text = " or ".join(kind) if isinstance(kind, list) else kind
    if "items" in field:
        text += f" of {_name_type(field['items'])}"
    return text


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")
