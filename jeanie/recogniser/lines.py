"""Frames as JSON lines, the form in which a camera's program feeds ``jeanie watch -``: one frame a line.

    {"t": 0.033, "layout": "mediapipe33", "joints": [[0.1, 1.4, 2.0], null, ...]}
    {"t": 0.067, "persons": [[[...], ...], [[...], ...]]}

``t`` is the time in seconds from any start, ``joints`` the joints of one person in camera space (metres where known, +y
up, +z away from the camera, the right hand of who faces the camera at larger x), null for a joint that is not seen,
an empty list for nobody. ``persons`` has a list of joints for each person. ``layout`` may be left out after the first
line.
"""

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout

__all__ = ["Arrived", "frames_of"]

MAX_LINE = 2**20
MAX_PERSONS = 8
_FIRST = 16  # frames by which the frame rate is told
_FASTEST = 240.0
_PAUSE = 1.0  # seconds without a frame after which a stream begins anew


@dataclass(frozen=True, eq=False)
class Arrived:
    """Frames at an even rate. ``since`` is the time of the stream's first frame, ``anew`` whether it begins here."""

    layout: Layout
    rate: float
    joints: Float[Tensor, "frame person joint 3"]
    since: float
    anew: bool


@dataclass(frozen=True, eq=False)
class _Frame:
    time: float | None
    joints: Float[Tensor, "person joint 3"]


def frames_of(lines: Iterable[str], rate: float | int | None = None) -> Iterator[Arrived]:
    """The frames of JSON lines at an even rate, ``rate`` or that of the first frames' times.

    Where lines have times, a frame that is late by less than a second is stood for by the one before it, one that is
    early is left out, and after a longer pause a new stream begins. A line that is no frame is a DataError.
    """
    layout, slots, waiting, grid = None, 1, [], None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        values = _values(line, number)
        if layout is None:
            layout = _layout(values, number)
            slots = 2 if "persons" in values else 1
        elif values.get("layout", layout.name) != layout.name:
            raise DataError(
                f"line {number}: a stream of {layout.name} has one layout, got {values['layout']!r}"
            )
        frame = _frame(values, layout, slots, number)
        if rate is None and frame.time is None:
            raise DataError(
                f"line {number}: needs the time 't' in seconds; or say how many frames a second: --rate"
            )
        if grid is None:
            waiting.append(frame)
            if rate is None and len(waiting) < _FIRST:
                continue
            grid = _Grid(layout, float(rate or _rate(waiting)))
            yield from (arrived for one in waiting for arrived in grid.place(one))
            continue
        yield from grid.place(frame)
    if grid is None and waiting and layout is not None:
        grid = _Grid(layout, float(rate or _rate(waiting)))
        yield from (arrived for one in waiting for arrived in grid.place(one))


class _Grid:
    """Places frames at even times."""

    def __init__(self, layout: Layout, rate: float) -> None:
        self._layout, self._rate = layout, rate
        self._since = 0.0
        self._next = 0  # number of the frame that comes next in this stream
        self._last: Tensor | None = None

    def place(self, frame: _Frame) -> Iterator[Arrived]:
        """The frame, with those that are missing before it."""
        place = self._next if frame.time is None else round((frame.time - self._since) * self._rate)
        anew = (
            self._last is None or place - self._next > _PAUSE * self._rate or place < self._next - self._rate
        )
        if anew:
            self._since, self._next, place = frame.time or 0.0, 0, 0
        if place < self._next:
            return
        held = frame.joints if self._last is None or anew else self._last
        rows = [held] * (place - self._next) + [frame.joints]
        self._last, self._next = frame.joints, place + 1
        yield Arrived(self._layout, self._rate, torch.stack(rows), self._since, anew)


def _rate(frames: list[_Frame]) -> float:
    times = [frame.time for frame in frames if frame.time is not None]
    steps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    return min(_FASTEST, 1 / statistics.median(steps)) if steps else 30.0


def _values(line: str, number: int) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise DataError(f"line {number}: over {MAX_LINE} characters; a frame is much shorter")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"line {number}: not JSON: {error}") from None
    if not isinstance(values, dict) or not {"joints", "persons"} & values.keys():
        raise DataError(
            f"line {number}: a frame is an object with 'joints' or 'persons', got {line.strip()[:60]!r}"
        )
    return values


def _layout(values: dict[str, Any], number: int) -> Layout:
    name = values.get("layout")
    if not isinstance(name, str) or name not in LAYOUTS:
        raise DataError(f"line {number}: 'layout' is one of {', '.join(LAYOUTS)}, got {str(name)[:40]!r}")
    return LAYOUTS[name]


def _frame(values: dict[str, Any], layout: Layout, slots: int, number: int) -> _Frame:
    time = values.get("t")
    if time is not None and not (isinstance(time, int | float) and abs(time) < 1e12):
        raise DataError(f"line {number}: 't' is a time in seconds, got {str(time)[:40]!r}")
    people = values["persons"] if "persons" in values else [values["joints"]]
    if not isinstance(people, list) or len(people) > MAX_PERSONS:
        raise DataError(f"line {number}: 'persons' is a list of at most {MAX_PERSONS} persons")
    joints = torch.full((slots, len(layout), 3), torch.nan)
    for slot, person in zip(range(slots), people, strict=False):
        if person:
            joints[slot] = _joints(person, layout, number)
    return _Frame(None if time is None else float(time), joints)


def _joints(person: Any, layout: Layout, number: int) -> Float[Tensor, "joint 3"]:
    nothing = [float("nan")] * 3
    try:
        rows = [nothing if point is None else [float(value) for value in point] for point in person]
        joints = torch.tensor(rows)
    except (TypeError, ValueError, OverflowError):
        joints = torch.zeros(0)
    if joints.shape != (len(layout), 3):
        raise DataError(
            f"line {number}: joints are the {len(layout)} joints of {layout.name} as [x, y, z] or null each"
        )
    return joints
