"""Temporal-viewpoint alignment of block features: soft-DTW whose path also moves through simulated camera views."""

from jeanie.alignment.api import Alignment, align, fvm, trace
from jeanie.alignment.backends.native import get_instruction_set
from jeanie.alignment.feature_distances import distances
from jeanie.alignment.selection import find_backend

__all__ = ["Alignment", "align", "distances", "find_backend", "fvm", "get_instruction_set", "trace"]
