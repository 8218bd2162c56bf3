"""The cameras of the synthetic data set: where they stand, and how badly they see.

Stage space is right-handed, in metres, floor y = 0; the centre camera stands at negative z and looks along
+z, its left is +x. Camera space is that of `jeanie.skeleton.motion.Motion`, in the axes of the camera itself:
a camera that looks down sees the vertical tilted.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.actions import interpolate

__all__ = ["CAMERAS", "StageCamera", "record", "turned"]

Array = NDArray[np.float64]

# what a gap takes away: an arm from the elbow, a hand, a leg from the knee, a foot
_LIMBS = (
    *((5, 6, 7, 21, 22), (9, 10, 11, 23, 24), (7, 21, 22), (11, 23, 24)),
    *((13, 14, 15), (17, 18, 19), (15,), (19,)),
)
_LIMB_JOINTS = np.array([[joint in limb for joint in range(25)] for limb in _LIMBS])
_SHAKY = np.ones(25)  # how much worse than the trunk a sensor sees a joint
_SHAKY[[5, 9, 13, 17]], _SHAKY[[6, 7, 10, 11, 14, 18]], _SHAKY[[15, 19, 21, 22, 23, 24]] = 1.2, 1.6, 2.2


@dataclass(frozen=True)
class StageCamera:
    """A camera of the studio: its place (azimuth to the left, floor distance) and the height it looks at."""

    name: str
    azimuth_deg: float
    height: float
    distance: float
    aim: float = 0.9

    @property
    def pose(self) -> tuple[Array, Array]:
        """Position ``[3]`` on the stage and rotation ``[3, 3]`` whose rows are its left, up and forward."""
        azimuth = np.deg2rad(self.azimuth_deg)
        position = np.array([self.distance * np.sin(azimuth), self.height, -self.distance * np.cos(azimuth)])
        forward = np.array([0.0, self.aim, 0.0]) - position
        forward /= np.linalg.norm(forward)
        left = np.cross([0.0, 1.0, 0.0], forward)
        left /= np.linalg.norm(left)
        return position, np.stack([left, np.cross(forward, left), forward])


CAMERAS = (
    StageCamera("centre", 0.0, 1.1, 3.8),
    StageCamera("left", 40.0, 0.9, 4.3),
    StageCamera("right", -35.0, 1.5, 3.4),
    StageCamera("top", 10.0, 2.8, 3.0),
)


def record(
    stage: Array, camera: StageCamera, rng: np.random.Generator, noise: float = 1.0, missing: float = 1.0
) -> tuple[Array, NDArray[np.bool_]]:
    """Joints ``[frame, person, 25, 3]`` in camera space with noise, and which of them the camera found.

    Noise grows with the square of the distance, is larger in depth, at the ends of limbs and behind the
    trunk, and has a slow part beside the white one. Gaps take a limb for some frames, rather a hidden one,
    and single joints for single frames. ``noise`` and ``missing`` scale both, 0 is a perfect camera.
    """
    position, rotation = camera.pose
    joints = turned(stage - position, rotation)
    frames, persons = joints.shape[:2]
    hidden = np.clip((joints[..., 2] - joints[:, :, 1:2, 2]) / 0.25, 0, 1)
    sigma = 0.004 * noise * (joints[..., 2] / 3) ** 2 * _SHAKY * (1 + 1.5 * hidden)
    knots = np.arange(0.0, frames + 10.0, 10.0)
    drawn = rng.standard_normal((len(knots), *joints.shape[1:]))
    slow = interpolate(knots, drawn, np.arange(frames, dtype=np.float64))
    white = rng.standard_normal(joints.shape)
    noisy = joints + sigma[..., None] * (0.7 * white + 1.2 * slow) * (1.0, 1.0, 1.6)

    count = rng.poisson(1.6 * missing * persons)
    risk = 0.15 + hidden.mean(0) @ _LIMB_JOINTS.T / _LIMB_JOINTS.sum(1)  # [person, limb]
    chosen = rng.choice(risk.size, size=count, p=(risk / risk.sum()).ravel())
    person, limb = np.divmod(chosen, len(_LIMBS))
    start = rng.integers(0, frames, count)[:, None]
    stop = start + rng.geometric(0.15, count)[:, None]
    when = (np.arange(frames) >= start) & (np.arange(frames) < stop)  # [gap, frame]
    who = (person[:, None] == np.arange(persons))[:, :, None] & _LIMB_JOINTS[limb][:, None]
    lost = np.einsum("gf,gpj->fpj", when, who)
    lost |= rng.random(lost.shape) < 0.003 * missing * _SHAKY
    return noisy, ~lost


def turned(points: Array, rotation: Array) -> Array:
    """``rotation @ point`` for points ``[..., 3]``."""
    return (points.reshape(-1, 3) @ rotation.T).reshape(points.shape)  # one product, not one a frame
