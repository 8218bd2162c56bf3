"""Named points: TRC and C3D files of motion-capture systems, and CSV tables with named columns."""

import csv
import importlib.util
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.naming import marker_layout
from jeanie.datasets.npz import arrays_of
from jeanie.datasets.table import (
    UNITS,
    check_size,
    fill_empty_cells,
    metres,
    number_rows,
    rate_of,
    text_lines,
    upright,
)
from jeanie.datasets.text import make_motion, read_bytes
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_c3d", "read_csv", "read_trc"]

_MAX_C3D_BYTES = 2**30
_C3D_SECONDS = 60
_C3D_ARRAYS = ("points", "residuals", "labels", "rate", "unit", "up")
_COLUMN = re.compile(r"(.+?)[\s_.:-]?([xyz])", re.IGNORECASE)
_ROWS_AT_ONCE = 4096
_SPARSE = 20  # frames and persons may be this many times the rows that there are


def read_trc(
    path: str | Path, *, unit: str | float | None = None, up: str = "y", layout: Layout | None = None
) -> Motion:
    """The markers of a TRC file as a motion in metres, +y up; an empty cell is a missing marker.

    ``unit`` overrides the file's own Units; ``up`` is the axis that points up in the file (TRC does not say).
    ``layout`` picks markers by name; without it names that are exactly a known layout's give that layout.
    """
    path = Path(path)
    with text_lines(path) as file:
        head = list(islice(file, 5))
        if len(head) < 5 or not head[0].startswith("PathFileType"):
            raise DataError(
                f"{path}, line 1: expected a TRC file, five lines from 'PathFileType' to 'X1 Y1 Z1'"
            )
        known = dict(zip(head[1].split(), head[2].split(), strict=False))
        tab = "\t" if "\t" in head[3] else None
        names = [cell.strip() for cell in head[3].split(tab)[2:] if cell.strip()]
        if known.get("NumMarkers") != str(len(names)):
            raise DataError(
                f"{path}, line 4: {len(names)} marker names, NumMarkers says {known.get('NumMarkers')!r}"
            )
        own, order = marker_layout(names, kind="trc", wanted=layout, path=path)
        width = 2 + 3 * len(names)
        lines = (fill_empty_cells(line, tab, width) for line in file) if tab else file
        rows = number_rows(path, lines, width=width, first_line=6, delimiter=tab)
    if known.get("NumFrames") != str(len(rows)):
        raise DataError(
            f"{path}: {len(rows)} frames, NumFrames says {known.get('NumFrames')!r}; is the file cut short?"
        )
    scale = metres(_unit_name(path, known.get("Units", "mm")) if unit is None else unit)
    rate = _number(path, "DataRate", known.get("DataRate", "0"))
    points = upright(rows[:, 2:].reshape(len(rows), len(names), 3), up)
    return _motion(path, points[:, None], own, order, scale, rate if 0 < rate < math.inf else None)


def read_c3d(
    path: str | Path, *, unit: str | float | None = None, up: str | None = None, layout: Layout | None = None
) -> Motion:
    """The points of a C3D file as a motion in metres, +y up; needs the extra ``jeanie[c3d]``.

    ``unit`` overrides POINT:UNITS (mm where the file is silent), ``up`` POINT:Y_SCREEN (z where silent).
    A point with a negative residual is missing. The parser is native code that a damaged file can bring down,
    so it runs in a process of its own, bounded in time and memory.
    """
    path = Path(path)
    if importlib.util.find_spec("ezc3d") is None:
        raise ConfigError(f"{path}: C3D files need ezc3d; pip install 'jeanie[c3d]'")
    data = read_bytes(path, _MAX_C3D_BYTES)
    if len(data) < 1024 or data[1] != 0x50:
        raise DataError(
            f"{path}: not a C3D file: expected at least two blocks of 512 bytes and 0x50 as second byte"
        )
    found = arrays_of(io.BytesIO(_parsed_c3d(path)), path, _C3D_ARRAYS)
    points, residuals = found["points"], found["residuals"]
    names = [str(name) for name in found["labels"]]
    check_size(path, len(points), 1, points.shape[1])
    if len(names) < points.shape[1]:
        raise DataError(f"{path}: {points.shape[1]} points but {len(names)} labels")
    own, order = marker_layout(names[: points.shape[1]], kind="c3d", wanted=layout, path=path)
    points = np.where(residuals[..., None] < 0, np.nan, points)
    scale = metres(_unit_name(path, str(found["unit"]) or "mm") if unit is None else unit)
    screen = re.sub(r"[^xyz]", "", str(found["up"]).lower())[:1]
    rate = float(found["rate"])
    placed = upright(points, up or screen or "z")
    return _motion(path, placed[:, None], own, order, scale, rate if 0 < rate < math.inf else None)


def read_csv(
    path: str | Path, *, unit: str | float = "m", up: str = "y", layout: Layout | None = None
) -> Motion:
    """A table with columns ``head_x, head_y, head_z, ...`` as a motion; a row for each frame (and person).

    Optional columns: ``frame`` (whole numbers; those left out are missing frames), ``time`` in seconds,
    ``person``. Other columns are passed over, an empty cell is missing. Cells are parted by commas, tabs or
    semicolons (then decimal commas are understood).
    """
    path = Path(path)
    with text_lines(path) as file:
        header = next((line for line in file if line.strip()), "")
        delimiter = max(",;\t", key=header.count)
        titles = _titles(path, header, delimiter)
        names, columns = _point_columns(path, titles)
        tags = {title.lower(): at for at, title in reversed(list(enumerate(titles)))}
        extra = [key for key in ("frame", "time", "person") if key in tags]
        picked = [tags[key] for key in extra] + columns
        table = np.concatenate(
            [np.empty((0, len(picked))), *_csv_rows(path, file, picked, len(titles), delimiter)]
        )
    own, order = marker_layout(names, kind="csv", wanted=layout, path=path)
    index: dict[str, NDArray[np.float64]] = {key: table[:, at] for at, key in enumerate(extra)}
    points = upright(table[:, len(extra) :].reshape(len(table), len(names), 3), up)
    frame, person = _places(path, index, len(table))
    shape = (int(frame.max(initial=-1)) + 1, int(person.max(initial=-1)) + 1, len(names), 3)
    check_size(path, *shape[:3])
    if shape[0] * shape[1] > _SPARSE * len(table) + 10_000:
        raise DataError(
            f"{path}: {len(table)} rows for {shape[0]} frames of {shape[1]} persons; are frames right?"
        )
    joints = np.full(shape, np.nan)
    joints[frame, person] = points
    step = np.diff(np.unique(index["time"])) if "time" in index else np.empty(0)
    rate = rate_of(float(np.median(step))) if len(step) else None
    return _motion(path, joints, own, order, metres(unit), rate)


def _motion(
    path: Path,
    points: NDArray[np.float64],
    own: Layout,
    order: NDArray[np.int64],
    scale: float,
    rate: float | None,
) -> Motion:
    """The motion of points [frame, person, point, 3] in the order of a layout, absent ones missing."""
    with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite: a missing joint
        joints = (points[:, :, order] * scale).astype(np.float32)
    joints[:, :, order < 0] = np.nan
    return make_motion(path, joints, own, rate=rate)


def _number(path: Path, what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{path}: {what} is {text[:40]!r}, not a number") from None


def _unit_name(path: Path, text: str) -> str:
    """A file's own word for its unit as one of ours."""
    word = text.strip().lower()
    known = {"meters": "m", "metres": "m", "millimeters": "mm", "millimetres": "mm", "inches": "in"}
    name = known.get(word, word)
    if name not in UNITS:
        raise DataError(f"{path}: unit {text[:40]!r} is not one of {', '.join(UNITS)}; give unit=")
    return name


def _parsed_c3d(path: Path) -> bytes:
    """What the child process makes of a C3D file: an npz archive."""
    child = Path(__file__).with_name("c3d_child.py")
    command = [sys.executable, "-P", str(child), str(path.absolute())]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_C3D_SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{path}: not read within {_C3D_SECONDS} seconds; the file is probably damaged"
        ) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["the parser broke down"]
        raise DataError(f"{path}: not a readable C3D file: {lines[-1][:200]}")
    return done.stdout


def _titles(path: Path, header: str, delimiter: str) -> list[str]:
    try:
        return [title.strip() for title in next(csv.reader([header], delimiter=delimiter), [])]
    except csv.Error as error:
        raise DataError(f"{path}, line 1: {error}") from None


def _point_columns(path: Path, titles: list[str]) -> tuple[list[str], list[int]]:
    """Names of the points that have x, y and z, and their columns, three a point."""
    found: dict[str, dict[str, int]] = {}
    for at, title in enumerate(titles):
        if match := _COLUMN.fullmatch(title):
            found.setdefault(match.group(1), {}).setdefault(match.group(2).lower(), at)
    names = [name for name, axes in found.items() if len(axes) == 3]
    if not names:
        raise DataError(f"{path}, line 1: expected columns such as head_x, head_y, head_z, got {titles[:6]}")
    return names, [found[name][axis] for name in names for axis in "xyz"]


def _csv_rows(
    path: Path, file: Iterator[str], columns: list[int], width: int, delimiter: str
) -> Iterator[NDArray[np.float64]]:
    """Portions [row, column] of the picked columns; an empty cell is NaN."""
    reader = csv.reader(file, delimiter=delimiter)
    comma = delimiter == ";"
    try:
        while portion := list(islice(reader, _ROWS_AT_ONCE)):
            last = reader.line_num + 1
            rows = [row for row in portion if any(cell.strip() for cell in row)]
            if any(len(row) != width for row in rows):
                raise DataError(
                    f"{path}, line {last} or just before: a row has not {width} cells like the first"
                )
            cells = [[row[column].strip() or "nan" for column in columns] for row in rows]
            if comma:
                cells = [[cell.replace(",", ".") for cell in row] for row in cells]
            if cells:
                yield np.array(cells, dtype=np.float64)
    except (csv.Error, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}, line {reader.line_num + 1} or just before: {str(error)[:120]}") from None


def _places(
    path: Path, index: dict[str, NDArray[np.float64]], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Frame and person of every row, from 0, by the columns frame, time, person or the order of the rows."""
    for key, values in index.items():
        if not np.isfinite(values).all():
            raise DataError(f"{path}: row {int(np.argmin(np.isfinite(values))) + 1} has no {key}")
    person = np.unique(index["person"], return_inverse=True)[1] if "person" in index else np.zeros(rows, int)
    if "frame" in index:
        numbers = index["frame"] - index["frame"].min(initial=math.inf)
        if (numbers % 1 != 0).any() or numbers.max(initial=0) > _SPARSE * rows + 10_000:
            raise DataError(f"{path}: column frame holds whole numbers without wide gaps")
        frame = numbers.astype(np.int64)
    elif "time" in index:
        frame = np.unique(index["time"], return_inverse=True)[1]
    else:  # the n-th row of a person is its n-th frame
        order = np.argsort(person, kind="stable")
        first = np.searchsorted(person[order], person[order])
        frame = np.empty(rows, np.int64)
        frame[order] = np.arange(rows) - first
    if len(np.unique(np.stack((frame, person)), axis=1).T) != rows:
        raise DataError(f"{path}: two rows for the same frame and person")
    return frame, person
