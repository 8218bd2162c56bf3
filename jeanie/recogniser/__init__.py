"""Enrolled actions and their recognition: the library of examples, the recogniser, streams, explanations."""

from jeanie.recogniser.library.library import Library
from jeanie.recogniser.recogniser import Recogniser, Recognition

__all__ = ["Library", "Recogniser", "Recognition"]
