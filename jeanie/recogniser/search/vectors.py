"""Vectors: one per window, such that near windows have near vectors. An index searches them for candidates.

A vector is the mean of the rows in 8 segments of the time, on its main components. Its components are stored in 8 bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from torch import Tensor

from jeanie.fewshot.features import Features
from jeanie.recogniser.search.rows import unpack_rows

__all__ = ["VectorCodec", "average_segments", "average_segments_of_rows", "learn_codec"]

_SEGMENTS = 8
_COMPONENTS = 128
_LEVELS = 255
Numbers = NDArray[np.float32]


def average_segments(features: Features) -> Float[Tensor, "clip number"]:
    """Return the mean of the first person's features in 8 segments of the time, over all views."""
    values = features.values.flatten(2, -2).mean(2) if features.values.dim() > 3 else features.values
    steps = torch.arange(_SEGMENTS + 1)[:, None] * features.counts / _SEGMENTS
    first, last = steps[:-1].floor().long(), steps[1:].ceil().long()
    sums = torch.cat([values.new_zeros(len(values), 1, values.shape[2]), values.cumsum(1)], 1)
    clips = torch.arange(len(values))
    means = (sums[clips, last] - sums[clips, first]) / (last - first)[..., None]
    return means.transpose(0, 1).flatten(1)


def average_segments_of_rows(rows: NDArray[Any]) -> Numbers:
    """Return ``average_segments`` of rows."""
    means: Numbers = average_segments(unpack_rows(rows)).numpy()
    return means


@dataclass(frozen=True, eq=False)
class VectorCodec:
    """Main components of averages, and the ranges of their 8-bit codes."""

    mean: Float[np.ndarray, " number"]
    components: Float[np.ndarray, "number component"]
    low: Float[np.ndarray, " component"]
    width: Float[np.ndarray, " component"]

    def project(self, averages: Float[np.ndarray, "window number"]) -> Float[np.ndarray, "window component"]:
        """Return the vectors of averages."""
        vectors: Numbers = (averages - self.mean) @ self.components
        return vectors

    def encode(self, vectors: Float[np.ndarray, "window component"]) -> UInt8[np.ndarray, "window component"]:
        """Return vectors in 8 bits."""
        codes: NDArray[np.uint8] = (
            ((vectors - self.low) / self.width * _LEVELS).round().clip(0, _LEVELS).astype(np.uint8)
        )
        return codes

    def decode(self, codes: UInt8[np.ndarray, "window component"]) -> Float[np.ndarray, "window component"]:
        """Return the vectors of codes."""
        vectors: Numbers = codes * (self.width / _LEVELS) + self.low
        return vectors


def learn_codec(averages: Float[np.ndarray, "window number"]) -> VectorCodec:
    """Return the codec for vectors like a sample of averages."""
    mean = averages.mean(0)
    moved = (averages - mean).astype(np.float64)
    components = np.linalg.eigh(moved.T @ moved)[1][:, ::-1][:, :_COMPONENTS].astype(np.float32)
    vectors = (averages - mean) @ components
    low, high = vectors.min(0), vectors.max(0)
    return VectorCodec(mean, np.ascontiguousarray(components), low, np.maximum(high - low, 1e-6))
