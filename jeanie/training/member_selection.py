"""Selection of ensemble members and hubness for a task, by the accuracy on its training classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.encoders import TemporalEncoderConfig
from jeanie.fewshot.batching import encode_batches, evaluation_mode
from jeanie.fewshot.features import Features
from jeanie.fewshot.hubness import HubnessCorrection
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel

__all__ = ["MemberChoice", "list_member_shares", "select_members"]

_MAX_CLASSES, _MAX_CLIPS = 30, 12  # clips per class; the time grows with the square of both
_HALVES, _DRAWS = 20, 10  # random halves of the classes, and draws of one support per class for each half
_MIN_CLASSES = 4  # two classes in each half

Shares = tuple[float, ...]


@dataclass(frozen=True)
class MemberChoice:
    """Shares of the ensemble members (empty: equal), exponent of the hubness correction, and accuracy in percent."""

    shares: Shares
    hubness: float
    accuracy: float


def list_member_shares(model: FewShotModel) -> list[Shares]:
    """Return the shares to choose from: those of the model, and each kind of its members alone if there are several."""
    encoder = model.config.encoder
    if not isinstance(encoder, TemporalEncoderConfig):
        return [()]
    scales = dict.fromkeys(encoder.scales) if len(set(encoder.scales)) > 1 else {}
    return [
        encoder.shares,
        *(tuple(float(member_scale == scale) for member_scale in encoder.scales) for scale in scales),
    ]


def select_members(
    model: FewShotModel,
    store: Store,
    clips: Sequence[int],
    labels: Sequence[object],
    *,
    shares: Sequence[Shares],
    hubness: Sequence[float],
    margin: float,
    seed: int,
) -> MemberChoice | None:
    """Return the pair of ``shares`` and ``hubness`` with the best accuracy on the training classes.

    The classes are halved many times. In one half, one clip per class is the support and all other clips are queries;
    the hubness correction learns the motions of the other half. The first shares without hubness win unless another
    pair is better by ``margin`` points. No weights are trained, so ``clips`` may contain validation classes.

    Returns:
        The best pair, or None if there are too few classes.
    """
    rng = np.random.default_rng(seed)
    rows, classes = _sample_clips(labels, rng)
    if len(classes) < _MIN_CLASSES:
        return None
    sample = torch.tensor([clips[row] for row in rows])
    tasks = _draw_tasks(classes, rng)
    choices: list[MemberChoice] = []
    for member_shares in shares:
        changes = (
            {"encoder.shares": member_shares}
            if isinstance(model.config.encoder, TemporalEncoderConfig)
            else {}
        )
        variant = model.with_config(changes, hubness=0.0)
        with evaluation_mode(variant):
            support = Features.cat([part for _, part in encode_batches(variant, store, sample, "support")])
            queries = encode_batches(variant, store, sample, "query")
            table = torch.cat([variant.compare(part, support).cpu() for _, part in queries])
        for power in hubness:
            accuracies = [_measure_accuracy(table, support, task, power) for task in tasks]
            choices.append(MemberChoice(member_shares, power, 100 * float(np.mean(accuracies))))
    first = next(choice for choice in choices if choice.shares == shares[0] and not choice.hubness)
    best = max(choices, key=lambda choice: choice.accuracy)
    return best if best.accuracy >= first.accuracy + margin else first


@dataclass(frozen=True)
class _Task:
    """Rows for the hubness correction, queries with their classes, and draws of one support per class."""

    background: Int[Tensor, " background"]
    queries: Int[Tensor, " query"]
    truth: Int[Tensor, " query"]
    supports: Int[Tensor, "draw class"]


def _sample_clips(labels: Sequence[object], rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """Return the numbers of some clips of classes with at least two clips, and the rows of each class among them."""
    of_class: dict[object, list[int]] = {}
    for number, label in enumerate(labels):
        of_class.setdefault(label, []).append(number)
    several = [numbers for numbers in of_class.values() if len(numbers) > 1]
    if len(several) > _MAX_CLASSES:
        several = [several[index] for index in sorted(rng.permutation(len(several))[:_MAX_CLASSES])]
    rows: list[int] = []
    classes = []
    for numbers in several:
        sample = rng.permutation(numbers)[:_MAX_CLIPS].tolist()
        classes.append(list(range(len(rows), len(rows) + len(sample))))
        rows += sample
    return rows, classes


def _draw_tasks(classes: Sequence[Sequence[int]], rng: np.random.Generator) -> list[_Task]:
    tasks = []
    for _ in range(_HALVES):
        order = rng.permutation(len(classes)).tolist()
        half = len(order) // 2
        for task_half, background_half in ((order[:half], order[half:]), (order[half:], order[:half])):
            task_classes = [classes[index] for index in task_half]
            tasks.append(
                _Task(
                    background=torch.tensor([row for index in background_half for row in classes[index]]),
                    queries=torch.tensor([row for rows in task_classes for row in rows]),
                    truth=torch.tensor([label for label, rows in enumerate(task_classes) for _ in rows]),
                    supports=torch.from_numpy(
                        np.stack([rng.choice(rows, _DRAWS) for rows in task_classes], 1)
                    ),
                )
            )
    return tasks


def _measure_accuracy(
    table: Float[Tensor, "clip clip"], support: Features, task: _Task, hubness: float
) -> float:
    """Return the share of queries whose nearest support has their class, over all draws without the supports."""
    if hubness:
        blocks, features = support.values.shape[1], support.values.shape[-1]
        correction = HubnessCorrection(blocks, features, hubness).to(support.values)
        correction.learn([support[task.background]])
        table = table * correction.factor(support).cpu()
    nearest = table[task.queries][:, task.supports].argmin(2)
    is_query = (task.queries[:, None, None] != task.supports).all(2)
    return float((nearest == task.truth[:, None])[is_query].double().mean())
