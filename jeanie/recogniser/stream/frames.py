"""Read frames as JSON lines, one frame per line. A camera program sends them to ``jeanie watch -``.

    {"t": 0.033, "layout": "mediapipe33", "joints": [[0.1, 1.4, 2.0], null, ...]}
    {"t": 0.067, "persons": [[[...], ...], [[...], ...]]}

``t`` is the time in seconds from any start. ``joints`` are the joints of one person in camera space: metres if known,
+y up, +z away from the camera; a person who faces the camera has the right hand at larger x. A missing joint is null,
an empty list means nobody. ``persons`` has one list of joints per person. ``layout`` is required
on the first line only. A stream of one person ends when the first line with two persons arrives, and a new one starts.
"""

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.datasets import ReadOptions
from jeanie.datasets.formats.units import get_metres_per_unit, rotate_to_y_up
from jeanie.datasets.layout_files import Declaration, resolve_layout
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout

__all__ = ["ArrivedFrames", "read_frames"]

MAX_LINE = 2**20
MAX_PERSONS = 8
_FIRST = 16  # frames that the frame rate is estimated from
_FASTEST = 240.0  # frames per second
_LATEST = 1e12  # seconds
_PAUSE = 1.0  # seconds; a longer gap starts a new stream


@dataclass(frozen=True, eq=False)
class ArrivedFrames:
    """Frames at a constant rate. ``start_time`` is the time of the first frame of the stream.

    ``is_new_stream`` says whether a new stream starts with these frames.
    """

    layout: Layout
    rate: float
    joints: Float[Tensor, "frame person joint 3"]
    start_time: float
    is_new_stream: bool


@dataclass(frozen=True, eq=False)
class _Frame:
    time: float | None
    joints: Float[Tensor, "person joint 3"]


def read_frames(lines: Iterable[str], rate: "float | ReadOptions | None" = None) -> Iterator[ArrivedFrames]:
    """Yield the frames of JSON lines at a constant rate.

    Gaps up to one second repeat the last frame; a longer gap starts a new stream. Frames that come too early are
    dropped.

    Args:
        lines: One JSON object per line; empty lines are ignored.
        rate: Frames per second, by default estimated from the times of the first frames; or the options of the
            command line, which may also declare layout, unit, up axis and handedness of the lines.

    Raises:
        DataError: If a line is not a valid frame.
    """
    options = rate if isinstance(rate, ReadOptions) else ReadOptions(rate=rate)
    declared, matrix = _declare(options)
    rate = options.rate or declared.rate
    layout, slots, grid = None, 1, None
    waiting: list[_Frame] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        values = _parse_line(line, number)
        if layout is None:
            layout = _parse_layout(values, number, declared.layout)
            layout = layout if matrix is None else replace(layout, unit="m", up="y")
            slots = 2 if "persons" in values else 1
        elif declared.layout is None and values.get("layout", layout.name) != layout.name:
            raise DataError(
                f"line {number}: a stream of {layout.name} has one layout, got {values['layout']!r}"
            )
        people = values.get("persons")
        if slots == 1 and isinstance(people, list) and len(people) > 1:
            # a second person arrives: a stream has a fixed number of places, so a new one begins
            slots, waiting = 2, [_add_place(early) for early in waiting]
            if grid is not None:
                grid.start_again()
        frame = _parse_frame(values, layout, slots, number)
        frame = frame if matrix is None else _Frame(frame.time, frame.joints @ matrix)
        if rate is None and frame.time is None:
            raise DataError(
                f"line {number}: needs the time 't' in seconds; or give the frames per second: --rate"
            )
        if grid is None:
            waiting.append(frame)
            if rate is None and len(waiting) < _FIRST:
                continue
            grid = _FrameGrid(layout, float(rate or _estimate_rate(waiting, number)))
            yield from (arrived for early in waiting for arrived in grid.place(early))
            continue
        yield from grid.place(frame)
    if grid is None and waiting and layout is not None:
        grid = _FrameGrid(layout, float(rate or _estimate_rate(waiting, number)))
        yield from (arrived for early in waiting for arrived in grid.place(early))


class _FrameGrid:
    """Put frames at regular times."""

    def __init__(self, layout: Layout, rate: float) -> None:
        self._layout, self._rate = layout, rate
        self._since = 0.0
        self._next = 0  # number of the frame that comes next in this stream
        self._last: Tensor | None = None

    def start_again(self) -> None:
        """Begin a new stream with the next frame."""
        self._last = None

    def place(self, frame: _Frame) -> Iterator[ArrivedFrames]:
        """Yield a frame together with copies for the frames that are missing before it."""
        place = self._next if frame.time is None else round((frame.time - self._since) * self._rate)
        is_new_stream = (
            self._last is None or place - self._next > _PAUSE * self._rate or place < self._next - self._rate
        )
        if is_new_stream:
            passed = self._next / self._rate
            self._since = self._since + passed if frame.time is None else frame.time
            self._next = place = 0
        if place < self._next:
            return
        previous = frame.joints if self._last is None or is_new_stream else self._last
        rows = [previous] * (place - self._next) + [frame.joints]
        self._last, self._next = frame.joints, place + 1
        yield ArrivedFrames(self._layout, self._rate, torch.stack(rows), self._since, is_new_stream)


def _add_place(frame: _Frame) -> _Frame:
    """Return a frame with a place for a second person, who is not visible."""
    return _Frame(frame.time, torch.cat([frame.joints, torch.full_like(frame.joints, torch.nan)]))


def _estimate_rate(frames: list[_Frame], number: int) -> float:
    times = [frame.time for frame in frames if frame.time is not None]
    steps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    if not steps:
        return 30.0
    step = statistics.median(steps)
    if step > _PAUSE:
        raise DataError(
            f"line {number}: the frames so far are {step:.4g} seconds apart, and a movement needs several per second; "
            "'t' is a time in seconds, not in milliseconds; or give the frames per second: --rate"
        )
    return min(_FASTEST, 1 / step)


def _parse_line(line: str, number: int) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise DataError(f"line {number}: over {MAX_LINE} characters, too long for a frame")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"line {number}: not JSON: {error}") from None
    if not isinstance(values, dict) or not {"joints", "persons"} & values.keys():
        raise DataError(
            f"line {number}: a frame is an object with 'joints' or 'persons', got {line.strip()[:60]!r}"
        )
    return values


def _declare(options: ReadOptions) -> tuple[Declaration, Float[Tensor, "3 3"] | None]:
    """Return what is declared about the lines, and the matrix that brings them to metres with y up."""
    declared = resolve_layout(options.layout)
    unit, up = options.unit or declared.unit, options.up or declared.up
    mirror = options.mirror or declared.mirror
    if unit is None and up is None and not mirror:
        return declared, None
    matrix = torch.from_numpy(rotate_to_y_up(np.eye(3), up or "y").astype(np.float32).copy())
    matrix = matrix * (1.0 if unit is None else get_metres_per_unit(unit))
    return declared, matrix * matrix.new_tensor([-1.0, 1.0, 1.0]) if mirror else matrix


def _parse_layout(values: dict[str, Any], number: int, declared: Layout | None) -> Layout:
    name = values.get("layout")
    if declared is not None:
        return declared
    if not isinstance(name, str) or name not in LAYOUTS:
        got = (
            f"got {str(name)[:40]!r}"
            if name is not None
            else "got none; name it on the first line, or --layout"
        )
        raise DataError(f"line {number}: 'layout' is one of {', '.join(LAYOUTS)}, {got}")
    return LAYOUTS[name]


def _parse_frame(values: dict[str, Any], layout: Layout, slots: int, number: int) -> _Frame:
    time = values.get("t")
    is_number = isinstance(time, int | float) and not isinstance(time, bool)
    if time is not None and not (is_number and abs(time) < _LATEST):
        raise DataError(
            f"line {number}: 't' is a time in seconds, got {str(time)[:40]!r}; give a number below {_LATEST:.0e}"
        )
    people = values["persons"] if "persons" in values else [values["joints"]]
    if not isinstance(people, list) or len(people) > MAX_PERSONS:
        got = f"{len(people)}" if isinstance(people, list) else str(people)[:40]
        raise DataError(f"line {number}: 'persons' is a list of at most {MAX_PERSONS} persons, got {got}")
    joints = torch.full((slots, len(layout), 3), torch.nan)
    for slot, person in zip(range(slots), people, strict=False):
        if person is not None and person != []:
            joints[slot] = _parse_joints(person, layout, number)
    return _Frame(None if time is None else float(time), joints)


def _parse_joints(person: Any, layout: Layout, number: int) -> Float[Tensor, "joint 3"]:
    nothing = [float("nan")] * 3
    try:
        rows = [nothing if point is None else [float(value) for value in point] for point in person]
        joints = torch.tensor(rows)
    except (TypeError, ValueError, OverflowError):
        joints = torch.zeros(0)
    if joints.shape != (len(layout), 3):
        raise DataError(
            f"line {number}: joints are the {len(layout)} joints of {layout.name} as [x, y, z] or null each, got "
            f"{_describe_joints(person, layout)}"
        )
    return joints


def _describe_joints(person: Any, layout: Layout) -> str:
    """Return what is wrong with joints: their number, or the first one that is not a point."""
    if not isinstance(person, list):
        return repr(person)[:40]
    if len(person) != len(layout):
        return f"{len(person)} joints"
    wrong = (
        point for point in person if point is not None and not (isinstance(point, list) and len(point) == 3)
    )
    return repr(next(wrong, person))[:60]
