"""``jeanie enrol``: add recordings of an action, or of all actions of a folder, to the library."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jeanie.cli.options import (
    Migrate,
    ModelSource,
    Pattern,
    Place,
    SkipBad,
    accept_option_groups,
    describe_migration,
    find_library,
    list_skipped,
    open_source,
    read_motions,
)
from jeanie.cli.terminal import AsJson, exit_on_error, format_quantity, print_report
from jeanie.datasets import ReadOptions
from jeanie.datasets.sheets import is_sheet
from jeanie.errors import ConfigError, DataError, JeanieError, RecordingError
from jeanie.recogniser.gallery import encode_motions
from jeanie.recogniser.library.labels import normalise_label
from jeanie.recogniser.recogniser import Recogniser
from jeanie.skeleton import Motion
from jeanie.skeleton.plausibility import list_warnings

__all__ = ["enrol"]

_FOLDER_PATTERN = "{label}/{}"  # one folder per action


@accept_option_groups
def enrol(
    label: Annotated[
        str,
        typer.Argument(
            metavar="LABEL|FOLDER",
            help="Name of the action, or a folder of recordings that are grouped by action.",
        ),
    ],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE...", help="Recordings in any known format.")
    ] = None,
    library: Place = None,
    negative: Annotated[
        bool,
        typer.Option(
            "--not",
            help="Enrol negative examples: movements that look like the action but are something else.",
        ),
    ] = False,
    pattern: Pattern = None,
    skip_bad: SkipBad = False,
    migrate: Migrate = False,
    as_json: AsJson = False,
    *,
    model: ModelSource,
    options: ReadOptions,
) -> None:
    """Enrol an action from one or a few recordings, or all actions of a folder.

    If one file is bad, nothing is enrolled, except with --skip-bad. In a folder, the name of a subfolder is the action,
    unless --pattern says how files are named.
    """
    with exit_on_error(as_json):
        if files:
            motions, skipped = read_motions(files, options, skip_bad=skip_bad)
            examples = [(normalise_label(label), motion) for motion in motions]
        else:
            examples, skipped = _read_folder(label, pattern, options, skip_bad)
        loaded = model.load()
        usable = []
        for name, motion in examples:
            try:
                encode_motions(loaded, [motion], "support")  # before a library is made
            except JeanieError as error:
                if not skip_bad:
                    raise
                skipped.append({"file": str(motion.name), "reason": str(error)})
            else:
                usable.append((name, motion))
        if not usable:
            raise DataError(f"no recording can be enrolled; the first: {skipped[0]['reason']}")
        with Recogniser.load(
            find_library(library, make=not negative), model=loaded, migrate=migrate
        ) as recogniser:
            rows = _enrol_all(recogniser, usable, negative)
            facts = {"library": recogniser.library.place, "migrated": recogniser.migrated}
        facts |= rows[0] if files else {"actions": rows}
        implausible = [{"file": str(motion.name), "warnings": list(problems)}
                 for _, motion in usable if (problems := list_warnings(motion))]  # fmt: skip
        facts |= {"skipped": skipped} if skipped else {}
        facts |= {"implausible": implausible} if implausible else {}
        lines = [_describe_row(row) for row in rows]
        lines += [f"skipped {entry['file']}: {entry['reason']}" for entry in skipped]
        print_report(facts, [describe_migration(recogniser.migrated), *lines], as_json)


def _read_folder(
    text: str, pattern: str | None, options: ReadOptions, skip_bad: bool
) -> tuple[list[tuple[str, Motion]], list[dict[str, str]]]:
    """Return (label, motion) of all recordings of a folder or a sheet, and those that were left out."""
    path = Path(text)
    if not path.exists():
        raise ConfigError(f"{text}: no files; give LABEL FILE..., or a folder of recordings")
    if pattern is None and path.is_dir():
        pattern = _FOLDER_PATTERN
    if path.is_file() and not is_sheet(path):
        raise ConfigError(f"{text}: a recording without a label; give LABEL {text}")
    dataset = open_source(text, pattern, options)
    skipped = list_skipped(dataset)
    if skipped and not skip_bad:
        raise RecordingError(f"{skipped[0]['file']}: {skipped[0]['reason']}")
    examples = []
    for number, label in enumerate(dataset.labels):
        try:
            if label is None:
                raise DataError(f"{text}: recording {number + 1} has no label; give --pattern with {{label}}")
            examples.append((normalise_label(str(label)), dataset.motions[number]))
        except JeanieError as error:
            if not skip_bad:
                raise
            skipped.append(
                {"file": str(getattr(dataset, "names", {number: number})[number]), "reason": str(error)}
            )
    return examples, skipped


def _enrol_all(
    recogniser: Recogniser, examples: list[tuple[str, Motion]], negative: bool
) -> list[dict[str, Any]]:
    """Add the examples of every label, which were checked before; return what was added, one row per label."""
    rows = []
    for label in dict.fromkeys(label for label, _ in examples):
        motions = [motion for other, motion in examples if other == label]
        added = (recogniser.reject if negative else recogniser.enrol)(label, motions, check=False)
        new = sum(added.new)
        rows.append(
            {
                "label": label,
                "added": new,
                "already": len(added.new) - new,
                "examples": recogniser.actions[label],
            }
        )
    return rows


def _describe_row(row: dict[str, Any]) -> str:
    summary = f"{row['label']}: {format_quantity(row['added'], 'recording')} added"
    summary += f", {row['already']} already enrolled" if row["already"] else ""
    return f"{summary}, {format_quantity(row['examples'], 'example')} in all"
