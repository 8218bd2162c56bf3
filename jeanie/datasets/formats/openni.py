"""Skeletons of OpenNI, as in the UWA3D sets: metres or millimetres, y up, z away from the camera."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.clip_names import Tags, parse_clip_name
from jeanie.datasets.formats.build import make_motion
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["get_published_name", "make_openni_motion"]

MIN_DEPTH_IN_MILLIMETRES = 50.0  # no Kinect sees as far as 50 metres


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def make_openni_motion(
    path: Path,
    joints: NDArray[np.float64],
    file_layout: Layout,
    *,
    tags: Tags,
    layout: Layout | None = None,
    name: str | None = None,
) -> Motion:
    """Build a motion of joints [frame, person, joint, 3].

    A file whose median depth is above 50 counts in millimetres and is divided by 1000.
    """
    present = np.isfinite(joints).all(-1) & (joints != 0).any(-1)
    depth = np.median(np.abs(joints[..., 2][present])) if present.any() else 0.0
    joints = joints / 1000 if depth > MIN_DEPTH_IN_MILLIMETRES else joints
    name = name or get_published_name(path, tags, file_layout)
    return make_motion(path, joints, file_layout, layout=layout, tags=tags, name=name)


def get_published_name(path: Path, tags: Tags, layout: Layout) -> str:
    """Return the name of a recording in the published lists, such as a01e02s03 for UWA3D Activity."""
    if layout == LAYOUTS["openni15"] and tags.view is None and isinstance(tags.subject, int):
        return f"a{tags.label:02}e{tags.take:02}s{tags.subject:02}"
    return parse_clip_name(path)
