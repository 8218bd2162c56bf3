"""``jeanie recognise``: name the action in recordings, or say that it is unknown."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.exports import RESULT_COLUMNS, CsvFile, LatexFile, check_folders, write_rows
from jeanie.cli.options import (
    FalseAlarms,
    Migrate,
    ModelSource,
    Place,
    SkipBad,
    Threshold,
    accept_option_groups,
    describe_migration,
    find_library,
    name_motion,
)
from jeanie.cli.terminal import AsJson, exit_on_error, format_quantity, print_report
from jeanie.datasets import ReadOptions, detect_format
from jeanie.datasets.folders import list_recordings
from jeanie.errors import ConfigError, DataError, JeanieError, RecordingError
from jeanie.recogniser.hits import describe_result
from jeanie.recogniser.recogniser import Recogniser, Recognition
from jeanie.skeleton.motion import Motion

__all__ = ["recognise"]

_RUNNERS_UP = 3  # further actions in the table


@accept_option_groups
def recognise(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Recordings in any known format, or folders of them."),
    ],
    library: Place = None,
    each: Annotated[bool, typer.Option("--each", help="Print one answer per person.")] = False,
    threshold: Threshold = 0.5,
    false_alarms: FalseAlarms = None,
    page: Annotated[
        Path | None,
        typer.Option("--explain", help="Write an HTML page that explains the answer (one file only)."),
    ] = None,
    csv: CsvFile = None,
    latex: LatexFile = None,
    skip_bad: SkipBad = False,
    migrate: Migrate = False,
    as_json: AsJson = False,
    *,
    model: ModelSource,
    options: ReadOptions,
) -> None:
    """Recognise the enrolled action in each recording, with a confidence, or answer unknown.

    The answers of several recordings, or of a folder, are printed as soon as they are known.
    """
    with exit_on_error(as_json):
        recordings, skipped = _list_files(files)
        if page is not None and (len(recordings) > 1 or each):
            raise ConfigError("--explain takes one recording and cannot be combined with --each")
        check_folders(csv, latex)
        first = options.read(recordings[0]) if len(recordings) == 1 else None  # before the model is loaded
        with Recogniser.load(
            find_library(library),
            model=model.load(),
            threshold=threshold,
            false_alarms=false_alarms,
            migrate=migrate,
        ) as recogniser:
            if not recogniser.actions:
                raise ConfigError(
                    f"{recogniser.library.place}: no actions yet; add one with: jeanie enrol LABEL FILE..."
                )
            rows: list[dict[str, Any]] = []
            printer = None
            if len(recordings) > 1 and not as_json:
                printer = _RowPrinter(recordings, tuple(recogniser.actions))
            answers: list[Recognition] = []
            motion = first
            for file in recordings:
                try:
                    motion = name_motion(options.read(file) if first is None else first, file)
                    answers = recogniser.recognise_each(motion) if each else [recogniser.recognise(motion)]
                except JeanieError as error:
                    if not skip_bad:
                        raise RecordingError(str(error)) if len(recordings) > 1 else error from None
                    skipped.append({"file": str(file), "reason": str(error)})
                    continue
                new = [
                    _describe_answer(file, motion, answer, person if each else None)
                    for person, answer in enumerate(answers)
                ]
                rows += new
                if printer is not None:
                    printer.print(new)
            facts = {"library": recogniser.library.place, "migrated": recogniser.migrated, "results": rows}
            table_paths = _write_tables(rows, csv, latex)
            facts |= table_paths
            notes = [describe_migration(recogniser.migrated)]
            notes += [f"{name}: {path}" for name, path in table_paths.items()]
            if page is not None and motion is not None:
                explanation = recogniser.explain(motion, answers[0])
                explanation.write_html(page)
                facts |= {"page": str(page), "explanation": explanation.json()}
                notes += [explanation.text, f"{page}: explanation page"]
        table = [] if printer else [_build_answer_table(rows)]
        print_report(facts, [*table, *notes], as_json, skipped)
        if skipped and not rows:
            raise DataError(
                f"none of {len(skipped)} recordings could be read; the first: {skipped[0]['reason']}"
            )


def _write_tables(rows: Sequence[dict[str, Any]], csv: Path | None, latex: Path | None) -> dict[str, str]:
    """Write the answers as CSV and LaTeX; persons and warnings have columns if there are any."""
    optional = [name for name in ("person", "warnings") if any(name in row for row in rows)]
    flat = [{**row, "warnings": "; ".join(row.get("warnings", ()))} for row in rows]
    return write_rows((*RESULT_COLUMNS, *optional), flat, csv, latex)


def _list_files(paths: Sequence[Path]) -> tuple[list[Path], list[dict[str, str]]]:
    """Return the recordings in files and folders; files of an unknown format in folders are listed as skipped."""
    recordings: list[Path] = []
    skipped: list[dict[str, str]] = []
    for path in paths:
        below = list_recordings(path)
        if below == [path]:
            recordings.append(path)
            continue
        for file in below:
            try:
                detect_format(file)
            except DataError as error:
                skipped.append({"file": str(file), "reason": str(error)})
            else:
                recordings.append(file)
    if not recordings:
        reason = f"; the first file: {skipped[0]['reason']}" if skipped else ""
        raise DataError(f"{paths[0]}: contains no recording of a known format{reason}")
    return recordings, skipped


class _RowPrinter:
    """Print one line per answer, immediately; columns fit the longest file name and the longest action."""

    def __init__(self, files: Sequence[Path], actions: Sequence[str]) -> None:
        self._width = max(len(str(file)) for file in files)
        self._action = max(map(len, ("unknown", *actions)))
        typer.echo(f"{'file':<{self._width}}  {'action':<{self._action}}  confidence  distances")

    def print(self, rows: Sequence[dict[str, Any]]) -> None:
        """Print the answers of one recording."""
        for row in rows:
            person = f"person {row['person']}  " if "person" in row else ""
            typer.echo(
                f"{row['file']:<{self._width}}  {person}{row['label'] or 'unknown':<{self._action}}  "
                f"{row['confidence']:>10.2f}  "
                f"{_format_scores(row)}"
            )
        sys.stdout.flush()


def _format_scores(row: dict[str, Any]) -> str:
    near = list(row["scores"].items())[: 1 + _RUNNERS_UP]
    scores = ", ".join(f"{label} {value:.3f}" for label, value in near)
    doubt = (
        f" ({format_quantity(len(row['warnings']), 'warning')}: implausible recording)"
        if "warnings" in row
        else ""
    )
    return scores + doubt


def _describe_answer(file: Path, motion: Motion, answer: Recognition, person: int | None) -> dict[str, Any]:
    seconds = None if motion.rate is None else (0.0, len(motion) / motion.rate)
    return {
        **describe_result(str(file), answer.label, answer.confidence, answer.distance, seconds),
        **({} if person is None else {"person": person}),
        "nearest": answer.nearest,
        "example": answer.example,
        "scores": dict(answer.scores),
        **({"warnings": list(answer.warnings)} if answer.warnings else {}),
    }


def _build_answer_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return a table with one row per answer: action, confidence and the nearest actions."""
    table = Table("file", box=None, pad_edge=False)
    if any("person" in row for row in rows):
        table.add_column("person", justify="right")
    table.add_column("action", style="bold")
    table.add_column("confidence", justify="right")
    table.add_column("distances", overflow="fold")
    for row in rows:
        cells = [escape(row["file"]), *([str(row["person"])] if "person" in row else [])]
        cells += [escape(row["label"] or "unknown"), f"{row['confidence']:.2f}", escape(_format_scores(row))]
        table.add_row(*cells)
    return table
