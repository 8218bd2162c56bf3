"""Joint angles of a body in degrees: shoulders, elbows, hips, knees and trunk."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.layout import LAYOUTS

__all__ = ["ANGLES", "PAIRS", "compute_angles", "list_known_angles", "measure_ranges"]

CORE = LAYOUTS["core15"]

# A joint angle is the angle between two directions, each from one joint to another. It is 0 for a person who stands
# upright with straight legs and hanging, straight arms. "middle" joints are means of left and right.
_TRUNK = ("neck", "hips")
_DEFINITIONS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    f"{side}_{joint}": pair
    for side in ("left", "right")
    for joint, pair in {
        "shoulder": (_TRUNK, (f"{side}_shoulder", f"{side}_elbow")),
        "elbow": ((f"{side}_shoulder", f"{side}_elbow"), (f"{side}_elbow", f"{side}_hand")),
        "hip": (_TRUNK, (f"{side}_hip", f"{side}_knee")),
        "knee": ((f"{side}_hip", f"{side}_knee"), (f"{side}_knee", f"{side}_foot")),
    }.items()
}

ANGLES = (*_DEFINITIONS, "trunk")
"""Names of the angles, in the order of ``compute_angles``."""

PAIRS = tuple((f"left_{joint}", f"right_{joint}") for joint in ("shoulder", "elbow", "hip", "knee"))
"""Angles of the left and the right side that belong together."""

_POINTS = (*CORE.joints, "hips")
_HIPS = [CORE.index("left_hip"), CORE.index("right_hip")]
_ENDS = torch.tensor(
    [[[_POINTS.index(joint) for joint in line] for line in pair] for pair in _DEFINITIONS.values()]
)  # [angle, 2 directions, from and to]
_TRUNK_ENDS = [_POINTS.index(joint) for joint in _TRUNK]


def compute_angles(joints: Float[Tensor, "*batch 15 3"]) -> Float[Tensor, "*batch 9"]:
    """Return the joint angles of ``core15`` bodies in degrees, from 0 to 180; +y is up.

    - shoulder: between the upper arm and the trunk from neck to hips; 90 is a horizontal arm of an upright person
    - elbow, knee: flexion, 0 is straight
    - hip: between the thigh and the trunk from neck to hips; 90 is a seated person
    - trunk: between the trunk from hips to neck and the vertical
    """
    points = torch.cat([joints, joints[..., _HIPS, :].mean(-2, keepdim=True)], -2)
    lines = points[..., _ENDS[..., 1], :] - points[..., _ENDS[..., 0], :]
    limbs = _compute_angles_between(lines[..., 0, :], lines[..., 1, :])
    trunk = points[..., _TRUNK_ENDS[0], :] - points[..., _TRUNK_ENDS[1], :]
    up = torch.zeros_like(trunk)
    up[..., 1] = 1.0
    return torch.cat([limbs, _compute_angles_between(trunk, up)[..., None]], -1)


def list_known_angles(present: Bool[Tensor, " 15"]) -> Bool[Tensor, " 9"]:
    """Return which angles have all their joints."""
    is_known = torch.cat([present, present[_HIPS].all()[None]])
    return torch.cat([is_known[_ENDS].flatten(1).all(1), is_known[_TRUNK_ENDS].all()[None]])


def measure_ranges(
    angles: Float[Tensor, "frame 9"], present: Bool[Tensor, " 15"]
) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest value of each known angle, in degrees."""
    low, high = angles.amin(0).tolist(), angles.amax(0).tolist()
    is_known = list_known_angles(present).tolist()
    return {name: (low[i], high[i]) for i, name in enumerate(ANGLES) if is_known[i]}


def _compute_angles_between(
    u: Float[Tensor, "*batch 3"], v: Float[Tensor, "*batch 3"]
) -> Float[Tensor, "*batch"]:
    """Return the angle of two directions in degrees; atan2 stays exact for small angles."""
    across = torch.linalg.cross(u, v).norm(dim=-1)
    return torch.rad2deg(torch.atan2(across, (u * v).sum(-1)))
