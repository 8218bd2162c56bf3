"""Knowing when not: how sure an answer is, from distances that are measured against background motions.

A distance says little by itself. It is compared with what the bank's motions are away from the example and from the
query, with the second best action, and with what the action's own examples are away from each other; a logistic
regression, fitted on other actions, turns that into the probability that the answer is right.
"""

from math import log

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.errors import ShapeError
from jeanie.fewshot.model import SHIPPED

__all__ = ["CALIBRATION_FILE", "Calibration", "auroc", "evidence", "reliability"]

CALIBRATION_FILE = SHIPPED / "openset.json"
_FAR, _NEAR = 2.0, -8.0  # standard deviations from the background beyond which it makes no difference
_MARGIN = 1.5  # likewise for differences of logarithms


class Calibration(Config):
    """Coefficients of the logistic regression, one for each kind of evidence (see ``evidence``)."""

    bias: float
    support: float = Field(description="standard deviations from the example's background")
    query: float = Field(description="standard deviations from the query's background")
    margin: float = Field(description="log of how much farther the second action is")
    alone: float = Field(description="1 where there is no second action")
    actions: float = Field(description="log of the number of actions")
    own: float = Field(description="log of how much farther than the action's examples from each other")
    several: float = Field(description="1 where the action has two or more examples")
    fitted_on: str = Field(default="", description="what the coefficients were fitted on")

    def confidence(self, found: Float[Tensor, "*any 7"]) -> Float[Tensor, "*any"]:
        """Probability that the nearest action is the right answer."""
        weights = [self.support, self.query, self.margin, self.alone, self.actions, self.own, self.several]
        return torch.sigmoid(found.double() @ found.new_tensor(weights, dtype=torch.float64) + self.bias)


def evidence(
    nearest: Float[Tensor, "*any"],
    second: Float[Tensor, "*any"],
    around_support: tuple[Float[Tensor, "*any"], Float[Tensor, "*any"]],
    around_query: tuple[Float[Tensor, "*any"], Float[Tensor, "*any"]],
    own: Float[Tensor, "*any"],
    actions: int,
) -> Float[Tensor, "*any 7"]:
    """What speaks for the nearest action, in the order of ``Calibration``'s coefficients.

    All distances are logarithms: to the nearest example, and to the nearest one of any other action (counts where
    ``actions`` is above 1). ``around_support`` and ``around_query`` are mean and standard deviation of the bank's
    distances to that example and to the query. ``own`` is the mean distance of the action's examples to their
    nearest fellow, NaN where it has one only.
    """
    from_support, from_query = (
        ((nearest - mean) / spread).clamp(_NEAR, _FAR) for mean, spread in (around_support, around_query)
    )
    one = torch.ones_like(nearest)
    margin = 0 * one if actions < 2 else (second - nearest).clamp(-_MARGIN, _MARGIN)
    several = own.isfinite()
    farther = torch.where(several, nearest - own, 0.0).clamp(-_MARGIN, _MARGIN)
    return torch.stack(
        [from_support, from_query, margin, one * (actions < 2), one * log(actions), farther, several.to(one)],
        -1,
    )


def auroc(scores: Float[Tensor, " answer"], positive: Bool[Tensor, " answer"]) -> float:
    """Probability that a positive has a higher score than a negative, equal scores counting one half.

    From ranks, in the time of a sort: (sum of the positives' ranks - p (p + 1) / 2) / (p n).
    """
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        raise ShapeError(f"the area needs positives and negatives, got {count} and {others}")
    levels, place = scores.unique(return_inverse=True)
    each = torch.bincount(place, minlength=len(levels)).double()
    rank = each.cumsum(0) - (each - 1) / 2  # the mean of the ranks that equal scores share
    return float((rank[place][positive].sum() - count * (count + 1) / 2) / (count * others))


def reliability(
    confidence: Float[Tensor, " answer"], right: Bool[Tensor, " answer"], bins: int = 10
) -> list[tuple[int, float, float]]:
    """(answers, mean confidence, share that is right) in equal ranges of confidence that hold any, from 0 to 1."""
    place = (confidence * bins).long().clamp(0, bins - 1)
    rows = []
    for number in range(bins):
        chosen = place == number
        if bool(chosen.any()):
            mean, share = confidence[chosen].double().mean(), right[chosen].double().mean()
            rows.append((int(chosen.sum()), float(mean), float(share)))
    return rows
