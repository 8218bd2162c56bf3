"""CSV tables with named columns: ``head_x, head_y, head_z, ...``."""

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_marker_motion
from jeanie.datasets.formats.files import check_size, frame_limit
from jeanie.datasets.formats.rows import join_parts, open_lines
from jeanie.datasets.formats.units import compute_frame_rate, metres_per_unit, rotate_to_y_up
from jeanie.datasets.joint_names import MAX_JOINTS, find_marker_layout
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_csv"]

MAX_COLUMNS = 4 * MAX_JOINTS
_COLUMN = re.compile(r"(.+?)[\s_.:-]?([xyz])", re.IGNORECASE)
_CHUNK_CELLS = 2**18
_MAX_SPARSENESS = 20  # frames x persons per row of the table


def read_csv(
    path: str | Path, *, unit: str | float = "m", up: str = "y", layout: Layout | None = None
) -> Motion:
    """Read a table with columns ``head_x, head_y, head_z, ...`` and one row per frame (and person).

    Optional columns: ``frame`` (integers; frames without a row are missing), ``time`` in seconds, ``person``.
    Other columns are ignored, an empty cell is missing. Cells are separated by commas, tabs or semicolons; with
    semicolons, decimal commas are allowed.

    Args:
        path: The file.
        unit: Unit of the coordinates.
        up: Axis that points up in the file.
        layout: Selects points by name. By default the known layout with exactly these names, else a layout of the
            points in the file.
    """
    path = Path(path)
    with open_lines(path) as lines:
        header = next((line for line in lines if line.strip()), "")
        delimiter = max(",;\t", key=header.count)
        titles = _parse_titles(path, header, delimiter)
        names, point_columns = _find_point_columns(path, titles)
        own, order = find_marker_layout(names, kind="csv", wanted=layout, path=path)
        columns = {title.lower(): column for column, title in reversed(list(enumerate(titles)))}
        keys = [key for key in ("frame", "time", "person") if key in columns]
        picked = [columns[key] for key in keys] + point_columns
        table = join_parts(list(_parse_rows(path, lines, picked, len(titles), delimiter)), len(picked))
    index: dict[str, NDArray[np.float64]] = {key: table[:, column] for column, key in enumerate(keys)}
    frame, person = _locate_rows(path, index, len(table))
    shape = (int(frame.max(initial=-1)) + 1, int(person.max(initial=-1)) + 1, len(names), 3)
    check_size(path, *shape[:3])
    if shape[0] * shape[1] > _MAX_SPARSENESS * len(table) + 10_000:
        raise DataError(
            f"{path}: {len(table)} rows for {shape[0]} frames of {shape[1]} persons; are frames right?"
        )
    joints = np.full(shape, np.nan)
    joints[frame, person] = rotate_to_y_up(table[:, len(keys) :].reshape(len(table), len(names), 3), up)
    step = np.diff(np.unique(index["time"])) if "time" in index else np.empty(0)
    rate = compute_frame_rate(float(np.median(step))) if len(step) else None
    return make_marker_motion(path, joints, own, order, metres_per_unit(unit), rate)


def _parse_titles(path: Path, header: str, delimiter: str) -> list[str]:
    try:
        titles = [title.strip() for title in next(csv.reader([header], delimiter=delimiter), [])]
    except csv.Error as error:
        raise DataError(f"{path}, line 1: {error}") from None
    if len(titles) > MAX_COLUMNS:
        raise DataError(f"{path}, line 1: {len(titles)} columns; at most {MAX_COLUMNS} are read")
    return titles


def _find_point_columns(path: Path, titles: list[str]) -> tuple[list[str], list[int]]:
    """Return the names of the points that have x, y and z, and their columns, three per point."""
    axes: dict[str, dict[str, int]] = {}
    for column, title in enumerate(titles):
        if match := _COLUMN.fullmatch(title):
            axes.setdefault(match.group(1), {}).setdefault(match.group(2).lower(), column)
    names = [name for name, columns in axes.items() if len(columns) == 3]
    if not names:
        raise DataError(f"{path}, line 1: expected columns such as head_x, head_y, head_z, got {titles[:6]}")
    return names, [axes[name][axis] for name in names for axis in "xyz"]


def _parse_rows(
    path: Path, lines: Iterator[str], columns: list[int], width: int, delimiter: str
) -> Iterator[NDArray[np.float64]]:
    """Yield parts [row, column] of the picked columns. An empty cell is NaN."""
    reader = csv.reader(lines, delimiter=delimiter)
    most = frame_limit(path)
    chunk_rows = max(1, _CHUNK_CELLS // len(columns))
    cells: list[list[str]] = []
    count = 0
    try:
        for row in reader:
            if not any(row) or not any(map(str.strip, row)):
                continue
            if len(row) != width:
                raise DataError(
                    f"{path}, line {reader.line_num + 1}: {len(row)} cells, expected {width} as in the first line"
                )
            cells.append([row[column].strip() or "nan" for column in columns])
            count += 1
            if count > most:
                raise DataError(f"{path}: more than {most} rows; cut the recording into clips")
            if len(cells) == chunk_rows:
                yield _to_numbers(cells, delimiter)
                cells = []
        if cells:
            yield _to_numbers(cells, delimiter)
    except (csv.Error, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}, line {reader.line_num + 1} or just before: {str(error)[:120]}") from None


def _to_numbers(cells: list[list[str]], delimiter: str) -> NDArray[np.float64]:
    if delimiter == ";":
        cells = [[cell.replace(",", ".") for cell in row] for row in cells]
    return np.array(cells, dtype=np.float64)


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
