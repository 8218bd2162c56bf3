"""Proportions of a body: the lengths of its bones relative to each other.

Two recordings of one person by one sensor show equal proportions. Then their distance is small even if the movements
differ, so the confidence needs to know how alike the bodies are.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.skeleton.convert import convert
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["compare_proportions", "measure_proportions"]

_CORE = LAYOUTS["core15"]
_PARENTS, _CHILDREN = (list(side) for side in zip(*_CORE.bones, strict=True))
_MIN_BONES = 4  # that both bodies have
_MAX_DIFFERENCE = 0.5
_TYPICAL_DIFFERENCE = 0.08  # of two persons, if too few bones are known


def measure_proportions(motion: Motion) -> Float[Tensor, " bone"]:
    """Return the logarithm of the median length of each core bone; NaN for a bone that is never visible.

    Two persons are averaged. The unit does not matter, because ``compare_proportions`` ignores the size.
    """
    core = convert(motion, _CORE)
    lengths = (core.joints[:, :, _CHILDREN] - core.joints[:, :, _PARENTS]).norm(dim=-1).double()
    is_known = core.valid[:, :, _CHILDREN] & core.valid[:, :, _PARENTS] & (lengths > 0)
    per_person = torch.where(is_known, lengths, torch.nan).nanmedian(0).values.log()
    return per_person.nanmean(0)


def compare_proportions(
    first: Float[Tensor, "*any bone"], second: Float[Tensor, "*any bone"]
) -> Float[Tensor, "*any"]:
    """Return how much the proportions of two bodies differ: the mean absolute log ratio of their bone lengths.

    The bodies are scaled to the same size: the mean log ratio is 0. Differences are limited to 0.5. With fewer than
    four common bones, the result is a typical difference of two persons.
    """
    ratios = first - second
    centred = ratios - ratios.nanmean(-1, keepdim=True)
    differences = centred.abs().nanmean(-1).clamp_max(_MAX_DIFFERENCE)
    has_enough = ratios.isfinite().sum(-1) >= _MIN_BONES
    return torch.where(has_enough, differences, _TYPICAL_DIFFERENCE)
