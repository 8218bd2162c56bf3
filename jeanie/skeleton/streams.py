"""Input streams of an encoder: positions, bones, displacements, velocities and deviations of joints."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.normalise import check_shapes, zero_missing

__all__ = ["Stream", "compute_streams"]

Stream = Literal["joints", "bones", "motion", "velocity", "deviation"]


def compute_streams(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    kinds: Sequence[Stream] = ("joints", "bones", "motion"),
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint feature"]:
    """Return the features of every joint: 3 numbers per stream, in the order of ``kinds``.

    Args:
        kinds: One or more of
            "joints", the position;
            "bones", the position minus the position of the parent joint; 0 for the root of a tree;
            "motion", the position minus the position in the previous frame; 0 in the first frame;
            "velocity", half the displacement from the previous to the next frame; the first and the last frame
            use the full displacement to their only neighbour;
            "deviation", the position minus the mean position of the joint over its valid frames.
        valid: False for missing joints. A feature that needs a missing joint is 0.

    Returns:
        The features. For ("joints",) without a mask this is ``joints`` itself, not a copy.

    Raises:
        ConfigError: ``kinds`` is empty or has an unknown entry.
        ShapeError: The shapes of joints, layout and mask do not agree.
    """
    unknown = [kind for kind in kinds if kind not in get_args(Stream)]
    if unknown or not kinds:
        raise ConfigError(f"streams are one or more of {', '.join(get_args(Stream))}; got {list(kinds)}")
    check_shapes(joints, layout, valid)
    parts = [_STREAMS[kind](joints, valid, layout) for kind in kinds]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _copy_positions(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    return zero_missing(joints, valid)


def _compute_bones(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    parents = [joint if parent < 0 else parent for joint, parent in enumerate(layout.parents)]
    are_valid = None if valid is None else valid & valid[..., parents]
    return zero_missing(joints - joints[..., parents, :], are_valid)


def _compute_displacements(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    steps = joints[..., 1:, :, :] - joints[..., :-1, :, :]
    are_valid = None if valid is None else valid[..., 1:, :] & valid[..., :-1, :]
    return torch.cat([torch.zeros_like(joints[..., :1, :, :]), zero_missing(steps, are_valid)], dim=-3)


def _compute_velocities(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    if joints.shape[-3] == 1:
        return torch.zeros_like(joints)
    steps = _compute_displacements(joints, valid, layout)[..., 1:, :, :]
    are_valid = None if valid is None else valid[..., 2:, :] & valid[..., :-2, :]
    middle = zero_missing((joints[..., 2:, :, :] - joints[..., :-2, :, :]) / 2, are_valid)
    return torch.cat([steps[..., :1, :, :], middle, steps[..., -1:, :, :]], dim=-3)


def _compute_deviations(joints: Tensor, valid: Tensor | None, layout: Layout) -> Tensor:
    if valid is None:
        return joints - joints.mean(-3, keepdim=True)
    count = valid.sum(-2, keepdim=True).clamp_min(1)[..., None]
    mean = zero_missing(joints, valid).sum(-3, keepdim=True) / count
    return zero_missing(joints - mean, valid)


_STREAMS: dict[Stream, Callable[[Tensor, Tensor | None, Layout], Tensor]] = {
    "joints": _copy_positions,
    "bones": _compute_bones,
    "motion": _compute_displacements,
    "velocity": _compute_velocities,
    "deviation": _compute_deviations,
}
