"""Body tracking of ZED cameras: JSON files of Stereolabs' export samples."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.json_files import expect_type, list_numbered, read_json_lines, to_array
from jeanie.datasets.formats.keypoints import MAX_PERSONS, place_by_id
from jeanie.datasets.formats.units import estimate_frame_rate, get_metres_per_unit, rotate_to_y_up
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_zed"]

# number of key points -> layout; BODY_18 has the order of OpenPose
_LAYOUTS = {
    18: replace(LAYOUTS["openpose18"], name="zed18", unit="m", dims=3),
    34: LAYOUTS["zed34"],
    38: LAYOUTS["zed38"],
    70: LAYOUTS["zed38"],
}
# points of BODY_38 in BODY_70, which has whole hands: thumb 4, index 1, middle 4 and pinky 1, left and right
_BODY_70 = [*range(30), 33, 53, 34, 54, 41, 61, 46, 66]


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def read_zed(
    path: str | Path, *, layout: Layout | None = None, unit: str | float = "m", up: str = "y"
) -> Motion:
    """Read ``{time: {"timestamp", "body_list": [{"id", "keypoint": [[x, y, z], ...]}]}}``, or a list of such frames.

    The key points are BODY_18, 34, 38 or 70. Metres and y up, as the samples set them; the default of the SDK is
    ``unit="mm"``, ``up="-y"``. Persons are the ids. The frame rate comes from the time stamps, in nanoseconds. NaN,
    null and a frame without bodies are missing.
    """
    path = Path(path)
    value = read_json_lines(path)
    frames = [expect_type(path, frame, dict, "a frame") for frame in _list_frames(path, value)]
    bodies = [_list_bodies(path, frame) for frame in frames]
    flat = [body for persons in bodies for body in persons]
    if not flat:
        raise DataError(f"{path}: nobody in any of its {len(frames)} frames; leave it out")
    count = len(expect_type(path, flat[0].get("keypoint"), list, "keypoint of a body"))
    if layout is None and count not in _LAYOUTS:
        expected = ", ".join(map(str, _LAYOUTS))
        raise DataError(
            f"{path}: bodies with {count} key points, expected one of {expected}; or give a layout"
        )
    points = to_array(
        path, [body.get("keypoint") for body in flat], (None, count, 3), "keypoint of the bodies"
    )
    if layout is None and count == 70:
        points = points[:, _BODY_70]
    file_layout = layout or _LAYOUTS[count]
    ids = [str(body.get("id", 0)) for body in flat]
    joints = place_by_id(path, points * get_metres_per_unit(unit), list(map(len, bodies)), ids)
    joints = rotate_to_y_up(joints, up)
    if up == "y":
        joints = joints * [-1.0, 1.0, -1.0]  # with y up, ZED's camera looks along -z
    return make_motion(path, joints, file_layout, rate=_find_rate(frames))


def _list_frames(path: Path, value: Any) -> list[Any]:
    if isinstance(value, dict) and "body_list" in value:
        return [value]
    frames = list_numbered(value) or value
    return list(expect_type(path, frames, list, "the frames"))


def _list_bodies(path: Path, frame: dict[str, Any]) -> list[dict[str, Any]]:
    bodies = frame.get("body_list") or []
    if isinstance(bodies, dict):
        bodies = list(bodies.values())
    return [
        expect_type(path, body, dict, "a body")
        for body in expect_type(path, bodies, list, "body_list")[:MAX_PERSONS]
    ]


def _find_rate(frames: list[dict[str, Any]]) -> float | None:
    stamps = [frame.get("timestamp") for frame in frames]
    if not all(isinstance(stamp, int) and 0 <= stamp < 2**63 for stamp in stamps):
        return None
    first = min(stamp for stamp in stamps if stamp is not None)
    # a float64 has the nanoseconds of a day, not those since 1970
    return estimate_frame_rate(
        np.array([stamp - first for stamp in stamps if stamp is not None], np.float64), 1e-9
    )
