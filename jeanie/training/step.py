"""One training step: distances of some episodes, their loss, gradients from all processes, new weights."""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from jeanie.training.prefetch import ClipLoader

__all__ = ["Learner", "Step", "check_has_weights"]

_AUGMENT, _DROPOUT, _CLASSIFIER = 1, 2, 3  # seed keys
_SIDES: tuple[Literal["query", "support"], ...] = ("query", "support")
_DIVERGED = (
    "training has diverged; use a smaller rate, a clip, loss 'cross-entropy', or align.relative in another run folder; "
    "the last checkpoint is unchanged"
)
_PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
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


@dataclass(frozen=True)
class _PartResult:
    """Distances of some episodes, the loss of the classifier, and the changes of the scales of costs."""

    distances: Float[Tensor, "episode query support"]
    added: Float[Tensor, ""] | None
    changes: list[Tensor]


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
        options: dict[str, Any] = {"momentum": config.momentum} if config.optimiser == "sgd" else {}
        self._scaler = torch.amp.GradScaler(model.device.type, enabled=config.precision == "fp16")
        if self._scaler.is_enabled() and model.device.type == "cuda":
            options["fused"] = True  # a fused optimiser skips a step on the device, others wait for it
        self.optimiser = _OPTIMISERS[config.optimiser](groups, lr=config.rate, **options)
        world.broadcast_tensors([*model.state_dict().values(), *self.loss.state_dict().values()])
        self.averaged = copy.deepcopy(model) if config.ema_decay else model
        self._models = [part for part in model.modules() if isinstance(part, FewShotModel)]
        for part in self._models if config.compile else ():
            part.encoder.compile(dynamic=True)
        self.loader = ClipLoader(store, model.device)

    def step(self, number: int) -> Step:
        """Make step ``number``, counted from 0, on episodes number * B to (number + 1) * B - 1.

        The host reads the device once, at the end, for the values that it returns.
        """
        episodes, own_indices = self._select_episodes(number)
        parts = self._split(episodes, own_indices)
        self.optimiser.zero_grad()
        self.model.train()
        scales = [buffer for name, buffer in self.model.named_buffers() if name.endswith("cost_scale")]
        before = [scale.clone() for scale in scales]
        results = []
        with torch.set_grad_enabled(len(parts) == 1):
            for part in range(len(parts)):
                results.append(self._compute_part(number, parts, part, len(episodes), before))
        own_distances = torch.cat([result.distances for result in results]) if results else None
        same = torch.stack([self._same_class(episode) for episode in episodes])
        value, distances, gradient = self._compute_loss(own_distances, own_indices, same)
        own_gradient = gradient[own_indices.start :: own_indices.step]
        start = 0
        for part, result in enumerate(results):
            if len(parts) > 1:  # the loss needed the distances of all parts first
                result = self._compute_part(number, parts, part, len(episodes), before)
            if part == len(results) - 1:
                self._request_clips(number + 1)
            self._backpropagate(result, own_gradient[start : start + len(result.distances)])
            start += len(result.distances)
        for i, (scale, first) in enumerate(zip(scales, before, strict=True)):
            change = sum((result.changes[i] for result in results), torch.zeros_like(first))
            scale.copy_(first + self.world.reduce_sum(change))
        if self.classes:
            added = [result.added.detach() for result in results if result.added is not None]
            value = value + self.world.reduce_sum(
                sum(added, torch.zeros((), device=self.model.device, dtype=value.dtype))
            )
        self.world.sum_gradients(self.weights)
        rate = learning_rate(number, self.config)
        done = number * self.config.batch + len(episodes)
        norm = self._update_weights(rate)
        nearest = same.to(self.model.device).gather(2, distances.argmin(2, keepdim=True)).double().mean()
        return self._read_step(done, rate, value, nearest, norm)

    def _select_episodes(self, number: int) -> tuple[list[Episode], range]:
        """Return the episodes of a step, and the indices of those of this process."""
        first = number * self.config.batch
        last = min(first + self.config.batch, len(self.episodes))
        episodes = [self.episodes[i] for i in range(first, last)]
        return episodes, self.world.own_indices(len(episodes))

    def _split(self, episodes: list[Episode], own_indices: range) -> list[list[Episode]]:
        """Return the episodes of this process in parts of equal size; the last part may be smaller."""
        own_episodes = [episodes[i] for i in own_indices]
        size = math.ceil(len(own_episodes) / self.config.accumulate) or 1
        return [own_episodes[start : start + size] for start in range(0, len(own_episodes), size)]

    def _request_clips(self, number: int) -> None:
        """Let the clips of a step be loaded while the backward pass computes."""
        if number < self.config.steps:
            for part, episodes in enumerate(self._split(*self._select_episodes(number))):
                for side in _SIDES:
                    clips = [getattr(episode, side) for episode in episodes]
                    self.loader.request((number, part, _SIDES.index(side)), clips)

    def _compute_part(
        self, number: int, parts: list[list[Episode]], part: int, total: int, before: list[Tensor]
    ) -> "_PartResult":
        """Return the distances of the episodes of a part, of ``total`` episodes in the step.

        Every clip is encoded once, and all clips of a side in one call.
        """
        episodes = parts[part]
        self.loader.prepare_ahead([getattr(episode, side) for episode in episodes for side in _SIDES])
        key = (part,) if len(parts) > 1 else ()
        scales = [buffer for name, buffer in self.model.named_buffers() if name.endswith("cost_scale")]
        changes = [torch.zeros_like(scale) for scale in scales]
        distances = []
        with use_seed(self.config.seed, _DROPOUT, number, self.world.rank, *key, device=self.model.device):
            queries, supports = (self._encode(number, part, episodes, side) for side in _SIDES)
            added = self._classify(episodes, queries, supports, total) if self.classes else None
            for query, support, episode in zip(queries, supports, episodes, strict=True):
                # every episode sees the scale of the start of the step, whichever process has it
                for scale, start in zip(scales, before, strict=True):
                    scale.copy_(start)
                if self._has_prototypes:
                    support = self.model.prototypes(support, episode.support_labels, episode.way)
                distances.append(self._compare(query, support))
                for change, scale, start in zip(changes, scales, before, strict=True):
                    change += (scale - start) / total
        return _PartResult(torch.stack(distances), added, changes)

    def _backpropagate(self, result: "_PartResult", gradient: Tensor) -> None:
        """Add the gradient of a part to that of the weights."""
        outputs, weights = [result.distances], [gradient]
        if result.added is not None:
            outputs.append(result.added)
            weights.append(self._scaler.scale(torch.ones_like(result.added)))
        torch.autograd.backward(outputs, weights)

    def _read_step(self, done: int, rate: float, value: Tensor, nearest: Tensor, norm: Tensor) -> Step:
        """Return the values of a step; this waits for the device."""
        scale = self._scaler.scale(torch.ones_like(nearest))
        temperature = self.loss.log_temperature.detach().exp()
        numbers = torch.stack([x.detach().double() for x in (value, nearest, norm, temperature, scale)])
        loss, accuracy, length, temperature_now, factor = numbers.tolist()
        # with fp16, a step whose gradient overflows is skipped, and the next one has a smaller factor
        if not (math.isfinite(length) or (self._scaler.is_enabled() and factor >= 1)):
            raise JeanieError(f"the gradient is not finite at episode {done}: {_DIVERGED}")
        return Step(done, loss, accuracy, rate, temperature_now, length)

    def scaler_tensors(self) -> dict[str, Tensor]:
        """Return the state of the gradient scaler for a checkpoint; empty unless the precision is fp16."""
        state = self._scaler.state_dict()
        names = ("scale", "_growth_tracker") if state else ()
        return {name: torch.tensor(float(state[name]), dtype=torch.float64) for name in names}

    def restore_scaler(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that ``scaler_tensors`` returned."""
        if self._scaler.is_enabled() and tensors:
            state = {
                **self._scaler.state_dict(),
                "scale": tensors["scale"].item(),
                "_growth_tracker": int(tensors["_growth_tracker"]),
            }
            self._scaler.load_state_dict(state)

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
            if all(bool(part.values.square().sum(-1).isfinite().all()) for part in (query, support)):
                raise
            raise JeanieError(f"features are too large or not finite: {_DIVERGED}") from None

    def _encode(
        self, number: int, part: int, episodes: list[Episode], side: Literal["query", "support"]
    ) -> list[Features]:
        """Return the features of one side, one entry per episode."""
        index = _SIDES.index(side)
        loaded = self.loader.load((number, part, index), [getattr(episode, side) for episode in episodes])
        batch = loaded.batch.to(self.model.device, self.model.dtype)
        if self.config.augment.is_active:
            key = (self.config.seed, _AUGMENT, number, index)
            draws = draw_uniform([(*key, clip) for clip in loaded.clips.tolist()], DRAWS_PER_CLIP)
            batch = augment_batch(batch, self.config.augment, draws)
        with self._use_precision():
            features = self.model.features(batch, side)
        return [features[place.to(self.model.device, non_blocking=True)] for place in loaded.position]

    @contextmanager
    def _use_precision(self) -> Iterator[None]:
        """Let the encoders compute in the precision of the training."""
        try:
            for part in self._models:
                part.autocast_dtype, part.recompute = (
                    _PRECISIONS[self.config.precision],
                    self.config.recompute,
                )
            yield
        finally:
            for part in self._models:
                part.autocast_dtype, part.recompute = None, False

    def _compute_loss(
        self, own_distances: Tensor | None, own_indices: range, same: Bool[Tensor, "episode query support"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss of the whole mini-batch, its distances, and the (scaled) gradient with respect to them.

        Every process computes the loss of all episodes, because a term of the loss may depend on several episodes.
        """
        distances = torch.zeros(same.shape, device=self.model.device, dtype=self.model.dtype)
        if own_distances is not None:
            distances[own_indices.start :: own_indices.step] = own_distances.detach()
        distances = self.world.reduce_sum(distances).requires_grad_()
        value = self.loss(distances, same)
        self._scaler.scale(value).backward()
        if distances.grad is None:
            raise JeanieError("the loss does not depend on any distance")
        return value.detach(), distances.detach(), distances.grad

    def _update_weights(self, rate: float) -> Tensor:
        """Update the weights and return the norm of the gradient before clipping."""
        self._scaler.unscale_(self.optimiser)
        norm = torch.nn.utils.clip_grad_norm_(self.weights, self.config.clip or math.inf)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self._scaler.step(self.optimiser)
        self._scaler.update()
        if self.averaged is not self.model:
            update_average(self.averaged, self.model, self.config.ema_decay)
        return norm
