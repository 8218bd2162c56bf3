"""Few-shot learning: inputs, episodes, losses, and the model that measures distances between motions."""

from jeanie.fewshot.classes import classify
from jeanie.fewshot.config import RAW, RAWS, REFERENCE, AlignConfig, ModelConfig, ViewConfig
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Batch, InputConfig, PrepareConfig, Store
from jeanie.fewshot.model import FewShotModel

__all__ = [
    "RAW",
    "RAWS",
    "REFERENCE",
    "AlignConfig",
    "Batch",
    "Features",
    "FewShotModel",
    "InputConfig",
    "ModelConfig",
    "PrepareConfig",
    "Store",
    "ViewConfig",
    "classify",
]
