"""One training step: distances of some episodes, their loss, gradients from all processes, new weights."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie._internal.seeds import draw_uniform, use_seed
from jeanie.compute.distributed import World
from jeanie.errors import ConfigError, JeanieError, ShapeError
from jeanie.fewshot.episodes import Episode, Tag
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.losses import Loss
from jeanie.fewshot.model import FewShotModel
from jeanie.training.augment import DRAWS_PER_CLIP, augment_batch
from jeanie.training.averaging import update_average
from jeanie.training.config import TrainConfig, learning_rate

__all__ = ["Learner", "Step", "check_has_weights"]

_AUGMENT, _DROPOUT, _CLASSIFIER = 1, 2, 3  # seed keys
_SIDES: tuple[Literal["query", "support"], ...] = ("query", "support")
_DIVERGED = (
    "training has diverged; use a smaller rate, a clip, loss 'cross-entropy', or align.relative in another run folder; "
    "the last checkpoint is unchanged"
)
_OPTIMISERS: dict[str, Any] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}


@dataclass(frozen=True)
class Step:
    """Values of one step.

    Args:
        episode: Episodes done after the step.
        loss: Loss of the mini-batch.
        accuracy: Share of queries whose nearest support has their class.
        rate: Learning rate.
        temperature: Temperature of the loss.
        gradient: Norm of the gradient before clipping.
    """

    episode: int
    loss: float
    accuracy: float
    rate: float
    temperature: float
    gradient: float


def check_has_weights(model: FewShotModel) -> None:
    """Raise a ConfigError if the model has no weights to train."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ConfigError(
            "this model has no weights to learn; use an encoder of kind 'graph' or 'mlp', or evaluate it as it is"
        )


class Learner:
    """A model with its loss and optimiser. All random numbers of step k depend on (seed, k) only.

    The model is trained in place. Several processes share the episodes of a step and end with the same weights; only
    their dropout differs from that of one process. ``averaged`` is the model to use: the model itself, or a copy with
    the moving average of the weights, which starts at the initial weights.
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
        self.classes: tuple[Tag, ...] = (
            tuple(getattr(episodes, "classes", ())) if config.loss.classifier else ()
        )
        if config.loss.classifier and not self.classes:
            raise ConfigError(
                "a classifier needs the training classes: give Episodes, or set loss.classifier to 0"
            )
        with use_seed(config.seed, _CLASSIFIER):
            features = model.encoder.features if self.classes else 0
            self.loss = Loss(config.loss, features=features, classes=len(self.classes)).to(model.device)
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        if self.loss.classifier is not None:
            self.weights += list(self.loss.classifier.to(model.dtype).parameters())
        groups: list[dict[str, Any]] = [{"params": self.weights, "weight_decay": config.weight_decay}]
        if self.loss.log_temperature.requires_grad:  # no decay: a temperature has no reason to be 1
            groups.append({"params": [self.loss.log_temperature], "weight_decay": 0.0})
        momentum = {"momentum": config.momentum} if config.optimiser == "sgd" else {}
        self.optimiser = _OPTIMISERS[config.optimiser](groups, lr=config.rate, **momentum)
        world.broadcast_tensors([*model.state_dict().values(), *self.loss.state_dict().values()])
        self.averaged = copy.deepcopy(model) if config.ema_decay else model

    def step(self, number: int) -> Step:
        """Make step ``number``, counted from 0, on episodes number * B to (number + 1) * B - 1."""
        first = number * self.config.batch
        episodes = [
            self.episodes[i] for i in range(first, min(first + self.config.batch, len(self.episodes)))
        ]
        mine = self.world.own_indices(len(episodes))
        self.optimiser.zero_grad()
        with use_seed(self.config.seed, _DROPOUT, number, self.world.rank, device=self.model.device):
            own, added = self._compute_distances(number, [episodes[i] for i in mine], len(episodes))
        same = torch.stack([self._same_class(episode) for episode in episodes]).to(self.model.device)
        value, distances, gradient = self._compute_loss(own, mine, same)
        if own is not None:
            outputs = [own] if added is None else [own, added]
            weights = [gradient[mine.start :: mine.step], torch.ones_like(own[0, 0, 0])]
            torch.autograd.backward(outputs, weights[: len(outputs)])
        if self.classes:
            share = torch.zeros((), device=self.model.device) if added is None else added.detach()
            value += self.world.reduce_sum(share).item()
        self.world.sum_gradients(self.weights)
        rate = learning_rate(number, self.config)
        done = first + len(episodes)
        norm = self._update_weights(rate, done)
        nearest = same.gather(2, distances.argmin(2, keepdim=True)).double().mean().item()
        return Step(done, value, nearest, rate, self.loss.temperature, norm)

    def _compute_distances(
        self, number: int, episodes: list[Episode], total: int
    ) -> tuple[Float[Tensor, "episode query support"] | None, Float[Tensor, ""] | None]:
        """Return the distances of this process's episodes, of ``total`` in the step, and its loss of the classifier.

        Every clip is encoded once, and all clips of a side in one call.
        """
        self.model.train()
        scales = [buffer for name, buffer in self.model.named_buffers() if name.endswith("cost_scale")]
        before = [scale.clone() for scale in scales]
        changes = [torch.zeros_like(scale) for scale in scales]
        distances = []
        added = None
        if episodes:
            queries, supports = (self._encode(number, episodes, side) for side in _SIDES)
            if self.classes:
                added = self._classify(episodes, queries, supports, total)
            for query, support, episode in zip(queries, supports, episodes, strict=True):
                # every episode sees the scale of the start of the step, whichever process has it
                for scale, start in zip(scales, before, strict=True):
                    scale.copy_(start)
                if self._has_prototypes:
                    support = self.model.prototypes(support, episode.support_labels, episode.way)
                distances.append(self._compare(query, support))
                for change, scale, start in zip(changes, scales, before, strict=True):
                    change += (scale - start) / total
        for scale, start, change in zip(scales, before, changes, strict=True):
            scale.copy_(start + self.world.reduce_sum(change))
        return torch.stack(distances) if distances else None, added

    def _classify(
        self, episodes: list[Episode], queries: list[Features], supports: list[Features], total: int
    ) -> Float[Tensor, ""]:
        """Return the loss of the classifier on the mean features of all queries and supports."""
        number_of = {tag: number for number, tag in enumerate(self.classes)}
        means, labels = [], []
        for episode, query, support in zip(episodes, queries, supports, strict=True):
            numbers = torch.tensor([number_of[tag] for tag in episode.classes])
            means += [part.average_views().average_blocks().values[:, 0] for part in (query, support)]
            labels += [numbers[episode.query_labels], numbers[episode.support_labels]]
        clips = total * (len(episodes[0].query) + len(episodes[0].support))
        return self.loss.classify(torch.cat(means), torch.cat(labels).to(self.model.device), clips)

    @property
    def _has_prototypes(self) -> bool:
        """Whether the supports of a class are combined to one prototype."""
        return self.model.config.align.classes == "prototype"

    def _same_class(self, episode: Episode) -> Bool[Tensor, "query support"]:
        """Return which supports, or which prototypes, have the class of each query."""
        labels = torch.arange(episode.way) if self._has_prototypes else episode.support_labels
        return episode.query_labels[:, None] == labels

    def _compare(self, query: Features, support: Features) -> Float[Tensor, "query support"]:
        try:
            return self.model.compare(query, support)
        except ShapeError:
            if all(bool(part.values.isfinite().all()) for part in (query, support)):
                raise
            raise JeanieError(f"features are no longer finite: {_DIVERGED}") from None

    def _encode(
        self, number: int, episodes: list[Episode], side: Literal["query", "support"]
    ) -> list[Features]:
        """Return the features of one side, one entry per episode."""
        clips = [getattr(episode, side) for episode in episodes]
        unique, position = torch.unique(torch.cat(clips), return_inverse=True)
        batch = self.store[unique].to(self.model.device, self.model.dtype)
        if self.config.augment.is_active:
            key = (self.config.seed, _AUGMENT, number, _SIDES.index(side))
            draws = draw_uniform([(*key, clip) for clip in unique.tolist()], DRAWS_PER_CLIP)
            batch = augment_batch(batch, self.config.augment, draws)
        features = self.model.features(batch, side)
        return [
            features[index.to(self.model.device)] for index in position.split([len(own) for own in clips])
        ]

    def _compute_loss(
        self, own: Tensor | None, mine: range, same: Bool[Tensor, "episode query support"]
    ) -> tuple[float, Tensor, Tensor]:
        """Return the loss of the whole mini-batch, its distances, and the gradient with respect to them.

        Every process computes the loss of all episodes, because a term of the loss may depend on several episodes.
        """
        distances = torch.zeros(same.shape, device=self.model.device, dtype=self.model.dtype)
        if own is not None:
            distances[mine.start :: mine.step] = own.detach()
        distances = self.world.reduce_sum(distances).requires_grad_()
        value = self.loss(distances, same)
        value.backward()
        if distances.grad is None:
            raise JeanieError("the loss does not depend on any distance")
        return value.item(), distances.detach(), distances.grad

    def _update_weights(self, rate: float, done: int) -> float:
        """Update the weights and return the norm of the gradient before clipping."""
        norm = torch.nn.utils.clip_grad_norm_(self.weights, self.config.clip or math.inf).item()
        if not math.isfinite(norm):
            raise JeanieError(f"the gradient is not finite at episode {done}: {_DIVERGED}")
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        if self.averaged is not self.model:
            update_average(self.averaged, self.model, self.config.ema_decay)
        return norm
