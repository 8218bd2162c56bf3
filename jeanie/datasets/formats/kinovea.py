"""Kinovea: the trajectories of points in a video, exported as CSV or as text for gnuplot."""

import csv
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np

from jeanie.datasets.formats.csv_cells import parse_time
from jeanie.datasets.formats.csv_table import read_table
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.named_points import make_named_motion
from jeanie.datasets.formats.rows import open_lines
from jeanie.datasets.formats.units import estimate_frame_rate, get_metres_per_unit
from jeanie.datasets.joint_names import MAX_JOINTS
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["is_kinovea", "read_kinovea"]

_TEXT = "#Kinovea"
# the first row of the CSV file: "Time","Left hand/0/X","Left hand/0/Y"
_FIRST_ROW = re.compile(r"\s*\"?Time\"?[,;]\"?[^\",;]+/[^\",;]*/X\"?[,;]")


def is_kinovea(name: str, head: bytes) -> bool:
    """Return whether the first bytes of a file are trajectories of Kinovea."""
    text = head.lstrip(b"\xef\xbb\xbf")
    return (
        text.startswith(_TEXT.encode())
        or _FIRST_ROW.match(text[:4096].decode("utf-8", "replace")) is not None
    )


def read_kinovea(
    path: str | Path,
    *,
    unit: str | float | None = None,
    up: str | None = None,
    layout: Layout | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read the trajectories of a video: x and y, y up, in the unit of Kinovea's calibration or in pixels.

    A trajectory has the name of its joint. The file is CSV (one row per time, columns ``name/point/X``) or text (one
    section per trajectory: ``# name``, then rows ``time x y``). Sections without names are point_1, point_2, ...
    """
    path = Path(path)
    with open_lines(path) as lines:
        first = next((line for line in lines if line.strip()), "")
        if not first.lstrip("\ufeff").startswith(_TEXT):
            row = chain([_name_columns(path, first)], lines)
            return read_table(path, row, unit=unit, up=up or "y", layout=layout, aliases=aliases)
        tracks = _parse_sections(path, lines)
    names = list(tracks)
    times, frame = np.unique([time for track in tracks.values() for time, _, _ in track], return_inverse=True)
    check_size(path, len(times), 1, len(names))
    points = np.full((len(times), 1, len(names), 2), np.nan)
    column = np.repeat(np.arange(len(names)), [len(track) for track in tracks.values()])
    points[frame, 0, column] = [place for track in tracks.values() for _, *place in track]
    return make_named_motion(
        path,
        points,
        names,
        kind="kinovea",
        layout=layout,
        aliases=aliases,
        scale=None if unit is None else get_metres_per_unit(unit),
        up=up or "y",
        rate=estimate_frame_rate(times),
    )


def _name_columns(path: Path, row: str) -> str:
    """Return the first row with titles such as ``Left hand_X``.

    A title has the names of a track and of its point: "Left hand/0/X" is the only point of its track, "Human/head/X"
    one of several.
    """
    delimiter = ";" if row.count(";") > row.count(",") else ","
    try:
        titles = next(csv.reader([row.strip()], delimiter=delimiter))
    except csv.Error as error:
        raise DataError(
            f"{path}: the first row has no titles: {error}; export the file from Kinovea again"
        ) from None
    parts = [title.rsplit("/", 2) for title in titles]
    tracks = [part[0] for part in parts if len(part) == 3 and part[2] == "X"]
    is_single = len(set(tracks)) == len(tracks)
    names = [
        title if len(part) != 3 else f"{part[0] if is_single else part[1]}_{part[2]}"
        for title, part in zip(titles, parts, strict=True)
    ]
    return delimiter.join(f'"{name}"' for name in names) + "\n"


def _parse_sections(path: Path, lines: Iterator[str]) -> dict[str, list[tuple[float, float, float]]]:
    """Return (time, x, y) of each trajectory by its name."""
    tracks: dict[str, list[tuple[float, float, float]]] = {}
    name, is_open = "", False
    for number, line in enumerate(lines, 2):
        text = line.strip()
        if not text or text == "#T X Y":
            name, is_open = "", False
        elif text.startswith("#"):
            name, is_open = text.lstrip("# "), False
        else:
            if not is_open:
                is_open, name = True, name or f"point_{len(tracks) + 1}"
                if name in tracks or len(tracks) == MAX_JOINTS:
                    raise DataError(
                        f"{path}, line {number}: a second trajectory {name!r}, or more than {MAX_JOINTS}; "
                        "give each its own name in Kinovea"
                    )
                tracks[name] = []
            tracks[name].append(_parse_row(path, number, text))
    if not tracks:
        raise DataError(f"{path}: has no trajectories; export them from Kinovea as CSV")
    return tracks


def _parse_row(path: Path, number: int, text: str) -> tuple[float, float, float]:
    cells = text.split()
    try:
        time, x, y = cells
        return parse_time(time.replace(",", ".")), float(x.replace(",", ".")), float(y.replace(",", "."))
    except ValueError:
        raise DataError(
            f"{path}, line {number}: expected a time, x and y, got {text[:40]!r}; export one point per trajectory"
        ) from None
