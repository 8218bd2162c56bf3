"""Temporal blocks: a motion as overlapping windows of M frames, a stride of S frames apart."""

import math

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError

__all__ = ["block_counts", "blocks", "starts", "stride_of"]


def stride_of(length: int, stride_ratio: float) -> int:
    """Frames from one block's start to the next: S = max(1, round(p M)).

    >>> stride_of(8, 0.6)
    5
    """
    if length < 1 or not 0 < stride_ratio < float("inf"):
        raise ConfigError(
            f"a block has length 1 or more and stride_ratio above 0, got {length} and {stride_ratio}"
        )
    return max(1, round(stride_ratio * length))


def block_counts(
    frames: int | Int[Tensor, " *batch"], length: int = 8, stride: int = 5
) -> Int[Tensor, " *batch"]:
    """Number of blocks tau of motions of so many frames: 1 + ceil((T - M) / S), at least 1."""
    if length < 1 or stride < 1:
        raise ConfigError(f"length and stride are 1 frame or more, got {length} and {stride}")
    beyond = (torch.as_tensor(frames) - length).clamp_min(0)
    return 1 + torch.div(beyond + stride - 1, stride, rounding_mode="floor")


def starts(frames: int, length: int = 8, stride: int = 5) -> Int[Tensor, " block"]:
    """First frames of the blocks: 0, S, 2S, ... and one last block that ends at the last frame.

    >>> starts(20, length=8, stride=5).tolist()
    [0, 5, 10, 12]
    """
    if frames < 1:
        raise ShapeError(f"a motion has at least 1 frame, got {frames}")
    count = int(block_counts(frames, length, stride))
    return (torch.arange(count) * stride).clamp_max(max(frames - length, 0))


def blocks(
    joints: Shaped[Tensor, "*batch frame joint feature"],
    length: int = 8,
    stride_ratio: float = 0.6,
    lengths: Int[Tensor, " *clips"] | None = None,
) -> Shaped[Tensor, "*batch block length joint feature"]:
    """Blocks of ``length`` frames, ``stride_of(length, stride_ratio)`` apart; see ``starts``.

    A motion shorter than a block repeats its last frame. For batches of different lengths, ``lengths`` counts
    the real frames and its axes are the first ones of ``joints``: each motion is cut as it would be alone,
    what lies behind its end never enters, and blocks past ``block_counts(lengths, ...)`` are 0. A mask
    ``[..., frame, joint]`` is cut the same way as ``blocks(valid[..., None])[..., 0]``.
    """
    if joints.ndim < 3 or joints.shape[-3] < 1:
        raise ShapeError(f"joints need axes (..., frame, joint, feature), got shape {tuple(joints.shape)}")
    stride = stride_of(length, stride_ratio)
    frames = torch.tensor(joints.shape[-3], device=joints.device)
    lengths = frames if lengths is None else _checked(lengths, joints)
    counts = block_counts(lengths, length, stride)
    block = torch.arange(int(counts.max()), device=joints.device)
    first = torch.minimum(block * stride, (lengths[..., None] - length).clamp_min(0))
    window = torch.arange(length, device=joints.device)
    cut = _take(joints, torch.minimum(first[..., None] + window, lengths[..., None, None] - 1))
    *clip, past = torch.nonzero(block >= counts[..., None], as_tuple=True)
    between: list[slice | Tensor] = [slice(None)] * (joints.ndim - lengths.ndim - 3)
    cut[(*clip, *between, past)] = 0
    return cut


def _take(
    joints: Shaped[Tensor, "*batch frame joint feature"], index: Int[Tensor, "*clips block length"]
) -> Shaped[Tensor, "*batch block length joint feature"]:
    """Frames ``index`` of every motion, where the axes ``clips`` are the first ones of ``batch``.

    Frames are copied as whole rows of memory. Simulated views hold each coordinate as a plane
    [..., feature, frame, joint]; theirs are cut plane by plane, and stay planes.
    """
    planes = joints.movedim(-1, -3)
    source = planes if planes.is_contiguous() else joints.flatten(-2)
    *series, frames, width = source.shape
    clips = index.shape[:-2]
    count = math.prod(series)
    begin = torch.arange(count, device=index.device).reshape(*series, 1) * frames
    rows = begin + index.reshape(*clips, *[1] * (len(series) - len(clips)), -1)
    taken = source.reshape(count * frames, width).index_select(0, rows.flatten())
    taken = taken.reshape(*series, *index.shape[-2:], width)
    return taken.movedim(-4, -1) if source is planes else taken.unflatten(-1, joints.shape[-2:])


def _checked(lengths: Int[Tensor, " *clips"], joints: Tensor) -> Int[Tensor, " *clips"]:
    lengths = torch.as_tensor(lengths, device=joints.device)
    frames = joints.shape[-3]
    fits = lengths.ndim <= joints.ndim - 3 and lengths.shape == joints.shape[: lengths.ndim]
    if lengths.is_floating_point() or lengths.dtype == torch.bool or not fits:
        raise ShapeError(
            f"lengths needs whole numbers with the first axes of joints {tuple(joints.shape[:-3])}, "
            f"got {lengths.dtype} {tuple(lengths.shape)}"
        )
    if lengths.numel() == 0 or bool((lengths < 1).any()) or bool((lengths > frames).any()):
        raise ShapeError(f"lengths are 1 to the {frames} frames of joints, got {lengths.tolist()}")
    return lengths.long()
