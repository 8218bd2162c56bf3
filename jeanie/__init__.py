"""Few-shot 3D-skeleton action recognition by joint temporal and camera-viewpoint alignment."""

from jeanie.align import Alignment, align, distances, fvm, trace
from jeanie.errors import ConfigError, DataError, JeanieError, ShapeError

__all__ = [
    "Alignment",
    "ConfigError",
    "DataError",
    "JeanieError",
    "ShapeError",
    "align",
    "distances",
    "fvm",
    "trace",
]
