"""Trajectory normalisation: motions turned by the way that the torso goes, for baselines that align no views."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.skeleton.facing import depth_axis, turned
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.preprocess import checked

__all__ = ["face_travel", "travel"]


def travel(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch 3"]:
    """The direction in which the torso travels: the slope of the straight line that follows it best in time.

    sum over frames f of (f - mean f) torso[f], in frames where the torso, the mean of ``layout.centre``, is seen

    The joints must not be centred on the torso. A torso that stands still, or is seen once, has (0, 0, 0).
    """
    valid = checked(joints, layout, valid)
    index = list(layout.centre)
    seen = valid[..., index].all(-1).to(joints.dtype)
    torso = joints[..., index, :].mean(-2)
    count = seen.sum(-1, keepdim=True).clamp_min(1)
    time = torch.arange(joints.shape[-3], device=joints.device, dtype=joints.dtype)
    late = (time - (seen * time).sum(-1, keepdim=True) / count) * seen
    middle = (seen[..., None] * torso).sum(-2, keepdim=True) / count[..., None]
    # without its mean, far from the origin, the sum would be a small difference of large numbers
    return (late[..., None] * (torso - middle)).sum(-2)


def face_travel(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Joints turned about the up axis so that the torso travels along +x (right-handed, +z away from the camera).

    Frames that share leading axes share a turn: give a motion, or its blocks ``[..., block, length, joint, 3]``.
    Missing joints stay 0; a body that does not travel is not turned.
    """
    if layout.dims != 3:
        raise ConfigError(
            f"a trajectory's angle needs depth, layout {layout.name!r} has {layout.dims} dimensions; lift it first"
        )
    valid = checked(joints, layout, valid)
    depth = depth_axis(layout)
    line = travel(joints, layout, valid)[..., None, [0, depth]]
    return turned(torch.where(valid[..., None], joints, 0.0), line, depth)
