"""Few-shot learning: inputs, episodes, losses, and the model that measures distances between motions."""

from jeanie.fewshot.classes import classify
from jeanie.fewshot.config import (
    RAW,
    RAWS,
    REFERENCE,
    AlignConfig,
    CameraViewsConfig,
    EulerViewsConfig,
    FvmConfig,
    JeanieConfig,
    ModelConfig,
    NoViewsConfig,
    PoolConfig,
    PoolTimeConfig,
    PoolViewsConfig,
    UncertainConfig,
    ViewConfig,
)
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Batch, InputConfig, PrepareConfig, Store
from jeanie.fewshot.model import FewShotModel

__all__ = [
    "RAW",
    "RAWS",
    "REFERENCE",
    "AlignConfig",
    "Batch",
    "CameraViewsConfig",
    "EulerViewsConfig",
    "Features",
    "FewShotModel",
    "FvmConfig",
    "InputConfig",
    "JeanieConfig",
    "ModelConfig",
    "NoViewsConfig",
    "PoolConfig",
    "PoolTimeConfig",
    "PoolViewsConfig",
    "PrepareConfig",
    "Store",
    "UncertainConfig",
    "ViewConfig",
    "classify",
]
