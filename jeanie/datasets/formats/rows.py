"""Rows of numbers in text files. Errors name the line and the cause."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.files import get_point_limit, is_small_file, open_errors
from jeanie.datasets.formats.text_encoding import detect_encoding
from jeanie.errors import DataError

__all__ = ["fill_empty_cells", "join_parts", "open_lines", "parse_rows", "read_rows"]

MAX_LINE_CHARACTERS = 2**18  # 1,024 joints with 12 numbers each
MAX_SMALL_FILE_LINES = 2**22
_CHUNK_CHARACTERS = 2**20
_HEAD_BYTES = 2**16
_CHUNK_LINES = 4096
_WINDOWS_NAN = re.compile(r"[-+]?\d*\.#(?:IND|QNAN|SNAN|INF)\d*", re.IGNORECASE)


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a text file as an iterator over its lines: UTF-8, UTF-16 or Windows-1252. Invalid bytes appear as escapes.

    The length of a line is limited, and in a small file also the number of lines. Numbers such as ``1.#IND``,
    which Windows programs write for NaN and infinity, become ``nan``.
    """
    with open_errors(path):
        with path.open("rb") as raw:
            encoding = detect_encoding(raw.read(_HEAD_BYTES))
        with path.open(encoding=encoding, errors="backslashreplace") as file:
            yield _limit_lines(path, file)


def _limit_lines(path: Path, file: IO[str]) -> Iterator[str]:
    most = MAX_SMALL_FILE_LINES if is_small_file(path) else None
    number = 0
    while line := file.readline(MAX_LINE_CHARACTERS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARACTERS:
            raise DataError(f"{path}, line {number}: longer than {MAX_LINE_CHARACTERS} characters")
        if number == most:
            raise DataError(f"{path}: more than {most} lines; cut the recording into clips")
        yield _WINDOWS_NAN.sub("nan", line) if "#" in line else line


def read_rows(path: Path, widths: tuple[int, ...]) -> NDArray[np.float64]:
    """Read a text file as numbers [row, column], separated by white space or commas. Skip blank lines.

    The first row must have as many numbers as one of ``widths``, and every other row as many as the first.
    """
    expected = " or ".join(map(str, widths))
    with open_lines(path) as lines:
        number, first = next(
            ((number, line) for number, line in enumerate(lines, 1) if line.strip()), (1, "")
        )
        if not first:
            raise DataError(f"{path}: contains no numbers; expected rows of {expected} numbers")
        comma = "," if "," in first else None
        width = len(first.rstrip(", \t\r\n").split(comma))
        if width not in widths:
            raise DataError(f"{path}, line {number}: expected {expected} numbers in a row, got {width}")
        rows: Iterator[str] = chain((first,), lines)
        if comma:
            rows = (line.rstrip(", \t\r\n") for line in rows)
        return parse_rows(path, rows, width=width, first_line=number, delimiter=comma)


def parse_rows(
    path: Path,
    lines: Iterable[str],
    *,
    width: int,
    first_line: int,
    delimiter: str | None = None,
    max_rows: int | None = None,
) -> NDArray[np.float64]:
    """Parse lines as numbers [row, width]. Skip blank lines.

    Args:
        path: The file of the lines, for error messages and the limit on their number.
        lines: Lines of the file.
        width: Numbers per row.
        first_line: Number of the first line within the file.
        delimiter: What separates the numbers; None is any white space.
        max_rows: Stop soon after this number of rows.
    """
    most = 3 * get_point_limit(path)
    parts: list[NDArray[np.float64]] = []
    count, start = 0, first_line
    for chunk in _split_into_chunks(lines):
        if any(line.strip() for line in chunk):
            parts.append(_parse_chunk(path, chunk, width, start, delimiter))
            count += len(parts[-1])
        start += len(chunk)
        if count * width > most:
            raise DataError(
                f"{path}, line {start - 1} or just before: more than {most} numbers, "
                "too many for one motion; cut the recording into clips"
            )
        if max_rows is not None and count > max_rows:
            break
    return join_parts(parts, width)


def join_parts(parts: list[NDArray[np.float64]], width: int) -> NDArray[np.float64]:
    """Concatenate arrays [row, width] and empty the list. Every part is freed as soon as it is copied."""
    rows = np.empty((sum(map(len, parts)), width))
    stop = len(rows)
    while parts:
        part = parts.pop()
        rows[stop - len(part) : stop] = part
        stop -= len(part)
    return rows


def _split_into_chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Group lines so that the memory for their text stays small."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == _CHUNK_LINES or characters > _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def fill_empty_cells(line: str, delimiter: str, width: int) -> str:
    """Write ``nan`` into each empty cell of a line and remove delimiters after the last of ``width`` cells.

    >>> fill_empty_cells("1,,3,,", ",", 4)
    '1,nan,3,nan'
    """
    text = line.rstrip("\r\n")
    if not text.strip():
        return ""
    cells = text.split(delimiter)
    while len(cells) > width and not cells[-1]:
        cells.pop()
    return delimiter.join([cell if cell.strip(" ") else "nan" for cell in cells])


def _parse_chunk(
    path: Path, lines: list[str], width: int, start: int, delimiter: str | None
) -> NDArray[np.float64]:
    cause = f"rows need {width} numbers"
    try:
        rows: NDArray[np.float64] = np.loadtxt(lines, comments=None, delimiter=delimiter, ndmin=2)
        if rows.shape[1] == width:
            return rows
    except ValueError as error:
        cause = str(error)
    raise _find_bad_line(path, lines, width, start, delimiter) or DataError(f"{path}: {cause}")


def _find_bad_line(
    path: Path, lines: list[str], width: int, start: int, delimiter: str | None
) -> DataError | None:
    """Return the error of the first bad line: a wrong number of cells, or a cell that is not a number."""
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
