"""CSV tables with one row per joint: ``frame, joint, x, y, z``."""

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.csv_cells import PersonNumbers, convert_cells, has_only_empty_cells, parse_time
from jeanie.datasets.formats.files import check_size, get_point_limit, is_small_file
from jeanie.datasets.formats.units import estimate_frame_rate
from jeanie.datasets.joint_names import MAX_JOINTS
from jeanie.errors import DataError

__all__ = ["find_long_columns", "read_long_rows"]

Floats = NDArray[np.float64]
MAX_SMALL_FILE_ROWS = 2**20
_FRAMES = (
    "frame",
    "frame_id",
    "frame_number",
    "frame_idx",
    "frame_index",
    "frame_no",
    "frame#",
    "image_id",
    "bild",
)
_JOINTS = (
    "landmark", "landmark_name", "landmark_id", "landmark_index", "landmark_idx", "joint", "joint_name", "joint_id",
    "landmark_type", "joint_type", "jointtype", "joint_index", "keypoint", "keypoint_name", "keypoint_id", "marker",
    "marker_name", "bodypart", "body_part", "bone", "bone_name", "segment", "gelenk", "articulation", "point", "name",
    "part", "id", "index",
)  # fmt: skip
_PERSONS = ("person", "person_id", "body_id", "track_id", "tracking_id", "pose_id")
_TIMES = (
    "time", "time_s", "timestamp", "timestamp_s", "timestamp_ms", "time_ms", "timestamp_us", "time_us", "t", "zeit",
    "temps", "tiempo", "tempo", "tijd",
)  # fmt: skip
_CHUNK_ROWS = 2**14


def find_long_columns(columns: Mapping[str, int]) -> dict[str, int] | None:
    """Return the columns of frame, x, y and, where present, joint, z, person and time; None for another table.

    Without a column of frames, times are those of the frames.
    """
    time = next((columns[name] for name in _TIMES if name in columns), None)
    column_of = {
        "frame": next((columns[name] for name in _FRAMES if name in columns), time),
        "joint": next((columns[name] for name in _JOINTS if name in columns), None),
        "x": columns.get("x"),
        "y": columns.get("y"),
        "z": columns.get("z"),
        "person": next((columns[name] for name in _PERSONS if name in columns), None),
        "time": time,
    }
    present = {key: column for key, column in column_of.items() if column is not None}
    return present if {"frame", "x", "y"} <= present.keys() else None


def read_long_rows(
    path: Path,
    lines: Iterator[str],
    columns: Mapping[str, int],
    width: int,
    delimiter: str,
    *,
    first_line: int = 2,
    time_unit: float | None = None,
) -> tuple[Floats, list[str], float | None]:
    """Return points [frame, person, joint, 2 or 3], the names of the joints, and the frame rate if there is a time."""
    persons = PersonNumbers()
    numeric = [key for key in ("frame", "person", "time", "x", "y", "z") if key in columns]
    joint_of: dict[str, int] = {}
    rows = _parse_rows(
        path,
        csv.reader(lines, delimiter=delimiter),
        [columns[key] for key in numeric],
        columns.get("joint"),
        width,
        first_line,
        joint_of,
    )
    converters: dict[str, Callable[[str], float]] = {"time": parse_time, "person": persons}
    if columns["frame"] == columns.get("time"):
        converters["frame"] = parse_time
    places = {1 + at: converters[key] for at, key in enumerate(numeric) if key in converters}
    parts = list(_convert_rows(path, rows, places, delimiter))
    if not parts:
        raise DataError(f"{path}: a header without rows")
    table = np.concatenate(parts)
    value = {key: table[:, 1 + index] for index, key in enumerate(numeric)}
    for key in ("frame", "person"):
        if key in value and not np.isfinite(value[key]).all():
            raise DataError(f"{path}: row {int(np.argmin(np.isfinite(value[key]))) + 1} has no {key}")
    if columns["frame"] == columns.get("time"):
        value["frame"] = np.unique(value["time"], return_inverse=True)[1].astype(np.float64)
    frames = value["frame"] - value["frame"].min()
    if (frames % 1 != 0).any() or frames.max() > 20 * len(table) + 10_000:
        raise DataError(f"{path}: column frame must hold whole numbers without wide gaps")
    person = (
        np.unique(value["person"], return_inverse=True)[1] if "person" in value else np.zeros(len(table), int)
    )
    frame = frames.astype(np.int64)
    if "joint" not in columns:
        table[:, 0] = _number_rows(path, frame, person, joint_of)
    joint = table[:, 0].astype(np.int64)
    names = sorted(joint_of, key=lambda name: (int(name), "") if _is_index(name) else (MAX_JOINTS, name))
    if not all(map(_is_index, names)):
        names = list(joint_of)
    place = np.empty(len(names), np.int64)
    place[[joint_of[name] for name in names]] = np.arange(len(names))
    axes = [axis for axis in "xyz" if axis in value]
    shape = (int(frame.max()) + 1, int(person.max()) + 1, len(names))
    check_size(path, *shape)
    keys = (frame * shape[1] + person) * shape[2] + place[joint]
    if len(np.unique(keys)) != len(keys):
        raise DataError(f"{path}: two rows for the same frame, person and joint")
    points = np.full((*shape, len(axes)), np.nan)
    points[frame, person, place[joint]] = np.stack([value[axis] for axis in axes], -1)
    return points, names, estimate_frame_rate(value["time"], time_unit) if "time" in value else None


def _number_rows(
    path: Path, frame: NDArray[np.int64], person: NDArray[np.int64], joint_of: dict[str, int]
) -> NDArray[np.int64]:
    """Return the number of every row within its frame and person; all of them must have as many rows."""
    key = frame * (int(person.max()) + 1) + person
    order = np.argsort(key, kind="stable")
    _, first, counts = np.unique(key[order], return_index=True, return_counts=True)
    if (counts != counts[0]).any() or counts[0] > MAX_JOINTS or counts[0] < 2:
        raise DataError(
            f"{path}: rows do not name their joints, and frames have {counts.min()} to {counts.max()} rows; add a "
            "column with the name or number of the joint"
        )
    numbers = np.empty(len(key), np.int64)
    numbers[order] = np.arange(len(key)) - np.repeat(first, counts)
    joint_of.clear()
    joint_of.update({str(number): number for number in range(int(counts[0]))})
    return numbers


def _is_index(name: str) -> bool:
    return name.isdecimal() and len(name) < 5


def _parse_rows(
    path: Path,
    reader: Any,
    columns: list[int],
    joint_column: int | None,
    width: int,
    first_line: int,
    joint_of: dict[str, int],
) -> Iterator[tuple[int, list[str | float]]]:
    """Yield the number of a line and its cells: the number of the joint, then the picked columns."""
    most = MAX_SMALL_FILE_ROWS if is_small_file(path) else get_point_limit(path)
    count = 0
    try:
        for row in reader:
            line = reader.line_num + first_line - 1
            if not any(map(str.strip, row)):
                continue
            if len(row) != width and not has_only_empty_cells(row, width):
                raise DataError(f"{path}, line {line}: {len(row)} cells, expected {width} as in the header")
            name = "" if joint_column is None else row[joint_column].strip()
            number = joint_of.setdefault(name, len(joint_of))
            count += 1
            if len(joint_of) > MAX_JOINTS or count > most:
                raise DataError(
                    f"{path}: more than {MAX_JOINTS} joints or {most} rows; cut the recording into clips"
                )
            yield line, [float(number), *(row[column].strip() or "nan" for column in columns)]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num + first_line - 1}: {error}") from None


def _convert_rows(
    path: Path,
    rows: Iterator[tuple[int, list[str | float]]],
    converters: Mapping[int, Callable[[str], float]],
    delimiter: str,
) -> Iterator[Floats]:
    """Yield parts [row, 1 + column] of the rows. An empty cell is NaN."""
    line = 0
    try:
        while chunk := list(islice(rows, _CHUNK_ROWS)):
            line = chunk[-1][0]
            cells = [row for _, row in chunk]
            for row in cells:
                for place, convert in converters.items():
                    row[place] = convert(str(row[place]))
            yield convert_cells(cells, delimiter)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}, line {line} or before: {str(error)[:250]}") from None
