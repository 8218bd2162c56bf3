"""Cells of CSV files as numbers. Errors name the line and the cause."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.files import frame_limit
from jeanie.errors import DataError

__all__ = ["parse_cells"]

_CHUNK_CELLS = 2**18


def parse_cells(
    path: Path,
    lines: Iterable[str],
    columns: Sequence[int],
    *,
    width: int | None,
    delimiter: str,
    first_line: int = 2,
) -> Iterator[NDArray[np.float64]]:
    """Yield parts [row, column] of the picked columns. An empty cell is NaN; blank lines are skipped.

    Args:
        path: The file, for error messages and the limit on its rows.
        lines: Lines of the file after its header.
        columns: Columns to pick.
        width: Cells per row; None: any number, missing cells at the end are empty.
        delimiter: What separates the cells. With semicolons, decimal commas are allowed.
        first_line: Number of the first line within the file.
    """
    reader = csv.reader(lines, delimiter=delimiter)
    most = frame_limit(path)
    chunk_rows = max(1, _CHUNK_CELLS // max(1, len(columns)))
    cells: list[list[str]] = []
    count = 0
    try:
        for row in reader:
            if not any(map(str.strip, row)):
                continue
            if width is not None and len(row) != width:
                raise DataError(
                    f"{path}, line {reader.line_num + first_line - 1}: {len(row)} cells, expected {width} as in the "
                    "first line"
                )
            cells.append([row[column].strip() or "nan" if column < len(row) else "nan" for column in columns])
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
        line = reader.line_num + first_line - 1
        raise DataError(f"{path}, line {line} or just before: {str(error)[:120]}") from None


def _to_numbers(cells: list[list[str]], delimiter: str) -> NDArray[np.float64]:
    if delimiter == ";":
        cells = [[cell.replace(",", ".") for cell in row] for row in cells]
    return np.array(cells, dtype=np.float64)
