"""Tables with several header rows, as motion-capture programs export them: Motive, Nexus, Qualisys, DeepLabCut."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.csv_cells import parse_cells
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.named_points import make_named_motion
from jeanie.datasets.formats.rows import join_parts, open_lines
from jeanie.datasets.formats.units import get_metres_per_unit, parse_unit
from jeanie.datasets.joint_names import MAX_JOINTS
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["NEXUS_SECTIONS", "read_capture_table"]

Program = Literal["motive", "nexus", "qualisys", "deeplabcut"]
Floats = NDArray[np.float64]
NEXUS_SECTIONS = ("Trajectories", "Devices", "Model Outputs", "Joints", "Segments", "Objects", "Events")
_MAX_HEADER_LINES = 64
# Motive: what a column may describe, best first; markers of an asset are named like measured markers
_MOTIVE_TYPES = ("Bone", "Marker", "Skeleton Marker", "Bone Marker", "Rigid Body", "Rigid Body Marker")


@dataclass(frozen=True)
class _Table:
    """The header of a table.

    Attributes:
        columns: (subject, point) -> the columns of x, y and, in 3-D, z.
        rate: Frames per second, if the header says it.
        time: Column of the seconds, if the header has no rate.
        zero_is_missing: Whether a point at the origin is missing.
    """

    columns: Mapping[tuple[str, str], Sequence[int]]
    delimiter: str = ","
    rate: float | None = None
    time: int | None = None
    unit: str | None = None
    up: str | None = None
    zero_is_missing: bool = False


_Content = tuple[_Table, Floats, float | None]  # points [frame, point, 2 or 3] and the frame rate


def read_capture_table(
    path: str | Path,
    *,
    program: Program,
    unit: str | float | None = None,
    up: str | None = None,
    layout: Layout | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read a table that a motion-capture program exports. Every skeleton, marker set or subject is a person.

    - Motive (OptiTrack), CSV: bones of skeletons, else markers, else rigid bodies. Unlabelled markers are left out.
    - Nexus (Vicon), CSV or text: the section Trajectories.
    - Qualisys Track Manager, TSV: a marker at the origin is missing.
    - DeepLabCut, CSV: rows scorer, individuals, bodyparts and coords, then one row per frame.

    An empty cell is missing.

    Args:
        path: The file.
        program: Name of the program.
        unit: Unit of the coordinates; overrides that of the file (default for Nexus and Qualisys: mm).
        up: Axis that points up (default: z for Nexus and Qualisys, -y for key points in pixels, else y).
        layout: Selects points by name; see ``read_csv``.
        aliases: Name in the file -> joint; "" leaves a point out.
    """
    path = Path(path)
    with open_lines(path) as lines:
        table, points, rate = _PARSERS[program](path, lines)
    return _make_motion(path, points, rate, table, program, unit, up, layout, aliases)


def _parse_motive(path: Path, lines: Iterator[str]) -> _Content:
    count, head = _read_header(path, lines, "Frame")
    facts = dict(zip(head[0][::2], head[0][1::2], strict=False))
    if facts.get("Coordinate Space", "Global").strip().lower() == "local":
        raise DataError(
            f"{path}: positions of bones relative to their parents; export with Coordinate Space: Global"
        )
    width = len(head[-1])
    types, names, kinds = _find_motive_rows(path, head, width)
    table = _Table(
        _find_motive_columns(path, types, names, kinds, head[-1]),
        rate=_parse_rate(facts.get("Export Frame Rate") or facts.get("Capture Frame Rate")),
        time=1 if width > 1 and head[-1][1].lower().startswith("time") else None,
        unit=facts.get("Length Units", "Meters"),
        up="y",
    )
    return table, *_read_points(path, lines, table, count + 1)


def _parse_nexus(path: Path, lines: Iterator[str]) -> _Content:
    count = 0
    for line in lines:
        count += 1
        if line.strip(" ,;\t\r\n").lower() == "trajectories":
            break
    else:
        raise DataError(f"{path}: no section Trajectories; select Trajectories in the ASCII export of Nexus")
    texts = [next(lines, "") for _ in range(4)]
    delimiter = max(",\t;", key=texts[2].count)
    rate, names, axes, units = (_split(path, text, delimiter) for text in texts)
    columns: dict[tuple[str, str], dict[str, int]] = {}
    filled = _fill_right(names, len(axes))
    for column, (name, axis) in enumerate(zip(filled, axes, strict=True)):
        if name and axis.upper() in ("X", "Y", "Z"):
            columns.setdefault(_split_subject(name), {}).setdefault(axis.upper(), column)
    complete = {key: [place[axis] for axis in "XYZ"] for key, place in columns.items() if len(place) == 3}
    _check_points(path, complete, "a row of marker names, then Frame, Sub Frame, X, Y, Z")
    first = next(iter(complete.values()))[0]
    table = _Table(
        complete,
        delimiter=delimiter,
        rate=_parse_rate(rate[0] if rate else None),
        unit=units[first] if first < len(units) and units[first] else "mm",
        up="z",
    )
    section = takewhile(lambda line: line.strip(" ,;\t\r\n"), lines)
    return table, *_read_points(path, section, table, count + 5)


def _parse_qualisys(path: Path, lines: Iterator[str]) -> _Content:
    facts: dict[str, list[str]] = {}
    first, count = "", 0
    for line in lines:
        count += 1
        cells = _split(path, line, "\t")
        if not cells[0].isidentifier() or not cells[0].isupper() or count > _MAX_HEADER_LINES:
            first = line
            break
        facts[cells[0]] = cells[1:]
    names = [name for name in facts.get("MARKER_NAMES", []) if name]
    cells = _split(path, first, "\t")
    has_titles = cells[0].lower() == "frame" or cells[-1][-1:].upper() == "Z"
    start = 2 if has_titles and cells[0].lower() == "frame" else max(0, len(cells) - 3 * len(names))
    columns = {
        ("", name): [start + 3 * number + axis for axis in range(3)] for number, name in enumerate(names)
    }
    _check_points(path, columns, "a line MARKER_NAMES")
    rate = facts.get("FREQUENCY") or [""]
    table = _Table(
        columns, delimiter="\t", rate=_parse_rate(rate[0]), unit="mm", up="z", zero_is_missing=True
    )
    rows = lines if has_titles else _put_back(first, lines)
    nulls = (line.replace("null", "").replace("NULL", "") for line in rows)
    return table, *_read_points(path, nulls, table, count + has_titles)


def _parse_deeplabcut(path: Path, lines: Iterator[str]) -> _Content:
    count, head = _read_header(path, lines, "coords")
    rows = {row[0].lower(): row for row in head if row}
    bodyparts, coords = rows.get("bodyparts", []), rows["coords"]
    persons = rows.get("individuals", [""] * len(bodyparts))
    columns: dict[tuple[str, str], dict[str, int]] = {}
    for column, (person, name, axis) in enumerate(zip(persons, bodyparts, coords, strict=False)):
        if column and axis.lower() in ("x", "y", "z"):
            columns.setdefault((person, name), {})[axis.lower()] = column
    axes = "xyz" if all(len(place) == 3 for place in columns.values()) else "xy"
    complete = {
        key: [place[axis] for axis in axes] for key, place in columns.items() if set(axes) <= place.keys()
    }
    _check_points(path, complete, "rows bodyparts and coords")
    table = _Table(complete, up="y" if axes == "xyz" else None)
    return table, *_read_points(path, lines, table, count + 1)


_PARSERS: Mapping[Program, Callable[[Path, Iterator[str]], _Content]] = {
    "motive": _parse_motive,
    "nexus": _parse_nexus,
    "qualisys": _parse_qualisys,
    "deeplabcut": _parse_deeplabcut,
}


def _read_header(path: Path, lines: Iterator[str], last: str) -> tuple[int, list[list[str]]]:
    """Return the number of lines of a header, and its filled rows up to the one that starts with ``last``."""
    rows: list[list[str]] = []
    for count, line in enumerate(lines, 1):
        cells = _split(path, line, ",")
        rows += [cells] if any(cells) else []
        if cells[0].lower() == last.lower():
            return count, rows
        if count >= _MAX_HEADER_LINES:
            break
    raise DataError(f"{path}: no row that starts with {last!r} in its header")


def _split(path: Path, line: str, delimiter: str) -> list[str]:
    try:
        cells = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:
        raise DataError(f"{path}: {error} in the header") from None
    return [cell.strip() for cell in cells] or [""]


def _fill_right(cells: Sequence[str], width: int) -> list[str]:
    """Return cells in which an empty one repeats the one before it."""
    filled: list[str] = []
    for cell in [*cells, *[""] * width][:width]:
        filled.append(cell or (filled[-1] if filled else ""))
    return filled


def _split_subject(name: str) -> tuple[str, str]:
    subject, _, point = name.rpartition(":")
    return subject, point


def _find_motive_rows(
    path: Path, head: Sequence[list[str]], width: int
) -> tuple[list[str], list[str], list[str]]:
    """Return the rows of types, names and kinds of values; older versions have no words in front of them."""
    rows = [row + [""] * (width - len(row)) for row in head[1:-1]]
    types = next((row for row in rows if set(row) & set(_MOTIVE_TYPES)), None)
    kinds = next((row for row in rows if {"Position", "Rotation"} & set(row)), None)
    if types is None or kinds is None:
        raise DataError(f"{path}: expected header rows with Bone or Marker, names, and Position")
    following = next(iter(rows[rows.index(types) + 1 :]), [])
    names = next((row for row in rows if "Name" in row[:2]), following)
    return types, names, kinds


def _find_motive_columns(
    path: Path, types: Sequence[str], names: Sequence[str], kinds: Sequence[str], axes: Sequence[str]
) -> dict[tuple[str, str], list[int]]:
    """Return the columns of the best type of points in the file."""
    points_of_kind: dict[str, dict[tuple[str, str], dict[str, int]]] = {}
    for column, (kind, name, value, axis) in enumerate(zip(types, names, kinds, axes, strict=False)):
        is_labelled = name and not name.startswith("Unlabeled")
        if value == "Position" and axis.upper() in ("X", "Y", "Z") and is_labelled:
            subject, point = _split_subject(name)
            if kind == "Bone" and point == subject:  # the root has the name of its skeleton
                point = "Hip"
            points = points_of_kind.setdefault(kind, {})
            points.setdefault((subject, point), {}).setdefault(axis.upper(), column)
    best = next((points_of_kind[kind] for kind in _MOTIVE_TYPES if kind in points_of_kind), {})
    complete = {key: [place[axis] for axis in "XYZ"] for key, place in best.items() if len(place) == 3}
    _check_points(path, complete, "positions of bones, markers or rigid bodies")
    return complete


def _check_points(path: Path, columns: Mapping[tuple[str, str], object], expected: str) -> None:
    if not 0 < len(columns) <= MAX_JOINTS:
        raise DataError(f"{path}: {len(columns)} named points; expected {expected}, 1 to {MAX_JOINTS} points")


def _parse_rate(text: str | None) -> float | None:
    try:
        rate = float(text or "nan")
    except ValueError:
        return None
    return rate if 0 < rate < 1e6 else None


def _put_back(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def _read_points(
    path: Path, lines: Iterable[str], table: _Table, first_line: int
) -> tuple[Floats, float | None]:
    """Return points [frame, point, 2 or 3] and the frame rate."""
    columns_to_read = [column for columns in table.columns.values() for column in columns]
    columns_to_read += [table.time] if table.time is not None else []
    parts = parse_cells(
        path, lines, columns_to_read, width=None, delimiter=table.delimiter, first_line=first_line
    )
    rows = join_parts(list(parts), len(columns_to_read))
    rate = table.rate
    if table.time is not None:
        seconds = rows[:, -1]
        rows = rows[:, :-1]
        span = float(seconds[-1] - seconds[0]) if len(seconds) > 1 else 0.0
        rate = rate or (round((len(rows) - 1) / span, 2) if span > 0 else None)
    points = rows.reshape(len(rows), len(table.columns), -1)
    if table.zero_is_missing:
        points = np.where((points == 0).all(-1, keepdims=True), np.nan, points)
    return points, rate


def _make_motion(
    path: Path,
    points: Floats,
    rate: float | None,
    table: _Table,
    kind: str,
    unit: str | float | None,
    up: str | None,
    layout: Layout | None,
    aliases: Mapping[str, str] | None,
) -> Motion:
    """Build a motion in which every subject is a person; a point that a subject does not have is missing."""
    keys = list(table.columns)
    names = list(dict.fromkeys(name for _, name in keys))
    subjects = list(dict.fromkeys(subject for subject, _ in keys))
    shared = len(names) < len(keys)
    check_size(path, len(points), len(subjects) if shared else 1, len(names))
    placed_points = np.full(
        (len(points), len(subjects) if shared else 1, len(names), points.shape[-1]), np.nan
    )
    persons = [subjects.index(subject) if shared else 0 for subject, _ in keys]
    placed_points[:, persons, [names.index(name) for _, name in keys]] = points
    length = unit if unit is not None else None if table.unit is None else parse_unit(path, table.unit)
    return make_named_motion(
        path,
        placed_points,
        names,
        kind=kind,
        layout=layout,
        aliases=aliases,
        scale=None if length is None else get_metres_per_unit(length),
        up=up or table.up,
        rate=rate,
    )
