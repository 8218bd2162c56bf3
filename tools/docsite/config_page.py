"""The reference page of every configuration, from the pydantic models."""

import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Mapping
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

import jeanie
from jeanie.config import Config

__all__ = ["describe_configurations", "list_configurations", "list_options"]


def list_configurations() -> list[type[Config]]:
    """Return every configuration of the package whose name is public, the ones of ``jeanie.__all__`` first."""
    for module in pkgutil.walk_packages(jeanie.__path__, "jeanie."):
        spec = importlib.util.find_spec(module.name)
        is_source = spec is not None and str(spec.origin).endswith(".py")
        if is_source and not module.name.endswith("__main__") and ".triton_" not in module.name:
            importlib.import_module(module.name)
    configurations: dict[str, type[Config]] = {}
    waiting: list[type[Config]] = [Config]
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            if not model.__name__.startswith("_") and model.__module__.startswith("jeanie."):
                configurations[f"{model.__module__}.{model.__qualname__}"] = model
    return sorted(
        configurations.values(), key=lambda model: (model.__name__ not in jeanie.__all__, model.__module__)
    )


def list_options(model: type[Config]) -> dict[str, tuple[str, str, str]]:
    """Return type, default and meaning of every field."""
    return {
        name: (_name_type(field.annotation), _describe_default(field), _describe_limits(field))
        for name, field in model.model_fields.items()
    }


def describe_configurations() -> str:
    """Return the page in Markdown."""
    lines = [
        "# Configuration",
        "",
        "This page is generated from the configurations. Every configuration can be written as TOML or JSON",
        "(`from_file`), given as keywords in Python, or set on the command line: `--set views.azimuth=30`.",
        "An unknown name or a wrong value is a `ConfigError` that says what is allowed. Fields that are themselves",
        "configurations have their type as a link.",
        "",
    ]
    models = list_configurations()
    names = {model.__name__ for model in models}
    for title, is_public in (("Public configurations", True), ("Configurations of the modules", False)):
        lines += [f"## {title}", ""]
        for model in models:
            if (model.__name__ in jeanie.__all__) == is_public:
                lines += _describe_model(model, names)
    return "\n".join(lines)


def _describe_model(model: type[Config], names: set[str]) -> list[str]:
    summary = inspect.cleandoc(model.__doc__ or "").split("\n\n")[0]
    where = "jeanie" if model.__name__ in jeanie.__all__ else model.__module__
    lines = [
        f"({_anchor(model.__name__)})=",
        f"### {model.__name__}",
        "",
        f"`from {where} import {model.__name__}`",
        "",
    ]
    lines += [re.sub(r"``(.+?)``", r"`\1`", summary.replace("*", "\\*")), ""]
    options = list_options(model)
    if options:
        lines += ["| option | type | default | meaning |", "|---|---|---|---|"]
    for name, (kind, default, meaning) in options.items():
        lines.append(f"| `{name}` | {_link_types(kind, names)} | {default} | {_escape(meaning)} |")
    return [*lines, ""]


def _name_type(annotation: Any) -> str:
    """Return a type as people write it: ``float | null``, ``tuple[int, ...]``, the values of a literal."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _name_type(inner[0])
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in (Union, UnionType):
        return " | ".join(map(_name_type, inner))
    if origin is not None:
        return f"{origin.__name__.lower()}[{', '.join(map(_name_type, inner))}]"
    if annotation is type(None):
        return "null"
    return "..." if annotation is ... else getattr(annotation, "__name__", str(annotation))


def _link_types(kind: str, names: set[str]) -> str:
    """Return a type in Markdown: configurations are links, everything else is code."""
    parts = re.split(r"(\b[A-Z]\w+\b)", kind)
    if not names & set(parts):
        return f"`{kind}`".replace("|", "\\|")
    linked = [f"[{part}](#{_anchor(part)})" if part in names else part for part in parts]
    return "".join(linked).replace("|", "\\|")


def _describe_default(field: Any) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "required"
    return f"`{_show(value)}`".replace("|", "\\|")


def _show(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Config):
        return type(value).__name__ + "()"
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_show(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, tuple | list | frozenset | set):
        return "[" + ", ".join(_show(entry) for entry in value) + "]"
    return str(value) if not isinstance(value, str) else f'"{value}"'


def _describe_limits(field: Any) -> str:
    is_kind = get_origin(field.annotation) is Literal and not field.description
    meaning = field.description or ("selects this configuration" if is_kind else "")
    limits = [
        f"{sign} {getattr(limit, name)}"
        for limit in field.metadata
        for name, sign in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
        if getattr(limit, name, None) is not None
    ]
    return meaning + (f" ({', '.join(limits)})" if limits else "")


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")


def _anchor(name: str) -> str:
    return f"configuration-{name.lower()}"
