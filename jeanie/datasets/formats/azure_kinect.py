"""Azure Kinect Body Tracking: JSON files of Microsoft's offline processor."""

from pathlib import Path
from typing import Any

import numpy as np

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.json_files import expect_type, read_json_lines, to_array
from jeanie.datasets.formats.keypoints import MAX_PERSONS, place_by_id
from jeanie.datasets.formats.units import estimate_frame_rate, get_metres_per_unit, rotate_to_y_up
from jeanie.datasets.rig_names import normalise_name
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_azure_kinect"]

AZURE = LAYOUTS["azure32"]
# joints whose name in the SDK is another word: PELVIS, SPINE_NAVEL, HANDTIP_LEFT
_SDK_NAMES = {
    "hip_center": "pelvis", "spine": "spine_navel", "chest": "spine_chest", "left_hand_tip": "left_handtip",
    "right_hand_tip": "right_handtip",
}  # fmt: skip


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def read_azure_kinect(
    path: str | Path, *, layout: Layout | None = None, unit: str | float = "mm", up: str = "-y"
) -> Motion:
    """Read ``{"frames": [{"timestamp_usec", "bodies": [{"body_id", "joint_positions": [[x, y, z] x 32]}]}]}``.

    Also the list of frames alone, and bodies with ``joints``: 32 dicts with ``position``, in order or by name.
    Millimetres in the space of the depth camera, y down. Persons are the body ids. The frame rate comes from the time
    stamps, in microseconds. A frame without bodies is missing.
    """
    path = Path(path)
    value = read_json_lines(path)
    frames = expect_type(path, value.get("frames") if isinstance(value, dict) else value, list, "frames")
    bodies = [_list_bodies(path, frame) for frame in frames]
    flat = [body for persons in bodies for body in persons]
    if not flat:
        raise DataError(f"{path}: nobody in any of its {len(frames)} frames; leave it out")
    file_layout = layout or AZURE
    positions = [
        body.get("joint_positions") or _list_positions(body.get("joints"), file_layout) for body in flat
    ]
    points = to_array(path, positions, (None, len(file_layout), 3), "joint_positions of the bodies")
    ids = [str(body.get("body_id", 0)) for body in flat]
    joints = place_by_id(path, points * get_metres_per_unit(unit), list(map(len, bodies)), ids)
    stamps = [frame.get("timestamp_usec", frame.get("timestamp_us")) for frame in frames]
    is_timed = all(isinstance(stamp, int | float) and abs(stamp) < 1e18 for stamp in stamps)
    rate = estimate_frame_rate(np.array(stamps, np.float64), 1e-6) if is_timed else None
    return make_motion(path, rotate_to_y_up(joints, up), file_layout, rate=rate)


def _list_bodies(path: Path, frame: Any) -> list[dict[str, Any]]:
    bodies = expect_type(path, frame, dict, "a frame").get("bodies") or []
    return [
        expect_type(path, body, dict, "a body")
        for body in expect_type(path, bodies, list, "bodies")[:MAX_PERSONS]
    ]


def _list_positions(joints: Any, file_layout: Layout) -> Any:
    """Return the positions of joints that are dicts, or a dict by name, in the order of the layout."""
    if isinstance(joints, dict):
        named = {normalise_name(name): joint for name, joint in joints.items()}
        joints = [named.get(joint, named.get(_SDK_NAMES.get(joint, joint))) for joint in file_layout.joints]
    if not isinstance(joints, list):
        return joints
    places = [joint.get("position") if isinstance(joint, dict) else joint for joint in joints]
    return [
        [place.get(axis) for axis in "xyz"] if isinstance(place, dict) else place or [None] * 3
        for place in places
    ]
