"""Body size: lengths of bones, by which recordings of different people and sensors are brought to one scale."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.preprocess import checked

__all__ = ["bone_length", "by_bones"]

_BONES = 4  # mean bone lengths that make 1: about half a person's height


def bone_length(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch"]:
    """Mean length of the bones over frames, bone by bone where both ends are seen; 0 where none ever is."""
    if not layout.bones:
        raise ConfigError(f"layout {layout.name!r} has no bones to measure; scale by 'axis' or 'body'")
    valid = checked(joints, layout, valid)
    parents, children = (list(ends) for ends in zip(*layout.bones, strict=True))
    seen = valid[..., parents] & valid[..., children]
    lengths = torch.linalg.vector_norm(joints[..., children, :] - joints[..., parents, :], dim=-1)
    total = torch.where(seen, lengths, 0.0).sum(dim=(-2, -1))
    return total / seen.sum(dim=(-2, -1)).clamp_min(1)


def by_bones(
    joints: Float[Tensor, "*batch frame joint 3"],
    layout: Layout,
    valid: Bool[Tensor, "*#batch frame joint"] | None = None,
) -> Float[Tensor, "*batch frame joint 3"]:
    """Centred joints in units of four mean bone lengths, each entry of the leading axes by its own body."""
    size = _BONES * bone_length(joints, layout, valid)
    return joints / torch.where(size > 0, size, 1.0)[..., None, None, None]
