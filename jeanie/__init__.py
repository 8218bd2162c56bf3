"""Few-shot 3D-skeleton action recognition by joint temporal and camera-viewpoint alignment."""

from importlib import import_module
from typing import Any

from jeanie.align import Alignment, align, distances, fvm, trace
from jeanie.datasets import Dataset, open_dataset, read_motion
from jeanie.encoders import BlockEncoder
from jeanie.errors import ConfigError, DataError, JeanieError, ShapeError
from jeanie.experiments import Protocol, Report, evaluate, train
from jeanie.fewshot import FewShotModel
from jeanie.skeleton import LAYOUTS, Layout, Motion
from jeanie.views import CameraViews, EulerViews

__all__ = [
    "LAYOUTS",
    "Alignment",
    "BlockEncoder",
    "CameraViews",
    "ConfigError",
    "DataError",
    "Dataset",
    "EulerViews",
    "FewShotModel",
    "JeanieError",
    "Layout",
    "Motion",
    "Protocol",
    "Recogniser",
    "Report",
    "ShapeError",
    "align",
    "distances",
    "evaluate",
    "fvm",
    "open_dataset",
    "read_motion",
    "trace",
    "train",
]


def __getattr__(name: str) -> Any:
    """``Recogniser`` is loaded when it is first asked for: it brings a database library along."""
    if name == "Recogniser":
        return import_module("jeanie.recogniser").Recogniser
    raise AttributeError(f"module 'jeanie' has no attribute {name!r}")
