"""CSV tables with named columns: ``head_x, head_y, head_z, ...``, one row per frame, or one row per joint."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.csv_cells import PersonNumbers, parse_cells, parse_time
from jeanie.datasets.formats.csv_header import Header, find_point_columns, normalise_title, read_header
from jeanie.datasets.formats.csv_long import find_long_columns, read_long_rows
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.named_points import make_named_motion
from jeanie.datasets.formats.pose_arrays import MAX_VALUES, make_array_motion
from jeanie.datasets.formats.rows import join_parts, open_lines, parse_rows
from jeanie.datasets.formats.units import TIME_UNITS, UNITS, estimate_frame_rate, get_metres_per_unit
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_csv", "read_table"]

Floats = NDArray[np.float64]
_MAX_SPARSENESS = 20  # frames x persons per row of the table
# names of the columns that are not coordinates
_INDEX_COLUMNS = {
    "frame": ("frame", "frame_id", "frame_number", "frame_idx", "frame_index", "frame#", "frame_no", "bild",
              "trame"),
    "time": ("time", "timestamp", "time_stamp", "t", "seconds", "sec", "elapsed", "elapsed_time", "zeit",
             "temps", "tiempo", "tempo", "tijd"),
    "person": ("person", "person_id", "body_id", "track_id", "tracking_id", "pose_id"),
}  # fmt: skip
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
    (integers; frames without a row are missing), ``time`` (``time_ms``, ``Time [s]``, clock times), ``person`` (a
    number or a name). Other columns, rotations and speeds are ignored, an empty cell is missing. Cells are separated by
    commas, semicolons, tabs, bars or spaces; decimal commas are understood. Lines before the header and a row of units
    below it are understood, too. Without z, points are key points of an image, y down.

    Args:
        path: The file.
        unit: Unit of the coordinates; by default that of the header, ``head_x (cm)``, else metres.
        up: Axis that points up in the file; y by default. For landmarks of MediaPipe it is detected.
        layout: Selects points by name. By default the known layout with exactly these names, else a layout of the
            points in the file.
        aliases: Name in the file -> joint; "" leaves a point out.
    """
    path = Path(path)
    with open_lines(path) as lines:
        return read_table(path, lines, unit=unit, up=up, layout=layout, aliases=aliases)


def read_table(
    path: Path,
    lines: Iterator[str],
    *,
    unit: str | float | None,
    up: str | None,
    layout: Layout | None,
    aliases: Mapping[str, str] | None,
) -> Motion:
    """Read the lines of a table; see ``read_csv``."""
    header = read_header(path, lines)
    if not header.has_titles:
        return _read_headerless(path, header, layout, up)
    names, joints, rate, found_unit = _read_points(path, header)
    names = _name_numbered(names, layout, joints.shape[-1] == 2)
    return make_named_motion(
        path,
        joints,
        names,
        kind="csv",
        layout=layout,
        aliases=aliases,
        scale=None if unit is None and found_unit is None else get_metres_per_unit(unit or found_unit or "m"),
        up=up,
        rate=rate,
    )


def _read_points(path: Path, header: Header) -> tuple[list[str], Floats, float | None, str | None]:
    """Return the names of the points, the points [frame, person, point, 2 or 3], the rate and the unit of a table."""
    title_parts = list(map(normalise_title, header.titles))
    columns = {name: column for column, (name, _) in reversed(list(enumerate(title_parts)))}
    long = find_long_columns(columns)
    if long is not None:
        time_unit = title_parts[long["time"]] if "time" in long else ("", None)
        joints, names, rate = read_long_rows(
            path,
            header.lines,
            long,
            len(header.titles),
            header.delimiter,
            first_line=header.first_line,
            time_unit=_find_time_unit(*time_unit),
        )
        unit = next((title_parts[long[axis]][1] for axis in "xyz" if axis in long), None)
    else:
        point_table = find_point_columns(header.titles)
        if point_table is None or not point_table.names:
            raise DataError(
                f"{path}: its columns are rotations, speeds or the like ({header.titles[0]}, {header.titles[-1]}); "
                "export the positions of the joints, or BVH"
            )
        names, point_columns = _select_world(point_table.names, point_table.columns)
        joints, rate = _read_wide(path, header, columns, point_columns, len(names))
        unit = point_table.unit
    return names, joints, rate, unit if unit in UNITS else None


def _read_wide(
    path: Path, header: Header, columns: dict[str, int], point_columns: list[int], count: int
) -> tuple[Floats, float | None]:
    """Return points [frame, person, point, 2 or 3] of a table with one row per frame and person, and the rate."""
    places = {key: _find_index_column(columns, key, point_columns) for key in _INDEX_COLUMNS}
    keys = [key for key, place in places.items() if place is not None]
    columns_to_read = [place for place in places.values() if place is not None] + point_columns
    converters: dict[str, Callable[[str], float]] = {"time": parse_time, "person": PersonNumbers()}
    parts = parse_cells(
        path,
        header.lines,
        columns_to_read,
        width=len(header.titles),
        delimiter=header.delimiter,
        first_line=header.first_line,
        converters={at: converters[key] for at, key in enumerate(keys) if key in converters},
    )
    table = join_parts(list(parts), len(columns_to_read))
    index: dict[str, Floats] = {key: table[:, column] for column, key in enumerate(keys)}
    frame, person = _locate_rows(path, index, len(table))
    axes = len(point_columns) // count
    shape = (int(frame.max(initial=-1)) + 1, int(person.max(initial=-1)) + 1, count, axes)
    check_size(path, *shape[:3])
    if shape[0] * shape[1] > _MAX_SPARSENESS * len(table) + 10_000:
        raise DataError(
            f"{path}: {len(table)} rows for {shape[0]} frames of {shape[1]} persons; check these columns"
        )
    joints = np.full(shape, np.nan)
    joints[frame, person] = table[:, len(keys) :].reshape(len(table), count, axes)
    if places["time"] is None:
        return joints, None
    title = normalise_title(header.titles[places["time"]])
    return joints, estimate_frame_rate(index["time"], _find_time_unit(*title))


def _find_index_column(columns: Mapping[str, int], key: str, point_columns: list[int]) -> int | None:
    """Return the column of frames, times or persons; times may have their unit in the name, ``time_ms``."""
    units = (None, *TIME_UNITS) if key == "time" else (None,)
    names = (name if unit is None else f"{name}_{unit}" for name in _INDEX_COLUMNS[key] for unit in units)
    return next(
        (columns[name] for name in names if name in columns and columns[name] not in point_columns), None
    )


def _find_time_unit(name: str, unit: str | None) -> float | None:
    """Return the seconds per unit of a column of times, None if its title does not say it."""
    return TIME_UNITS.get(unit or name.rpartition("_")[2] or name)


def _read_headerless(path: Path, header: Header, layout: Layout | None, up: str | None) -> Motion:
    """Read rows of numbers without a header: 33 landmarks per row, or the joints of ``layout``."""
    delimiter = None if header.delimiter == " " else header.delimiter
    ends = (delimiter or "") + " \r\n"
    width = len(header.titles) - (not header.titles[-1])
    if layout is None and width not in _HEADERLESS:
        raise DataError(
            f"{path}, line {header.first_line}: {width} numbers and no header; expected columns such as head_x, "
            f"head_y, head_z, or rows of {', '.join(map(str, _HEADERLESS))} numbers; or give a layout"
        )
    data_lines = (line.rstrip(ends) for line in header.lines)
    rows = parse_rows(path, data_lines, width=width, first_line=header.first_line, delimiter=delimiter)
    return make_array_motion(path, rows, layout=layout, up=up)


def _name_numbered(names: list[str], layout: Layout | None, flat: bool) -> list[str]:
    """Return the joints of numbered points, 0 to 32 or 1 to 33; other names stay. Key points (``flat``) may be 17."""
    known = layout or LAYOUTS.get(_NUMBERED[flat].get(len(names), ""), LAYOUTS["mediapipe33"])
    expected = len(known)
    matches = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    if len(names) != expected or not all(matches) or len({match[1] for match in matches if match}) > 1:
        return names
    numbers = [int(match[2]) for match in matches if match]
    first = min(numbers)
    if sorted(numbers) != list(range(first, first + expected)) or first > 1:
        return names
    return [known.joints[number - first] for number in numbers]


def _select_world(names: list[str], columns: list[int]) -> tuple[list[str], list[int]]:
    """Return the world landmarks of a table that has them beside those of the image: NOSE and NOSE_world."""
    plain = {name: re.sub(r"^world[_ ]|[_ ]world$", "", name, flags=re.IGNORECASE) for name in names}
    world = {short: name for name, short in plain.items() if short != name and short in plain}
    if 2 * len(world) != len(names):
        return names, columns
    axes = len(columns) // len(names)
    at = {name: place for place, name in enumerate(names)}
    world_names = [name for name in names if name in world]
    return world_names, [
        column for name in world_names for column in columns[axes * at[world[name]] :][:axes]
    ]


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
        cause = "frame" if "frame" in index or "time" not in index else "time"
        raise DataError(
            f"{path}: two rows for the same {cause} and person; remove one of them, add a column person, or remove the "
            f"column {cause} if the rows are the frames"
        )
    return frame, person
