"""Open-set confidence: the probability that the nearest action is right.

A distance alone does not say whether a movement is known. It is compared with the distances of the example and of the
query to a cohort: the background set, the examples of other actions and the calibration recordings. As in speaker
verification, the nearest of them count most (adaptive score normalisation). It is also compared with the second-best
action and with the distances between the examples of the action. A logistic regression, fitted on other sensors and
other actions, turns this evidence into a probability. Three kinds of evidence correct its level: how much nearer the
user's own motions are than the background set, how far the background set is spread, and how alike the bodies of the
query and of the example are.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import log

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.errors import ConfigError, ShapeError
from jeanie.fewshot.model import SHIPPED
from jeanie.recogniser.background import CohortStatistics

__all__ = [
    "CALIBRATION_FILE",
    "EVIDENCE",
    "Calibration",
    "compute_auroc",
    "compute_evidence",
    "compute_reliability",
    "interpolate_threshold",
]

CALIBRATION_FILE = SHIPPED / "openset.json"
_MAX_DEVIATIONS, _MIN_DEVIATIONS = 2.0, -8.0  # limits of evidence in standard deviations
_MAX_LOG_RATIO = 1.5  # limit of differences of log distances
_MAX_COHORT_RATIO = 3.0  # the same for the nearest of the cohort
_SAME_BODY = 0.02  # difference in body proportions that is within the noise of one body
_FOREIGN = 10.0  # number of own motions that count as much as the background set


class Calibration(Config):
    """Coefficients of the logistic regression, one per kind of evidence (see ``compute_evidence``)."""

    bias: float = Field(description="constant term")
    support: float = Field(description="standard deviations from the example's background")
    query: float = Field(description="standard deviations from the query's background")
    support_nearest: float = Field(
        description="log ratio of the distance and those of the example's nearest cohort"
    )
    query_nearest: float = Field(
        description="log ratio of the distance and those of the query's nearest cohort, over the number of actions"
    )
    own_nearest: float = Field(
        description="log ratio of the query's nearest distances in the background set and in the cohort"
    )
    background_spread: float = Field(
        description="log ratio of the query's distances to the background set and to the nearest of it"
    )
    foreign: float = Field(description="share of the background set, of other sensors, in the cohort")
    margin: float = Field(description="log ratio of the distances of the second-best and the best action")
    alone: float = Field(description="1 if no second action is enrolled")
    actions: float = Field(description="log of the number of actions")
    own: float = Field(
        description="log ratio of the distance and the distances between the action's examples"
    )
    several: float = Field(description="1 if the action has two or more examples")
    body: float = Field(description="log of the difference in body proportions of query and example")
    fitted_on: str = Field(default="", description="data that the coefficients were fitted on")
    thresholds: tuple[tuple[float, float], ...] = Field(
        default=(), description="(share of false alarms, threshold) on left-out data, by decreasing share"
    )

    def compute_confidence(self, evidence: Float[Tensor, "*any 13"]) -> Float[Tensor, "*any"]:
        """Return the probability that the nearest action is right."""
        weights = [getattr(self, name) for name in EVIDENCE]
        return torch.sigmoid(
            evidence.double() @ evidence.new_tensor(weights, dtype=torch.float64) + self.bias
        )

    def find_threshold(self, false_alarms: float) -> float:
        """Return the confidence that at most a share of movements of other actions reached on left-out data."""
        return interpolate_threshold(self.thresholds, false_alarms)


EVIDENCE = tuple(name for name in Calibration.model_fields if name not in ("bias", "fitted_on", "thresholds"))
"""Names of the kinds of evidence, in the order of ``compute_evidence``."""


def interpolate_threshold(thresholds: Sequence[tuple[float, float]], false_alarms: float) -> float:
    """Return the threshold for a share of false alarms, from a table of (share, threshold).

    Between measured shares it is interpolated; below the smallest one it approaches 1.
    """
    if not thresholds:
        raise ConfigError("this calibration has no table of false alarms; give a threshold instead")
    if not 0 <= false_alarms <= 1:
        raise ConfigError(f"false_alarms is a share from 0 to 1, got {false_alarms!r}")
    table = sorted([(0.0, 1.0), *thresholds, (1.0, 0.0)])
    right = max(1, bisect_left(table, (false_alarms, -1.0)))
    (low, high_threshold), (high, low_threshold) = table[right - 1], table[right]
    share = (false_alarms - low) / (high - low)
    return high_threshold + share * (low_threshold - high_threshold)


def compute_evidence(
    nearest: Float[Tensor, "*any"],
    second: Float[Tensor, "*any"],
    support: CohortStatistics,
    query: CohortStatistics,
    own: Float[Tensor, "*any"],
    actions: int,
    own_motions: int,
    body_difference: Float[Tensor, "*any"],
) -> Float[Tensor, "*any 13"]:
    """Return the evidence for the nearest action, in the order of ``EVIDENCE``.

    Args:
        nearest: Log distance to the nearest example.
        second: Log distance to the nearest example of any other action; ignored if ``actions`` is 1.
        support: Log distances from the cohort to the example.
        query: Log distances from the query to the cohort.
        own: Mean log distance of the action's examples to their nearest neighbour in the action; NaN for one example.
        actions: Number of actions.
        own_motions: Number of motions of the user's own sensor in the cohort of the query.
        body_difference: Difference in the proportions of the bodies of query and example (``compare_proportions``).
    """
    from_support, from_query = (
        ((nearest - cohort.mean) / cohort.std).clamp(_MIN_DEVIATIONS, _MAX_DEVIATIONS)
        for cohort in (support, query)
    )
    near_support, near_query = (
        (nearest - cohort.nearest.mean(-1)).clamp(-_MAX_COHORT_RATIO, _MAX_COHORT_RATIO)
        for cohort in (support, query)
    )
    own_nearest = query.background_nearest - query.nearest.mean(-1)
    spread = query.mean - query.background_nearest
    ones = torch.ones_like(nearest)
    margin = 0 * ones if actions < 2 else (second - nearest).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    several = own.isfinite()
    farther = torch.where(several, nearest - own, 0.0).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    return torch.stack(
        [
            from_support,
            from_query,
            near_support,
            near_query / actions,
            own_nearest.clamp(0, _MAX_COHORT_RATIO),
            spread.clamp(0, _MAX_COHORT_RATIO),
            ones * (_FOREIGN / (_FOREIGN + own_motions)),
            margin,
            ones * (actions < 2),
            ones * log(actions),
            farther,
            several.to(ones),
            (body_difference.to(ones) + _SAME_BODY).log(),
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
