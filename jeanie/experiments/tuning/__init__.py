"""Search for better settings on validation classes, by many workers on one study."""

from jeanie.experiments.tuning.outcome import Outcome, outcome
from jeanie.experiments.tuning.space import SPACE, Dimension, read_space, space_of
from jeanie.experiments.tuning.study import Tuning, open_study
from jeanie.experiments.tuning.work import tune

__all__ = [
    "SPACE",
    "Dimension",
    "Outcome",
    "Tuning",
    "open_study",
    "outcome",
    "read_space",
    "space_of",
    "tune",
]
