"""TRC files: marker positions of motion-capture systems."""

import math
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.named_points import make_named_motion
from jeanie.datasets.formats.rows import fill_empty_cells, open_lines, parse_rows
from jeanie.datasets.formats.units import get_metres_per_unit, parse_unit
from jeanie.datasets.joint_names import MAX_JOINTS
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_trc"]


def read_trc(
    path: str | Path,
    *,
    unit: str | float | None = None,
    up: str = "y",
    layout: Layout | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read the markers of a TRC file as a motion in metres, +y up. An empty cell is a missing marker.

    Args:
        path: The file.
        unit: Unit of the coordinates; overrides ``Units`` of the file.
        up: Axis that points up in the file (TRC does not say).
        layout: Selects markers by name. By default the known layout with exactly these names, else a layout of
            the markers in the file; the markers of a known set become joint centres.
        aliases: Name in the file -> joint; "" leaves a marker out.
    """
    path = Path(path)
    with open_lines(path) as lines:
        head = list(islice(lines, 5))
        if len(head) < 5 or not head[0].startswith("PathFileType"):
            raise DataError(
                f"{path}, line 1: expected a TRC file, five lines from 'PathFileType' to 'X1 Y1 Z1'"
            )
        fields = dict(zip(head[1].split(), head[2].split(), strict=False))
        tab = "\t" if "\t" in head[3] else None
        names = [cell.strip() for cell in head[3].split(tab)[2:] if cell.strip()]
        if fields.get("NumMarkers") != str(len(names)):
            raise DataError(
                f"{path}, line 4: {len(names)} marker names, NumMarkers says {fields.get('NumMarkers')!r}"
            )
        if not 0 < len(names) <= MAX_JOINTS:
            raise DataError(f"{path}: {len(names)} named points; expected 1 to {MAX_JOINTS}")
        frame_count = fields.get("NumFrames", "")
        frames = int(frame_count) if len(frame_count) < 12 and frame_count.isdecimal() else 0
        check_size(path, frames, 1, len(names))
        width = 2 + 3 * len(names)
        body = (fill_empty_cells(line, tab, width) for line in lines) if tab else lines
        rows = parse_rows(path, body, width=width, first_line=6, delimiter=tab, max_rows=frames)
    if frame_count != str(len(rows)):
        count = f"more than {frames}" if len(rows) > frames else str(len(rows))
        raise DataError(f"{path}: {count} frames, NumFrames says {frame_count!r}; is the file cut short?")
    scale = get_metres_per_unit(parse_unit(path, fields.get("Units", "mm")) if unit is None else unit)
    rate = _parse_rate(path, fields.get("DataRate", "0"))
    points = rows[:, 2:].reshape(len(rows), 1, len(names), 3)
    return make_named_motion(
        path,
        points,
        names,
        kind="trc",
        layout=layout,
        aliases=aliases,
        scale=scale,
        up=up,
        rate=rate if 0 < rate < math.inf else None,
    )


def _parse_rate(path: Path, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{path}: DataRate is {text[:40]!r}, not a number") from None
