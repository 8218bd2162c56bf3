"""Temporal blocks: overlapping windows of M frames with a stride of S frames."""

import math

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError

__all__ = ["blocks", "compute_stride", "count_blocks", "list_block_starts"]


def compute_stride(length: int, stride_ratio: float) -> int:
    """Return the stride in frames between block starts: S = max(1, round(p M)).

    >>> compute_stride(8, 0.6)
    5
    """
    if length < 1 or not 0 < stride_ratio < float("inf"):
        raise ConfigError(
            f"a block needs a length of 1 or more and a stride_ratio above 0, got {length} and {stride_ratio}"
        )
    return max(1, round(stride_ratio * length))


def count_blocks(
    frames: int | Int[Tensor, " *batch"], length: int = 8, stride: int = 5
) -> Int[Tensor, " *batch"]:
    """Return the number of blocks tau of motions with T frames: 1 + ceil((T - M) / S), at least 1."""
    if length < 1 or stride < 1:
        raise ConfigError(f"length and stride need 1 frame or more, got {length} and {stride}")
    excess = (torch.as_tensor(frames) - length).clamp_min(0)
    return 1 + torch.div(excess + stride - 1, stride, rounding_mode="floor")


def list_block_starts(frames: int, length: int = 8, stride: int = 5) -> Int[Tensor, " block"]:
    """Return the first frame of each block: 0, S, 2S, ...; the last block ends at the last frame.

    >>> list_block_starts(20, length=8, stride=5).tolist()
    [0, 5, 10, 12]
    """
    if frames < 1:
        raise ShapeError(f"a motion has at least 1 frame, got {frames}")
    count = int(count_blocks(frames, length, stride))
    return (torch.arange(count) * stride).clamp_max(max(frames - length, 0))


def blocks(
    joints: Shaped[Tensor, "*batch frame joint feature"],
    length: int = 8,
    stride_ratio: float = 0.6,
    lengths: Int[Tensor, " *clips"] | None = None,
) -> Shaped[Tensor, "*batch block length joint feature"]:
    """Cut motions into blocks of ``length`` frames; see ``list_block_starts``.

    A motion shorter than a block repeats its last frame. For a mask ``[..., frame, joint]`` use
    ``blocks(valid[..., None])[..., 0]``.

    Args:
        joints: Joints of one motion, or of a batch; any number of features per joint.
        length: Frames per block.
        stride_ratio: Stride as a fraction of ``length``; see ``compute_stride``.
        lengths: Number of frames of each motion in a padded batch. Its axes are the first axes of ``joints``. On the
            host they cost no synchronisation with the device of ``joints``.
            Blocks contain no padding, and blocks after ``count_blocks(lengths, ...)`` are 0.

    Returns:
        The blocks.

    Raises:
        ConfigError: The length or the stride is out of range.
        ShapeError: ``joints`` or ``lengths`` has the wrong shape or values.

    >>> blocks(torch.zeros(20, 25, 3)).shape
    torch.Size([4, 8, 25, 3])
    """
    if joints.ndim < 3 or joints.shape[-3] < 1:
        raise ShapeError(f"joints need axes (..., frame, joint, feature), got shape {tuple(joints.shape)}")
    stride = compute_stride(length, stride_ratio)
    # all sizes are computed where the lengths are: on the host, nothing waits for a device
    lengths = torch.tensor(joints.shape[-3]) if lengths is None else _check_lengths(lengths, joints)
    counts = count_blocks(lengths, length, stride)
    block = torch.arange(int(counts.max()), device=lengths.device)
    first = torch.minimum(block * stride, (lengths[..., None] - length).clamp_min(0))
    offset = torch.arange(length, device=lengths.device)
    frames = torch.minimum(first[..., None] + offset, lengths[..., None, None] - 1)
    windows = _take_frames(joints, frames.to(joints.device, non_blocking=True))
    *clip, past = torch.nonzero(block >= counts[..., None], as_tuple=True)
    other_axes: list[slice | Tensor] = [slice(None)] * (joints.ndim - lengths.ndim - 3)
    windows[(*clip, *other_axes, past)] = 0
    return windows


def _take_frames(
    joints: Shaped[Tensor, "*batch frame joint feature"], index: Int[Tensor, "*clips block length"]
) -> Shaped[Tensor, "*batch block length joint feature"]:
    """Return frames ``index`` of every motion; the axes ``clips`` are the first axes of ``batch``.

    Frames are copied as whole rows of memory. Simulated views store each coordinate as a plane
    [..., feature, frame, joint]; they are copied plane by plane and stay planes.
    """
    planes = joints.movedim(-1, -3)
    source = planes if planes.is_contiguous() else joints.flatten(-2)
    *series, frames, width = source.shape
    clips = index.shape[:-2]
    count = math.prod(series)
    begin = torch.arange(count, device=index.device).reshape(*series, 1) * frames
    rows = begin + index.reshape(*clips, *[1] * (len(series) - len(clips)), -1)
    blocks = source.reshape(count * frames, width).index_select(0, rows.flatten())
    blocks = blocks.reshape(*series, *index.shape[-2:], width)
    return blocks.movedim(-4, -1) if source is planes else blocks.unflatten(-1, joints.shape[-2:])


def _check_lengths(lengths: Int[Tensor, " *clips"], joints: Tensor) -> Int[Tensor, " *clips"]:
    lengths = torch.as_tensor(lengths)
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
