"""Heights and distances of a data set's cameras, setup by setup, as measured from its own recordings."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jeanie.datasets import Dataset
from jeanie.datasets.names import tags_of
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.saving import write_atomically
from jeanie.skeleton import Motion
from jeanie.views.position import Position, positions_by

__all__ = ["clip_names", "measure_setups", "setup_numbers", "write_setups"]


def clip_names(dataset: Dataset) -> Sequence[str]:
    """The names of all clips, for what is told by names alone."""
    names: Sequence[str] | None = getattr(dataset, "names", None)
    if names is None:
        raise DataError(f"data set {dataset.name!r} has no names; this protocol knows clips by their names")
    return names


def setup_numbers(dataset: Dataset) -> Sequence[int | None]:
    """The setup of every clip: as the data set tells it, else as its name does (S of SsssCcccPpppRrrrAaaa)."""
    told: Sequence[int | None] | None = getattr(dataset, "setups", None)
    if told is not None:
        return told
    return [tags_of(name).setup for name in clip_names(dataset)]


def measure_setups(
    dataset: Dataset, each: int = 200, report: Callable[[int, int], None] | None = None
) -> dict[int, Position]:
    """Where the cameras of every setup stood, from ``each`` of its clips, evenly spread over its list.

    Bodies tell it: they stand upright, on the floor (`positions_by`). Clips of people who sit or bend err by
    several decimetres, means over many of different actions do not.
    """
    if each < 1:
        raise ConfigError(f"setups are measured from at least 1 clip each, got each={each}")
    members: dict[int, list[int]] = {}
    for clip, setup in enumerate(setup_numbers(dataset)):
        if setup is not None:
            members.setdefault(setup, []).append(clip)
    if not members:
        raise DataError(
            f"data set {dataset.name!r}: no clip tells its setup; expected names like S001C002P003R002A013"
        )
    chosen = [(setup, clip) for setup, clips in sorted(members.items()) for clip in _spread(clips, each)]
    setups = iter([setup for setup, _ in chosen])

    def motions() -> Iterator[Motion]:
        for done, (_, clip) in enumerate(chosen, start=1):
            yield dataset.motions[clip]
            if report:
                report(done, len(chosen))

    return positions_by(motions(), lambda _: next(setups))


def _spread(clips: Sequence[int], count: int) -> list[int]:
    """At most ``count`` of the clips, evenly over their list."""
    count = min(count, len(clips))
    return [clips[i * len(clips) // count] for i in range(count)]


def write_setups(positions: dict[int, Position], path: str | Path) -> None:
    """The places as a table ``setup, height, distance`` (metres) that `jeanie.views.position.read_setups` reads."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("setup", "height", "distance"))
    rows.writerows(
        (setup, f"{place.height:.3f}", f"{place.distance:.3f}") for setup, place in positions.items()
    )
    write_atomically(Path(path), text.getvalue().encode())
