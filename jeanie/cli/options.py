"""Options and arguments that several commands share."""

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from jeanie.cli.terminal import format_quantity, get_user_folder
from jeanie.datasets import DATASETS, Dataset, ReadOptions, open_dataset
from jeanie.datasets.archive.reader import is_archive, open_archive
from jeanie.datasets.dataset import FileDataset
from jeanie.datasets.folders import drop_unreadable, open_folder
from jeanie.errors import ConfigError, DataError, JeanieError, RecordingError
from jeanie.evaluation.protocols import Protocol
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.recogniser import is_export
from jeanie.skeleton import Motion

__all__ = [
    "CacheFolder",
    "ClusterAddress",
    "Device",
    "EncoderPaths",
    "FalseAlarms",
    "Files",
    "Jobs",
    "MetricPaths",
    "Migrate",
    "ModelSource",
    "Pattern",
    "Place",
    "ProtocolName",
    "Root",
    "Shot",
    "SkipBad",
    "Threshold",
    "Way",
    "accept_option_groups",
    "describe_migration",
    "find_library",
    "format_again",
    "get_default_cache",
    "get_default_library",
    "list_skipped",
    "name_motion",
    "open_protocol_data",
    "open_source",
    "read_motions",
    "skip_unreadable",
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

Jobs = Annotated[
    int, typer.Option("--jobs", min=1, help="Number of worker processes with one thread each (default: 1).")
]

ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Compute on the workers of a Dask scheduler, such as tcp://host:8786 or tls://host:8786, instead of "
        "processes of this machine.",
    ),
]

CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        help="Cache folder for the features of the recordings and their index (default: the user cache folder).",
    ),
]

Threshold = Annotated[
    float, typer.Option(min=0, max=1, help="Answers with a lower confidence become unknown.")
]

FalseAlarms = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Largest share of other movements that may get a label, such as 0.05; replaces --threshold.",
    ),
]

SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Skip recordings that cannot be read and list them.")
]

Pattern = Annotated[
    str | None,
    typer.Option(
        help="Names of the files in a folder, such as {label}/{subject}_{take}, with {camera}, {setup} and {} for any "
        "text; or a CSV or Excel sheet with the columns file, label, subject, camera, start, end."
    ),
]


# options of every command that reads recordings: parameter -> (field of ReadOptions, type, default)
_READ_OPTIONS: dict[str, tuple[str, Any, Any]] = {
    "form": (
        "format",
        Annotated[
            str | None,
            typer.Option("--format", help="File format (default: detected from name and content)."),
        ],
        None,
    ),
    "layout": (
        "layout",
        Annotated[
            str | None,
            typer.Option(
                "--layout",
                help="Name of a joint layout, or a layout file as jeanie layout writes it (default: detected from the "
                "file).",
            ),
        ],
        None,
    ),
    "unit": (
        "unit",
        Annotated[
            str | None,
            typer.Option(
                "--unit",
                help="Unit of the coordinates: m, dm, cm, mm, in or ft (default: that of the format).",
            ),
        ],
        None,
    ),
    "up": (
        "up",
        Annotated[
            str | None,
            typer.Option(
                "--up", help="Axis that points up: y, z, x, -y, -z or -x (default: that of the format)."
            ),
        ],
        None,
    ),
    "rate": (
        "rate",
        Annotated[
            float | None,
            typer.Option("--rate", min=0.1, help="Frames per second (default: that of the file)."),
        ],
        None,
    ),
    "mirror": (
        "mirror",
        Annotated[
            bool, typer.Option("--mirror", help="The coordinates are left-handed, as in Unity: negate x.")
        ],
        False,
    ),
    "strict": (
        "strict",
        Annotated[bool, typer.Option("--strict", help="Refuse implausible recordings instead of warning.")],
        False,
    ),
}


EncoderPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        metavar="PACKAGE.MODULE:CLASS",
        help="Import path of your own encoder. A saved model that uses it is loaded only if you name it here. "
        "Repeatable.",
    ),
]

MetricPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="PACKAGE.MODULE:FUNCTION",
        help="Import path of your own base distance. A saved model that uses it is loaded only if you name it here. "
        "Repeatable.",
    ),
]


@dataclass(frozen=True)
class ModelSource:
    """The model that a command uses: its folder, or None for the shipped one, and the outside parts it may load."""

    folder: Path | None
    encoders: list[str] | None
    metrics: list[str] | None

    def load(self) -> FewShotModel:
        """Load the model."""
        return FewShotModel.load(self.folder, encoder=self.encoders, metric=self.metrics)


_MODEL_OPTIONS: dict[str, tuple[str, Any, Any]] = {
    "model": (
        "folder",
        Annotated[
            Path | None,
            typer.Option("--model", help="Model folder (default: the model that ships with jeanie)."),
        ],
        None,
    ),
    "encoders": ("encoders", EncoderPaths, None),
    "metrics": ("metrics", MetricPaths, None),
}


_GROUPS: dict[Any, dict[str, tuple[str, Any, Any]]] = {
    ReadOptions: _READ_OPTIONS,
    ModelSource: _MODEL_OPTIONS,
}


def accept_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters whose type is a group of options, such as ``ReadOptions``, by them; ``--json`` stays last.

    An option of the command with the same name stays.
    """
    hints = get_type_hints(command, include_extras=True)
    rows = {
        kind: _GROUPS[kind] if kind in _GROUPS else getattr(kind, "OPTIONS", {}) for kind in hints.values()
    }
    groups = {name: kind for name, kind in hints.items() if rows[kind]}
    options = {
        group: {option: row for option, row in rows[group].items() if option not in hints or option in groups}
        for group in groups.values()
    }
    own_parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command).parameters.values()
        if parameter.name not in groups
    ]
    shared = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for group in groups.values()
        for option, (_, kind, default) in options[group].items()
    ]
    parameters = sorted([*own_parameters, *shared], key=lambda parameter: parameter.name == "as_json")

    @wraps(command)
    def run(**values: Any) -> None:
        arguments = {
            name: group(**{field: values.pop(option) for option, (field, _, _) in options[group].items()})
            for name, group in groups.items()
        }
        command(**values, **arguments)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


ProtocolName = Annotated[
    str,
    typer.Argument(
        help="Protocol: a name that jeanie protocols lists, a TOML file of your own, or a folder with one folder of "
        "recordings per class."
    ),
]

Root = Annotated[Path | None, typer.Option(help="Folder of the data set (default: $JEANIE_DATA/NAME).")]

Device = Annotated[str | None, typer.Option(help="cpu or cuda (default: cuda if available).")]

Migrate = Annotated[
    bool, typer.Option("--migrate", help="Re-encode a library that was made with another model.")
]


def get_default_library() -> Path:
    """Return the library file of this user."""
    return get_user_folder("data") / "library.db"


def get_default_cache() -> Path:
    """Return the search cache of this user."""
    return get_user_folder("cache") / "search"


def find_library(library: str | None, *, make: bool = False) -> str:
    """Return the path or URL of the library; a missing one is an error unless ``make`` is set."""
    place = library or str(get_default_library())
    if "://" in place or Path(place).exists():
        if is_export(place):
            raise ConfigError(
                f"{place}: this is an exported library; add it to a library with: jeanie import {place}"
            )
        return place
    if not make:
        raise ConfigError(f"{place}: no such library; create one with: jeanie enrol LABEL FILE...")
    if not library:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    return place


def name_motion(motion: Motion, file: Path) -> Motion:
    """Return the motion named after its file, so that error messages name the file."""
    return motion.replace(name=str(file))


def read_motions(
    files: Sequence[Path], options: ReadOptions, *, skip_bad: bool = False
) -> tuple[list[Motion], list[dict[str, str]]]:
    """Read every file, named after it; return the motions, and with ``skip_bad`` the files that cannot be read."""
    motions: list[Motion] = []
    skipped: list[dict[str, str]] = []
    for file in files:
        try:
            motions.append(name_motion(options.read(file), file))
        except JeanieError as error:
            if not skip_bad:
                raise RecordingError(str(error)) if len(files) > 1 else error from None
            skipped.append({"file": str(file), "reason": str(error)})
    if not motions:
        raise DataError(f"none of {len(skipped)} recordings could be read; the first: {skipped[0]['reason']}")
    return motions, skipped


def open_source(text: str, pattern: str | None = None, options: ReadOptions | None = None) -> Dataset:
    """Open an archive, a folder or file of recordings, a sheet that lists them, or a data set by name."""
    path = Path(text)
    if is_archive(path):
        return open_archive(path)
    if path.exists():
        return open_folder(path, pattern=pattern, options=options)
    if text == "synthetic" or text in DATASETS:
        return open_dataset(text)
    raise ConfigError(
        f"{text}: neither an archive, a folder or file of recordings, nor a data set; the data sets are "
        f"synthetic, {', '.join(DATASETS)}"
    )


def format_again(protocol: str, flags: Mapping[str, object], options: ReadOptions) -> str:
    """Return a protocol and its options as arguments of another command; flags that are None are left out."""
    values = {flag: value for flag, value in flags.items() if value is not None}
    for name, (field, _, default) in _READ_OPTIONS.items():
        value = getattr(options, field)
        if value != default:
            values["--format" if name == "form" else f"--{name}"] = "" if value is True else value
    parts = [protocol, *(part for flag, value in values.items() for part in (flag, str(value)) if part)]
    return shlex.join(parts)


def open_protocol_data(
    protocol: Protocol, root: Path | None, pattern: str | None, options: ReadOptions, skip_bad: bool
) -> Dataset:
    """Open the recordings of a protocol; with ``skip_bad`` without those that cannot be read."""
    dataset = protocol.open(root, pattern=pattern, options=options)
    return skip_unreadable(dataset) if skip_bad else dataset


def skip_unreadable(dataset: Dataset) -> Dataset:
    """Return a data set without the recordings that cannot be read."""
    return drop_unreadable(dataset) if isinstance(dataset, FileDataset) else dataset


def list_skipped(dataset: Dataset) -> list[dict[str, str]]:
    """Return the files that are not in a data set, with the reason."""
    return [{"file": name, "reason": reason} for name, reason in getattr(dataset, "dropped", ())]


def describe_migration(count: int) -> str:
    """Return a note about examples of another model, or nothing."""
    return (
        f"{format_quantity(count, 'example')} of another model will be encoded with this one" if count else ""
    )
