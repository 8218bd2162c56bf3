"""``jeanie protocols``: the experiments, and whether their data is available."""

import json
from typing import Any

import typer

from jeanie.cli.terminal import AsJson, exit_on_error
from jeanie.evaluation.protocols import PROTOCOLS, Protocol

__all__ = ["protocols"]

_HEADINGS = ("protocol", "data set", "ways", "splits", "classes", "data")


def protocols(as_json: AsJson = False) -> None:
    """List the protocols: data set, ways, numbers of classes, and whether the data is available."""
    with exit_on_error(as_json):
        rows = [_describe_protocol(protocol) for protocol in PROTOCOLS.values()]
        typer.echo(json.dumps({"protocols": rows}) if as_json else _format_table(rows))


def _describe_protocol(protocol: Protocol) -> dict[str, Any]:
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


def _format_table(rows: list[dict[str, Any]]) -> str:
    """Return the rows in columns, then how to get missing data."""
    cells = [
        (
            row["name"],
            row["dataset"],
            ", ".join(map(str, row["ways"])),
            str(row["splits"]),
            ", ".join("/".join(map(str, counts.values())) for counts in row["classes"]),
            "found" if row["available"] else "missing",
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
