"""C3D files: marker positions of motion-capture systems, in a binary format."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jeanie.datasets.formats.files import check_size, get_point_limit, read_bytes
from jeanie.datasets.formats.isolated import decode_text, is_installed, parse_isolated
from jeanie.datasets.formats.named_points import make_named_motion
from jeanie.datasets.formats.units import get_metres_per_unit, parse_unit
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_c3d"]

MAX_C3D_BYTES = 2**30


def read_c3d(
    path: str | Path,
    *,
    unit: str | float | None = None,
    up: str | None = None,
    layout: Layout | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read the points of a C3D file as a motion in metres, +y up. Needs the extra ``jeanie[c3d]``.

    A point with a negative residual is missing. The parser ezc3d is native code that a damaged file can crash, so
    it runs in a child process.

    Args:
        path: The file.
        unit: Unit of the coordinates; overrides POINT:UNITS of the file, mm if the file has none.
        up: Axis that points up; overrides POINT:Y_SCREEN of the file, z if the file has none.
        layout: Selects points by name. By default the known layout with exactly these names, else a layout of the
            points in the file; the markers of a known set, such as Plug-in Gait, become joint centres.
        aliases: Name in the file -> joint; "" leaves a point out.
    """
    path = Path(path)
    if not is_installed("ezc3d"):
        raise ConfigError(f"{path}: C3D files need ezc3d; pip install 'jeanie[c3d]'")
    data = read_bytes(path, MAX_C3D_BYTES)
    if len(data) < 1024 or data[1] != 0x50:
        raise DataError(
            f"{path}: not a C3D file: expected at least two blocks of 512 bytes and 0x50 as second byte"
        )
    del data
    arrays = parse_isolated("c3d", path, "C3D file", max_points=get_point_limit(path))
    points, residuals = arrays["points"], arrays["residuals"]
    names = decode_text(arrays["labels"])
    check_size(path, len(points), 1, points.shape[1])
    if len(names) < points.shape[1]:
        raise DataError(f"{path}: {points.shape[1]} points but {len(names)} labels")
    points = np.where(residuals[..., None] < 0, np.nan, points)
    scale = get_metres_per_unit(
        parse_unit(path, decode_text(arrays["unit"]) or "mm") if unit is None else unit
    )
    screen = re.sub(r"[^xyz]", "", decode_text(arrays["up"]).lower())[:1]
    rate = float(arrays["rate"])
    return make_named_motion(
        path,
        points[:, None],
        names[: points.shape[1]],
        kind="c3d",
        layout=layout,
        aliases=aliases,
        scale=scale,
        up=up or screen or "z",
        rate=rate if 0 < rate < math.inf else None,
    )
