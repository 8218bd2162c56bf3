"""Pretraining: a general model from motion capture and procedural gestures."""

from jeanie.pretraining.config import SHIPPED_RECIPE, PretrainConfig
from jeanie.pretraining.ensemble import pretrain
from jeanie.pretraining.member import Progress, pretrain_member
from jeanie.pretraining.pairs import Windows

__all__ = ["SHIPPED_RECIPE", "PretrainConfig", "Progress", "Windows", "pretrain", "pretrain_member"]
