"""The movement that all files of the corpus contain, and how to describe it as each kind of coordinates."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jeanie.skeleton.layout import LAYOUTS

FRAMES, RATE = 6, 30.0
_MIDDLE = {"hip_center": (0.95, 3.0), "spine": (1.15, 3.0), "torso": (1.15, 3.0), "chest": (1.3, 3.0),
           "spine_shoulder": (1.4, 3.0), "neck": (1.45, 3.0), "head": (1.62, 3.0), "nose": (1.6, 2.9)}  # fmt: skip
_SIDED = {  # x of the right side (the left one is mirrored), y, z
    "eye": (0.03, 1.64, 2.92), "eye_inner": (0.02, 1.64, 2.91), "eye_outer": (0.045, 1.64, 2.93),
    "ear": (0.08, 1.62, 3.0), "mouth": (0.025, 1.56, 2.92), "clavicle": (0.05, 1.42, 3.0),
    "shoulder": (0.2, 1.4, 3.0), "elbow": (0.25, 1.15, 3.02), "wrist": (0.27, 0.9, 2.97), "hand": (0.27, 0.82, 2.95),
    "hand_tip": (0.27, 0.76, 2.94), "thumb": (0.24, 0.82, 2.92), "pinky": (0.29, 0.8, 2.96),
    "index": (0.26, 0.78, 2.94),
    "hip": (0.1, 0.93, 3.0), "knee": (0.11, 0.5, 2.97), "ankle": (0.12, 0.08, 3.02), "heel": (0.12, 0.04, 3.06),
    "foot": (0.12, 0.03, 2.85), "big_toe": (0.12, 0.03, 2.85), "small_toe": (0.16, 0.03, 2.88),
}  # fmt: skip
_WAVING = (
    "right_elbow",
    "right_wrist",
    "right_hand",
    "right_hand_tip",
    "right_thumb",
    "right_pinky",
    "right_index",
)


def _make_body():
    """The right arm waves and the whole body sways."""
    body = {joint: np.tile(np.array((0.0, *place)), (FRAMES, 1)) for joint, place in _MIDDLE.items()}
    for joint, (x, y, z) in _SIDED.items():
        for side, sign in (("left", -1), ("right", 1)):
            body[f"{side}_{joint}"] = np.tile(np.array((sign * x, y, z)), (FRAMES, 1))
    phase = np.linspace(0, 2, FRAMES)
    for number, joint in enumerate(_WAVING):
        body[joint] = body[joint] + np.stack(
            [0.03 * number * np.sin(phase), 0.05 * number * phase, 0 * phase], -1
        )
    sway = np.stack([0.02 * np.sin(phase), 0 * phase, 0.01 * phase], -1)
    return {joint: positions + sway for joint, positions in body.items()}


BODY = _make_body()


@dataclass(frozen=True)
class Case:
    """A way to write a movement.

    ``write`` makes the file in a folder and returns its path. ``space`` is "metres", "hips" (metres around the hips),
    "relative" or "px". ``options`` are those of ``read_motion``. ``tolerance`` is in the unit of the space.
    """

    origin: str
    write: Callable[[Path], Path]
    form: str
    space: str = "metres"
    options: dict = field(default_factory=dict)
    tolerance: float = 2e-3
    rate: float | None = None
    needs: str | None = None


def stack(joints, body=None):
    """Positions [frame, joint, 3]."""
    return np.stack([(body or BODY)[joint] for joint in joints], 1)


MP = LAYOUTS["mediapipe33"].joints
COCO = LAYOUTS["coco17"].joints
HALPE = LAYOUTS["halpe26"].joints
CORE = LAYOUTS["core15"].joints
# MediaPipe's own names in the order of its landmarks (mediapipe.solutions.pose.PoseLandmark)
MP_NAMES = [
    "NOSE", "LEFT_EYE_INNER", "LEFT_EYE", "LEFT_EYE_OUTER", "RIGHT_EYE_INNER", "RIGHT_EYE", "RIGHT_EYE_OUTER",
    "LEFT_EAR", "RIGHT_EAR", "MOUTH_LEFT", "MOUTH_RIGHT", "LEFT_SHOULDER", "RIGHT_SHOULDER", "LEFT_ELBOW",
    "RIGHT_ELBOW", "LEFT_WRIST", "RIGHT_WRIST", "LEFT_PINKY", "RIGHT_PINKY", "LEFT_INDEX", "RIGHT_INDEX", "LEFT_THUMB",
    "RIGHT_THUMB", "LEFT_HIP", "RIGHT_HIP", "LEFT_KNEE", "RIGHT_KNEE", "LEFT_ANKLE", "RIGHT_ANKLE", "LEFT_HEEL",
    "RIGHT_HEEL", "LEFT_FOOT_INDEX", "RIGHT_FOOT_INDEX",
]  # fmt: skip


def world(joints=MP):
    """World landmarks: metres around the middle of the hips, x to the right of the image, y down."""
    hips = (BODY["left_hip"] + BODY["right_hip"])[:, None] / 2
    return (stack(joints) - hips) * [-1, -1, 1]


def relative(joints=MP):
    """Image landmarks: parts of a square image of 2 m, y down; z like x, from the hips."""
    hips = (BODY["left_hip"] + BODY["right_hip"])[:, None] / 2
    return np.concatenate([0.5 - stack(joints)[..., :1] / 2, 0.95 - stack(joints)[..., 1:2] / 2,
                           (stack(joints) - hips)[..., 2:] / 2], -1)  # fmt: skip


def pixels(joints):
    """Pixels of an image of 1000 x 1000: x right, y down."""
    return relative(joints)[..., :2] * 1000


def with_values(points, *values):
    """Append constant values, such as a visibility, to every point."""
    more = [np.full((*points.shape[:-1], 1), value) for value in values]
    return np.concatenate([points, *more], -1)


def z_up(points):
    """The same points with z up: (x, y, z) -> (x, -z, y)."""
    return np.stack([points[..., 0], -points[..., 2], points[..., 1]], -1)


def dicts(points, **more):
    """Landmarks of a frame as dicts."""
    return [{"x": x, "y": y, "z": z, "visibility": 0.98, **more} for x, y, z in points.tolist()]


def frames_of(points, **more):
    return [dicts(row, **more) for row in points]
