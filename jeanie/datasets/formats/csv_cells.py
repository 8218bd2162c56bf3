"""Cells of CSV files as numbers. Errors name the line and the cause."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.files import get_frame_limit
from jeanie.errors import DataError

__all__ = ["PersonNumbers", "convert_cells", "has_only_empty_cells", "parse_cells", "parse_time"]

_CHUNK_CELLS = 2**18
# what programs write for a missing value
_MISSING = {"", "nan", "null", "none", "n/a", "na", "#n/a", "nil", "missing", "-", "--", "\\n", "undefined"}
_GROUPED_BY_COMMAS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")  # 1,620.5
_GROUPED_BY_POINTS = re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+,\d*")  # 1.620,5
_DECIMAL_COMMA = re.compile(
    r"[-+]?(?:0*,\d+|\d+,(?:\d{1,2}|\d{4,}))(?:[eE][-+]?\d+)?"
)  # 0,950 or 1,62, never 1,620
_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:\.\d*)?)")


class PersonNumbers:
    """Numbers of persons whose cells are numbers or names."""

    def __init__(self) -> None:
        self._numbers: dict[str, float] = {}

    def __call__(self, cell: str) -> float:
        try:
            return float(cell)
        except ValueError:
            return self._numbers.setdefault(cell.strip(), 1e6 + len(self._numbers))


def parse_time(cell: str) -> float:
    """Return a time in seconds, or in the unit of the column: a number, a clock time, or a date with a time.

    >>> parse_time("0,04"), parse_time("00:01:02.5"), parse_time("1970-01-01T00:00:01")
    (0.04, 62.5, 1.0)
    """
    text = cell.strip().replace(",", ".")
    if text.lower() in _MISSING:
        return float("nan")
    try:
        return float(text)
    except ValueError:
        pass
    if clock := _CLOCK.fullmatch(text):
        return 3600 * int(clock[1] or 0) + 60 * int(clock[2]) + float(clock[3])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"time {cell[:40]!r} is neither a number nor a clock time; remove the column of times and declare the "
            "rate: rate= (--rate)"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def parse_cells(
    path: Path,
    lines: Iterable[str],
    columns: Sequence[int],
    *,
    width: int | None,
    delimiter: str,
    first_line: int = 2,
    converters: Mapping[int, Callable[[str], float]] | None = None,
) -> Iterator[NDArray[np.float64]]:
    """Yield parts [row, column] of the given columns. An empty cell is NaN; blank lines are skipped.

    Args:
        path: The file, for error messages and the limit on its rows.
        lines: Lines of the file after its header.
        columns: Columns to pick.
        width: Cells per row; None: any number, missing cells at the end are empty.
        delimiter: What separates the cells. Decimal commas are allowed.
        first_line: Number of the first line within the file.
        converters: Place in ``columns`` -> what turns a cell of that column into a number.
    """
    reader = csv.reader(lines, delimiter=delimiter)
    most = get_frame_limit(path)
    chunk_rows = max(1, _CHUNK_CELLS // max(1, len(columns)))
    cells: list[list[str | float]] = []
    count = 0
    try:
        for row in reader:
            if not any(map(str.strip, row)):
                continue
            if width is not None and len(row) != width and not has_only_empty_cells(row, width):
                raise DataError(
                    f"{path}, line {reader.line_num + first_line - 1}: {len(row)} cells, expected {width} as in the "
                    "header"
                )
            values: list[str | float] = [
                row[column].strip() or "nan" if column < len(row) else "nan" for column in columns
            ]
            for place, convert in (converters or {}).items():
                values[place] = convert(str(values[place]))
            cells.append(values)
            count += 1
            if count > most:
                raise DataError(f"{path}: more than {most} rows; cut the recording into clips")
            if len(cells) == chunk_rows:
                yield convert_cells(cells, delimiter)
                cells = []
        if cells:
            yield convert_cells(cells, delimiter)
    except (csv.Error, ValueError) as error:
        if isinstance(error, DataError):
            raise
        line = reader.line_num + first_line - 1
        raise DataError(f"{path}, line {line} or just before: {str(error)[:250]}") from None


def has_only_empty_cells(row: Sequence[str], width: int) -> bool:
    """Return whether a row has more cells than the header, all of them empty: separators at the end of the line."""
    return len(row) > width and not any(map(str.strip, row[width:]))


def convert_cells(cells: Sequence[Sequence[str | float]], delimiter: str) -> NDArray[np.float64]:
    """Convert rows of cells into numbers. Words for a missing value are NaN, decimal commas are understood.

    A comma in quotes, ``"1,620"``, is a decimal comma if other numbers show it, such as ``"0,95"``.

    >>> convert_cells([["1,5", "N/A", "1.620,5"]], ";").tolist(), convert_cells([["1,620.5", "-2"]], ",").tolist()
    ([[1.5, nan, 1620.5]], [[1620.5, -2.0]])
    """
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    is_decimal = delimiter != "," or any(
        isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell) for row in cells for cell in row
    )
    return np.array([[_parse_number(cell, is_decimal) for cell in row] for row in cells], dtype=np.float64)


def _parse_number(cell: str | float, is_decimal: bool) -> float:
    if isinstance(cell, float) or cell.lower() in _MISSING:
        return cell if isinstance(cell, float) else float("nan")
    if "," not in cell:
        return float(cell)
    if _GROUPED_BY_POINTS.fullmatch(cell):
        return float(cell.replace(".", "").replace(",", "."))
    is_grouped = _GROUPED_BY_COMMAS.fullmatch(cell) is not None
    if is_grouped and ("." in cell or cell.count(",") > 1):
        return float(cell.replace(",", ""))
    if is_grouped and not is_decimal:
        raise ValueError(
            f"{cell!r} may be {cell.replace(',', '.')} or {cell.replace(',', '')}; save numbers with a decimal point "
            "and without thousands separators"
        )
    return float(cell.replace(",", "."))
