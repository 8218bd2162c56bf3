"""``jeanie methods``: the compared systems and ablations that can be trained by name."""

import json
from typing import Annotated, Any

import typer

from jeanie.errors import ConfigError
from jeanie.experiments.methods import METHODS, Method
from jeanie.terminal import AsJson, reported

__all__ = ["methods"]


def methods(
    search: Annotated[str, typer.Argument(help="Only methods whose name or summary has this in it.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the methods that train --method takes: name, what it is, and what it needs that is not installed."""
    with reported(as_json):
        rows = [
            _facts(one) for one in METHODS.values() if search.lower() in f"{one.name} {one.summary}".lower()
        ]
        if not rows:
            raise ConfigError(
                f"no method has {search!r} in its name or summary; jeanie methods lists them all"
            )
        typer.echo(json.dumps({"methods": rows}) if as_json else _table(rows))


def _facts(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.summary,
        "changes": method.changes,
        "needs": list(method.needs),
        "missing": list(method.missing),
    }


def _table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = []
    for row in rows:
        missing = f"  (pip install 'jeanie[{','.join(row['missing'])}]')" if row["missing"] else ""
        lines.append(f"{row['name']:<{width}}  {row['summary']}{missing}")
    return "\n".join(lines)
