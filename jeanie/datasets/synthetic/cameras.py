"""The cameras of the synthetic data set: positions, noise and missing joints.

Stage space is right-handed, in metres, with the floor at y = 0. The centre camera is at negative z and looks along
+z; its left is +x. Camera space is that of ``jeanie.skeleton.motion.Motion``, along the axes of the camera: for a
camera that looks down, the vertical is tilted.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.synthetic.actions import interpolate

__all__ = ["CAMERAS", "StageCamera", "record_joints", "rotate_points"]

Array = NDArray[np.float64]

# joints that are lost together: an arm from the elbow, a hand, a leg from the knee, a foot
_LIMBS = (
    *((5, 6, 7, 21, 22), (9, 10, 11, 23, 24), (7, 21, 22), (11, 23, 24)),
    *((13, 14, 15), (17, 18, 19), (15,), (19,)),
)
_LIMB_JOINTS = np.array([[joint in limb for joint in range(25)] for limb in _LIMBS])
_NOISE = np.ones(25)  # noise of a joint relative to the trunk
_NOISE[[5, 9, 13, 17]], _NOISE[[6, 7, 10, 11, 14, 18]], _NOISE[[15, 19, 21, 22, 23, 24]] = 1.2, 1.6, 2.2


@dataclass(frozen=True)
class StageCamera:
    """A camera of the stage: azimuth to the left, height and floor distance in metres, and the height it looks at."""

    name: str
    azimuth_deg: float
    height: float
    distance: float
    aim: float = 0.9

    @property
    def pose(self) -> tuple[Array, Array]:
        """Position ``[3]`` on the stage, and rotation ``[3, 3]`` with the rows left, up and forward."""
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


def record_joints(
    stage: Array, camera: StageCamera, rng: np.random.Generator, noise: float = 1.0, missing: float = 1.0
) -> tuple[Array, NDArray[np.bool_]]:
    """Return joints ``[frame, person, 25, 3]`` in camera space with noise, and a mask of the visible ones.

    The noise is white noise plus slow drift. It grows with the square of the distance and is larger in depth, at
    the ends of limbs and behind the trunk. Limbs, mostly hidden ones, are missing for some frames, and single
    joints for single frames. ``noise`` and ``missing`` scale both; 0 is a perfect camera.
    """
    position, rotation = camera.pose
    joints = rotate_points(stage - position, rotation)
    frames, persons = joints.shape[:2]
    hidden = np.clip((joints[..., 2] - joints[:, :, 1:2, 2]) / 0.25, 0, 1)
    sigma = 0.004 * noise * (joints[..., 2] / 3) ** 2 * _NOISE * (1 + 1.5 * hidden)
    knots = np.arange(0.0, frames + 10.0, 10.0)
    knot_values = rng.standard_normal((len(knots), *joints.shape[1:]))
    slow = interpolate(knots, knot_values, np.arange(frames, dtype=np.float64))
    white = rng.standard_normal(joints.shape)
    noisy = joints + sigma[..., None] * (0.7 * white + 1.2 * slow) * (1.0, 1.0, 1.6)

    count = rng.poisson(1.6 * missing * persons)
    risk = 0.15 + hidden.mean(0) @ _LIMB_JOINTS.T / _LIMB_JOINTS.sum(1)  # [person, limb]
    limbs = rng.choice(risk.size, size=count, p=(risk / risk.sum()).ravel())
    person, limb = np.divmod(limbs, len(_LIMBS))
    start = rng.integers(0, frames, count)[:, None]
    stop = start + rng.geometric(0.15, count)[:, None]
    in_gap = (np.arange(frames) >= start) & (np.arange(frames) < stop)  # [gap, frame]
    in_limb = (person[:, None] == np.arange(persons))[:, :, None] & _LIMB_JOINTS[limb][:, None]
    is_missing = np.einsum("gf,gpj->fpj", in_gap, in_limb)
    is_missing |= rng.random(is_missing.shape) < 0.003 * missing * _NOISE
    return noisy, ~is_missing


def rotate_points(points: Array, rotation: Array) -> Array:
    """Return ``rotation @ point`` for points ``[..., 3]``."""
    return (points.reshape(-1, 3) @ rotation.T).reshape(points.shape)  # one product, not one per frame
