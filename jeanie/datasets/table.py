"""Rows of numbers in text files, read fast, with the line and the cause when a row is bad."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.errors import ConfigError, DataError, JeanieError

__all__ = [
    "MAX_POINTS",
    "UNITS",
    "check_size",
    "fill_empty_cells",
    "metres",
    "number_rows",
    "rate_of",
    "text_lines",
    "upright",
]

UNITS = {"m": 1.0, "dm": 0.1, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}

# joints x frames x persons of one motion: 800 MB of float32, 2.5 hours of 60 joints at 120 frames a second
MAX_POINTS = 2**26
_ROWS_AT_ONCE = 4096


def check_size(path: Path, frames: int, persons: int, joints: int) -> None:
    """Refuse a motion that would not fit into memory before anything is allocated for it."""
    if frames * persons * joints > MAX_POINTS:
        raise DataError(
            f"{path}: {frames} frames x {persons} persons x {joints} joints is more than one motion "
            f"may hold ({MAX_POINTS} points); cut the recording into clips"
        )


def metres(unit: str | float) -> float:
    """Metres for one unit, given by its name or as that number itself.

    >>> metres("cm")
    0.01
    """
    if isinstance(unit, str):
        if unit.lower() not in UNITS:
            raise ConfigError(f"unit is one of {', '.join(UNITS)} or metres as a number, got {unit!r}")
        return UNITS[unit.lower()]
    if not 0 < unit < float("inf"):
        raise ConfigError(f"a unit in metres is above 0, got {unit!r}")
    return float(unit)


def upright(points: NDArray[np.float64], up: str) -> NDArray[np.float64]:
    """Points [..., 3] turned so that +y is up (right-handed stays right-handed).

    z up: (x, y, z) -> (x, z, -y); x up: (x, y, z) -> (-y, x, z).
    """
    if up not in ("x", "y", "z"):
        raise ConfigError(f"up is the axis that points up, x, y or z, got {up!r}")
    x, y, z = np.moveaxis(points, -1, 0)
    return points if up == "y" else np.stack((x, z, -y) if up == "z" else (-y, x, z), -1)


def rate_of(seconds: float) -> float | None:
    """Frames a second from seconds a frame, None where that says nothing; writers cut 1/120 s to .0083333.

    >>> rate_of(0.0083333), rate_of(0.0)
    (120.0, None)
    """
    if not 1e-6 < seconds < 1e6:
        return None
    return round(1 / seconds, 2) or 1 / seconds


def number_rows(
    path: Path,
    lines: Iterable[str],
    *,
    width: int,
    first_line: int,
    delimiter: str | None = None,
    most: int | None = None,
) -> NDArray[np.float64]:
    """Numbers [row, width] of ``lines``; blank lines are passed over, every other line needs ``width`` cells.

    ``delimiter`` None is any white space. ``first_line`` is the number of the first line within the file, for
    messages. Lines are taken in portions, so memory follows the numbers and not their text; reading stops
    soon after ``most`` rows.
    """
    rows = iter(lines)
    parts: list[NDArray[np.float64]] = [np.empty((0, width))]
    start = first_line
    read = 0
    while (most is None or read <= most) and (portion := list(islice(rows, _ROWS_AT_ONCE))):
        if any(line.strip() for line in portion):
            parts.append(_portion(path, portion, width, start, delimiter))
            read += len(parts[-1])
        start += len(portion)
    return np.concatenate(parts)


def fill_empty_cells(line: str, delimiter: str, width: int) -> str:
    """``line`` with ``nan`` in each empty cell, without delimiters behind the last of ``width`` cells.

    >>> fill_empty_cells("1,,3,,", ",", 4)
    '1,nan,3,nan'
    """
    cells = line.rstrip("\r\n")
    if not cells.strip():
        return ""
    surplus = max(0, cells.count(delimiter) - (width - 1))
    body = cells.removesuffix(delimiter * surplus) if surplus else cells
    mark = re.escape(delimiter)
    return re.sub(rf"(?:^|(?<={mark}))[ ]*(?={mark}|$)", "nan", body)


@contextmanager
def text_lines(path: Path) -> Iterator[Iterator[str]]:
    """Lines of a text file, read as they are asked for; bytes that are no text are shown as escapes."""
    try:
        if not path.is_file():
            raise DataError(f"{path}: not a regular file; give the path of a recording")
        with path.open(encoding="utf-8-sig", errors="backslashreplace") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL within the path
        if isinstance(error, JeanieError):
            raise
        raise DataError(f"{str(path)!r}: cannot be read: {error}") from error


def _portion(
    path: Path, lines: list[str], width: int, start: int, delimiter: str | None
) -> NDArray[np.float64]:
    try:
        rows: NDArray[np.float64] = np.loadtxt(lines, comments=None, delimiter=delimiter, ndmin=2)
    except ValueError as error:
        raise _complaint(path, lines, width, start, delimiter) or DataError(f"{path}: {error}") from None
    if rows.shape[1] != width:
        raise _complaint(path, lines, width, start, delimiter) or DataError(
            f"{path}: rows need {width} numbers"
        )
    return rows


def _complaint(
    path: Path, lines: list[str], width: int, start: int, delimiter: str | None
) -> DataError | None:
    """The error of the first bad line: how many cells it has, or which of them is no number."""
    for number, line in enumerate(lines, start):
        cells = line.split(delimiter)
        if not line.strip():
            continue
        if len(cells) != width:
            return DataError(f"{path}, line {number}: expected {width} numbers, got {len(cells)}")
        for cell in cells:
            if not _is_number(cell):
                return DataError(f"{path}, line {number}: {cell.strip()[:40]!r} is not a number")
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
