"""CSV tables whose cells hold points: ``"(0.1, 0.2, 0.3)"``, as printed by Python, numpy, Unity or Unreal."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["expand_lines", "find_point_cells", "name_coordinates"]

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan|NaN|None|null"
_NUMBERS = re.compile(rf"(?<![\w.])(?:{_NUMBER})(?![\w.])")
_SCALAR = re.compile(r"\b(?:np\.|numpy\.)?float\d*\(([^()]*)\)")  # np.float64(0.1)
_GROUP = re.compile(r"\"?\s{0,8}(?:\(([^()\[\]{}]*)\)|\[([^()\[\]{}]*)\]|\{([^()\[\]{}]*)\})\s{0,8}\"?")
_AXES = re.compile(
    rf"\"?[xX]\s*[=:]\s*(?:{_NUMBER})(?:[\s,;]*[y-zY-Z]\s*[=:]\s*(?:{_NUMBER})){{1,2}}\"?"
)  # Unreal
_POINT = re.compile(rf"(?:{_NUMBER})(?:(?:\s*;\s*|\s+)(?:{_NUMBER})){{1,2}}")
_MIN_POINTS, _MAX_SAMPLE_LINE = 3, 2**16
_TITLES_OF_POINTS = {
    "position",
    "pos",
    "point",
    "coordinates",
    "coordinate",
    "xyz",
    "location",
    "translation",
}


def find_point_cells(titles: Sequence[str], sample: Sequence[str], delimiter: str) -> dict[int, int]:
    """Return the columns whose cells are points in some line of ``sample``, and their numbers per point: 2 or 3.

    The result is empty if fewer than three columns, or the only column ``position`` of a table with one row per joint,
    are points.

    >>> find_point_cells(["t", "head", "hip", "foot"], ['0,"(0, 1.6, 3)","(0, 0.9, 3)","(0, 0, 3)"'], ",")
    {1: 3, 2: 3, 3: 3}
    """
    lines = (line for line in sample if len(line) < _MAX_SAMPLE_LINE)
    rows = [row for row in (_split(line, delimiter) for line in lines) if len(row) == len(titles)]
    sizes = [max((len(_parse_point(row[at])) for row in rows), default=0) for at in range(len(titles))]
    size_of = {at: size for at, size in enumerate(sizes) if size in (2, 3)}
    is_long = len(size_of) == 1 and titles[next(iter(size_of))].lower() in _TITLES_OF_POINTS
    return size_of if len(size_of) >= _MIN_POINTS or is_long else {}


def name_coordinates(titles: Sequence[str], size_of: Mapping[int, int]) -> list[str]:
    """Return the titles with one column per coordinate: ``Head`` becomes ``Head_x``, ``Head_y``, ``Head_z``."""
    is_long = len(size_of) < _MIN_POINTS
    names = []
    for at, title in enumerate(titles):
        axes = "xyz"[: size_of.get(at, 0)]
        names += [axis if is_long else f"{title}_{axis}" for axis in axes] or [title]
    return names


def expand_lines(lines: Iterator[str], size_of: Mapping[int, int], delimiter: str) -> Iterator[str]:
    """Yield lines with one cell per coordinate; a cell without a point is as many empty ones."""
    for line in lines:
        row: list[str] = []
        for at, cell in enumerate(_split(line, delimiter)):
            if at in size_of:
                numbers = _parse_point(cell)
                row += [*numbers, *[""] * 3][: size_of[at]]
            else:
                row.append(cell)
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(row)
        yield text.getvalue()


def _split(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line; spaces separate the numbers of a point."""
    flat = _SCALAR.sub(r"\1", line.rstrip("\r\n"))
    flat = _GROUP.sub(_join_numbers, flat)
    flat = _AXES.sub(_join_numbers, flat)
    rows = csv.reader([flat], delimiter=delimiter, skipinitialspace=True)
    return [cell.strip() for cell in next(rows, [])]


def _join_numbers(match: re.Match[str]) -> str:
    return " ".join(_NUMBERS.findall(match[0].replace("=", " "))) or " "


def _parse_point(cell: str) -> list[str]:
    """Return the two or three numbers of a point; an empty list for any other cell."""
    return _NUMBERS.findall(cell) if _POINT.fullmatch(cell) else []
