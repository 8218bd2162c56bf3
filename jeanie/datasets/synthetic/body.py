"""A kinematic body of 25 joints, controlled by named angles and kept on the floor.

Actor space is right-handed, in metres: x to the left of the actor, y up, z forward if ``turn`` is 0; the floor is
y = 0. Rotations act on column vectors; angles are in degrees. Joints are in the order of the ``ntu25`` layout. A
pose is a row of numbers, one per channel (``CHANNELS``):

- root: ``hop`` height of a jump in metres, ``forward`` and ``side`` (left) metres of sliding, ``turn`` to the
  left, ``pitch`` forward and ``roll`` to the left of the pelvis;
- trunk: ``bend`` forward, ``lean`` left, ``twist`` left; head: ``nod`` down, ``tilt`` left, ``look`` left;
- each arm: ``raise`` is the angle of the upper arm from hanging, ``plane`` the direction of raising (0
  sideways, 90 forward, 180 across the chest, -90 backward), ``rotate`` rotates it outward about its own axis
  (at 0 the forearm bends forward, or up if the arm points forward), ``elbow`` and ``wrist`` bend;
- each leg: ``flex`` is the angle of the thigh from the vertical, forward, ``spread`` outward, ``point`` turns
  the leg outward, ``knee`` bends, ``toe`` points the foot down from level.

Channels of the right side are the mirror image of those of the left: equal numbers make a symmetric pose.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CHANNELS",
    "LIMITS",
    "PARENTS",
    "SIDEWAYS",
    "Body",
    "forward_kinematics",
    "get_channel",
    "make_body",
    "mirror_poses",
]

Array = NDArray[np.float64]

_TRUNK = ("hop", "forward", "side", "turn", "pitch", "roll", "bend", "lean", "twist", "nod", "tilt", "look")
_LIMB = ("raise", "plane", "rotate", "elbow", "wrist", "flex", "spread", "point", "knee", "toe")
CHANNELS = _TRUNK + tuple(f"left_{name}" for name in _LIMB) + tuple(f"right_{name}" for name in _LIMB)
_INDEX = {name: position for position, name in enumerate(CHANNELS)}
SIDEWAYS = ("side", "turn", "roll", "lean", "twist", "tilt", "look")  # change sign in a mirror

# Range of motion: an elbow and a knee bend one way only.
_RANGE = {
    "hop": (0, 1), "forward": (-9, 9), "side": (-9, 9), "turn": (-3600, 3600), "pitch": (-60, 110),
    "roll": (-45, 45), "bend": (-25, 80), "lean": (-40, 40), "twist": (-60, 60), "nod": (-40, 50),
    "tilt": (-35, 35), "look": (-75, 75),
    "raise": (0, 175), "plane": (-80, 160), "rotate": (-95, 100), "elbow": (0, 150), "wrist": (-70, 80),
    "flex": (-45, 125), "spread": (-30, 60), "point": (-30, 45), "knee": (0, 150), "toe": (-40, 150),
}  # fmt: skip
LIMITS: Array = np.array([_RANGE[name.split("_")[-1]] for name in CHANNELS], dtype=np.float64).T
_ANKLE = (-30.0, 55.0)  # toes up, toes down, against the shank

# ntu25: the parent of each joint, and the segment that holds the bone between them
PARENTS = (-1, 0, 20, 2, 20, 4, 5, 6, 20, 8, 9, 10, 0, 12, 13, 14, 0, 16, 17, 18, 1, 7, 7, 11, 11)
_PELVIS, _SPINE, _CHEST, _HEAD, _ARM, _FOREARM, _HAND, _THIGH, _SHANK, _FOOT = 0, 1, 2, 3, 4, 6, 8, 10, 12, 14
_SEGMENTS = np.array(
    [
        *(_PELVIS, _PELVIS, _CHEST, _HEAD),
        *(_CHEST, _ARM, _FOREARM, _HAND),
        *(_CHEST, _ARM + 1, _FOREARM + 1, _HAND + 1),
        *(_PELVIS, _THIGH, _SHANK, _FOOT),
        *(_PELVIS, _THIGH + 1, _SHANK + 1, _FOOT + 1),
        *(_SPINE, _HAND, _HAND, _HAND + 1, _HAND + 1),
    ]
)

# Rest offsets (x, y, z) from the parent, for 1.75 m; the right side mirrors the left.
_OFFSETS = {
    1: (0, 0.25, 0), 20: (0, 0.23, 0), 2: (0, 0.08, 0), 3: (0, 0.15, 0.02),
    4: (0.175, -0.02, 0), 5: (0, -0.285, 0), 6: (0, -0.25, 0), 7: (0, -0.075, 0),
    21: (0, -0.08, 0), 22: (0, -0.03, 0.045),
    12: (0.085, -0.04, 0), 13: (0, -0.43, 0), 14: (0, -0.41, 0), 15: (0, -0.06, 0.12),
}  # fmt: skip
_RIGHT_OF = {4: 8, 5: 9, 6: 10, 7: 11, 12: 16, 13: 17, 14: 18, 15: 19, 21: 23, 22: 24}
_SOLE = 0.02  # height of the lowest joint above the floor in metres
_CONTACT = 0.004  # metres over which a joint leaves the floor
_FLIGHT = 0.04  # metres of hop, summed over two frames, above which nothing touches the floor
_REACH = 7
_INERTIA = np.exp(-0.5 * (np.arange(-_REACH, _REACH + 1) / 2.0) ** 2)


@dataclass(frozen=True, eq=False)
class Body:
    """Bone offsets of one person, ``[25, 3]`` in metres, upright with hanging arms and toes forward."""

    offsets: Array

    @property
    def arm(self) -> float:
        """Length of the arm from the shoulder to the hand in metres."""
        return float(np.linalg.norm(self.offsets[5:8], axis=1).sum())


def get_channel(name: str) -> int:
    """Return the index of a channel in a pose.

    >>> CHANNELS[get_channel("left_elbow")]
    'left_elbow'
    """
    return _INDEX[name]


def make_body(
    height: float = 1.75, *, arms: float = 1.0, legs: float = 1.0, trunk: float = 1.0, width: float = 1.0
) -> Body:
    """Return the body of a person: ``height`` in metres, the others are factors of the mean bone lengths."""
    offsets = np.zeros((25, 3))
    factors = {4: width, 12: width} | dict.fromkeys((5, 6, 7, 21, 22), arms)
    factors |= dict.fromkeys((13, 14), legs) | dict.fromkeys((1, 20), trunk)
    for joint, offset in _OFFSETS.items():
        offsets[joint] = np.multiply(offset, factors.get(joint, 1.0) * height / 1.75)
        if joint in _RIGHT_OF:
            offsets[_RIGHT_OF[joint]] = offsets[joint] * (-1, 1, 1)
    return Body(offsets)


def mirror_poses(poses: Array) -> Array:
    """Mirror poses ``[..., channel]``: swap left and right limbs, negate sideways channels."""
    swapped = poses.copy()
    left, right = slice(len(_TRUNK), len(_TRUNK) + len(_LIMB)), slice(len(_TRUNK) + len(_LIMB), None)
    swapped[..., left], swapped[..., right] = poses[..., right], poses[..., left]
    swapped[..., [_INDEX[name] for name in SIDEWAYS]] *= -1
    return swapped


def forward_kinematics(poses: Array, body: Body) -> Array:
    """Return joints ``[frame, 25, 3]`` of poses ``[frame, channel]`` at about 30 frames per second.

    The lowest joint of every frame lies on the floor, plus ``hop``. The root starts above the origin and moves so
    that joints on the floor do not slide: walking legs move the body forward. ``forward`` and ``side`` add a
    shift in the direction of ``turn``.
    """
    poses = np.clip(poses, *LIMITS)
    frames = _compute_orientations(np.deg2rad(poses))
    bones = np.einsum("fjab,jb->fja", frames[:, _SEGMENTS], body.offsets)
    joints = np.matmul(_ANCESTORS, bones)
    hop, forward, side, turn = poses[:, [_INDEX[name] for name in ("hop", "forward", "side", "turn")]].T
    cos, sin = np.cos(np.deg2rad(turn)), np.sin(np.deg2rad(turn))
    lowest = joints[..., 1].min(1)
    root = np.stack([forward * sin + side * cos, hop + _SOLE - lowest, forward * cos - side * sin], -1)
    root[1:, ::2] += np.cumsum(_compute_steps(joints, hop), axis=0)
    placed: Array = joints + root[:, None]
    return placed


def _compute_steps(joints: Array, hop: Array) -> Array:
    """Return the horizontal steps ``[frame - 1, 2]`` of the root that keep joints on the floor in place.

    The weight of a joint is exp(-height / 4 mm) above the lowest one. Steps are smoothed over a few frames, like
    the inertia of a body; during a jump the root keeps its velocity.
    """
    height = joints[..., 1] - joints[..., 1].min(1, keepdims=True)
    contact = np.exp(-height / _CONTACT)
    contact = contact[1:] + contact[:-1]
    contact /= contact.sum(1, keepdims=True)
    steps = -np.einsum("fj,fja->af", contact, np.diff(joints[..., ::2], axis=0))
    ground = 1.001 - np.clip((hop[1:] + hop[:-1]) / _FLIGHT, 0, 1)
    share = np.convolve(ground, _INERTIA)[_REACH:-_REACH]
    smooth = [np.convolve(step * ground, _INERTIA)[_REACH:-_REACH] / share for step in steps]
    return np.stack(smooth, -1)


def _build_ancestors() -> Array:
    """Return ``[25, 25]``: 1 if the bone of the second joint is on the path from the root to the first."""
    path = np.zeros((25, 25))
    for joint in range(25):
        ancestor = joint
        while ancestor >= 0:
            path[joint, ancestor] = 1
            ancestor = PARENTS[ancestor]
    return path


_ANCESTORS = _build_ancestors()


def _make_rotation(axis: int, angle: Array) -> Array:
    """Return right-handed rotations ``[..., 3, 3]`` of column vectors about axis 0, 1 or 2, in radians."""
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.zeros((*angle.shape, 3, 3))
    matrix[..., axis, axis] = 1
    matrix[..., first, first] = matrix[..., second, second] = np.cos(angle)
    sine = np.sin(angle)
    matrix[..., second, first], matrix[..., first, second] = sine, -sine
    return matrix


def _compute_orientations(angles: Array) -> Array:
    """Return the orientations ``[frame, segment, 3, 3]`` of the 16 segments for poses in radians.

    Thigh angles are relative to the vertical, not to the pelvis, and feet stay level with the floor within the
    range of the ankle: bending the trunk does not move the legs.
    """
    trunk = {name: angles[:, position] for position, name in enumerate(_TRUNK)}
    limbs = angles[:, len(_TRUNK) :].reshape(len(angles), 2, len(_LIMB))
    limb = {name: limbs[..., position] for position, name in enumerate(_LIMB)}
    out = np.array([1.0, -1.0])  # about y and z the right side rotates in the opposite direction

    heading = _make_rotation(1, trunk["turn"])
    pelvis = heading @ _make_rotation(0, trunk["pitch"]) @ _make_rotation(2, -trunk["roll"])
    half = (
        _make_rotation(1, trunk["twist"] / 2)
        @ _make_rotation(0, trunk["bend"] / 2)
        @ _make_rotation(2, -trunk["lean"] / 2)
    )
    spine = pelvis @ half
    chest = spine @ half
    head = (
        chest
        @ _make_rotation(1, trunk["look"])
        @ _make_rotation(0, trunk["nod"])
        @ _make_rotation(2, -trunk["tilt"])
    )

    plane = out * limb["plane"]
    swing = _make_rotation(1, -plane) @ _make_rotation(2, out * limb["raise"])
    arm = chest[:, None] @ swing @ _make_rotation(1, plane + out * limb["rotate"])
    forearm = arm @ _make_rotation(0, -limb["elbow"])
    hand = forearm @ _make_rotation(0, -limb["wrist"])

    hip = (
        _make_rotation(1, out * limb["point"])
        @ _make_rotation(0, -limb["flex"])
        @ _make_rotation(2, out * limb["spread"])
    )
    thigh = heading[:, None] @ hip
    shank = thigh @ _make_rotation(0, limb["knee"])
    level = np.clip(limb["flex"] - limb["knee"] + limb["toe"], *np.deg2rad(_ANKLE))
    foot = shank @ _make_rotation(0, level)
    single = np.stack([pelvis, spine, chest, head], 1)
    return np.concatenate([single, arm, forearm, hand, thigh, shank, foot], 1)
