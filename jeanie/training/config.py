"""Training options: episodes, optimiser, schedule, validation and checkpoints."""

import math
from typing import Literal

from pydantic import Field

from jeanie.config import Config
from jeanie.fewshot.losses import LossConfig
from jeanie.training.augment import AugmentConfig

__all__ = ["TrainConfig", "learning_rate"]

_WARM = 0.3  # share of a one-cycle schedule in which the rate rises
_FIRST, _LAST = 25.0, 1e4  # the rate starts at rate / 25 and ends at a 10,000th of that


class TrainConfig(Config):
    """Options of episodic training; the defaults are those of the recipe "default".

    >>> TrainConfig(episodes=100, rate=1e-3).optimiser
    'adamw'
    """

    episodes: int = Field(default=900, ge=1, description="number of training episodes")
    batch: int = Field(default=2, ge=1, description="episodes per optimiser step (B)")
    way: int | None = Field(
        default=None, ge=2, description="classes per training episode; null: as in the test episodes"
    )
    shot: int | None = Field(
        default=None, ge=1, description="supports per class; null: as in the test episodes"
    )
    queries: int = Field(default=2, ge=1, description="queries per class in a training episode")
    query_classes: int | None = Field(
        default=None,
        ge=1,
        description="classes of a training episode that have queries; 1 with one query is the episode of the paper; "
        "null: all classes",
    )
    loss: LossConfig = Field(default=LossConfig(), description="loss function")
    optimiser: Literal["adamw", "adam", "sgd"] = Field(default="adamw", description="optimiser")
    rate: float = Field(default=3e-3, gt=0, description="largest learning rate of the schedule")
    schedule: Literal["one-cycle", "constant"] = Field(
        default="one-cycle", description="schedule of the learning rate"
    )
    weight_decay: float = Field(default=1e-4, ge=0, description="weight decay of the optimiser")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="momentum of sgd")
    clip: float | None = Field(
        default=1.0, gt=0, description="largest norm of the gradient; null disables clipping"
    )
    seed: int = Field(default=0, ge=0, description="seed of weights, episodes, dropout and augmentation")
    validate_every: int = Field(default=100, ge=1, description="episodes between two validations")
    patience: int | None = Field(
        default=None,
        ge=1,
        description="validations without improvement after which training stops; null: never",
    )
    margin: float | None = Field(
        default=None,
        ge=0,
        description="points by which validation must beat the initial model, which is kept otherwise; "
        "null: the initial model is not validated",
    )
    distractors: bool = Field(
        default=False,
        description="add one support of every training class to validation episodes, because a few held-out classes "
        "are easy to separate",
    )
    ema_decay: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="decay of the moving average of the weights; 0 keeps the last weights",
    )
    hubness: float = Field(
        default=0.0,
        ge=0,
        description="exponent of the hubness correction by training motions; with a margin it is only used if it "
        "improves the accuracy on training classes; 0 disables it",
    )
    select_members: bool = Field(
        default=False,
        description="with a margin: use one kind of ensemble members alone if that improves the accuracy on training "
        "classes",
    )
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        default="fp32",
        description="precision of the encoder in training; weights, views, alignment and loss stay in float32, and "
        "fp16 scales the loss",
    )
    accumulate: int = Field(
        default=1,
        ge=1,
        description="number of parts in which the episodes of a step are computed; the gradient is that of the "
        "whole step",
    )
    recompute: bool = Field(
        default=False,
        description="encode again in the backward pass instead of storing activations; large batches, such as views "
        "of both sides, always do",
    )
    compile: bool = Field(default=False, description="compile the encoder with torch.compile")
    checkpoint_every: int = Field(default=100, ge=1, description="episodes between two checkpoints")
    fuse: Literal["after", "together"] = Field(
        default="after",
        description="whether components are added after training or trained together with the model",
    )
    mirror: bool = Field(default=True, description="add mirrored clips as additional classes")
    augment: AugmentConfig = Field(
        default=AugmentConfig(yaw=15, tilt=8, scale=0.1, warp=0.2),
        description="augmentation of training clips",
    )

    @property
    def steps(self) -> int:
        """Number of optimiser steps; the last one may have fewer episodes."""
        return math.ceil(self.episodes / self.batch)


def learning_rate(step: int, config: TrainConfig) -> float:
    """Return the learning rate of a step, counted from 0.

    "one-cycle" rises from rate / 25 to rate in the first 30 % of the steps and falls to a 10,000th of its
    start at the last step, both along half a cosine (Smith and Topin, 2018; the numbers are those of torch).
    """
    if config.schedule == "constant" or config.steps == 1:
        return config.rate
    first = config.rate / _FIRST
    last = first / _LAST
    top, end = _WARM * config.steps - 1, config.steps - 1
    if step <= top:
        return _interpolate(first, config.rate, step / top)
    return _interpolate(config.rate, last, (step - top) / (end - top))


def _interpolate(start: float, end: float, share: float) -> float:
    """Return a value along half a cosine, from ``start`` at share 0 to ``end`` at share 1."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))
