"""``jeanie protocols``: which experiments there are, and whether their data is at hand."""

import json
from typing import Any

import typer

from jeanie.experiments.protocols import PROTOCOLS, Protocol
from jeanie.terminal import AsJson, reported

__all__ = ["app"]

app = typer.Typer(add_completion=False)

_HEADINGS = ("protocol", "data set", "ways", "splits", "classes", "data")


@app.command()
def protocols(as_json: AsJson = False) -> None:
    """List the protocols: data set, ways, training/validation/test classes, and whether the data is there."""
    with reported(as_json):
        rows = [_facts(protocol) for protocol in PROTOCOLS.values()]
        typer.echo(json.dumps({"protocols": rows}) if as_json else _table(rows))


def _facts(protocol: Protocol) -> dict[str, Any]:
    place = protocol.place()
    return {
        "name": protocol.name,
        "title": protocol.title,
        "dataset": protocol.dataset,
        "source": protocol.source,
        "way": protocol.way,
        "ways": list(protocol.ways),
        "shot": protocol.shot,
        "train_classes": list(protocol.train_classes),
        "splits": protocol.split_count,
        "classes": [
            dict(zip(("train", "validation", "test"), counts, strict=True)) for counts in protocol.counts()
        ],
        "available": protocol.available(),
        "place": None if place is None else str(place),
        "get": protocol.get,
    }


def _table(rows: list[dict[str, Any]]) -> str:
    """The rows in columns, and below them where to get what is missing."""
    cells = [
        (
            row["name"],
            row["dataset"],
            ", ".join(map(str, row["ways"])),
            str(row["splits"]),
            ", ".join("/".join(map(str, counts.values())) for counts in row["classes"]),
            "there" if row["available"] else "missing",
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (_HEADINGS, *cells)
    ]
    lines.append("classes: training/validation/test")
    missing = {row["dataset"]: row["get"] for row in rows if not row["available"]}
    if missing:
        lines += ["", "missing data:", *(f"{name}: {text}" for name, text in missing.items())]
    return "\n".join(lines)
