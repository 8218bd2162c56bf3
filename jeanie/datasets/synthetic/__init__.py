"""The built-in synthetic data set: bodies, actions and cameras."""

from jeanie.datasets.synthetic.action_table import ACTIONS
from jeanie.datasets.synthetic.dataset import open_synthetic

__all__ = ["ACTIONS", "open_synthetic"]
