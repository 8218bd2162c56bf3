"""CSV tables with named columns: ``head_x, head_y, head_z, ...``, one row per frame, or one row per joint."""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.csv_cells import parse_cells
from jeanie.datasets.formats.csv_long import find_long_columns, read_long_rows
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.named_points import make_named_motion
from jeanie.datasets.formats.pose_arrays import MAX_VALUES, make_array_motion
from jeanie.datasets.formats.rows import join_parts, open_lines, parse_rows
from jeanie.datasets.formats.units import UNITS, estimate_frame_rate, metres_per_unit
from jeanie.datasets.joint_names import MAX_JOINTS
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_csv"]

Floats = NDArray[np.float64]
MAX_COLUMNS = 4 * MAX_JOINTS
_UNIT = rf"(?:\s*[\[(]\s*({'|'.join(UNITS)})\s*[\])])?"
_COLUMN = re.compile(rf"(.+?)[\s_.:\[(-]?([xyz])[\])]?{_UNIT}", re.IGNORECASE)
_PREFIXED = re.compile(r"([xyz])(?:[\s_.:-](.+)|(\d+))", re.IGNORECASE)
_MAX_SPARSENESS = 20  # frames x persons per row of the table
# names of the columns that are not coordinates
_INDEX_COLUMNS = {
    "frame": ("frame", "frame_id", "frame_number", "frame_idx", "frame_index", "frame#", "frame_no"),
    "time": ("time", "time_s", "timestamp", "timestamp_s", "t"),
    "milliseconds": ("timestamp_ms", "time_ms"),
    "microseconds": ("timestamp_us", "timestamp_usec", "time_us"),
    "person": ("person", "person_id", "body_id", "track_id", "pose_id"),
}
_NUMBERED = {
    False: {33: "mediapipe33"},
    True: {17: "coco17", 18: "openpose18", 25: "openpose25", 26: "halpe26", 33: "mediapipe33"},
}
_HEADERLESS = tuple(len(LAYOUTS["mediapipe33"]) * values for values in range(3, MAX_VALUES + 1))


def read_csv(
    path: str | Path,
    *,
    unit: str | float | None = None,
    up: str | None = None,
    layout: Layout | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read a table with columns ``head_x, head_y, head_z, ...`` and one row per frame (and person).

    Columns may also be ``x_head`` or numbered: ``x0, y0, z0`` or ``0_x``, 33 of them for MediaPipe Pose. A table with
    columns frame, joint (or landmark, keypoint, marker), x, y, z has one row per joint. Optional columns: ``frame``
    (integers; frames without a row are missing), ``time`` in seconds, ``person``. Other columns are ignored, an empty
    cell is missing. Cells are separated by commas, tabs or semicolons; with semicolons, decimal commas are allowed.
    Without z, points are key points of an image, y down.

    Args:
        path: The file.
        unit: Unit of the coordinates; by default that of the header, ``head_x (cm)``, else metres.
        up: Axis that points up in the file; y by default. Landmarks of MediaPipe show it themselves.
        layout: Selects points by name. By default the known layout with exactly these names, else a layout of the
            points in the file.
        aliases: Name in the file -> joint; "" leaves a point out.
    """
    path = Path(path)
    with open_lines(path) as lines:
        header = next((line for line in lines if line.strip()), "")
        delimiter = max(",;\t", key=header.count)
        titles = _parse_titles(path, header, delimiter)
        if all(map(_is_number, titles)) or all(map(_is_number, header.split())):
            return _read_headerless(
                path, header, lines, delimiter if delimiter in header else None, layout, up
            )
        titles, lines = _join_two_rows(path, titles, lines, delimiter)
        columns = {title.lower(): column for column, title in reversed(list(enumerate(titles)))}
        long = find_long_columns(columns)
        if long is not None:
            joints, names, rate = read_long_rows(path, lines, long, len(titles), delimiter)
            found_unit = None
        else:
            names, point_columns, found_unit = _find_point_columns(path, titles)
            names, point_columns = _prefer_world(names, point_columns)
            joints, rate = _read_wide(path, lines, columns, point_columns, len(names), len(titles), delimiter)
    names = _name_numbered(names, layout, joints.shape[-1] == 2)
    return make_named_motion(
        path,
        joints,
        names,
        kind="csv",
        layout=layout,
        aliases=aliases,
        scale=None if unit is None and found_unit is None else metres_per_unit(unit or found_unit or "m"),
        up=up,
        rate=rate,
    )


def _read_wide(
    path: Path,
    lines: Iterator[str],
    columns: dict[str, int],
    point_columns: list[int],
    count: int,
    width: int,
    delimiter: str,
) -> tuple[Floats, float | None]:
    """Return points [frame, person, point, 2 or 3] of a table with one row per frame and person, and the rate."""
    places = {
        key: next(
            (columns[name] for name in names if name in columns and columns[name] not in point_columns), None
        )
        for key, names in _INDEX_COLUMNS.items()
    }
    keys = [key for key, place in places.items() if place is not None]
    picked = [place for place in places.values() if place is not None] + point_columns
    table = join_parts(list(parse_cells(path, lines, picked, width=width, delimiter=delimiter)), len(picked))
    index: dict[str, Floats] = {key: table[:, column] for column, key in enumerate(keys)}
    for key, size in (("milliseconds", 1e-3), ("microseconds", 1e-6)):
        if key in index:
            index["time"] = index.pop(key) * size
    frame, person = _locate_rows(path, index, len(table))
    axes = len(point_columns) // count
    shape = (int(frame.max(initial=-1)) + 1, int(person.max(initial=-1)) + 1, count, axes)
    check_size(path, *shape[:3])
    if shape[0] * shape[1] > _MAX_SPARSENESS * len(table) + 10_000:
        raise DataError(
            f"{path}: {len(table)} rows for {shape[0]} frames of {shape[1]} persons; are frames right?"
        )
    joints = np.full(shape, np.nan)
    joints[frame, person] = table[:, len(keys) :].reshape(len(table), count, axes)
    return joints, estimate_frame_rate(index["time"], 1.0) if "time" in index else None


def _read_headerless(
    path: Path,
    header: str,
    lines: Iterator[str],
    delimiter: str | None,
    layout: Layout | None,
    up: str | None,
) -> Motion:
    """Read rows of numbers without a header: 33 landmarks per row, or the joints of ``layout``."""
    ends = (delimiter or "") + " \r\n"
    width = len(header.rstrip(ends).split(delimiter))
    if layout is None and width not in _HEADERLESS:
        raise DataError(
            f"{path}, line 1: {width} numbers and no header; expected columns such as head_x, head_y, head_z, or rows "
            f"of {', '.join(map(str, _HEADERLESS))} numbers; or give a layout"
        )
    rest = (line.rstrip(ends) for line in chain((header,), lines))
    rows = parse_rows(path, rest, width=width, first_line=1, delimiter=delimiter)
    return make_array_motion(path, rows, layout=layout, up=up)


def _is_number(title: str) -> bool:
    return re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan", title, re.IGNORECASE) is not None


def _name_numbered(names: list[str], layout: Layout | None, flat: bool) -> list[str]:
    """Return the joints of numbered points, 0 to 32 or 1 to 33; other names stay. Key points (``flat``) may be 17."""
    known = layout or LAYOUTS.get(_NUMBERED[flat].get(len(names), ""), LAYOUTS["mediapipe33"])
    expected = len(known)
    found = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    if len(names) != expected or not all(found) or len({match[1] for match in found if match}) > 1:
        return names
    numbers = [int(match[2]) for match in found if match]
    first = min(numbers)
    if sorted(numbers) != list(range(first, first + expected)) or first > 1:
        return names
    return [known.joints[number - first] for number in numbers]


def _parse_titles(path: Path, header: str, delimiter: str) -> list[str]:
    try:
        titles = [title.strip() for title in next(csv.reader([header], delimiter=delimiter), [])]
    except csv.Error as error:
        raise DataError(f"{path}, line 1: {error}") from None
    if len(titles) > MAX_COLUMNS:
        raise DataError(f"{path}, line 1: {len(titles)} columns; at most {MAX_COLUMNS} are read")
    return titles


def _join_two_rows(
    path: Path, titles: list[str], lines: Iterator[str], delimiter: str
) -> tuple[list[str], Iterator[str]]:
    """Return the titles of a table and its other lines; a second row of axes, as pandas writes it, is joined."""
    second = next(lines, "")
    axes = _parse_titles(path, second, delimiter) if second.strip() else []
    found = [axis.lower() for axis in axes]
    if len(axes) != len(titles) or found.count("x") < 3 or found.count("x") != found.count("y"):
        return titles, chain((second,), lines)
    joined = [
        f"{title}_{axis}" if title and axis else title or axis
        for title, axis in zip(titles, axes, strict=True)
    ]
    third = next(lines, "")
    cells = third.strip().split(delimiter)
    return joined, lines if sum(map(bool, cells)) <= 1 else chain((third,), lines)


def _prefer_world(names: list[str], columns: list[int]) -> tuple[list[str], list[int]]:
    """Return the world landmarks of a table that has them beside those of the image: NOSE and NOSE_world."""
    plain = {name: re.sub(r"^world[_ ]|[_ ]world$", "", name, flags=re.IGNORECASE) for name in names}
    world = {short: name for name, short in plain.items() if short != name and short in plain}
    if 2 * len(world) != len(names):
        return names, columns
    axes = len(columns) // len(names)
    at = {name: place for place, name in enumerate(names)}
    chosen = [name for name in names if name in world]
    return chosen, [column for name in chosen for column in columns[axes * at[world[name]] :][:axes]]


def _find_point_columns(path: Path, titles: list[str]) -> tuple[list[str], list[int], str | None]:
    """Return the points that have x, y and z (without any z, x and y), their columns, and the unit of the header."""
    axes: dict[str, dict[str, int]] = {}
    units: set[str] = set()
    for column, title in enumerate(titles):
        if match := _COLUMN.fullmatch(title):
            axes.setdefault(match.group(1), {}).setdefault(match.group(2).lower(), column)
            units |= {match.group(3).lower()} if match.group(3) else set()
    if not any(len(columns) > 1 for columns in axes.values()):
        axes = {}
        for column, title in enumerate(titles):
            if match := _PREFIXED.fullmatch(title):
                axes.setdefault(match.group(2) or match.group(3), {}).setdefault(
                    match.group(1).lower(), column
                )
    names = [name for name, columns in axes.items() if len(columns) == 3]
    if names:
        return (
            names,
            [axes[name][axis] for name in names for axis in "xyz"],
            units.pop() if len(units) == 1 else None,
        )
    flat = [name for name, columns in axes.items() if set(columns) == {"x", "y"}]
    if len(flat) < 3:
        raise DataError(f"{path}, line 1: expected columns such as head_x, head_y, head_z, got {titles[:6]}")
    return flat, [axes[name][axis] for name in flat for axis in "xy"], None


def _locate_rows(
    path: Path, index: dict[str, NDArray[np.float64]], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return frame and person of every row, from 0, by the columns frame, time, person or the order of rows."""
    for key, values in index.items():
        if not np.isfinite(values).all():
            raise DataError(f"{path}: row {int(np.argmin(np.isfinite(values))) + 1} has no {key}")
    person = np.unique(index["person"], return_inverse=True)[1] if "person" in index else np.zeros(rows, int)
    if "frame" in index:
        numbers = index["frame"] - index["frame"].min(initial=math.inf)
        if (numbers % 1 != 0).any() or numbers.max(initial=0) > _MAX_SPARSENESS * rows + 10_000:
            raise DataError(f"{path}: column frame must hold whole numbers without wide gaps")
        frame = numbers.astype(np.int64)
    elif "time" in index:
        frame = np.unique(index["time"], return_inverse=True)[1]
    else:  # the n-th row of a person is its n-th frame
        order = np.argsort(person, kind="stable")
        first = np.searchsorted(person[order], person[order])
        frame = np.empty(rows, np.int64)
        frame[order] = np.arange(rows) - first
    if len(np.unique(frame * (person.max(initial=0) + 1) + person)) != rows:
        raise DataError(f"{path}: two rows for the same frame and person")
    return frame, person
