"""Azure Kinect Body Tracking: JSON files of Microsoft's offline processor."""

from pathlib import Path
from typing import Any

import numpy as np

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.json_files import expect_type, read_json, to_array
from jeanie.datasets.formats.keypoints import MAX_PERSONS
from jeanie.datasets.formats.units import metres_per_unit, rotate_to_y_up
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_azure_kinect"]

AZURE = LAYOUTS["azure32"]


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def read_azure_kinect(
    path: str | Path, *, layout: Layout | None = None, unit: str | float = "mm", up: str = "-y"
) -> Motion:
    """Read ``{"frames": [{"timestamp_usec", "bodies": [{"body_id", "joint_positions": [[x, y, z] x 32]}]}]}``.

    Millimetres in the space of the depth camera, y down. Persons are the body ids. The frame rate comes from the time
    stamps, in microseconds. A frame without bodies is missing.
    """
    path = Path(path)
    value = expect_type(path, read_json(path), dict, "the file")
    frames = expect_type(path, value.get("frames"), list, "frames")
    bodies = [_list_bodies(path, frame) for frame in frames]
    flat = [body for persons in bodies for body in persons]
    if not flat:
        raise DataError(f"{path}: nobody in any of its {len(frames)} frames; drop it")
    own = layout or AZURE
    positions = [body.get("joint_positions") for body in flat]
    points = to_array(path, positions, (None, len(own), 3), "joint_positions of the bodies")
    ids = [str(body.get("body_id", 0)) for body in flat]
    person_of = {body: index for index, body in enumerate(dict.fromkeys(ids))}
    check_size(path, len(frames), len(person_of), len(own))
    placed = np.full((len(frames), len(person_of), len(own), 3), np.nan)
    frame_of = np.repeat(np.arange(len(frames)), [len(persons) for persons in bodies])
    placed[frame_of, [person_of[body] for body in ids]] = points * metres_per_unit(unit)
    stamps = [frame.get("timestamp_usec") for frame in frames]
    return make_motion(path, rotate_to_y_up(placed, up), own, rate=_find_rate(stamps))


def _list_bodies(path: Path, frame: Any) -> list[dict[str, Any]]:
    bodies = expect_type(path, frame, dict, "a frame").get("bodies") or []
    return [
        expect_type(path, body, dict, "a body")
        for body in expect_type(path, bodies, list, "bodies")[:MAX_PERSONS]
    ]


def _find_rate(stamps: list[Any]) -> float | None:
    """Return frames per second from time stamps in microseconds, None if they are missing or do not grow."""
    if len(stamps) < 2 or not all(isinstance(stamp, int | float) and abs(stamp) < 1e18 for stamp in stamps):
        return None
    step = float(np.median(np.diff(np.array(stamps, np.float64))))
    return round(1e6 / step, 2) if 100 < step < 1e8 else None
