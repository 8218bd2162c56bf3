"""Confidence in a stream: the probability that a movement has been found in its place and with its action.

The confidence of the recogniser was fitted on separate clips. A stream has more evidence: how long a movement is
compared with its example, and how many passes through examples the decoder has found in it. A logistic regression,
fitted on streams of several sources, turns both into a probability.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from pydantic import Field

from jeanie.config import Config
from jeanie.fewshot.model import SHIPPED
from jeanie.recogniser.confidence import interpolate_threshold

__all__ = ["STREAM_CALIBRATION_FILE", "StreamCalibration", "StreamEvidence", "measure_stream_evidence"]

STREAM_CALIBRATION_FILE = SHIPPED / "streams.json"
_MAX_LOG_RATIO = 1.5  # limit of log ratios
_CERTAIN = 1e-6  # doubt that counts as none
_MIN_DISTANCE = 1e-9


class StreamEvidence(NamedTuple):
    """Evidence for the nearest action of a part of a stream."""

    clip: float
    shorter: float
    margin: float
    several: float
    whole: float


class StreamCalibration(Config):
    """Coefficients of the logistic regression, one per kind of evidence (see ``measure_stream_evidence``)."""

    bias: float = Field(description="log odds without any evidence")
    clip: float = Field(description="log odds of the recogniser's confidence")
    shorter: float = Field(description="log ratio of the durations of example and movement, at least 0")
    margin: float = Field(description="log ratio of the distances of the second-best and the best action")
    several: float = Field(description="1 if the decoder has found two or more passes in the movement")
    whole: float = Field(description="1 if such a movement is nevertheless recognised as a whole")
    fitted_on: str = Field(default="", description="data that the coefficients were fitted on")
    thresholds: tuple[tuple[float, float], ...] = Field(
        default=(), description="(share of false alarms, threshold) on left-out data, by decreasing share"
    )

    @classmethod
    def load(cls) -> "StreamCalibration":
        """Return the shipped coefficients."""
        return _load_shipped()

    def compute_confidence(self, evidence: StreamEvidence) -> float:
        """Return the probability that the place and the nearest action are right."""
        odds = self.bias + sum(getattr(self, name) * value for name, value in evidence._asdict().items())
        return 1 / (1 + math.exp(-odds))

    def find_threshold(self, false_alarms: float) -> float:
        """Return the confidence that at most a share of the movements of other actions reached on left-out data."""
        return interpolate_threshold(self.thresholds, false_alarms)


@cache
def _load_shipped() -> StreamCalibration:
    return StreamCalibration.from_file(STREAM_CALIBRATION_FILE)


def measure_stream_evidence(
    confidence: float,
    scores: Mapping[str, float],
    duration: float,
    example_duration: float,
    passes: int = 0,
    is_whole: bool = False,
) -> StreamEvidence:
    """Return the evidence for the nearest action of a part of a stream.

    Args:
        confidence: Confidence of the recogniser.
        scores: Distance to the nearest example of each action.
        duration: Duration of the part.
        example_duration: Duration of the longest example of the nearest action, without rest, in the same unit.
        passes: Number of passes through examples in the movement, if the part is the movement or one of its passes.
        is_whole: Whether the part is the whole movement.
    """
    sure = min(max(confidence, _CERTAIN), 1 - _CERTAIN)
    best, *others = sorted(scores.values())[:2]
    margin = math.log(max(others[0], _MIN_DISTANCE) / max(best, _MIN_DISTANCE)) if others else 0.0
    several = float(passes > 1)
    return StreamEvidence(
        clip=math.log(sure / (1 - sure)),
        shorter=max(0.0, _limit(math.log(example_duration / duration))),
        margin=_limit(margin),
        several=several,
        whole=several * is_whole,
    )


def _limit(value: float) -> float:
    return min(max(value, -_MAX_LOG_RATIO), _MAX_LOG_RATIO)
