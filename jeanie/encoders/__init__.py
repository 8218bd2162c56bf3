"""Encoders: what turns the blocks of a motion into feature vectors."""

from jeanie.encoders.encoder import PRESETS, BlockEncoder, EncoderConfig
from jeanie.encoders.graph import GraphFilter, normalised_adjacency, propagation
from jeanie.encoders.transformer import Transformer

__all__ = [
    "PRESETS",
    "BlockEncoder",
    "EncoderConfig",
    "GraphFilter",
    "Transformer",
    "normalised_adjacency",
    "propagation",
]
