"""``jeanie recognise``: name the action in recordings, or say that it is unknown."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.options import (
    Files,
    FormatName,
    LayoutName,
    Migrate,
    ModelFolder,
    Place,
    describe_migration,
    find_library,
    name_motion,
    read_motions,
)
from jeanie.cli.terminal import AsJson, exit_on_error, print_report
from jeanie.errors import ConfigError
from jeanie.recogniser.recogniser import Recogniser, Recognition

__all__ = ["recognise"]

_RUNNERS_UP = 3  # further actions in the table


def recognise(
    files: Files,
    library: Place = None,
    each: Annotated[bool, typer.Option("--each", help="Print one answer per person.")] = False,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Answers with a lower confidence become unknown.")
    ] = 0.5,
    page: Annotated[
        Path | None,
        typer.Option("--explain", help="Write an HTML page that explains the answer (one file only)."),
    ] = None,
    form: FormatName = None,
    layout: LayoutName = None,
    model: ModelFolder = None,
    migrate: Migrate = False,
    as_json: AsJson = False,
) -> None:
    """Recognise the enrolled action in each recording, with a confidence, or answer unknown."""
    with exit_on_error(as_json):
        if page is not None and (len(files) > 1 or each):
            raise ConfigError("--explain takes one recording and cannot be combined with --each")
        motions = read_motions(files, form, layout)
        with Recogniser.load(
            find_library(library), model=model, threshold=threshold, migrate=migrate
        ) as recogniser:
            if not recogniser.actions:
                raise ConfigError(
                    f"{recogniser.library.place}: no actions yet; add one with: jeanie enrol LABEL FILE..."
                )
            rows = []
            for file, motion in zip(files, motions, strict=True):
                motion = name_motion(motion, file)
                answers = recogniser.recognise_each(motion) if each else [recogniser.recognise(motion)]
                for person, answer in enumerate(answers):
                    rows.append(_answer_facts(file, answer, person if each else None))
            facts = {"library": recogniser.library.place, "migrated": recogniser.migrated, "results": rows}
            notes = [describe_migration(recogniser.migrated)]
            if page is not None:
                explanation = recogniser.explain(motions[0], answers[0])
                explanation.write_html(page)
                facts |= {"page": str(page), "explanation": explanation.json()}
                notes += [explanation.text, f"{page}: explanation page"]
        print_report(facts, [_answer_table(rows), *notes], as_json)


def _answer_facts(file: Path, answer: Recognition, person: int | None) -> dict[str, Any]:
    return {
        "file": str(file),
        **({} if person is None else {"person": person}),
        "label": answer.label,
        "confidence": round(answer.confidence, 4),
        "distance": answer.distance if isfinite(answer.distance) else None,
        "nearest": answer.nearest,
        "example": answer.example,
        "scores": dict(answer.scores),
    }


def _answer_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return a table with one row per answer: action, confidence and the nearest actions."""
    table = Table("file", box=None, pad_edge=False)
    if any("person" in row for row in rows):
        table.add_column("person", justify="right")
    table.add_column("action", style="bold")
    table.add_column("confidence", justify="right")
    table.add_column("distances", overflow="fold")
    for row in rows:
        near = [f"{label} {value:.3f}" for label, value in list(row["scores"].items())[: 1 + _RUNNERS_UP]]
        cells = [escape(row["file"]), *([str(row["person"])] if "person" in row else [])]
        cells += [escape(row["label"] or "unknown"), f"{row['confidence']:.2f}", escape(", ".join(near))]
        table.add_row(*cells)
    return table
