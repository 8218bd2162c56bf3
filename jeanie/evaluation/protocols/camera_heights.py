"""Measure the heights and distances of a data set's cameras per setup from its recordings."""

import csv
import io
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from jeanie._internal.files import write_atomically
from jeanie.datasets import Dataset
from jeanie.datasets.clip_names import parse_tags
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton import Motion
from jeanie.views.camera import Camera
from jeanie.views.camera_position import (
    NTU_SETUPS,
    Position,
    correct_height,
    estimate_positions_by,
    read_setups,
)

__all__ = [
    "TABLE",
    "clip_names",
    "find_setups_file",
    "measure_setups",
    "read_known_setups",
    "setup_numbers",
    "write_setups",
]

TABLE = "setups.csv"


def clip_names(dataset: Dataset) -> Sequence[str]:
    """Return the names of all clips.

    Raises:
        DataError: The data set has no names.
    """
    names: Sequence[str] | None = getattr(dataset, "names", None)
    if names is None:
        raise DataError(f"data set {dataset.name!r} has no clip names, which this protocol needs")
    return names


def setup_numbers(dataset: Dataset) -> Sequence[int | None]:
    """Return the setup of every clip: from the data set, else from its name (S of SsssCcccPpppRrrrAaaa)."""
    setups: Sequence[int | None] | None = getattr(dataset, "setups", None)
    if setups is not None:
        return setups
    return [parse_tags(name).setup for name in clip_names(dataset)]


def find_setups_file(root: str | Path) -> Path | None:
    """Return the table ``setups.csv`` beside a data set, or in its folder; None if there is none.

    ``jeanie prepare`` replaces the folder of an archive, so the table belongs beside it.
    """
    root = Path(root).absolute()
    return next((path for path in (root.with_name(TABLE), root / TABLE) if path.is_file()), None)


def read_known_setups(root: str | Path | None) -> dict[int, Camera]:
    """Return the cameras of NTU by setup: S001 to S017 as published, the others from ``setups.csv``."""
    path = None if root is None else find_setups_file(root)
    cameras = {} if path is None else read_setups(path)
    return dict(sorted((cameras | dict(NTU_SETUPS)).items()))


def measure_setups(
    dataset: Dataset,
    each: int = 200,
    progress: Callable[[int, int], None] | None = None,
    *,
    without: Collection[int] = (),
) -> dict[int, Position]:
    """Estimate the camera position of every setup from bodies that stand upright on the floor.

    Clips of people who sit or bend err by several decimetres; the mean over many different actions does not. Heights
    are corrected for the distance from the floor to the lowest joint (`correct_height`).

    Args:
        dataset: The data set.
        each: Clips per setup, evenly spaced.
        progress: Called with (clips done, all clips).
        without: Setups to leave out.
    """
    if each < 1:
        raise ConfigError(f"each is 1 or more clips per setup, got {each}")
    members: dict[int, list[int]] = {}
    for clip, setup in enumerate(setup_numbers(dataset)):
        if setup is not None:
            members.setdefault(setup, []).append(clip)
    if not members:
        raise DataError(
            f"data set {dataset.name!r}: no clip has a setup number; expected names like S001C002P003R002A013"
        )
    sample = [
        (setup, clip)
        for setup, clips in sorted(members.items())
        if setup not in without
        for clip in _select_evenly(clips, each)
    ]
    if not sample:
        return {}
    setups = iter([setup for setup, _ in sample])

    def motions() -> Iterator[Motion]:
        for done, (_, clip) in enumerate(sample, start=1):
            yield dataset.motions[clip]
            if progress:
                progress(done, len(sample))

    positions = estimate_positions_by(motions(), lambda _: next(setups))
    return {setup: correct_height(position) for setup, position in positions.items()}


def _select_evenly(clips: Sequence[int], count: int) -> list[int]:
    """Return at most ``count`` of the clips, evenly spaced."""
    count = min(count, len(clips))
    return [clips[i * len(clips) // count] for i in range(count)]


def write_setups(positions: dict[int, Position], path: str | Path) -> None:
    """Write the table ``setup, height, distance`` (metres) that `jeanie.views.camera_position.read_setups` reads."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("setup", "height", "distance"))
    rows.writerows(
        (setup, f"{position.height:.3f}", f"{position.distance:.3f}") for setup, position in positions.items()
    )
    write_atomically(Path(path), text.getvalue().encode())
