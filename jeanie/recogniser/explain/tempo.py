"""Locate blocks in a recording, and compare the tempo of two recordings part by part."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.blocks import compute_stride, list_block_starts
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.resample import sample_at_rate, space_evenly

__all__ = ["Part", "locate_blocks", "measure_parts"]

_NAMES = ("beginning", "middle", "end")
_NORMAL = 32  # frames of a canonical body if the model does not set them


@dataclass(frozen=True)
class Part:
    """A third of the support: its frames, the aligned frames of the query, and the ratio of their durations."""

    name: str
    query: tuple[float, float]
    support: tuple[float, float]
    tempo: float


def locate_blocks(model: FewShotModel, motion: Motion) -> Float[Tensor, " block"]:
    """Return the middle of every output block of ``model``, in frames of the recording."""
    prepare, inputs = model.config.inputs.prepare, model.config.inputs
    frame_numbers = torch.arange(len(motion), dtype=torch.float64)
    if prepare.body == "canonical":
        frame_numbers = frame_numbers[motion.valid.flatten(1).any(1)]
        positions = space_evenly(len(frame_numbers), prepare.frames or _NORMAL)
    else:
        positions = frame_numbers
        if prepare.rate is not None and motion.rate is not None:
            positions = sample_at_rate(len(motion), motion.rate, prepare.rate)
        if prepare.frames is not None:
            positions = positions[-1] * torch.linspace(0, 1, prepare.frames, dtype=torch.float64)
    frames = len(positions)
    first = list_block_starts(frames, inputs.block, compute_stride(inputs.block, inputs.stride))
    middle = (first + (inputs.block - 1) / 2).clamp_max(frames - 1)
    span = model.encoder.span
    extended = torch.cat([middle, middle[-1:].expand(span - 1)])
    segments = extended.unfold(0, span, model.encoder.stride).mean(1)
    return _interpolate(frame_numbers, _interpolate(positions, segments)).float()


def _interpolate(values: Tensor, at: Tensor) -> Tensor:
    """Interpolate values linearly at fractional indices."""
    low = at.floor().long().clamp(0, len(values) - 1)
    high = (low + 1).clamp_max(len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def measure_parts(
    query: Float[Tensor, " step"],
    support: Float[Tensor, " step"],
    query_frames: int,
    support_frames: int,
    spans: list[float],
) -> tuple[Part, ...]:
    """Return the thirds of the support with the parts of the query that a path aligns with them.

    Both recordings begin and end together. In between, a moment of the support is aligned with the mean of the query's
    moments at it. ``spans`` are both durations in one unit.
    """
    meeting, at = support.double().unique(return_inverse=True)
    mean = torch.zeros_like(meeting).index_add_(0, at, query.double()) / torch.bincount(at)
    last = torch.tensor([query_frames - 1.0, support_frames - 1.0], dtype=torch.float64)
    inside = (meeting > 0) & (meeting < last[1])
    grid = torch.cat([torch.zeros(1), meeting[inside], last[1:]]).double()
    values = torch.cat([torch.zeros(1), mean[inside], last[:1]]).double().cummax(0).values
    edges = torch.linspace(0, float(last[1]), len(_NAMES) + 1, dtype=torch.float64)
    if len(grid) < 2 or last[1] == 0:
        cuts = torch.linspace(0, float(last[0]), len(_NAMES) + 1, dtype=torch.float64)
    else:
        after = torch.searchsorted(grid, edges).clamp(1, len(grid) - 1)
        share = (edges - grid[after - 1]) / (grid[after] - grid[after - 1])
        cuts = values[after - 1] + share * (values[after] - values[after - 1])
    query_unit, support_unit = (
        float(span) / max(1.0, float(end)) for span, end in zip(spans, last, strict=True)
    )
    part_length = max(float(last[1]), 1.0) / len(_NAMES)
    return tuple(
        Part(
            name,
            (float(cuts[i]), float(cuts[i + 1])),
            (float(edges[i]), float(edges[i + 1])),
            float(cuts[i + 1] - cuts[i]) * query_unit / (part_length * support_unit),
        )
        for i, name in enumerate(_NAMES)
    )
