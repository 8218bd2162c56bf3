"""Options and arguments that several commands share."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from jeanie.cli.terminal import quantity, user_folder
from jeanie.datasets import DATASETS, Dataset, open_dataset, read_motion
from jeanie.datasets.archive.reader import is_archive, open_archive
from jeanie.datasets.folders import open_folder
from jeanie.errors import ConfigError
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.recogniser import is_export
from jeanie.skeleton import Motion

__all__ = [
    "EncoderPaths",
    "Files",
    "FormatName",
    "LayoutName",
    "MetricPaths",
    "Migrate",
    "ModelFolder",
    "Place",
    "ProtocolName",
    "Shot",
    "Way",
    "default_library",
    "describe_migration",
    "find_library",
    "load_model",
    "name_motion",
    "open_source",
    "read_motions",
    "select_part",
]

Place = Annotated[
    str | None,
    typer.Option(
        "--library",
        envvar="JEANIE_LIBRARY",
        help="Library of enrolled examples: a file or a PostgreSQL URL (default: library.db in the user data folder).",
    ),
]


Way = Annotated[
    int | None, typer.Option(min=2, help="Number of classes per episode, N (default: that of the protocol).")
]


Shot = Annotated[
    int | None, typer.Option(min=1, help="Number of supports per class, Z (default: that of the protocol).")
]


Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Recordings in any known format.")]


FormatName = Annotated[
    str | None, typer.Option("--format", help="File format (default: detected from name and content).")
]


LayoutName = Annotated[
    str | None, typer.Option("--layout", help="Joint layout (default: detected from the file).")
]


ModelFolder = Annotated[
    Path | None, typer.Option("--model", help="Model folder (default: the model that ships with jeanie).")
]


ProtocolName = Annotated[
    str, typer.Argument(help="Protocol: a name that jeanie protocols lists, or a TOML file of your own.")
]


EncoderPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        metavar="PACKAGE.MODULE:CLASS",
        help="Encoder from outside jeanie; a model that was saved with one is only loaded if it is named here; "
        "repeatable.",
    ),
]


MetricPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="PACKAGE.MODULE:FUNCTION",
        help="Base distance from outside jeanie; a model that was saved with one is only loaded if it is named here; "
        "repeatable.",
    ),
]


Migrate = Annotated[
    bool, typer.Option("--migrate", help="Re-encode a library that was made with another model.")
]


def load_model(model: Path | None, encoders: list[str] | None, metrics: list[str] | None) -> FewShotModel:
    """Load the model of --model, or the shipped one; parts from outside need --encoder and --metric."""
    return FewShotModel.load(model, encoder=encoders, metric=metrics)


def default_library() -> Path:
    """Return the library file of this user."""
    return user_folder("data") / "library.db"


def find_library(library: str | None, *, make: bool = False) -> str:
    """Return the path or URL of the library; a missing one is an error unless ``make`` is set."""
    place = library or str(default_library())
    if "://" in place or Path(place).exists():
        if is_export(place):
            raise ConfigError(
                f"{place}: an exported library; add it to a library with: jeanie import {place}"
            )
        return place
    if not make:
        raise ConfigError(f"{place}: no library there; create one with: jeanie enrol LABEL FILE...")
    if not library:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    return place


def name_motion(motion: Motion, file: Path) -> Motion:
    """Return the motion named after its file, so that error messages name the file."""
    return motion.replace(name=str(file))


def read_motions(files: Sequence[Path], form: str | None, layout: str | None) -> list[Motion]:
    """Read every file."""
    return [read_motion(file, format=form, layout=layout) for file in files]


def open_source(text: str) -> Dataset:
    """Open an archive, a folder or file of recordings, or a data set by name."""
    path = Path(text)
    if is_archive(path):
        return open_archive(path)
    if path.exists():
        return open_folder(path)
    if text == "synthetic" or text in DATASETS:
        return open_dataset(text)
    raise ConfigError(
        f"{text}: neither an archive, a folder or file of recordings, nor a data set; the data sets are "
        f"synthetic, {', '.join(DATASETS)}"
    )


def describe_migration(count: int) -> str:
    """Return a note about examples of another model, or nothing."""
    return f"{quantity(count, 'example')} of another model will be encoded with this one" if count else ""


def select_part(motion: Motion, part: str | None) -> Motion:
    """Return a part of a motion in seconds, such as "2.5-4"; None is the whole."""
    return motion if part is None else motion[_parse_part(part, motion.rate or 30.0, len(motion))]


def _parse_part(part: str, rate: float, frames: int) -> slice:
    """Return the frames of a part in seconds, such as "2.5-4"."""
    first, dash, last = part.partition("-")
    try:
        start, end = float(first or 0), float(last) if last else frames / rate
    except ValueError:
        start, end, dash = 0.0, 0.0, ""
    cut = slice(round(start * rate), round(end * rate))
    if not dash or not isfinite(start + end) or not 0 <= cut.start < min(cut.stop, frames):
        raise ConfigError(
            f"--part must be START-END in seconds within the {frames / rate:.1f} s of the example, got {part!r}"
        )
    return cut
