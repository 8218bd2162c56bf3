"""The step of training: distances of some episodes, their loss, gradients from all processes, new weights."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError, JeanieError, ShapeError
from jeanie.experiments.learning.augment import DRAWS, augmented
from jeanie.experiments.learning.averaging import average
from jeanie.experiments.learning.distributed import World
from jeanie.experiments.learning.settings import TrainConfig, rate_at
from jeanie.experiments.seeds import drawn, seeded
from jeanie.fewshot.episodes import Episode
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.losses import Loss
from jeanie.fewshot.model import FewShotModel

__all__ = ["Learner", "Step", "check_learns"]

_AUGMENT, _DROPOUT = 1, 2  # keys of what is drawn
_SIDES: tuple[Literal["query", "support"], ...] = ("query", "support")
_DIVERGED = (
    "training has diverged; use a smaller rate, a clip, loss 'cross-entropy', or align.relative "
    "in another place; the last checkpoint is as it was"
)
_OPTIMISERS: dict[str, Any] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}


@dataclass(frozen=True)
class Step:
    """What one step saw: episodes done after it, loss, share of queries whose nearest support is right."""

    episode: int
    loss: float
    accuracy: float
    rate: float
    temperature: float
    gradient: float


def check_learns(model: FewShotModel) -> FewShotModel:
    """The model, if it has weights that can be learnt."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ConfigError(
            "this model has no weights to learn; use an encoder of kind 'graph' or 'mlp', or evaluate it as it is"
        )
    return model


class Learner:
    """A model with its loss and optimiser. Everything random in step k depends on (seed, k) alone.

    The model is trained in place. In several processes each takes its share of a step's episodes and all end
    with the same weights; only dropout differs from what one process would have drawn. ``kept`` is the model as
    it is to be used: itself, or with means of the weights over the steps, the start included.
    """

    def __init__(
        self,
        model: FewShotModel,
        config: TrainConfig,
        episodes: Sequence[Episode],
        store: Store,
        world: World,
    ) -> None:
        self.model, self.config, self.episodes, self.store, self.world = model, config, episodes, store, world
        self.loss = Loss(config.loss).to(model.device)
        self.learnt = [weight for weight in model.parameters() if weight.requires_grad]
        groups: list[dict[str, Any]] = [{"params": self.learnt, "weight_decay": config.weight_decay}]
        if self.loss.log_temperature.requires_grad:  # no decay: a temperature has no reason to be 1
            groups.append({"params": [self.loss.log_temperature], "weight_decay": 0.0})
        momentum = {"momentum": config.momentum} if config.optimiser == "sgd" else {}
        self.optimiser = _OPTIMISERS[config.optimiser](groups, lr=config.rate, **momentum)
        world.equalise([*model.state_dict().values(), *self.loss.state_dict().values()])
        self.kept = copy.deepcopy(model) if config.average else model

    def step(self, number: int) -> Step:
        """Step ``number``, from 0 on, on episodes number * B to (number + 1) * B - 1."""
        first = number * self.config.batch
        episodes = [
            self.episodes[i] for i in range(first, min(first + self.config.batch, len(self.episodes)))
        ]
        mine = self.world.share(len(episodes))
        self.optimiser.zero_grad()
        with seeded(self.config.seed, _DROPOUT, number, self.world.rank, device=self.model.device):
            own = self._distances(number, [episodes[i] for i in mine], len(episodes))
        same = torch.stack([self._same(episode) for episode in episodes]).to(self.model.device)
        value, distances, gradient = self._loss(own, mine, same)
        if own is not None:
            own.backward(gradient[mine.start :: mine.step])
        self.world.add_gradients(self.learnt)
        rate = rate_at(number, self.config)
        done = first + len(episodes)
        norm = self._change(rate, done)
        nearest = same.gather(2, distances.argmin(2, keepdim=True)).double().mean().item()
        return Step(done, value, nearest, rate, self.loss.temperature, norm)

    def _distances(
        self, number: int, episodes: list[Episode], of: int
    ) -> Float[Tensor, "episode query support"] | None:
        """Distances of this process's episodes: every clip is encoded once, all clips of a side in one call."""
        self.model.train()
        scales = [buffer for name, buffer in self.model.named_buffers() if name.endswith("cost_scale")]
        before = [scale.clone() for scale in scales]
        change = [torch.zeros_like(scale) for scale in scales]
        found = []
        if episodes:
            queries, supports = (self._features(number, episodes, side) for side in _SIDES)
            for query, support, episode in zip(queries, supports, episodes, strict=True):
                # a running scale is that of the step's start for every episode, whichever process has it
                for scale, start in zip(scales, before, strict=True):
                    scale.copy_(start)
                if self._prototypes:
                    support = self.model.prototypes(support, episode.support_labels, episode.way)
                found.append(self._compared(query, support))
                for total, scale, start in zip(change, scales, before, strict=True):
                    total += (scale - start) / of
        for scale, start, total in zip(scales, before, change, strict=True):
            scale.copy_(start + self.world.added(total))
        return torch.stack(found) if found else None

    @property
    def _prototypes(self) -> bool:
        """Whether a class's supports are one prototype."""
        return self.model.config.align.classes == "prototype"

    def _same(self, episode: Episode) -> Bool[Tensor, "query support"]:
        """Which supports, or which classes where they have prototypes, are of each query's class."""
        labels = torch.arange(episode.way) if self._prototypes else episode.support_labels
        return episode.query_labels[:, None] == labels

    def _compared(self, query: Features, support: Features) -> Float[Tensor, "query support"]:
        try:
            return self.model.compare(query, support)
        except ShapeError:
            if all(bool(part.values.isfinite().all()) for part in (query, support)):
                raise
            raise JeanieError(f"features are no longer finite: {_DIVERGED}") from None

    def _features(
        self, number: int, episodes: list[Episode], side: Literal["query", "support"]
    ) -> list[Features]:
        """Features of one side, episode by episode."""
        clips = [getattr(episode, side) for episode in episodes]
        unique, place = torch.unique(torch.cat(clips), return_inverse=True)
        batch = self.store[unique].to(self.model.device, self.model.dtype)
        if self.config.augment.active:
            key = (self.config.seed, _AUGMENT, number, _SIDES.index(side))
            batch = augmented(
                batch, self.config.augment, drawn([(*key, clip) for clip in unique.tolist()], DRAWS)
            )
        features = self.model.features(batch, side)
        return [features[index.to(self.model.device)] for index in place.split([len(one) for one in clips])]

    def _loss(
        self, own: Tensor | None, mine: range, same: Bool[Tensor, "episode query support"]
    ) -> tuple[float, Tensor, Tensor]:
        """Loss of all processes' episodes, their distances, and its gradient with respect to those.

        Every process computes the loss of the whole mini-batch, as its terms may join episodes.
        """
        distances = torch.zeros(same.shape, device=self.model.device, dtype=self.model.dtype)
        if own is not None:
            distances[mine.start :: mine.step] = own.detach()
        distances = self.world.added(distances).requires_grad_()
        value = self.loss(distances, same)
        value.backward()
        if distances.grad is None:
            raise JeanieError("the loss does not depend on any distance")
        return value.item(), distances.detach(), distances.grad

    def _change(self, rate: float, done: int) -> float:
        """New weights; returns the norm of the gradient before it was clipped."""
        norm = torch.nn.utils.clip_grad_norm_(self.learnt, self.config.clip or math.inf).item()
        if not math.isfinite(norm):
            raise JeanieError(f"the gradient is not finite at episode {done}: {_DIVERGED}")
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        if self.kept is not self.model:
            average(self.kept, self.model, self.config.average)
        return norm
