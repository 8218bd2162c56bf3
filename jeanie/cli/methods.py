"""``jeanie methods``: the compared systems and ablations that can be trained by name."""

import json
from typing import Annotated, Any

import typer

from jeanie.cli.terminal import AsJson, exit_on_error
from jeanie.errors import ConfigError
from jeanie.paper.methods import METHODS, Method

__all__ = ["methods"]


def methods(
    search: Annotated[
        str, typer.Argument(help="Only list methods whose name or summary contains this text.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the methods for train --method: name, summary and missing packages."""
    with exit_on_error(as_json):
        rows = [
            _describe_method(method)
            for method in METHODS.values()
            if search.lower() in f"{method.name} {method.summary}".lower()
        ]
        if not rows:
            raise ConfigError(f"no method contains {search!r}; jeanie methods lists all of them")
        typer.echo(json.dumps({"methods": rows}) if as_json else _format_table(rows))


def _describe_method(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.summary,
        "changes": method.changes,
        "needs": list(method.needs),
        "missing": list(method.missing),
    }


def _format_table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = []
    for row in rows:
        missing = f"  (pip install 'jeanie[{','.join(row['missing'])}]')" if row["missing"] else ""
        lines.append(f"{row['name']:<{width}}  {row['summary']}{missing}")
    return "\n".join(lines)
