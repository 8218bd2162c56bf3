"""Pretraining: an encoder that serves everywhere, from motion capture and procedural gestures."""

from jeanie.experiments.pretraining.training import (
    SHIPPED_RECIPE,
    PretrainConfig,
    motion_capture,
    pretrain,
    pretrain_member,
)

__all__ = ["SHIPPED_RECIPE", "PretrainConfig", "motion_capture", "pretrain", "pretrain_member"]
