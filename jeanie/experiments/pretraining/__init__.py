"""Pretraining: an encoder that serves everywhere, from motion capture and procedural gestures."""

from jeanie.experiments.pretraining.training import PretrainConfig, motion_capture, pretrain, pretrain_member

__all__ = ["PretrainConfig", "motion_capture", "pretrain", "pretrain_member"]
