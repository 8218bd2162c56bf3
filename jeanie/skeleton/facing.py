"""Direction normalisation: rotate bodies about the up axis, for baselines without view alignment."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.normalise import resolve_mask
from jeanie.skeleton.resample import interpolate_gaps

__all__ = [
    "Scope",
    "compute_lateral_axis",
    "compute_travel_direction",
    "face",
    "find_depth_axis",
    "rotate_to_travel",
]

Scope = Literal["frame", "block", "clip"]


def face(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    per: Scope = "clip",
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Rotate centred joints about the up axis so that the body faces the camera.

    The line from left to right (see ``compute_lateral_axis``) becomes parallel to +x, the side where a person
    who faces the camera has the right hand (right-handed camera space, +z away from the camera). With the
    horizontal direction (c, s) of the line, c^2 + s^2 = 1, along x and depth:

        x' = c x + s depth,    depth' = c depth - s x

    Args:
        per: Frames that share a rotation. "frame" rotates each frame by its own line. "clip" rotates all
            frames of a motion by their mean line. "block" does the same for blocks
            ``[..., block, length, joint, 3]``.
        valid: False for missing joints, which become 0. A frame without shoulders and hips uses the
            neighbouring frames; a body without any such frame is not rotated.

    Raises:
        ConfigError: The layout has 2 dimensions, or neither shoulders nor hips.
    """
    if per not in get_args(Scope):
        raise ConfigError(f"per is one of {', '.join(get_args(Scope))}; got {per!r}")
    if layout.dims != 3:
        raise ConfigError(
            f"facing needs depth, layout {layout.name!r} has {layout.dims} dimensions; lift it first"
        )
    valid = resolve_mask(joints, layout, valid)
    joints = torch.where(valid[..., None], joints, 0.0)
    depth = find_depth_axis(layout)
    line = compute_lateral_axis(joints, layout, valid)[..., [0, depth]]
    if per == "frame":
        has_line = (line != 0).any(-1)
        line = interpolate_gaps(line.movedim(-2, 0), has_line.movedim(-1, 0)).movedim(0, -2)
    else:
        line = line.sum(-2, keepdim=True)  # the sum has the direction of the mean
    return _rotate_line_to_x(joints, line, depth)


def rotate_to_travel(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Rotate joints about the up axis so that the torso travels along +x (right-handed, +z away from the camera).

    All frames of a leading index share a rotation: pass a motion, or its blocks
    ``[..., block, length, joint, 3]``. Missing joints become 0. A body that does not travel is not rotated.
    """
    if layout.dims != 3:
        raise ConfigError(
            f"the direction of travel needs depth, layout {layout.name!r} has {layout.dims} dimensions; lift it first"
        )
    valid = resolve_mask(joints, layout, valid)
    depth = find_depth_axis(layout)
    line = compute_travel_direction(joints, layout, valid)[..., None, [0, depth]]
    return _rotate_line_to_x(torch.where(valid[..., None], joints, 0.0), line, depth)


def compute_lateral_axis(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame 3"]:
    """Return the vector from left to right in every frame: shoulders plus hips.

    A pair with a missing joint adds nothing. A frame without both pairs has (0, 0, 0).
    """
    valid = resolve_mask(joints, layout, valid)
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
    has_both = valid[..., left] & valid[..., right]
    lines = torch.where(has_both[..., None], joints[..., right, :] - joints[..., left, :], 0.0)
    return lines.sum(-2)


def compute_travel_direction(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch 3"]:
    """Return the direction in which the torso travels: the slope of a linear fit of its position over time.

    sum over frames f of (f - mean f) torso[f], over frames with a valid torso, the mean of ``layout.centre``

    The joints must not be centred on the torso. If the torso does not move, or is visible only once, the result is
    (0, 0, 0).
    """
    valid = resolve_mask(joints, layout, valid)
    index = list(layout.centre)
    is_visible = valid[..., index].all(-1).to(joints.dtype)
    torso = joints[..., index, :].mean(-2)
    count = is_visible.sum(-1, keepdim=True).clamp_min(1)
    time = torch.arange(joints.shape[-3], device=joints.device, dtype=joints.dtype)
    centred_time = (time - (is_visible * time).sum(-1, keepdim=True) / count) * is_visible
    mean = (is_visible[..., None] * torso).sum(-2, keepdim=True) / count[..., None]
    # without the mean, far from the origin, the sum would be a small difference of large numbers
    return (centred_time[..., None] * (torso - mean)).sum(-2)


def find_depth_axis(layout: Layout) -> int:
    """Return the index of the depth coordinate."""
    return 2 if layout.up == "y" else 1


def _rotate_line_to_x(
    joints: Float[Tensor, "*batch frame joint 3"], line: Float[Tensor, "*batch #frame 2"], depth: int
) -> Float[Tensor, "*batch frame joint 3"]:
    """Rotate joints about the up axis so that the line (x, depth) becomes parallel to +x.

    ``depth`` is the index of the depth axis. A line of (0, 0) rotates nothing.
    """
    size = torch.linalg.vector_norm(line, dim=-1, keepdim=True)
    has_length = size > 0
    unit = torch.where(has_length, line / torch.where(has_length, size, 1.0), line.new_tensor([1.0, 0.0]))
    c, s = unit[..., None, 0], unit[..., None, 1]
    rotated = joints.clone()
    rotated[..., 0] = c * joints[..., 0] + s * joints[..., depth]
    rotated[..., depth] = c * joints[..., depth] - s * joints[..., 0]
    return rotated
