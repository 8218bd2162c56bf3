"""How a model is trained: episodes, optimiser, schedule, what is validated and kept."""

import math
from typing import Literal

from pydantic import Field

from jeanie.config import Config
from jeanie.experiments.learning.augment import AugmentConfig
from jeanie.fewshot.losses import LossConfig

__all__ = ["TrainConfig", "rate_at"]

_WARM = 0.3  # part of a one-cycle schedule in which the rate rises
_FIRST, _LAST = 25.0, 1e4  # the rate starts at rate / 25 and ends at a 10,000th of that


class TrainConfig(Config):
    """Training by episodes; the defaults are those of recipe "default"."""

    episodes: int = Field(default=900, ge=1, description="training episodes in all")
    batch: int = Field(default=2, ge=1, description="episodes in one step of the optimiser (B)")
    way: int | None = Field(default=None, ge=2, description="classes in a training episode; none: as tested")
    shot: int | None = Field(default=None, ge=1, description="supports of a class; none: as tested")
    queries: int = Field(default=2, ge=1, description="queries of a class in a training episode")
    loss: LossConfig = LossConfig()
    optimiser: Literal["adamw", "adam", "sgd"] = Field(default="adamw", description="what makes the steps")
    rate: float = Field(default=3e-3, gt=0, description="learning rate, the largest of the schedule")
    schedule: Literal["one-cycle", "constant"] = Field(default="one-cycle", description="of the rate")
    weight_decay: float = Field(default=1e-4, ge=0, description="pull of the weights towards 0")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="of sgd")
    clip: float | None = Field(default=1.0, gt=0, description="largest norm of the gradient; none: any")
    seed: int = Field(
        default=0, ge=0, description="what weights, episodes, dropout and augmentation are drawn from"
    )
    validate_every: int = Field(default=100, ge=1, description="episodes between two validations")
    patience: int | None = Field(
        default=None,
        ge=1,
        description="validations without a better one after which training stops; none: never",
    )
    margin: float | None = Field(
        default=None,
        ge=0,
        description="points by which validation must beat that of the start, which is kept otherwise; "
        "none: the start does not count",
    )
    rivals: bool = Field(
        default=False,
        description="whether validation queries meet a support of every training class, too: a few held-out classes "
        "alone may be told apart by anything",
    )
    average: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="of weights over steps: share of the old mean; 0 keeps the last ones",
    )
    hubs: float = Field(
        default=0.0,
        ge=0,
        description="power by which supports that are near to all training motions are held back in what is "
        "validated and kept, with a margin only where that tells training classes apart better; 0: not",
    )
    kinds: bool = Field(
        default=False,
        description="with a margin: whether one kind of the networks side by side is taken alone where that tells "
        "training classes apart better",
    )
    checkpoint_every: int = Field(default=100, ge=1, description="episodes between two checkpoints")
    fuse: Literal["after", "together"] = Field(
        default="after",
        description="whether models beside this one join it after training or take part in it",
    )
    mirror: bool = Field(default=True, description="mirrored clips as further classes")
    augment: AugmentConfig = AugmentConfig(yaw=15, tilt=8, scale=0.1, warp=0.2)

    @property
    def steps(self) -> int:
        """Steps of the optimiser in all; the last one may have fewer episodes."""
        return math.ceil(self.episodes / self.batch)


def rate_at(step: int, config: TrainConfig) -> float:
    """The learning rate of a step, from 0 on: without state, so that a resumed run has the same.

    "one-cycle" rises from rate / 25 to rate in the first 30 % of the steps and falls to a 10,000th of its
    start at the last step, both along half a cosine (Smith and Topin, 2018; numbers as in torch).
    """
    if config.schedule == "constant" or config.steps == 1:
        return config.rate
    first = config.rate / _FIRST
    last = first / _LAST
    top, end = _WARM * config.steps - 1, config.steps - 1
    if step <= top:
        return _between(first, config.rate, step / top)
    return _between(config.rate, last, (step - top) / (end - top))


def _between(start: float, end: float, share: float) -> float:
    """Half a cosine from ``start`` at share 0 to ``end`` at share 1."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))
