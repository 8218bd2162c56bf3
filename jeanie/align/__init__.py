"""Temporal-viewpoint alignment of block features: soft-DTW whose path also moves through simulated camera views."""

from jeanie.align.alignment import Alignment, align, fvm, trace
from jeanie.align.distances import distances
from jeanie.align.native import instruction_set

__all__ = ["Alignment", "align", "distances", "fvm", "instruction_set", "trace"]
