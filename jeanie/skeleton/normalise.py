"""Centre and scale joints. All functions take tensors with any leading axes (paper, Suppl.)."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.resample import interpolate_gaps

__all__ = [
    "Scale",
    "centre",
    "check_shapes",
    "measure_bone_length",
    "resolve_mask",
    "scale",
    "scale_by_bones",
    "zero_missing",
]

Scale = Literal["axis", "body"]
_BONES_PER_UNIT = 4  # four mean bone lengths: about half a person's height


def centre(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Move every frame so that its torso lies at the origin (paper, Suppl., Skeleton Data Preprocessing).

    v'[f, i] = v[f, i] - v[f, torso]

    The torso is the mean of ``layout.centre``. If it is missing in a frame, it is interpolated between the
    neighbouring frames; the first and last known positions extend to the ends. If the torso is missing in all
    frames, the mean of the valid joints of each frame replaces it.

    Args:
        joints: Joints of one body, or of a batch.
        layout: Layout of the joints.
        valid: False for missing joints, which become 0. Without it, no joint is missing.

    Returns:
        The centred joints.

    Raises:
        ShapeError: The shapes of joints, layout and mask do not agree.

    >>> from jeanie import LAYOUTS
    >>> centre(torch.full((60, 25, 3), 2.0), LAYOUTS["ntu25"]).unique()
    tensor([0.])
    """
    valid = resolve_mask(joints, layout, valid)
    joints = torch.where(valid[..., None], joints, 0.0)
    index = list(layout.centre)
    has_torso = valid[..., index].all(-1)
    torso = joints[..., index, :].mean(-2)
    count = valid.sum(-1, keepdim=True).clamp_min(1)
    mean = joints.sum(-2) / count
    filled_torso = interpolate_gaps(torso.movedim(-2, 0), has_torso.movedim(-1, 0)).movedim(0, -2)
    origin = torch.where(has_torso.any(-1, keepdim=True)[..., None], filled_torso, mean)
    return torch.where(valid[..., None], joints - origin[..., None, :], 0.0)


def scale(
    joints: Float[Tensor, "*batch frame joint 3"],
    mode: Scale = "axis",
    layout: Layout | None = None,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Scale coordinates to [-1, 1], separately for each entry of the leading axes (body, view).

    Args:
        joints: Centred joints of one body, or of a batch.
        mode: "axis" divides each axis by its largest |coordinate| over frames and joints (paper, Suppl.); an
            axis of zeros stays 0. "body" divides all axes by the largest of the three and keeps proportions.
        layout: Layout of the joints; checks their number.
        valid: False for missing joints, which are ignored and become 0. If ``joints`` has view axes, the mask
            needs axes of size 1 in their place.

    Returns:
        The scaled joints.

    Raises:
        ConfigError: The mode is unknown.
        ShapeError: The shapes of joints, layout and mask do not agree.

    >>> scale(torch.tensor([[[1.0, 4.0, 0.0], [2.0, -2.0, 0.0]]]))
    tensor([[[ 0.5000,  1.0000,  0.0000],
             [ 1.0000, -0.5000,  0.0000]]])
    """
    if mode not in get_args(Scale):
        raise ConfigError(f"scale is 'axis' or 'body', got {mode!r}")
    check_shapes(joints, layout, valid)
    masked = zero_missing(joints, valid)
    largest = _find_largest_coordinate(masked)
    if mode == "body":
        largest = largest.amax(dim=-1, keepdim=True).expand_as(largest)
    divisor = torch.where(largest > 0, largest, 1.0)
    if masked.stride(-1) == 1:
        # one divisor per coordinate of a frame: a broadcast along the last axis would divide 3 numbers at a time
        divisor = divisor.expand(*divisor.shape[:-2], masked.shape[-2], 3).contiguous()
    is_copy = masked is not joints and not masked.requires_grad  # autograd needs the undivided tensor
    return masked.div_(divisor) if is_copy else masked / divisor


def scale_by_bones(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Divide centred joints by four mean bone lengths, separately for each entry of the leading axes."""
    size = _BONES_PER_UNIT * measure_bone_length(joints, layout, valid)
    return joints / torch.where(size > 0, size, 1.0)[..., None, None, None]


def measure_bone_length(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch"]:
    """Return the mean length over all frames and all bones with two valid ends; 0 without any such bone."""
    if not layout.bones:
        raise ConfigError(f"layout {layout.name!r} has no bones to measure; scale by 'axis' or 'body'")
    valid = resolve_mask(joints, layout, valid)
    parents, children = (list(ends) for ends in zip(*layout.bones, strict=True))
    has_bone = valid[..., parents] & valid[..., children]
    lengths = torch.linalg.vector_norm(joints[..., children, :] - joints[..., parents, :], dim=-1)
    total = torch.where(has_bone, lengths, 0.0).sum(dim=(-2, -1))
    return total / has_bone.sum(dim=(-2, -1)).clamp_min(1)


def zero_missing(joints: Tensor, valid: Tensor | None) -> Tensor:
    """Return joints with 0 in place of missing ones; without a mask, ``joints`` itself."""
    return joints if valid is None else torch.where(valid[..., None], joints, 0.0)


def resolve_mask(
    joints: Float[Tensor, "*batch frame joint 3"], layout: Layout | None, valid: Tensor | None
) -> Bool[Tensor, "*batch frame joint"]:
    """Check the shapes, then return the mask expanded to every joint; all True without a mask."""
    check_shapes(joints, layout, valid)
    if valid is None:
        valid = torch.ones(joints.shape[-3:-1], dtype=torch.bool, device=joints.device)
    return valid.expand(joints.shape[:-1])


def check_shapes(joints: Tensor, layout: Layout | None, valid: Tensor | None) -> None:
    """Raise ShapeError unless the shapes of joints, layout and mask agree."""
    count = joints.shape[-2] if layout is None and joints.ndim > 1 else len(layout or ())
    if joints.ndim < 3 or tuple(joints.shape[-2:]) != (count, 3) or not joints.is_floating_point():
        raise ShapeError(
            f"joints need floats with axes (..., frame, joint, 3){f' and {count} joints' if layout else ''}, "
            f"got {joints.dtype} {tuple(joints.shape)}"
        )
    if valid is None:
        return
    shape = tuple(joints.shape[:-1])
    sizes = zip(reversed(valid.shape), reversed(shape), strict=False)
    fits = valid.ndim <= len(shape) and all(size in (1, full) for size, full in sizes)
    if valid.dtype != torch.bool or not fits:
        raise ShapeError(
            f"valid needs a bool for every (..., frame, joint) {shape}, "
            f"got {valid.dtype} {tuple(valid.shape)}"
        )


def _find_largest_coordinate(joints: Float[Tensor, "*batch frame joint 3"]) -> Float[Tensor, "*batch 1 1 3"]:
    """Return the largest |coordinate| of every axis: max(maximum, -minimum) needs no tensor of all |x|."""
    # frames first if x, y, z are neighbours in memory; both axes at once if each coordinate is a plane
    axes = -3 if joints.stride(-1) == 1 else (-3, -2)
    high, low = joints.amax(axes, keepdim=True), joints.amin(axes, keepdim=True)
    return torch.maximum(high, -low).amax(-2, keepdim=True)
