"""The header of a CSV table: where it is, what separates its cells, and which columns are coordinates."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from jeanie.datasets.formats.csv_lists import expand_lines, find_point_cells, name_coordinates
from jeanie.datasets.formats.csv_long import find_long_columns
from jeanie.datasets.formats.units import UNITS
from jeanie.datasets.joint_names import MAX_JOINTS
from jeanie.errors import DataError

__all__ = [
    "Header",
    "PointColumns",
    "find_point_columns",
    "has_point_titles",
    "normalise_title",
    "read_header",
]

MAX_COLUMNS = 4 * MAX_JOINTS
_MAX_LINES_BEFORE = 64  # of a program about the recording
_SAMPLE = 4  # lines that show which cells hold points
_DELIMITERS = ",;\t|"
_UNIT = rf"(?:\s*[\[(]\s*({'|'.join(UNITS)})\s*[\])]|_({'|'.join(UNITS)}))?"
_MOVED = r"(?:[\s_.:-](?:t|trans|translate|translation|loc|location))?"  # head_tx, Head.translateX
_COLUMN = re.compile(rf"(.+?){_MOVED}[\s_.:\[(-]?([xyz])[\])]?{_UNIT}", re.IGNORECASE)
_PREFIXED = re.compile(r"([xyz])(?:[\s_.:-](.+)|(\d+))", re.IGNORECASE)
_NUMBERED = re.compile(r"(.+?)[\s_.\[(]([0-3])[\])]?")
_DECLARED = re.compile(
    r"\"?sep=(.)\"?[,;\s]*", re.IGNORECASE
)  # the first line that Excel writes and understands
_UNIT_CELL = re.compile(
    rf"[\[(]?\s*({'|'.join(UNITS)}|s|sec|ms|us|µs|ns|deg|°|rad|px|-|1)?\s*[\])]?", re.IGNORECASE
)
_WORDS = "rot|rotation|quat|quaternion|orientation|euler|angle|vel|velocity|acc|acceleration|gyro"
_NO_POSITION = re.compile(rf"(?:^|[\s_.:-])(?:{_WORDS})s?$|(?<=[a-z])(?:{_WORDS.title()})s?$")
_NO_POSITION_ALONE = re.compile(rf"(?:.*[\s_.:-])?(?:{_WORDS})s?", re.IGNORECASE)


@dataclass(frozen=True)
class Header:
    """The header of a table.

    Attributes:
        titles: Titles of the columns; numbers if the table has no header.
        delimiter: What separates the cells.
        lines: The lines after the header; all lines if the table has no header.
        first_line: Number of the first of these lines within the file.
        has_titles: Whether the table has a header.
    """

    titles: list[str]
    delimiter: str
    lines: Iterator[str]
    first_line: int
    has_titles: bool = True


@dataclass(frozen=True)
class PointColumns:
    """Points that have x, y and z (without any z, x and y), their columns in this order, and the unit of the header."""

    names: list[str]
    columns: list[int]
    unit: str | None


def read_header(path: Path, lines: Iterator[str]) -> Header:
    """Find the header of a table below blank lines, comments and lines about the recording.

    A second row of axes, as pandas writes it, or of units is joined with the first one.
    """
    head = list(islice(lines, _MAX_LINES_BEFORE))
    declaration, first = None, None
    for at, line in enumerate(head):
        text = line.strip(" \r\n" + _DELIMITERS)
        if match := _DECLARED.fullmatch(line.strip()):
            declaration = match[1]
        elif text:
            delimiter = declaration or _find_delimiter(line)
            titles = _parse_titles(path, at + 1, line, delimiter)
            if not any(titles):
                continue  # a bare comment sign, or control characters only
            if all(map(_is_number, titles)) or all(map(_is_number, line.split())):
                if first is None:
                    return Header(titles, delimiter, chain(head[at:], lines), at + 1, has_titles=False)
                break
            merged_titles = _join_axes(
                path, at + 2, titles, head[at + 1] if at + 1 < len(head) else "", delimiter
            )
            if _has_points(merged_titles or titles):
                return _finish(path, head, at, titles, merged_titles, delimiter, lines)
            if size_of := find_point_cells(titles, head[at + 1 : at + 1 + _SAMPLE], delimiter):
                data_lines = expand_lines(chain(head[at + 1 :], lines), size_of, delimiter)
                return Header(name_coordinates(titles, size_of), delimiter, data_lines, at + 2)
            first = (at, titles) if first is None and not text.startswith("#") else first
    number, titles = first or (0, [])
    raise DataError(
        f"{path}, line {number + 1}: expected columns such as head_x, head_y, head_z, got {titles[:6]}"
        + _advise(head[number + 1 : number + 2])
    )


def _finish(
    path: Path,
    head: Sequence[str],
    at: int,
    titles: list[str],
    merged_titles: list[str] | None,
    delimiter: str,
    lines: Iterator[str],
) -> Header:
    """Return the header in line ``at``, with the rows of axes and units below it."""
    at += 1
    if merged_titles is not None:
        titles, at = merged_titles, at + 1
        if at < len(head) and sum(map(bool, head[at].strip().split(delimiter))) <= 1:
            at += 1  # the row in which pandas names the index
    if at < len(head) and (units := _parse_units(path, at + 1, head[at], delimiter, len(titles))):
        titles = [f"{title} ({unit})" if unit else title for title, unit in zip(titles, units, strict=True)]
        at += 1
    data_lines: Iterator[str] = chain(head[at:], lines)
    if delimiter == " ":
        data_lines = (" ".join(line.split()) + "\n" for line in data_lines)
    return Header(titles, delimiter, data_lines, at + 1)


def has_point_titles(path: Path, lines: Iterator[str]) -> bool:
    """Return whether a text has titles of columns such as head_x, head_y, head_z."""
    try:
        return read_header(path, lines).has_titles
    except DataError:
        return False


def find_point_columns(titles: Sequence[str]) -> PointColumns | None:
    """Return the columns of points; None if there are none. Rotations, speeds and the like are no points."""
    axes: dict[str, dict[str, int]] = {}
    units: set[str] = set()
    for column, title in enumerate(titles):
        if match := _COLUMN.fullmatch(title):
            axes.setdefault(match.group(1), {}).setdefault(match.group(2).lower(), column)
            unit = match.group(3) or match.group(4)
            units |= {unit.lower()} if unit else set()
    if not any(len(columns) > 1 for columns in axes.values()):
        axes = {}
        for column, title in enumerate(titles):
            if match := _PREFIXED.fullmatch(title):
                axes.setdefault(match.group(2) or match.group(3), {}).setdefault(
                    match.group(1).lower(), column
                )
    axes = axes or _find_numbered_axes(titles)
    names = [name for name, columns in axes.items() if len(columns) == 3]
    if names:
        positions = [name for name in names if not _is_no_position(name, names)]
        columns = [axes[name][axis] for name in positions for axis in "xyz"]
        return PointColumns(positions, columns, units.pop() if len(units) == 1 else None)
    flat = [name for name, columns in axes.items() if set(columns) == {"x", "y"}]
    flat = [name for name in flat if not _is_no_position(name, flat)]
    if len(flat) < 3:
        return None
    return PointColumns(flat, [axes[name][axis] for name in flat for axis in "xy"], None)


def _find_numbered_axes(titles: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the columns of axes with numbers, ``Head[0]`` or ``Head_1``; empty if not all of them have three axes.

    >>> _find_numbered_axes(["a_1", "a_2", "a_3", "b_1", "b_2", "b_3", "c_1", "c_2", "c_3"])["b"]
    {'x': 3, 'y': 4, 'z': 5}
    """
    numbers: dict[str, dict[int, int]] = {}
    for column, title in enumerate(titles):
        if match := _NUMBERED.fullmatch(title):
            numbers.setdefault(match[1], {})[int(match[2])] = column
    used_columns = {tuple(sorted(columns)) for columns in numbers.values()}
    if len(numbers) < 3 or used_columns not in ({(0, 1, 2)}, {(1, 2, 3)}):
        return {}
    return {
        name: {axis: columns[at] for axis, at in zip("xyz", sorted(columns), strict=True)}
        for name, columns in numbers.items()
    }


def normalise_title(title: str) -> tuple[str, str | None]:
    """Return the name of a column in snake case, and its unit.

    >>> normalise_title("Time [ms]"), normalise_title("JointType"), normalise_title("frame #")
    (('time', 'ms'), ('joint_type', None), ('frame#', None))
    """
    match = re.fullmatch(r"(.*?)\s*[\[(]\s*([^\[\]()]*?)\s*[\])]", title.strip())
    name, unit = (match[1], match[2].lower()) if match else (title.strip(), None)
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"[\s_.-]+", "_", split.lower()).replace("_#", "#"), unit or None


def _find_delimiter(line: str) -> str:
    delimiter = max(_DELIMITERS, key=line.count)
    return delimiter if delimiter in line else " "


def _parse_titles(path: Path, number: int, line: str, delimiter: str) -> list[str]:
    text = re.sub(r"^\s*(?:#|//|%)+\s*", "", line)  # numpy.savetxt writes its header as a comment
    if delimiter == " ":
        text = " ".join(text.split())
    try:
        titles = [title.strip() for title in next(csv.reader([text], delimiter=delimiter), [])]
    except csv.Error as error:
        raise DataError(f"{path}, line {number}: {error}") from None
    if len(titles) > MAX_COLUMNS:
        raise DataError(f"{path}, line {number}: {len(titles)} columns; at most {MAX_COLUMNS} are read")
    return titles


def _has_points(titles: Sequence[str]) -> bool:
    columns = {normalise_title(title)[0]: column for column, title in enumerate(titles)}
    return find_point_columns(titles) is not None or find_long_columns(columns) is not None


def _join_axes(path: Path, number: int, titles: list[str], line: str, delimiter: str) -> list[str] | None:
    """Return titles joined with a second row of axes, x, y, z, x, ...; None if the line is no such row."""
    axes = _parse_titles(path, number, line, delimiter) if line.strip() else []
    letters = [axis.lower() for axis in axes]
    if len(axes) != len(titles) or letters.count("x") < 3 or letters.count("x") != letters.count("y"):
        return None
    return [
        f"{title}_{axis}" if title and axis else title or axis
        for title, axis in zip(titles, axes, strict=True)
    ]


def _parse_units(path: Path, number: int, line: str, delimiter: str, width: int) -> list[str] | None:
    """Return the cells of a row of units, such as s, mm, mm, ...; None if the line is no such row."""
    cells = _parse_titles(path, number, line, delimiter) if line.strip() else []
    matches = [_UNIT_CELL.fullmatch(cell) for cell in cells]
    if len(cells) != width or not all(matches) or any(map(_is_number, cells)):
        return None
    units = [(match[1] or "").lower() for match in matches if match]
    return units if sum(unit in UNITS for unit in units) >= 2 else None


def _is_no_position(name: str, names: Sequence[str]) -> bool:
    """Return whether the columns of a name are rotations, speeds or the like: ``head_rot``, ``head_q``, ``headVel``.

    ``head_r`` beside ``head`` is a rotation; ``hand_r`` beside ``hand_l`` is the right hand.
    """
    if _NO_POSITION.search(name) or _NO_POSITION_ALONE.fullmatch(name):
        return True
    match = re.fullmatch(r"(.+[\s_.:-])([qr])", name, re.IGNORECASE)
    if match is None:
        return False
    left = match[1] + ("l" if match[2] == "r" else "L")
    return match[2] in "qQ" or (match[1][:-1] in names and left not in names)


def _advise(following: Sequence[str]) -> str:
    """Return what to do about a table whose cells hold lists or texts of JSON."""
    if any(re.search(r"(?:^|[,;\t])\s*\"?\s*[\[({]", line) for line in following):
        return "; its cells hold lists: save one column per coordinate, or the frames as JSON"
    return "; rename them: one column per coordinate"


def _is_number(title: str) -> bool:
    return re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan", title, re.IGNORECASE) is not None
