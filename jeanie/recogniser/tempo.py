"""When blocks lie in a recording, and how much longer one recording takes than another, part by part."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.blocks import starts, stride_of
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.timing import at_rate, evenly

__all__ = ["Part", "block_moments", "parts_of"]

_NAMES = ("beginning", "middle", "end")
_NORMAL = 32  # frames of a normal body, where a model says nothing else


@dataclass(frozen=True)
class Part:
    """A third of the support, its frames and those of the query that met it, which take ``tempo`` times as long."""

    name: str
    query: tuple[float, float]
    support: tuple[float, float]
    tempo: float


def block_moments(model: FewShotModel, motion: Motion) -> Float[Tensor, " block"]:
    """The middle of every output block of ``model``, in frames of the recording."""
    prepare, inputs = model.config.inputs.prepare, model.config.inputs
    seen = torch.arange(len(motion), dtype=torch.float64)
    if prepare.body == "normal":
        seen = seen[motion.valid.flatten(1).any(1)]
        positions = evenly(len(seen), prepare.frames or _NORMAL)
    else:
        positions = seen
        if prepare.rate is not None and motion.rate is not None:
            positions = at_rate(len(motion), motion.rate, prepare.rate)
        if prepare.frames is not None:
            positions = positions[-1] * torch.linspace(0, 1, prepare.frames, dtype=torch.float64)
    frames = len(positions)
    first = starts(frames, inputs.block, stride_of(inputs.block, inputs.stride))
    middle = (first + (inputs.block - 1) / 2).clamp_max(frames - 1)
    span = model.encoder.span
    held = torch.cat([middle, middle[-1:].expand(span - 1)])
    joined = held.unfold(0, span, model.encoder.stride).mean(1)
    return _read(seen, _read(positions, joined)).float()


def _read(values: Tensor, at: Tensor) -> Tensor:
    """Values at fractional places, on lines between them."""
    low = at.floor().long().clamp(0, len(values) - 1)
    high = (low + 1).clamp_max(len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def parts_of(
    query: Float[Tensor, " step"],
    support: Float[Tensor, " step"],
    query_frames: int,
    support_frames: int,
    spans: list[float],
) -> tuple[Part, ...]:
    """Thirds of the support and what they meet in the query, from the moments that a path brings together.

    Both recordings begin and end together; between, a moment of the support meets the mean of the query's moments
    at it. ``spans`` are both durations in one unit.
    """
    meeting, at = support.double().unique(return_inverse=True)
    mean = torch.zeros_like(meeting).index_add_(0, at, query.double()) / torch.bincount(at)
    last = torch.tensor([query_frames - 1.0, support_frames - 1.0], dtype=torch.float64)
    inside = (meeting > 0) & (meeting < last[1])
    grid = torch.cat([torch.zeros(1), meeting[inside], last[1:]]).double()
    values = torch.cat([torch.zeros(1), mean[inside], last[:1]]).double().cummax(0).values
    edges = torch.linspace(0, float(last[1]), len(_NAMES) + 1, dtype=torch.float64)
    if len(grid) < 2 or last[1] == 0:
        met = torch.linspace(0, float(last[0]), len(_NAMES) + 1, dtype=torch.float64)
    else:
        after = torch.searchsorted(grid, edges).clamp(1, len(grid) - 1)
        share = (edges - grid[after - 1]) / (grid[after] - grid[after - 1])
        met = values[after - 1] + share * (values[after] - values[after - 1])
    own, other = (float(span) / max(1.0, float(end)) for span, end in zip(spans, last, strict=True))
    whole = max(float(last[1]), 1.0) / len(_NAMES)
    return tuple(
        Part(
            name,
            (float(met[i]), float(met[i + 1])),
            (float(edges[i]), float(edges[i + 1])),
            float(met[i + 1] - met[i]) * own / (whole * other),
        )
        for i, name in enumerate(_NAMES)
    )
