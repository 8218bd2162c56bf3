"""Methods: the compared systems and ablations of the paper, each a change of one base recipe."""

from jeanie.paper.methods.catalogue import METHODS, Method, get_method

__all__ = ["METHODS", "Method", "get_method"]
