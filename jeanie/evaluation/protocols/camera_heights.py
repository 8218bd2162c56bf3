"""Measure the heights and distances of a data set's cameras per setup from its recordings."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jeanie._internal.files import write_atomically
from jeanie.datasets import Dataset
from jeanie.datasets.clip_names import parse_tags
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton import Motion
from jeanie.views.camera_position import Position, estimate_positions_by

__all__ = ["clip_names", "measure_setups", "setup_numbers", "write_setups"]


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


def measure_setups(
    dataset: Dataset, each: int = 200, progress: Callable[[int, int], None] | None = None
) -> dict[int, Position]:
    """Estimate the camera position of every setup from bodies that stand upright on the floor (`positions_by`).

    Clips of people who sit or bend err by several decimetres; the mean over many different actions does not.

    Args:
        dataset: The data set.
        each: Clips per setup, evenly spaced.
        progress: Called with (clips done, all clips).
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
    chosen = [
        (setup, clip) for setup, clips in sorted(members.items()) for clip in _select_evenly(clips, each)
    ]
    setups = iter([setup for setup, _ in chosen])

    def motions() -> Iterator[Motion]:
        for done, (_, clip) in enumerate(chosen, start=1):
            yield dataset.motions[clip]
            if progress:
                progress(done, len(chosen))

    return estimate_positions_by(motions(), lambda _: next(setups))


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
