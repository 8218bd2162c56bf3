"""Which variant of a model suits a task, judged on its training classes: one half is known, the other told apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.experiments.predictions import evaluating, feature_batches
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel
from jeanie.fewshot.usual import Usual

__all__ = ["Choice", "choose", "kinds"]

_CLASSES, _CLIPS = 30, 12  # and clips of a class, at most: time grows with the square of both
_HALVES, _DRAWS = 20, 10  # ways to halve the classes, and draws of one support a class for each half
_LEAST = 4  # classes, so that each half has something to tell apart

Shares = tuple[float, ...]


@dataclass(frozen=True)
class Choice:
    """Shares of the networks side by side (none: all the same), the power of hubs, and its accuracy in percent."""

    shares: Shares
    hubs: float
    accuracy: float


def kinds(model: FewShotModel) -> list[Shares]:
    """Shares that a model may have: its own, and every kind of its networks alone, where it has several."""
    encoder = model.config.encoder
    found = dict.fromkeys(encoder.scales) if len(set(encoder.scales)) > 1 else {}
    alone = [tuple(float(own == kind) for own in encoder.scales) for kind in found]
    return [encoder.shares, *alone]


def choose(
    model: FewShotModel,
    store: Store,
    clips: Sequence[int],
    labels: Sequence[object],
    *,
    shares: Sequence[Shares],
    hubs: Sequence[float],
    lead: float,
    seed: int,
) -> Choice | None:
    """Of all pairs of ``shares`` and ``hubs`` the one that tells training classes apart best; None: too few classes.

    Classes are halved many times. Of one half one clip a class is a support and all others are queries; the motions
    of the other half are those that ``hubs`` knows. The first shares without hubs stay unless another pair
    is better by ``lead`` points. Nothing is learnt, so the classes that validate training may be among these.
    """
    rng = np.random.default_rng(seed)
    rows, classes = _some(labels, rng)
    if len(classes) < _LEAST:
        return None
    chosen = torch.tensor([clips[row] for row in rows])
    tasks = _tasks(classes, rng)
    found: list[Choice] = []
    for own in shares:
        variant = model.but({"encoder.shares": own}, hubs=0.0)
        with evaluating(variant):
            support = Features.cat([part for _, part in feature_batches(variant, store, chosen, "support")])
            queries = feature_batches(variant, store, chosen, "query")
            table = torch.cat([variant.compare(part, support).cpu() for _, part in queries])
        for power in hubs:
            told = [_accuracy(table, support, task, power) for task in tasks]
            found.append(Choice(own, power, 100 * float(np.mean(told))))
    start = next(one for one in found if one.shares == shares[0] and not one.hubs)
    best = max(found, key=lambda one: one.accuracy)
    return best if best.accuracy >= start.accuracy + lead else start


@dataclass(frozen=True)
class _Task:
    """Rows that are known, rows to be told apart with their classes, and draws of supports, one a class."""

    known: Int[Tensor, " known"]
    asked: Int[Tensor, " asked"]
    truth: Int[Tensor, " asked"]
    supports: Int[Tensor, "draw class"]


def _some(labels: Sequence[object], rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """Numbers of a few clips of some classes that have two or more, and for each class which rows of these are its."""
    of_class: dict[object, list[int]] = {}
    for number, label in enumerate(labels):
        of_class.setdefault(label, []).append(number)
    several = [numbers for numbers in of_class.values() if len(numbers) > 1]
    if len(several) > _CLASSES:
        several = [several[place] for place in sorted(rng.permutation(len(several))[:_CLASSES])]
    rows: list[int] = []
    classes = []
    for numbers in several:
        drawn = rng.permutation(numbers)[:_CLIPS].tolist()
        classes.append(list(range(len(rows), len(rows) + len(drawn))))
        rows += drawn
    return rows, classes


def _tasks(classes: Sequence[Sequence[int]], rng: np.random.Generator) -> list[_Task]:
    tasks = []
    for _ in range(_HALVES):
        order = rng.permutation(len(classes)).tolist()
        half = len(order) // 2
        for ours, theirs in ((order[:half], order[half:]), (order[half:], order[:half])):
            own = [classes[one] for one in ours]
            tasks.append(
                _Task(
                    known=torch.tensor([row for one in theirs for row in classes[one]]),
                    asked=torch.tensor([row for rows in own for row in rows]),
                    truth=torch.tensor([at for at, rows in enumerate(own) for _ in rows]),
                    supports=torch.from_numpy(np.stack([rng.choice(rows, _DRAWS) for rows in own], 1)),
                )
            )
    return tasks


def _accuracy(table: Float[Tensor, "clip clip"], support: Features, task: _Task, hubs: float) -> float:
    """Share of queries whose nearest support is of their class, over all draws; a support asks nothing."""
    if hubs:
        usual = Usual(support.values.shape[1], support.values.shape[-1], hubs).to(support.values)
        usual.learn([support[task.known]])
        table = table * usual.factor(support).cpu()
    nearest = table[task.asked][:, task.supports].argmin(2)
    asks = (task.asked[:, None, None] != task.supports).all(2)
    return float((nearest == task.truth[:, None])[asks].double().mean())
