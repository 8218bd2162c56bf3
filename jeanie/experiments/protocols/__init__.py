"""Protocols: which clips train, validate and test, by rules that are checked against the data."""

from jeanie.experiments.protocols.catalogue import PROTOCOLS, Protocol, protocol
from jeanie.experiments.protocols.splits import Split

__all__ = ["PROTOCOLS", "Protocol", "Split", "protocol"]
