"""Methods: the compared systems and ablations of the paper, each a change of one base recipe."""

from jeanie.experiments.methods.catalogue import METHODS, Method, method

__all__ = ["METHODS", "Method", "method"]
