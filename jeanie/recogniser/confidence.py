"""Open-set confidence: the probability that the nearest action is right.

A distance alone does not say whether a movement is known. It is compared with the distances from the background set to
the example and to the query, with the second-best action, and with the distances between the examples of the action.
A logistic regression, fitted on other actions, turns this evidence into a probability.
"""

from math import log

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.errors import ShapeError
from jeanie.fewshot.model import SHIPPED

__all__ = ["CALIBRATION_FILE", "Calibration", "compute_auroc", "compute_evidence", "compute_reliability"]

CALIBRATION_FILE = SHIPPED / "openset.json"
_MAX_DEVIATIONS, _MIN_DEVIATIONS = 2.0, -8.0  # limits of evidence in standard deviations
_MAX_LOG_RATIO = 1.5  # limit of differences of log distances


class Calibration(Config):
    """Coefficients of the logistic regression, one per kind of evidence (see ``compute_evidence``)."""

    bias: float
    support: float = Field(description="standard deviations from the example's background")
    query: float = Field(description="standard deviations from the query's background")
    margin: float = Field(description="log ratio of the distances of the second-best and the best action")
    alone: float = Field(description="1 if no second action is enrolled")
    actions: float = Field(description="log of the number of actions")
    own: float = Field(
        description="log ratio of the distance and the distances between the action's examples"
    )
    several: float = Field(description="1 if the action has two or more examples")
    fitted_on: str = Field(default="", description="data that the coefficients were fitted on")

    def compute_confidence(self, evidence: Float[Tensor, "*any 7"]) -> Float[Tensor, "*any"]:
        """Return the probability that the nearest action is right."""
        weights = [self.support, self.query, self.margin, self.alone, self.actions, self.own, self.several]
        return torch.sigmoid(
            evidence.double() @ evidence.new_tensor(weights, dtype=torch.float64) + self.bias
        )


def compute_evidence(
    nearest: Float[Tensor, "*any"],
    second: Float[Tensor, "*any"],
    support_background: tuple[Float[Tensor, "*any"], Float[Tensor, "*any"]],
    query_background: tuple[Float[Tensor, "*any"], Float[Tensor, "*any"]],
    own: Float[Tensor, "*any"],
    actions: int,
) -> Float[Tensor, "*any 7"]:
    """Return the evidence for the nearest action, in the order of the coefficients of ``Calibration``.

    Args:
        nearest: Log distance to the nearest example.
        second: Log distance to the nearest example of any other action; ignored if ``actions`` is 1.
        support_background: Mean and standard deviation of the log distances from the background set to the example.
        query_background: The same for the query.
        own: Mean log distance of the action's examples to their nearest neighbour in the action; NaN for one example.
        actions: Number of actions.
    """
    from_support, from_query = (
        ((nearest - mean) / deviation).clamp(_MIN_DEVIATIONS, _MAX_DEVIATIONS)
        for mean, deviation in (support_background, query_background)
    )
    ones = torch.ones_like(nearest)
    margin = 0 * ones if actions < 2 else (second - nearest).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    several = own.isfinite()
    farther = torch.where(several, nearest - own, 0.0).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    return torch.stack(
        [
            from_support,
            from_query,
            margin,
            ones * (actions < 2),
            ones * log(actions),
            farther,
            several.to(ones),
        ],
        -1,
    )


def compute_auroc(scores: Float[Tensor, " answer"], positive: Bool[Tensor, " answer"]) -> float:
    """Return the area under the ROC curve.

    It is the probability that a positive has a higher score than a negative, where equal scores count one half,
    computed from ranks: (sum of the positives' ranks - p (p + 1) / 2) / (p n).
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        raise ShapeError(f"the area needs positives and negatives, got {positives} and {negatives}")
    levels, level = scores.unique(return_inverse=True)
    counts = torch.bincount(level, minlength=len(levels)).double()
    rank = counts.cumsum(0) - (counts - 1) / 2  # equal scores share the mean of their ranks
    total = rank[level][positive].sum() - positives * (positives + 1) / 2
    return float(total / (positives * negatives))


def compute_reliability(
    confidence: Float[Tensor, " answer"], right: Bool[Tensor, " answer"], bins: int = 10
) -> list[tuple[int, float, float]]:
    """Return (answers, mean confidence, share of right answers) for each range of confidence with answers."""
    number = (confidence * bins).long().clamp(0, bins - 1)
    rows = []
    for bin_number in range(bins):
        selected = number == bin_number
        if bool(selected.any()):
            mean, share = confidence[selected].double().mean(), right[selected].double().mean()
            rows.append((int(selected.sum()), float(mean), float(share)))
    return rows
