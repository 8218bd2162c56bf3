"""The normal body: 15 core joints and the body's path, the same whoever moves, wherever, however turned and sized.

A body is centred between its shoulders and hips, divided by its size and turned to face the camera, so that place,
stature and direction are gone; layout and frame rate do not matter.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.conversion import convert
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.timing import bridge

__all__ = ["BODY", "averaged", "centres", "normal_body", "normalise", "turned", "with_path"]

CORE = LAYOUTS["core15"]
BODY = Layout("body16", (*CORE.joints, "path"), CORE.bones, CORE.pairs, CORE.root, CORE.torso)
"""The core and, as its last joint, the way of the body's centre."""

_LEFT = [CORE.index("left_shoulder"), CORE.index("left_hip")]
_RIGHT = [CORE.index("right_shoulder"), CORE.index("right_hip")]
_PARENT, _CHILD = (list(side) for side in zip(*CORE.bones, strict=True))
# Lengths of the bones in the order of CORE.bones, as shares of the unit in which bodies are measured (four mean
# bones): the mean over motion capture and synthetic bodies. They let a body without legs be measured by its arms.
_LENGTHS = (0.103, 0.218, 0.163, 0.242, 0.226, 0.163, 0.242, 0.226, 0.226, 0.346, 0.387, 0.226, 0.346, 0.387)
_TAPS = 5  # readings of one moment
_PATH = 0.5  # the body's path counts less than its limbs
_FACED = 0.02  # a shorter line across the body says nothing about where it faces


def normal_body(
    motion: Motion, frames: int, dtype: torch.dtype = torch.float32
) -> tuple[Float[Tensor, "{frames} person 16 3"], Bool[Tensor, "{frames} person 16"]]:
    """Every person of a motion as a normal body at ``frames`` moments, and which joints were seen at all.

    Two persons are turned to face each other, one alone as the shoulders and hips tell.
    """
    joints, present = sampled(motion, frames, dtype)
    if len(joints) == 2 and bool(present.any(1).all()):
        body, path = normalise(joints, present, partner=centres(joints, present).flip(0))
    else:
        body, path = normalise(joints, present)
    whole, valid = with_path(body, path, present)
    return whole.transpose(0, 1), valid.expand(frames, *valid.shape)


def with_path(
    body: Float[Tensor, "batch frame 15 3"],
    path: Float[Tensor, "batch frame 3"],
    present: Bool[Tensor, "batch 15"],
) -> tuple[Float[Tensor, "batch frame 16 3"], Bool[Tensor, "batch 16"]]:
    """Bodies with the path of their centre as a sixteenth joint, and which joints are there."""
    there = present.any(1, keepdim=True)
    return (
        torch.cat([body, _PATH * path[:, :, None] * there[..., None, None]], 2),
        torch.cat([present, there], 1),
    )


def sampled(
    motion: Motion, frames: int, dtype: torch.dtype = torch.float32
) -> tuple[Float[Tensor, "person {frames} 15 3"], Bool[Tensor, "person 15"]]:
    """Core joints at ``frames`` evenly spaced moments, and which of them were seen at all.

    Frames without any joint are left out, other gaps are bridged by straight lines; who is never seen is 0.
    """
    core = convert(motion, CORE)
    if core.layout.up == "z":
        x, y, z = core.joints.unbind(-1)
        core = core.replace(joints=torch.stack([x, z, -y], -1))
    seen = core.valid.flatten(1).any(1)
    joints, valid = (core.joints[seen], core.valid[seen]) if bool(seen.any()) else (core.joints, core.valid)
    return averaged(bridge(joints.to(dtype), valid).movedim(1, 0), frames), valid.any(0)


def averaged(
    joints: Float[Tensor, "*batch time joint 3"], frames: int
) -> Float[Tensor, "*batch {frames} joint 3"]:
    """Means over ``frames`` equal shares of time of the lines between frames: long clips lose noise, not motion."""
    last = joints.shape[-3] - 1
    middle = torch.linspace(0, last, frames, dtype=joints.dtype, device=joints.device)
    taps = torch.linspace(-0.5, 0.5, _TAPS, dtype=joints.dtype, device=joints.device) * (last / frames)
    at = (middle[:, None] + taps).clamp(0, last).flatten()
    low = at.floor().long()
    share = (at - low)[:, None, None]
    read = joints[..., low, :, :] * (1 - share) + joints[..., (low + 1).clamp_max(last), :, :] * share
    means: Tensor = read.unflatten(-3, (frames, _TAPS)).mean(-3)
    return means


def normalise(
    joints: Float[Tensor, "batch frame 15 3"],
    present: Bool[Tensor, "batch 15"],
    partner: Float[Tensor, "batch frame 3"] | None = None,
) -> tuple[Float[Tensor, "batch frame 15 3"], Float[Tensor, "batch frame 3"]]:
    """Bodies centred in every frame, of unit size, turned to face the camera; and the paths of their centres.

    Size is the sum of the bones' mean lengths over the sum of the same bones' usual lengths. A body faces where
    its shoulders and hips say, on the mean of the clip. With a ``partner``'s centre it faces the partner (of
    persons seen from the side, shoulders are not reliable) and its path is the way relative to the partner.
    """
    centre = centres(joints, present)
    known = (present[:, _PARENT] & present[:, _CHILD]).to(joints.dtype)
    lengths = (joints[:, :, _CHILD] - joints[:, :, _PARENT]).norm(dim=-1).mean(1)
    size = (lengths * known).sum(1) / (known * joints.new_tensor(_LENGTHS)).sum(1).clamp_min(1e-6)
    size = torch.where(size > 1e-6, size, 1.0)[:, None, None]
    body = (joints - centre[:, :, None]) / size[..., None] * present[:, None, :, None]
    path = centre if partner is None else centre - partner
    path = (path - path.mean(1, keepdim=True)) / size
    if partner is None:
        there = (present[:, _LEFT] & present[:, _RIGHT])[:, None, :, None]
        line = ((body[:, :, _RIGHT] - body[:, :, _LEFT]) * there).sum(2).mean(1)[:, [0, 2]]
    else:
        ahead = ((partner - centre).mean(1) / size[:, 0])[:, [0, 2]]
        line = torch.stack([-ahead[:, 1], ahead[:, 0]], -1)  # who looks along -z has the right hand along +x
    reach = line.norm(dim=-1, keepdim=True)
    unit = torch.where(reach > _FACED, line / reach.clamp_min(_FACED), line.new_tensor([1.0, 0.0]))
    return _about_y(body, unit), _about_y(path[:, :, None], unit)[:, :, 0]


def centres(
    joints: Float[Tensor, "batch frame 15 3"], present: Bool[Tensor, "batch 15"]
) -> Float[Tensor, "batch frame 3"]:
    """Mean of shoulders and hips, of those that are present; without any of them, of all joints that are."""
    trunk = torch.zeros_like(present)
    trunk[:, _LEFT + _RIGHT] = present[:, _LEFT + _RIGHT]
    trunk = torch.where(trunk.any(1, keepdim=True), trunk, present)
    weight = trunk / trunk.sum(1, keepdim=True).clamp_min(1)
    return torch.einsum("bj,bfjc->bfc", weight.to(joints.dtype), joints)


def turned(
    joints: Float[Tensor, "batch frame joint 3"], yaw_rad: Float[Tensor, " batch"]
) -> Float[Tensor, "batch frame joint 3"]:
    """Motions turned about the vertical by an angle each: x' = c x + s z, z' = c z - s x."""
    return _about_y(joints, torch.stack([yaw_rad.cos(), yaw_rad.sin()], -1))


def _about_y(
    joints: Float[Tensor, "batch frame joint 3"], unit: Float[Tensor, "batch 2"]
) -> Float[Tensor, "batch frame joint 3"]:
    c, s = unit[:, None, None, 0], unit[:, None, None, 1]
    x, y, z = joints.unbind(-1)
    return torch.stack([c * x + s * z, y, c * z - s * x], -1)
