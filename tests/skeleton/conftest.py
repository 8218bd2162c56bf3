"""Hypothesis for this room: no deadline, since the first call of an operator may be slow."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
