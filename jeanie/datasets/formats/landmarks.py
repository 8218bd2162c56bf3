"""Landmarks of MediaPipe Pose from files that do not say which coordinates they hold.

Image landmarks are parts of the image (or pixels) with y down; world landmarks are metres from the middle of the hips,
also with y down. Some people turn y up before they save. The points themselves show which of these a file has.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.units import rotate_to_y_up
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["MEDIAPIPE", "find_up", "is_mediapipe", "make_landmark_motion"]

Floats = NDArray[Any]
MEDIAPIPE = LAYOUTS["mediapipe33"]
_UPPER = [MEDIAPIPE.index(joint) for joint in ("nose", "left_shoulder", "right_shoulder")]
_HIPS = [MEDIAPIPE.index("left_hip"), MEDIAPIPE.index("right_hip")]
_ANKLES = [MEDIAPIPE.index("left_ankle"), MEDIAPIPE.index("right_ankle")]
_MAX_HIP_SHIFT = 0.05  # metres; the middle of the hips is the origin of world landmarks
_MAX_PARTS = 4.0  # larger image coordinates are pixels


def is_mediapipe(layout: Layout) -> bool:
    """Return whether a layout has the joints of MediaPipe Pose, in any order."""
    return set(layout.joints) == set(MEDIAPIPE.joints)


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def make_landmark_motion(
    path: Path,
    points: Floats,
    file_layout: Layout | None = None,
    *,
    world: bool | None = None,
    up: str | None = None,
    aspect_ratio: float = 1.0,
    **options: Any,
) -> Motion:
    """Build a motion of landmarks [frame, person, 33, 3] with +y up.

    Args:
        path: The file, for its name and for error messages.
        points: Coordinates as the file has them, NaN for a missing one.
        file_layout: Layout; ``mediapipe33`` by default.
        world: Whether these are world landmarks; by default they are if the middle of the hips is the origin.
        up: Axis that points up; by default -y, or y if noses are mostly above hips with that.
        aspect_ratio: Height of the image in parts of its width, for image landmarks.
        options: Those of ``make_motion``.
    """
    if not points.size:
        raise DataError(f"{path}: has no frame with a person")
    valid = np.isfinite(points).all(-1) & (points != 0).any(-1)
    visible = np.where(valid[..., None], points, np.nan)
    layout = file_layout or MEDIAPIPE
    if world is None:
        world = _are_metres(visible)
    if not world:
        unit = "px" if float(np.nanmax(visible[..., :2], initial=0.0)) > _MAX_PARTS else "relative"
        layout = replace(layout, unit=unit)
        points = points * np.array([1.0, aspect_ratio, 1.0], points.dtype)
    joints = rotate_to_y_up(points, up or find_up(visible))
    return make_motion(path, joints, layout, valid=valid, **options)


def _are_metres(points: Floats) -> bool:
    """Return whether the hips are the origin, or the body is taller than an image."""
    hips = np.abs(_average(points, _HIPS)).max(-1)
    height = np.abs(_average(points, _UPPER) - _average(points, _ANKLES))[:, 1]
    hips, height = hips[np.isfinite(hips)], height[np.isfinite(height)]
    is_centred = bool(hips.size) and float(np.median(hips)) < _MAX_HIP_SHIFT
    return is_centred or (bool(height.size) and 1.0 < float(np.median(height)) < _MAX_PARTS)


def find_up(points: Floats) -> str:
    """Return "-y" if head and shoulders have a smaller y than the hips in most frames, as in images, else "y"."""
    heights = _average(points, _UPPER)[:, 1] - _average(points, _HIPS)[:, 1]
    heights = heights[np.isfinite(heights)]
    return "y" if len(heights) and float(np.median(heights)) > 0 else "-y"


def _average(points: Floats, joints: list[int]) -> Floats:
    """Return the mean of some joints of the first person, one row per frame; NaN if one is missing."""
    means: Floats = points[:, 0, joints].mean(1)
    return means
