"""Centring, scaling and input streams of joints: tensors with any leading axes (paper, Suppl.)."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.timing import bridge

__all__ = ["Scale", "Stream", "centre", "scale", "streams"]

Scale = Literal["axis", "body"]
Stream = Literal["joints", "bones", "motion", "velocity", "deviation"]


def centre(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Every frame moved so that its torso lies at the origin (paper, Suppl., Skeleton Data Preprocessing).

    v'[f, i] = v[f, i] - v[f, torso]

    The torso is the mean of ``layout.centre``. In frames where it is missing it is taken on the straight line
    between the frames around, or as in the nearest frame at the ends; a body whose torso is never seen is
    centred on the mean of each frame's valid joints. Missing joints are 0. Without ``valid`` none is missing.
    """
    valid = checked(joints, layout, valid)
    joints = torch.where(valid[..., None], joints, 0.0)
    index = list(layout.centre)
    seen = valid[..., index].all(-1)
    torso = joints[..., index, :].mean(-2)
    ever = seen.any(-1, keepdim=True)
    count = valid.sum(-1, keepdim=True).clamp_min(1)
    middle = joints.sum(-2) / count
    known = bridge(torso.movedim(-2, 0), seen.movedim(-1, 0)).movedim(0, -2)
    origin = torch.where(ever[..., None], known, middle)
    return torch.where(valid[..., None], joints - origin[..., None, :], 0.0)


def scale(
    joints: Float[Tensor, "*batch frame joint 3"],
    mode: Scale = "axis",
    layout: Layout | None = None,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Coordinates in [-1, 1], body by body and view by view (each entry of the leading axes by itself).

    "axis": each axis by its own largest |coordinate| over frames and joints (paper, Suppl.); an axis of
    zeros stays 0. "body": all axes by the largest of the three, which keeps proportions. Missing joints
    do not count and are 0. A mask without view axes needs axes of size 1 in their place.
    """
    if mode not in get_args(Scale):
        raise ConfigError(f"scale is 'axis' or 'body', got {mode!r}")
    check(joints, layout, valid)
    kept = _kept(joints, valid)
    largest = _largest(kept)
    if mode == "body":
        largest = largest.amax(dim=-1, keepdim=True).expand_as(largest)
    divisor = torch.where(largest > 0, largest, 1.0)
    if kept.stride(-1) == 1:
        # one divisor a coordinate of a frame: a broadcast along the last axis would divide 3 numbers at a time
        divisor = divisor.expand(*divisor.shape[:-2], kept.shape[-2], 3).contiguous()
    fresh = kept is not joints and not kept.requires_grad  # autograd would still need the undivided one
    return kept.div_(divisor) if fresh else kept / divisor


def streams(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    kinds: Sequence[Stream] = ("joints", "bones", "motion"),
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint feature"]:
    """What an encoder sees of every joint, 3 numbers a stream, in the order of ``kinds``.

    "joints" the position; "bones" the position less that of the joint it hangs from, 0 for the top of a tree;
    "motion" the position less that of the frame before, 0 in the first frame; "velocity" half the way from the
    frame before to the frame after, at the ends the whole way to the only neighbour; "deviation" the position less
    the joint's mean over the frames where it is seen. What needs a missing joint is 0. The positions alone and
    without a mask are ``joints`` itself, not a copy.
    """
    unknown = [kind for kind in kinds if kind not in get_args(Stream)]
    if unknown or not kinds:
        raise ConfigError(f"streams are one or more of {', '.join(get_args(Stream))}; got {list(kinds)}")
    check(joints, layout, valid)
    parts = [_STREAMS[kind](joints, valid, layout) for kind in kinds]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _kept(joints: Tensor, valid: Tensor | None) -> Tensor:
    return joints if valid is None else torch.where(valid[..., None], joints, 0.0)


def _positions(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    return _kept(joints, valid)


def _bones(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    parents = [joint if parent < 0 else parent for joint, parent in enumerate(layout.parents)]
    there = None if valid is None else valid & valid[..., parents]
    return _kept(joints - joints[..., parents, :], there)


def _motion(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    steps = joints[..., 1:, :, :] - joints[..., :-1, :, :]
    there = None if valid is None else valid[..., 1:, :] & valid[..., :-1, :]
    moved = _kept(steps, there)
    return torch.cat([torch.zeros_like(joints[..., :1, :, :]), moved], dim=-3)


def _velocity(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    if joints.shape[-3] == 1:
        return torch.zeros_like(joints)
    steps = _motion(joints, valid, layout)[..., 1:, :, :]
    around = None if valid is None else valid[..., 2:, :] & valid[..., :-2, :]
    middle = _kept((joints[..., 2:, :, :] - joints[..., :-2, :, :]) / 2, around)
    return torch.cat([steps[..., :1, :, :], middle, steps[..., -1:, :, :]], dim=-3)


def _deviation(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    if valid is None:
        return joints - joints.mean(-3, keepdim=True)
    mean = _kept(joints, valid).sum(-3, keepdim=True) / valid.sum(-2, keepdim=True).clamp_min(1)[..., None]
    return _kept(joints - mean, valid)


_STREAMS: dict[Stream, Callable[[Tensor, Tensor | None, Layout], Tensor]] = {
    "joints": _positions,
    "bones": _bones,
    "motion": _motion,
    "velocity": _velocity,
    "deviation": _deviation,
}


def _largest(joints: Float[Tensor, "*batch frame joint 3"]) -> Float[Tensor, "*batch 1 1 3"]:
    """Largest |coordinate| of every axis: the larger of maximum and -minimum, without a tensor of all |x|."""
    # over frames first where x, y, z are neighbours in memory, at once where each axis is a plane of its own
    axes = -3 if joints.stride(-1) == 1 else (-3, -2)
    high, low = joints.amax(axes, keepdim=True), joints.amin(axes, keepdim=True)
    return torch.maximum(high, -low).amax(-2, keepdim=True)


def check(joints: Tensor, layout: Layout | None, valid: Tensor | None) -> None:
    """Raise unless the shapes of joints, layout and mask agree."""
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


def checked(
    joints: Float[Tensor, "*batch frame joint 3"], layout: Layout | None, valid: Tensor | None
) -> Bool[Tensor, "*batch frame joint"]:
    """The mask of every joint, all True where none is given, once the shapes agree."""
    check(joints, layout, valid)
    if valid is None:
        valid = torch.ones(joints.shape[-3:-1], dtype=torch.bool, device=joints.device)
    return valid.expand(joints.shape[:-1])
