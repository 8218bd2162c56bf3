"""Tables in JSON files: records or columns, as pandas writes them, rows per joint, and lists of points by joint."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jeanie.datasets.formats.csv_table import read_table
from jeanie.datasets.formats.json_files import expect_type, list_numbered, read_json_lines
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["is_json_table", "read_json_table", "write_rows"]

_POINT = rb"\[\s*-?[\d.]+(?:[eE][-+]?\d+)?\s*,[^\[\]{}]*\]"
_JOINT_LISTS = re.compile(rb"\s*\{\s*\"[A-Za-z][^\"]*\"\s*:\s*\[\s*" + _POINT)
_COLUMNS = re.compile(rb"\s*\{\s*\"[^\"]+\"\s*:\s*(?:\{\s*\"\d+\"\s*:\s*[-\d\"n]|\[\s*[-\d\"n])")
_RECORD = re.compile(rb"\s*\[?\s*\{([^{}\[\]]*)\}")
_SPLIT = re.compile(rb"\s*\{\s*\"columns\"\s*:\s*\[[^\[\]]*\]\s*,\s*\"(?:index|data)\"")
_KEY = re.compile(rb"\"([^\"]+)\"\s*:")
_MIN_POINTS = 3


def is_json_table(name: str, head: bytes) -> bool:
    """Return whether the first bytes of a file are those of a table of coordinates in JSON."""
    record = _RECORD.match(head)
    if record is not None:
        is_row = re.search(rb"\"[xX]\"", record[1]) and re.search(rb"\"(?i:frame|time)", record[1])
        keys = {key.lower() for key in _KEY.findall(record[1])}
        points = sum(key[-1:] == b"x" and key[:-1] + b"y" in keys for key in keys if len(key) > 1)
        points += sum(key[:1] == b"x" and b"y" + key[1:] in keys for key in keys if len(key) > 1)
        return bool(is_row) or points >= _MIN_POINTS
    if _SPLIT.match(head):
        return True
    is_columns = _COLUMNS.match(head) is not None and re.search(rb"\"[^\"]*[xXyYzZ]\d*\"\s*:", head[:4096])
    return bool(is_columns) or _JOINT_LISTS.match(head) is not None


def read_json_table(
    path: str | Path,
    *,
    unit: str | float | None = None,
    up: str | None = None,
    layout: Layout | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read a table in JSON, with the rules of ``read_csv`` for its columns.

    - records ``[{"head_x": 0.1, ...}, ...]``, also one per line; ``[{"frame", "landmark", "x", "y", "z"}, ...]``
    - columns ``{"head_x": {"0": 0.1, ...}}`` or ``{"head_x": [0.1, ...]}``; ``{"columns": [...], "data": [...]}``
    - points by joint, ``{"Head": [[x, y, z], ...], ...}``
    """
    path = Path(path)
    rows = _list_rows(path, read_json_lines(path))
    return read_table(path, write_rows(rows), unit=unit, up=up, layout=layout, aliases=aliases)


def _list_rows(path: Path, value: Any) -> Iterator[list[Any]]:
    """Yield the titles of the table, then its rows."""
    if isinstance(value, list):
        yield from _list_records(path, value)
        return
    if isinstance(value, dict) and isinstance(value.get("columns"), list):
        yield value["columns"]
        yield from _expect_rows(path, value.get("data"))
        return
    value = expect_type(path, value, dict, "a table")
    columns = {
        name: list_numbered(column) or column
        for name, column in value.items()
        if isinstance(column, dict | list)
    }
    if not columns or len(set(map(len, columns.values()))) > 1:
        sizes = ", ".join(f"{name}: {len(column)}" for name, column in list(columns.items())[:4])
        raise DataError(
            f"{path}: columns of different lengths ({sizes}); a table has one value per frame in each"
        )
    if all(isinstance(point, list) for column in columns.values() for point in column):
        columns = {f"{name}_{axis}": [point[at] if at < len(point) else None for point in column]
                   for name, column in columns.items() for at, axis in enumerate("xyz")}  # fmt: skip
        columns = {
            name: column for name, column in columns.items() if any(cell is not None for cell in column)
        }
    yield list(columns)
    yield from zip(*columns.values(), strict=True)


def _list_records(path: Path, value: Sequence[Any]) -> Iterator[list[Any]]:
    titles = list(dict.fromkeys(name for record in value if isinstance(record, dict) for name in record))
    yield titles
    for number, record in enumerate(value, 1):
        if not isinstance(record, dict):
            raise DataError(
                f"{path}: record {number} is a {type(record).__name__}; expected a dict as the first one"
            )
        yield [record.get(name) for name in titles]


def _expect_rows(path: Path, rows: Any) -> Iterator[list[Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise DataError(f"{path}: data must be a list of rows")
    yield from rows


def write_rows(rows: Iterator[Sequence[Any]]) -> Iterator[str]:
    """Yield rows as lines of CSV."""
    for row in rows:
        line = io.StringIO()
        csv.writer(line).writerow(["" if cell is None else str(cell) for cell in row])
        yield line.getvalue()
