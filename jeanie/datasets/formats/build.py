"""Build a Motion from the joints or markers of a file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.clip_names import Tags, parse_clip_name, parse_tags
from jeanie.datasets.formats.files import check_size
from jeanie.errors import DataError, ShapeError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["make_marker_motion", "make_motion"]


def make_motion(
    path: Path,
    joints: NDArray[np.floating[Any]],
    file_layout: Layout,
    *,
    layout: Layout | None = None,
    valid: NDArray[np.bool_] | None = None,
    rate: float | None = None,
    name: str | None = None,
    tags: Tags | None = None,
) -> Motion:
    """Build a motion of joints [frame, person, joint, 3]; name and tags default to those in the file name.

    ``file_layout`` is the layout of the format. The caller's ``layout`` replaces it if it has the same number of
    joints.
    """
    layout = layout or file_layout
    if joints.shape[2] != len(layout):
        raise DataError(
            f"{path}: has {joints.shape[2]} joints, layout {layout.name!r} has {len(layout)}; "
            "give a layout that names the joints of this file"
        )
    check_size(path, *joints.shape[:3])
    tags = parse_tags(path) if tags is None else tags
    try:
        return Motion(
            joints,
            layout,
            valid=valid,
            rate=rate,
            name=name or parse_clip_name(path),
            label=tags.label,
            subject=tags.subject,
            view=tags.view,
            setup=tags.setup,
            take=tags.take,
        )
    except (DataError, ShapeError) as error:
        raise DataError(f"{path}: {error}") from None


def make_marker_motion(
    path: Path,
    points: NDArray[np.float64],
    file_layout: Layout,
    order: NDArray[np.int64],
    scale: float,
    rate: float | None,
) -> Motion:
    """Build a motion in metres of named points [frame, person, point, 3].

    ``order`` has the index of the point for each joint of ``file_layout``, -1 for a missing joint. ``scale`` is the
    length of the file's unit in metres.
    """
    selected = points if np.array_equal(order, np.arange(points.shape[2])) else points[:, :, order]
    joints = np.empty(selected.shape, np.float32)
    with np.errstate(over="ignore"):  # a value beyond float32 becomes infinite: a missing joint
        np.multiply(selected, scale, out=joints, casting="same_kind")
    joints[:, :, order < 0] = np.nan
    return make_motion(path, joints, file_layout, rate=rate)
