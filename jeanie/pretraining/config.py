"""Settings of pretraining: the data of a batch, the optimiser, and the members of the ensemble."""

from typing import Any

from pydantic import Field

from jeanie.config import Config
from jeanie.encoders import TemporalEncoderConfig
from jeanie.errors import ConfigError
from jeanie.fewshot.config import ModelConfig
from jeanie.pretraining.augment import STRONG_AUGMENTATION, AugmentationStrength
from jeanie.pretraining.gestures import GESTURE_SHARES, GestureShares
from jeanie.training.recipes import PRETRAINED_MODEL

__all__ = ["SHIPPED_RECIPE", "PretrainConfig", "configure_ensemble"]


class PretrainConfig(Config):
    """Settings of pretraining.

    Raises:
        ConfigError: The model has no canonical body, or an ensemble is not of kind "temporal".
    """

    model: ModelConfig = Field(
        default=PRETRAINED_MODEL, description="model of a member; needs canonical bodies"
    )
    steps: int = Field(default=1200, ge=1, description="optimiser steps per ensemble member")
    members: int = Field(default=3, ge=1, description="ensemble members, each with its own seed")
    other_members: int = Field(
        default=0, ge=0, description="further ensemble members, trained with other_settings"
    )
    other_settings: dict[str, Any] = Field(
        default_factory=dict, description="settings of the other members, by dotted names"
    )
    positions: float = Field(
        default=0.0, ge=0, description="gain of the joint positions appended to the features of the ensemble"
    )
    mirror_penalty: float | None = Field(
        default=None,
        ge=1,
        description="penalty factor of the ensemble for matching the mirror image; null disables mirroring",
    )
    seed: int = Field(default=1, ge=0, description="seed of the first member; the next members count up")
    windows: int = Field(default=80, ge=0, description="motion capture pairs per batch")
    gestures: int = Field(default=64, ge=0, description="procedural gesture pairs per batch")
    near_misses: float = Field(
        default=0.2, ge=0, le=1, description="share of gestures that are similar to another one"
    )
    gesture_shares: GestureShares = Field(
        default=GESTURE_SHARES,
        description="shares of gestures of one hand, both hands mirrored, both hands independent, a foot, the trunk, "
        "the whole body",
    )
    window_distance: float = Field(
        default=1.0, ge=0, description="largest distance of two windows of one clip, in window lengths"
    )
    yaw_rad: float = Field(default=0.6, ge=0, description="largest error of the facing direction")
    hidden_path: float = Field(default=0.3, ge=0, le=1, description="share of pairs without the body's path")
    rate: float = Field(default=3e-3, gt=0, description="largest learning rate of the one-cycle schedule")
    weight_decay: float = Field(default=1e-4, ge=0, description="weight decay of the optimiser")
    clip: float = Field(default=1.0, gt=0, description="largest norm of the gradient")
    gamma: float = Field(
        default=0.05, ge=0, description="softmin temperature in training; base distances lie in 0 to 4"
    )
    sharpness: float | None = Field(
        default=20.0,
        gt=0,
        description="initial factor of the distances; null: one over the standard deviation of the first ones",
    )
    ema_decay: float = Field(
        default=0.995, ge=0, lt=1, description="decay of the moving average of the weights"
    )
    augmentation: AugmentationStrength = Field(
        default=AugmentationStrength(), description="strength of the augmentation"
    )

    def __init__(self, **values: object) -> None:
        super().__init__(**values)
        if self.model.inputs.prepare.body != "canonical":
            raise ConfigError(
                "pretraining needs canonical bodies: set model.inputs.prepare.body to 'canonical'"
            )
        count = self.members + self.other_members
        if count > 1 and self.model.encoder.kind != "temporal":
            raise ConfigError(
                f"only encoders of kind 'temporal' form an ensemble, got {count} members of kind "
                f"{self.model.encoder.kind!r}; set members to 1 and other_members to 0"
            )

    @property
    def member_settings(self) -> "list[tuple[PretrainConfig, int]]":
        """Settings and seed of every member; the seeds of the other members start again at ``seed``."""
        first_settings = self.with_values(
            members=1, other_members=0, other_settings={}, positions=0.0, mirror_penalty=None, seed=0
        )
        changed_settings = (
            first_settings.with_values(self.other_settings) if self.other_members else first_settings
        )
        counts = ((first_settings, self.members), (changed_settings, self.other_members))
        return [(settings, self.seed + number) for settings, count in counts for number in range(count)]


SHIPPED_RECIPE = PretrainConfig(
    mirror_penalty=1.5,
    other_members=2,
    other_settings={
        "model.encoder.strides": (2, 1, 1),
        "steps": 3000,
        "windows": 40,
        "gestures": 32,
        "gesture_shares": (0.38, 0.13, 0.1, 0.12, 0.13, 0.14),
        "augmentation": STRONG_AUGMENTATION.model_dump(),
    },
)
"""Settings of the shipped model: three members that separate gestures well, two that separate postures well.

The other members see a longer time span around each moment, and bodies that differ more.
"""


def configure_ensemble(config: PretrainConfig) -> ModelConfig:
    """Return the configuration of all members as one model: dense outputs, mirror penalty, positions.

    Members are trained without these options. Half as many outputs need a quarter of the alignments, and training
    separates a motion from its mirror image.
    """
    model = config.model.with_values(mirror_penalty=config.mirror_penalty)
    if not isinstance(config.model.encoder, TemporalEncoderConfig):
        return model
    options: dict[str, Any] = {
        "encoder.positions": config.positions,
        "encoder.dense": True,
        "encoder.members": config.members + config.other_members,
    }
    if config.other_members:
        options["encoder.scales"] = tuple(
            settings.model.encoder.strides
            for settings, _ in config.member_settings
            if isinstance(settings.model.encoder, TemporalEncoderConfig)
        )
    return model.with_values(options)
