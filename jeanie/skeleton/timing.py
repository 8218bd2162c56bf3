"""Joints between frames: linear interpolation over time that knows what is missing."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["at_rate", "between", "bridge", "evenly", "fill_gaps"]


def fill_gaps(
    joints: Float[Tensor, "frame *rest axis"], valid: Bool[Tensor, "frame *rest"], max_gap: int
) -> tuple[Float[Tensor, "frame *rest axis"], Bool[Tensor, "frame *rest"]]:
    """Fill every run of at most ``max_gap`` missing frames that has a valid frame on both sides.

    x[t] = x[a] + (t - a) / (b - a) (x[b] - x[a]) for the valid frames a < t < b around the gap.
    """
    frames = valid.shape[0]
    before, after = _neighbours(valid)
    gap = ~valid & (before >= 0) & (after < frames) & (after - before - 1 <= max_gap)
    filled = _line(joints, before.clamp_min(0), after.clamp_max(frames - 1))
    return torch.where(gap[..., None], filled, joints), valid | gap


def bridge(
    values: Float[Tensor, "frame *rest axis"], valid: Bool[Tensor, "frame *rest"]
) -> Float[Tensor, "frame *rest axis"]:
    """Values for every frame: straight lines across gaps of any length, first and last value held outwards.

    Where no frame is valid the values are returned as they are.
    """
    frames = valid.shape[0]
    before, after = _neighbours(valid)
    left = torch.where(before < 0, after, before).clamp_max(frames - 1)
    right = torch.where(after >= frames, before, after).clamp_min(0)
    bridged = _line(values, left, right)
    return torch.where((valid | ~valid.any(0))[..., None], values, bridged)


def at_rate(frames: int, rate: float | int, new_rate: float | int) -> Float[Tensor, " new"]:
    """Positions, in frames, of the moments 0, 1/new_rate, 2/new_rate, ... seconds within ``frames`` frames."""
    last = (frames - 1) / rate * new_rate
    steps = torch.arange(int(last + 1e-6) + 1, dtype=torch.float64)  # 1e-6: 59 * (15 / 30) may end in .4999
    return steps * (rate / new_rate)


def evenly(frames: int, new: int) -> Float[Tensor, " new"]:
    """``new`` positions, in frames, evenly from the first of ``frames`` frames to the last."""
    return torch.linspace(0, frames - 1, new, dtype=torch.float64)


def between(
    joints: Float[Tensor, "frame *rest axis"],
    valid: Bool[Tensor, "frame *rest"],
    positions: Float[Tensor, " new"],
) -> tuple[Float[Tensor, "new *rest axis"], Bool[Tensor, "new *rest"]]:
    """Joints at fractional frame ``positions`` (0 is the first frame), linear between the frames around each.

    A joint is valid where both frames are, or the one frame that the position falls on. Missing joints are 0.
    """
    last = joints.shape[0] - 1
    positions = positions.clamp(0, last)
    low = positions.floor().long()
    weight = positions - low
    high = torch.where(weight > 0, low + 1, low)
    there = valid[low] & valid[high]
    share = weight.to(joints.dtype).reshape(-1, *[1] * (joints.ndim - 1))
    mixed = joints[low] + share * (joints[high] - joints[low])
    return torch.where(there[..., None], mixed, 0.0), there


def _neighbours(
    valid: Bool[Tensor, "frame *rest"],
) -> tuple[Int[Tensor, "frame *rest"], Int[Tensor, "frame *rest"]]:
    """For every frame the nearest valid one at or before it (-1: none) and at or after it (frames: none)."""
    frames = valid.shape[0]
    index = _frames(valid).expand_as(valid)
    before = torch.where(valid, index, -1).cummax(0).values
    after = torch.where(valid, index, frames).flip(0).cummin(0).values.flip(0)
    return before, after


def _frames(valid: Bool[Tensor, "frame *rest"]) -> Int[Tensor, "frame *ones"]:
    """0, 1, 2, ... along the first axis, to be broadcast over the others."""
    return torch.arange(valid.shape[0], device=valid.device).reshape(-1, *[1] * (valid.ndim - 1))


def _line(
    values: Float[Tensor, "frame *rest axis"],
    start: Int[Tensor, "frame *rest"],
    end: Int[Tensor, "frame *rest"],
) -> Float[Tensor, "frame *rest axis"]:
    """Every frame's point on the straight line from frame ``start`` to frame ``end``."""
    axis = values.shape[-1]
    first = values.gather(0, start[..., None].expand(*start.shape, axis))
    last = values.gather(0, end[..., None].expand(*end.shape, axis))
    weight = (_frames(start.bool()) - start) / (end - start).clamp_min(1)
    # beyond the ends start == end: the weight then multiplies a difference of 0
    return first + weight.to(values.dtype)[..., None] * (last - first)
