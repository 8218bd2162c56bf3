"""Protocols: which clips train, validate and test, by rules that are checked against the data."""

from jeanie.evaluation.protocols.catalogue import PROTOCOLS, Protocol
from jeanie.evaluation.protocols.protocol_files import get_protocol, read_protocol
from jeanie.evaluation.protocols.splits import Split

__all__ = ["PROTOCOLS", "Protocol", "Split", "get_protocol", "read_protocol"]
