"""Search for better settings on validation classes; several workers may share one study."""

from jeanie.paper.tuning.outcome import Outcome, find_outcome
from jeanie.paper.tuning.space import SPACE, Dimension, read_space, select_space
from jeanie.paper.tuning.study import Tuning, open_study
from jeanie.paper.tuning.worker import tune

__all__ = [
    "SPACE",
    "Dimension",
    "Outcome",
    "Tuning",
    "find_outcome",
    "open_study",
    "read_space",
    "select_space",
    "tune",
]
