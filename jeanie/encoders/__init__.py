"""Encoders: networks that turn the blocks of a motion into feature vectors."""

from jeanie.encoders.block_encoder import BlockEncoder
from jeanie.encoders.config import (
    PRESETS,
    CustomEncoderConfig,
    EncoderConfig,
    GraphEncoderConfig,
    ImageEncoderConfig,
    MlpEncoderConfig,
    RawEncoderConfig,
    TemporalEncoderConfig,
    ViewAdaptiveEncoderConfig,
)
from jeanie.encoders.graph import GraphFilter, compute_propagation, normalise_adjacency
from jeanie.encoders.transformer import Transformer

__all__ = [
    "PRESETS",
    "BlockEncoder",
    "CustomEncoderConfig",
    "EncoderConfig",
    "GraphEncoderConfig",
    "GraphFilter",
    "ImageEncoderConfig",
    "MlpEncoderConfig",
    "RawEncoderConfig",
    "TemporalEncoderConfig",
    "Transformer",
    "ViewAdaptiveEncoderConfig",
    "compute_propagation",
    "normalise_adjacency",
]
