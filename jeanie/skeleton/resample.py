"""Linear interpolation of joints over time, with missing joints."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["fill_gaps", "interpolate", "interpolate_gaps", "sample_at_rate", "space_evenly"]


def fill_gaps(
    joints: Float[Tensor, "frame *rest axis"], valid: Bool[Tensor, " frame *rest"], max_gap: int
) -> tuple[Float[Tensor, "frame *rest axis"], Bool[Tensor, " frame *rest"]]:
    """Fill every run of at most ``max_gap`` missing frames that has a valid frame on both sides.

    x[t] = x[a] + (t - a) / (b - a) (x[b] - x[a]) for the valid frames a < t < b around the gap.
    """
    if bool(valid.all()):
        return joints, valid
    before, after = _find_neighbours(valid)
    gap = ~valid & (before >= 0) & (after < valid.shape[0]) & (after - before - 1 <= max_gap)
    frame, *rest = torch.nonzero(gap, as_tuple=True)
    start, end = before[gap], after[gap]
    first, last = joints[(start, *rest)], joints[(end, *rest)]
    weight = ((frame - start) / (end - start)).to(joints.dtype)
    filled = joints.clone()
    filled[(frame, *rest)] = first + weight[:, None] * (last - first)
    return filled, valid | gap


def interpolate_gaps(
    values: Float[Tensor, "frame *rest axis"], valid: Bool[Tensor, " frame *rest"]
) -> Float[Tensor, "frame *rest axis"]:
    """Interpolate gaps of any length; the first and last valid values extend to the ends.

    Series without a valid frame are returned unchanged.
    """
    if valid.device.type == "cpu" and bool(valid.all()):  # elsewhere the host would wait for the device
        return values
    frames = valid.shape[0]
    before, after = _find_neighbours(valid)
    left = torch.where(before < 0, after, before).clamp_max(frames - 1)
    right = torch.where(after >= frames, before, after).clamp_min(0)
    interpolated = _interpolate_line(values, left, right)
    return torch.where((valid | ~valid.any(0))[..., None], values, interpolated)


def sample_at_rate(frames: int, rate: float, new_rate: float) -> Float[Tensor, " new"]:
    """Return fractional frame positions at 0, 1/new_rate, 2/new_rate, ... seconds of ``frames`` frames."""
    last = (frames - 1) / rate * new_rate
    steps = torch.arange(int(last + 1e-6) + 1, dtype=torch.float64)  # 1e-6: 59 * (15 / 30) may end in .4999
    return steps * (rate / new_rate)


def space_evenly(frames: int, new: int) -> Float[Tensor, " new"]:
    """Return ``new`` fractional frame positions, evenly spaced from the first to the last of ``frames`` frames."""
    return torch.linspace(0, frames - 1, new, dtype=torch.float64)


def interpolate(
    joints: Float[Tensor, "frame *rest axis"],
    valid: Bool[Tensor, " frame *rest"],
    positions: Float[Tensor, " new"],
) -> tuple[Float[Tensor, "new *rest axis"], Bool[Tensor, " new *rest"]]:
    """Return joints and mask at fractional frame ``positions``; 0 is the first frame.

    A joint is valid if it is valid in both neighbouring frames, or in the one frame at the exact position.
    Missing joints are 0.
    """
    last = joints.shape[0] - 1
    positions = positions.clamp(0, last)
    low = positions.floor().long()
    weight = positions - low
    high = torch.where(weight > 0, low + 1, low)
    are_valid = valid[low] & valid[high]
    factor = weight.to(joints.dtype).reshape(-1, *[1] * (joints.ndim - 1))
    mixed = joints[low] + factor * (joints[high] - joints[low])
    return torch.where(are_valid[..., None], mixed, 0.0), are_valid


def _find_neighbours(
    valid: Bool[Tensor, " frame *rest"],
) -> tuple[Int[Tensor, " frame *rest"], Int[Tensor, " frame *rest"]]:
    """Return the nearest valid frame at or before each frame (-1: none) and at or after it (frames: none)."""
    frames = valid.shape[0]
    index = _number_frames(valid).expand_as(valid)
    before = torch.where(valid, index, -1).cummax(0).values
    after = torch.where(valid, index, frames).flip(0).cummin(0).values.flip(0)
    return before, after


def _number_frames(valid: Bool[Tensor, " frame *rest"]) -> Int[Tensor, " frame *ones"]:
    """Return 0, 1, 2, ... along the first axis, with size 1 along the others."""
    return torch.arange(valid.shape[0], device=valid.device).reshape(-1, *[1] * (valid.ndim - 1))


def _interpolate_line(
    values: Float[Tensor, "frame *rest axis"],
    start: Int[Tensor, " frame *rest"],
    end: Int[Tensor, " frame *rest"],
) -> Float[Tensor, "frame *rest axis"]:
    """Return each frame's value on the line from frame ``start`` to frame ``end``."""
    axis = values.shape[-1]
    first = values.gather(0, start[..., None].expand(*start.shape, axis))
    last = values.gather(0, end[..., None].expand(*end.shape, axis))
    weight = (_number_frames(start.bool()) - start) / (end - start).clamp_min(1)
    # beyond the ends start == end: the weight multiplies a difference of 0
    return first + weight.to(values.dtype)[..., None] * (last - first)
