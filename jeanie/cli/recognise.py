"""``jeanie recognise``: name the action in recordings, or say that it is unknown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.exports import RESULT_COLUMNS, CsvFile, LatexFile, check_folders, write_rows
from jeanie.cli.options import (
    EncoderPaths,
    Files,
    FormatName,
    LayoutName,
    MetricPaths,
    Migrate,
    ModelFolder,
    Place,
    describe_migration,
    find_library,
    load_model,
    name_motion,
    read_motions,
)
from jeanie.cli.terminal import AsJson, exit_on_error, print_report
from jeanie.errors import ConfigError
from jeanie.recogniser.hits import describe_result
from jeanie.recogniser.recogniser import Recogniser, Recognition
from jeanie.skeleton.motion import Motion

__all__ = ["recognise"]

_RUNNERS_UP = 3  # further actions in the table


def recognise(
    files: Files,
    library: Place = None,
    each: Annotated[bool, typer.Option("--each", help="Print one answer per person.")] = False,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Answers with a lower confidence become unknown.")
    ] = 0.5,
    false_alarms: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Largest share of other movements that may get a label, such as 0.05; replaces --threshold.",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--explain", help="Write an HTML page that explains the answer (one file only)."),
    ] = None,
    csv: CsvFile = None,
    latex: LatexFile = None,
    form: FormatName = None,
    layout: LayoutName = None,
    model: ModelFolder = None,
    encoders: EncoderPaths = None,
    metrics: MetricPaths = None,
    migrate: Migrate = False,
    as_json: AsJson = False,
) -> None:
    """Recognise the enrolled action in each recording, with a confidence, or answer unknown."""
    with exit_on_error(as_json):
        if page is not None and (len(files) > 1 or each):
            raise ConfigError("--explain takes one recording and cannot be combined with --each")
        check_folders(csv, latex)
        motions = read_motions(files, form, layout)
        with Recogniser.load(
            find_library(library),
            model=load_model(model, encoders, metrics),
            threshold=threshold,
            false_alarms=false_alarms,
            migrate=migrate,
        ) as recogniser:
            if not recogniser.actions:
                raise ConfigError(
                    f"{recogniser.library.place}: no actions yet; add one with: jeanie enrol LABEL FILE..."
                )
            rows = []
            for file, motion in zip(files, motions, strict=True):
                motion = name_motion(motion, file)
                found = recogniser.recognise_each(motion) if each else [recogniser.recognise(motion)]
                for person, one in enumerate(found):
                    rows.append(_answer_facts(file, motion, one, person if each else None))
            facts = {"library": recogniser.library.place, "migrated": recogniser.migrated, "results": rows}
            written = write_rows((*RESULT_COLUMNS, *(["person"] if each else [])), rows, csv, latex)
            facts |= written
            notes = [describe_migration(recogniser.migrated)]
            notes += [f"{name}: {path}" for name, path in written.items()]
            if page is not None:
                explanation = recogniser.explain(motions[0], found[0])
                explanation.write_html(page)
                facts |= {"page": str(page), "explanation": explanation.json()}
                notes += [explanation.text, f"{page}: explanation page"]
        print_report(facts, [_answer_table(rows), *notes], as_json)


def _answer_facts(file: Path, motion: Motion, found: Recognition, person: int | None) -> dict[str, Any]:
    seconds = None if motion.rate is None else (0.0, len(motion) / motion.rate)
    return {
        **describe_result(str(file), found.label, found.confidence, found.distance, seconds),
        **({} if person is None else {"person": person}),
        "nearest": found.nearest,
        "example": found.example,
        "scores": dict(found.scores),
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
