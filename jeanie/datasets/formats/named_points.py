"""Build a Motion of points with names: joints, landmarks, or the markers of a laboratory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_marker_motion
from jeanie.datasets.formats.landmarks import find_up, is_mediapipe, make_landmark_motion
from jeanie.datasets.formats.marker_sets import compute_joint_centres
from jeanie.datasets.formats.units import rotate_to_y_up
from jeanie.datasets.joint_names import find_marker_layout
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["make_named_motion"]

_MAX_PARTS = 4.0  # larger image coordinates are pixels


def make_named_motion(
    path: Path,
    points: NDArray[np.float64],
    names: Sequence[str],
    *,
    kind: str,
    layout: Layout | None,
    aliases: Mapping[str, str] | None,
    scale: float | None,
    up: str | None,
    rate: float | None,
) -> Motion:
    """Build a motion of named points [frame, person, point, 3], or [..., 2] for key points of an image.

    Markers of a known set become joint centres, unless ``layout`` or ``aliases`` say what they are. ``scale`` is the
    length of the unit in metres, None if it is not declared: then the unit of MediaPipe landmarks is detected.
    """
    if points.shape[3] == 3 and layout is None and aliases is None:
        centres = compute_joint_centres(names, points)
        names, points = centres if centres is not None else (names, points)
    file_layout, order = find_marker_layout(names, kind=kind, layout=layout, path=path, aliases=aliases)
    if points.shape[3] == 2:
        name = file_layout.name.removesuffix("_3d")
        file_layout = replace(
            file_layout, name=name, dims=2, unit="px" if _exceed_one_image(points) else "relative"
        )
        points = np.concatenate([points, np.zeros_like(points[..., :1])], -1)
        up = up or "-y"
        if up == "y":  # x of an image points to the right of the image, that of camera space to its left
            points = points * [-1.0, 1.0, 1.0]
    elif scale is None and up is None and is_mediapipe(file_layout) and (order >= 0).all():
        return make_landmark_motion(path, points[:, :, order], file_layout, rate=rate)
    elif up is None and is_mediapipe(file_layout):
        up = find_up(points[:, :, order])
    return make_marker_motion(path, rotate_to_y_up(points, up or "y"), file_layout, order, scale or 1.0, rate)


def _exceed_one_image(points: NDArray[np.float64]) -> bool:
    return bool(points.size) and float(np.nanmax(np.abs(points), initial=0.0)) > _MAX_PARTS
