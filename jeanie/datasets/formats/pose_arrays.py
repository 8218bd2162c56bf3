"""Arrays of poses that programs save with numpy: [frame, joint, value], with persons, or one row per frame."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size, get_point_limit, read_bytes
from jeanie.datasets.formats.keypoints import make_keypoint_motion
from jeanie.datasets.formats.landmarks import MEDIAPIPE, is_mediapipe, make_landmark_motion
from jeanie.datasets.formats.npz import ZIP_ERRORS, parse_npy, read_arrays, read_npz
from jeanie.datasets.formats.units import estimate_frame_rate, rotate_to_y_up
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["MAX_VALUES", "make_array_motion", "read_npy", "read_npz_poses"]

Floats = NDArray[Any]
MAX_VALUES = 5  # per joint: x, y, z, visibility, presence
# layouts of key points by their number; the values show whether they are [x, y, score] in pixels or metres
_KEYPOINTS = {17: "coco17", 18: "openpose18", 25: "openpose25", 26: "halpe26"}
_MIN_PIXELS = 8.0
_MAX_SCORE_BELOW, _MAX_SCORE = 0.05, 20.0  # detectors write scores a little outside 0 to 1, never as large
_MAX_ARRAY_PERSONS = 10  # more are recordings rather than persons
_BODY_MODEL = {"poses", "trans", "betas", "global_orient", "body_pose", "pose_body", "transl"}  # SMPL
# MediaPipe Holistic: number of landmarks -> where those of the pose start; 468 of the face and 21 of each hand
_HOLISTIC = {543: 489, 75: 0}
_HOLISTIC_ROWS = (1662, 258)  # rows of x, y, z, visibility of the pose, then x, y, z of face and hands
_POSE_NUMBERS = 132
_NO_POSES = re.compile(r"visib|presence|score|conf|time|label|mask|valid|frame|index", re.IGNORECASE)
_RATES, _TIMES = ("fps", "rate", "frame_rate"), ("timestamps", "timestamp", "times", "time")


def read_npy(path: str | Path, *, layout: Layout | None = None, up: str | None = None) -> Motion:
    """Read an npy file of poses: MediaPipe landmarks, key points with scores, or any joints with ``layout``.

    Shapes: [frame, joint, 2 to 5], [frame, person, joint, 2 to 5], or [frame, joint x values]. 33 joints are those of
    MediaPipe Pose; 17, 18, 25 or 26 joints with pixels and scores are key points of COCO, OpenPose or Halpe.
    """
    path = Path(path)
    data = read_bytes(path, get_point_limit(path) * 8 * MAX_VALUES + 2**16)
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
    if len(_BODY_MODEL & arrays.keys()) >= 2:
        raise DataError(
            f"{path}: parameters of a body model (SMPL: {', '.join(sorted(_BODY_MODEL & arrays.keys()))}), not "
            "positions; compute its joints with the body model and save an array [frame, joint, 3]"
        )
    poses = {
        name: array
        for name, array in arrays.items()
        if array.dtype.kind in "fiu"
        and 2 <= array.ndim <= 4
        and (array.ndim > 2 or array.shape[1] > 3 * MAX_VALUES)
        and not _NO_POSES.search(name)
    }
    for word in ("world", "3d", "pose"):  # image and world landmarks, or pose, face and hands
        matches = {name: array for name, array in poses.items() if word in name.lower()}
        poses = matches if len(poses) > 1 and matches else poses
    if len(poses) != 1:
        raise DataError(
            f"{path}: {len(poses)} arrays that may be poses ({', '.join(poses)[:99]}); expected an array 'joints' "
            "[frame, joint, 3], or one array of poses"
        )
    motion = make_array_motion(path, next(iter(poses.values())), layout=layout, up=up)
    return motion.replace(rate=_find_rate(arrays, len(motion)))


def _find_rate(arrays: Mapping[str, NDArray[Any]], frames: int) -> float | None:
    """Return the frame rate of an array with one number, or of the times of all frames."""
    for name in _RATES:
        if name in arrays and arrays[name].size == 1 and arrays[name].dtype.kind in "fiu":
            rate = float(arrays[name].reshape(()))
            return rate if 0 < rate < 1e6 else None
    times = next((arrays[name] for name in _TIMES if name in arrays), np.empty(0))
    is_time = times.dtype.kind in "fiu" and times.shape == (frames,)
    return estimate_frame_rate(times.astype(np.float64)) if is_time else None


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def make_array_motion(
    path: Path, array: NDArray[Any], *, layout: Layout | None = None, up: str | None = None
) -> Motion:
    """Build a motion of an array of poses; see ``read_npy``."""
    if array.dtype.kind not in "fiu":
        raise DataError(f"{path}: an array of {array.dtype}; expected numbers [frame, joint, 3]")
    array = _split_rows(path, array, layout)
    array = array[:, None] if array.ndim == 3 else array
    if array.ndim == 4 and len(array) < array.shape[1]:
        array = array.swapaxes(
            0, 1
        )  # [person, frame, joint, value]: more persons than frames are no recording
    if layout is None and array.ndim == 4 and array.shape[2] in _HOLISTIC:
        start = _HOLISTIC[array.shape[2]]
        array = array[:, :, start : start + len(MEDIAPIPE)]
    if array.ndim == 4 and array.shape[1] > _MAX_ARRAY_PERSONS:
        raise DataError(
            f"{path}: an array of shape {array.shape} would be {array.shape[1]} persons; if it holds many recordings, "
            "save one file per recording: numpy.save(f'{number}.npy', array[number])"
        )
    if array.ndim != 4 or not array.shape[1] > 0 or not 2 <= array.shape[3] <= MAX_VALUES:
        raise DataError(
            f"{path}: an array of shape {array.shape}; expected [frame, joint, 3], [frame, person, joint, 3] or "
            "[frame, 99]; change the order of the axes with numpy.transpose"
        )
    check_size(path, *array.shape[:3])
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is a missing joint
        points: Floats = array.astype(np.float32)
    file_layout = layout or _guess_layout(path, points)
    if len(file_layout) != points.shape[2]:
        raise DataError(
            f"{path}: {points.shape[2]} joints, layout {file_layout.name!r} has {len(file_layout)}; give layout=, a "
            "name or a layout file that lists the joints"
        )
    if file_layout.dims == 2 and _has_depth(points):
        file_layout = replace(file_layout, name=f"{file_layout.name}_3d", unit="m", dims=3)
    if file_layout.dims == 2:
        score = points[..., 2] if points.shape[-1] > 2 else np.ones(points.shape[:-1])
        return make_keypoint_motion(path, points[..., :2], score, file_layout, (0.0, 0.0))
    is_flat = points.shape[-1] == 2
    if is_flat:
        points = np.concatenate([points, np.zeros_like(points[..., :1])], -1)
    points = points[..., :3]
    if file_layout is MEDIAPIPE or (layout is not None and is_mediapipe(layout)):
        file_layout, world = (replace(file_layout, dims=2), False) if is_flat else (file_layout, None)
        return make_landmark_motion(path, points, file_layout, world=world, up=up)
    return make_motion(path, rotate_to_y_up(points, up or "y"), file_layout)


def _split_rows(path: Path, array: NDArray[Any], layout: Layout | None) -> NDArray[Any]:
    """Return [frame, joint, value] from rows with all joints of a frame; other arrays stay."""
    if array.ndim != 2:
        return array
    if layout is None and array.shape[1] in _HOLISTIC_ROWS:
        array = array[:, :_POSE_NUMBERS]
    joints = len(MEDIAPIPE) if layout is None else len(layout)
    if layout is None and array.shape[1] in [3 * count for count in _HOLISTIC]:
        joints = array.shape[1] // 3
    values, remainder = divmod(array.shape[1], joints)
    if remainder or not 2 <= values <= MAX_VALUES:
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
    names = [layout.name for layout in LAYOUTS.values() if len(layout) == joints]
    advice = f"one of {', '.join(names)}, or " if names else ""
    raise DataError(
        f"{path}: does not say which {joints} joints it holds; give layout= (--layout), {advice}a layout file that "
        "lists them"
    )


def _has_depth(points: Floats) -> bool:
    """Return whether the third number of points is a depth rather than a score."""
    if points.shape[-1] != 3:
        return bool(points.shape[-1] > 3)
    size = float(np.nanmax(np.abs(points[..., :2]), initial=0.0))
    low = float(np.nanmin(points[..., 2], initial=0.0))
    high = float(np.nanmax(points[..., 2], initial=0.0))
    is_score = bool(low >= -_MAX_SCORE_BELOW and high <= (_MAX_SCORE if size > _MIN_PIXELS else 1.0))
    return not is_score


def _has_scores(points: Floats) -> bool:
    """Return whether points are pixels with a score from 0 to 1, or pixels only."""
    if points.shape[-1] > 3:
        return False
    size = float(np.nanmax(np.abs(points[..., :2]), initial=0.0))
    scores = points[..., 2:]
    return size > _MIN_PIXELS and bool(((scores >= 0) & (scores <= 1) | np.isnan(scores)).all())
