"""Facing normalisation: bodies turned towards the camera, for baselines that align no views."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.preprocess import checked
from jeanie.skeleton.timing import bridge

__all__ = ["Scope", "across", "depth_axis", "face", "turned"]

Scope = Literal["frame", "block", "clip"]


def face(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    per: Scope = "clip",
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Centred joints turned about the up axis so that the body looks into the camera.

    The line from left to right (shoulders plus hips, see ``across``) becomes parallel to +x, the side where
    someone who faces the camera has the right hand (right-handed camera space, +z away from the camera). With
    the line's horizontal direction (c, s), c^2 + s^2 = 1, along x and depth:

        x' = c x + s depth,    depth' = c depth - s x

    ``per`` says which frames share a turn: "frame" turns each by its own line; "clip" turns all frames of a
    motion by their mean line; "block" does the same for blocks ``[..., block, length, joint, 3]``, whose
    frames are those of one block. Frames without shoulders and hips follow the frames around them; a body
    that never shows them is not turned. Missing joints stay 0.
    """
    if per not in get_args(Scope):
        raise ConfigError(f"per is one of {', '.join(get_args(Scope))}; got {per!r}")
    if layout.dims != 3:
        raise ConfigError(
            f"facing needs depth, layout {layout.name!r} has {layout.dims} dimensions; lift it first"
        )
    valid = checked(joints, layout, valid)
    joints = torch.where(valid[..., None], joints, 0.0)
    depth = depth_axis(layout)
    line = across(joints, layout, valid)[..., [0, depth]]
    if per == "frame":
        seen = (line != 0).any(-1)
        line = bridge(line.movedim(-2, 0), seen.movedim(-1, 0)).movedim(0, -2)
    else:
        line = line.sum(-2, keepdim=True)  # a mean's direction is the sum's
    return turned(joints, line, depth)


def turned(
    joints: Float[Tensor, "*batch frame joint 3"], line: Float[Tensor, "*batch #frame 2"], depth: int
) -> Float[Tensor, "*batch frame joint 3"]:
    """Joints turned about the up axis so that a line (x, depth) of theirs becomes parallel to +x.

    ``depth`` is the number of the depth axis. Where the line is (0, 0) nothing is turned.
    """
    size = torch.linalg.vector_norm(line, dim=-1, keepdim=True)
    known = size > 0
    unit = torch.where(known, line / torch.where(known, size, 1.0), line.new_tensor([1.0, 0.0]))
    c, s = unit[..., None, 0], unit[..., None, 1]
    seen = joints.clone()
    seen[..., 0] = c * joints[..., 0] + s * joints[..., depth]
    seen[..., depth] = c * joints[..., depth] - s * joints[..., 0]
    return seen


def depth_axis(layout: Layout) -> int:
    """Which of the three coordinates is the depth."""
    return 2 if layout.up == "y" else 1


def across(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame 3"]:
    """The body's line from left to right in every frame, shoulders plus hips.

    A pair with a missing joint adds nothing; a frame without either pair has no line, that is (0, 0, 0).
    """
    valid = checked(joints, layout, valid)
    pairs = [
        (layout.index(f"left_{part}"), layout.index(f"right_{part}"))
        for part in ("shoulder", "hip")
        if {f"left_{part}", f"right_{part}"} <= set(layout.joints)
    ]
    if not pairs:
        raise ConfigError(
            f"layout {layout.name!r} has neither shoulders nor hips: it has no facing direction"
        )
    left, right = (list(side) for side in zip(*pairs, strict=True))
    there = valid[..., left] & valid[..., right]
    lines = torch.where(there[..., None], joints[..., right, :] - joints[..., left, :], 0.0)
    return lines.sum(-2)
