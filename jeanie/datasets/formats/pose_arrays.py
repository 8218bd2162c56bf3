"""Arrays of poses that programs save with numpy: [frame, joint, value], with persons, or one row per frame."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size, point_limit, read_bytes
from jeanie.datasets.formats.keypoints import MAX_PERSONS, make_keypoint_motion
from jeanie.datasets.formats.landmarks import MEDIAPIPE, is_mediapipe, make_landmark_motion
from jeanie.datasets.formats.npz import ZIP_ERRORS, parse_npy, read_arrays, read_npz
from jeanie.datasets.formats.units import rotate_to_y_up
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["MAX_VALUES", "make_array_motion", "read_npy", "read_npz_poses"]

Floats = NDArray[Any]
MAX_VALUES = 5  # per joint: x, y, z, visibility, presence
# layouts of key points by their number; [x, y, score] in pixels is told from metres by its values
_KEYPOINTS = {17: "coco17", 18: "openpose18", 25: "openpose25", 26: "halpe26"}
_MIN_PIXELS = 8.0


def read_npy(path: str | Path, *, layout: Layout | None = None, up: str | None = None) -> Motion:
    """Read an npy file of poses: MediaPipe landmarks, key points with scores, or any joints with ``layout``.

    Shapes: [frame, joint, 2 to 5], [frame, person, joint, 2 to 5], or [frame, joint x values]. 33 joints are those of
    MediaPipe Pose; 17, 18, 25 or 26 joints with pixels and scores are key points of COCO, OpenPose or Halpe.
    """
    path = Path(path)
    data = read_bytes(path, point_limit(path) * 8 * MAX_VALUES + 2**16)
    try:
        array = parse_npy(data)
    except ZIP_ERRORS as error:
        raise DataError(f"{path}: not a readable npy file: {str(error)[:120]}") from None
    return make_array_motion(path, array, layout=layout, up=up)


def read_npz_poses(path: str | Path, *, layout: Layout | None = None, up: str | None = None) -> Motion:
    """Read a motion of ``write_npz``, or the one array of poses in an npz file; see ``read_npy``."""
    path = Path(path)
    arrays = read_arrays(path, path, None)
    if "about" in arrays or ("joints" in arrays and layout is not None):
        return read_npz(path, layout=layout)
    poses = {
        name: array
        for name, array in arrays.items()
        if array.dtype.kind in "fiu"
        and 2 <= array.ndim <= 4
        and (array.ndim > 2 or array.shape[1] > 3 * MAX_VALUES)
    }
    if len(poses) != 1:
        raise DataError(
            f"{path}: {len(poses)} arrays that may be poses ({', '.join(poses)[:99]}); expected an array 'joints' "
            "[frame, joint, 3], or one array of poses"
        )
    return make_array_motion(path, next(iter(poses.values())), layout=layout, up=up)


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def make_array_motion(
    path: Path, array: NDArray[Any], *, layout: Layout | None = None, up: str | None = None
) -> Motion:
    """Build a motion of an array of poses; see ``read_npy``."""
    if array.dtype.kind not in "fiu":
        raise DataError(f"{path}: an array of {array.dtype}; expected numbers [frame, joint, 3]")
    array = _split_rows(path, array, layout)
    array = array[:, None] if array.ndim == 3 else array
    if array.ndim != 4 or not 0 < array.shape[1] <= MAX_PERSONS or not 2 <= array.shape[3] <= MAX_VALUES:
        raise DataError(
            f"{path}: an array of shape {array.shape}; expected [frame, joint, 3], [frame, person, joint, 3] or "
            "[frame, 99]"
        )
    check_size(path, *array.shape[:3])
    points: Floats = array.astype(np.float32)
    own = layout or _guess_layout(path, points)
    if len(own) != points.shape[2]:
        raise DataError(
            f"{path}: {points.shape[2]} joints, layout {own.name!r} has {len(own)}; give layout=, a name or a layout "
            "file that lists the joints"
        )
    if own.dims == 2:
        score = points[..., 2] if points.shape[-1] > 2 else np.ones(points.shape[:-1])
        return make_keypoint_motion(path, points[..., :2], score, own, (0.0, 0.0))
    if points.shape[-1] == 2:
        points = np.concatenate([points, np.zeros_like(points[..., :1])], -1)
    points = points[..., :3]
    if own is MEDIAPIPE or (layout is not None and is_mediapipe(layout)):
        return make_landmark_motion(path, points, own, up=up)
    return make_motion(path, rotate_to_y_up(points, up or "y"), own)


def _split_rows(path: Path, array: NDArray[Any], layout: Layout | None) -> NDArray[Any]:
    """Return [frame, joint, value] from rows with all joints of a frame; other arrays stay."""
    if array.ndim != 2:
        return array
    joints = len(MEDIAPIPE) if layout is None else len(layout)
    values, rest = divmod(array.shape[1], joints)
    if rest or not 2 <= values <= MAX_VALUES:
        raise DataError(
            f"{path}: rows of {array.shape[1]} numbers; expected {joints} joints x 2 to {MAX_VALUES} values; "
            "give layout=, a name or a layout file that lists the joints"
        )
    return array.reshape(len(array), joints, values)


def _guess_layout(path: Path, points: Floats) -> Layout:
    joints = points.shape[2]
    if joints == len(MEDIAPIPE):
        return MEDIAPIPE
    name = _KEYPOINTS.get(joints)
    if name is not None and _has_scores(points):
        return LAYOUTS[name]
    known = [layout.name for layout in LAYOUTS.values() if len(layout) == joints]
    advice = f"one of {', '.join(known)}, or " if known else ""
    raise DataError(
        f"{path}: does not say which {joints} joints it holds; give layout=, {advice}a layout file that lists them"
    )


def _has_scores(points: Floats) -> bool:
    """Return whether points are pixels with a score from 0 to 1, or pixels only."""
    if points.shape[-1] > 3:
        return False
    size = float(np.nanmax(np.abs(points[..., :2]), initial=0.0))
    scores = points[..., 2:]
    return size > _MIN_PIXELS and bool(((scores >= 0) & (scores <= 1) | np.isnan(scores)).all())
