"""Example alignments of an evaluation: a query, a support, and the path through time and views."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from jeanie.alignment import Alignment
from jeanie.datasets import Dataset
from jeanie.evaluation.evaluate import Models, get_model_of_split
from jeanie.evaluation.predict import Predictions
from jeanie.evaluation.protocols.splits import Split
from jeanie.evaluation.report.report import Report
from jeanie.fewshot.inputs import prepare
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.motion import Motion
from jeanie.views import EulerSimple

__all__ = ["Actor", "Example", "find_examples"]

_SCALE = 1000  # poses are stored in thousandths of the largest coordinate


@dataclass(frozen=True, eq=False)
class Actor:
    """One side of an alignment: the motion and its pose in the middle of each block.

    ``tags`` describes subject, camera and take.
    """

    name: str
    label: str
    tags: str
    poses: Float[Tensor, "block person joint 3"]
    valid: Bool[Tensor, "block person joint"]
    bones: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Example:
    """A query and the nearest support of its predicted class.

    If a model has components, all values are those of its first model.

    Attributes:
        cost: Base distance of every two blocks in their best view.
        path: Query block and support block of each step.
        steps: Cost of each step.
        turns: View of each step in degrees: azimuth and altitude of the query, then of the support if it has views.
    """

    method: str
    truth: str
    predicted: str
    query: Actor
    support: Actor
    distance: float
    own: float
    other: float
    cost: Float[Tensor, "query support"]
    path: Int[Tensor, "step 2"]
    steps: Float[Tensor, " step"]
    turns: Float[Tensor, "step axis"]

    def json(self) -> dict[str, Any]:
        """Return the example as plain values: poses in thousandths, None for missing joints, costs from 0 to 99."""
        return {
            "method": self.method,
            "truth": self.truth,
            "predicted": self.predicted,
            "distance": _round_digits(self.distance),
            "own": _round_digits(self.own),
            "other": _round_digits(self.other),
            "query": _list_actor_values(self.query),
            "support": _list_actor_values(self.support),
            "shade": _scale_costs(self.cost),
            "path": self.path.tolist(),
            "steps": [_round_digits(value) for value in self.steps.tolist()],
            "turns": self.turns.tolist(),
        }


def _round_digits(value: float) -> float:
    return float(f"{value:.4g}")


def _scale_costs(cost: Float[Tensor, "query support"]) -> list[list[int]]:
    least, most = cost.amin(), cost.amax()
    shade: list[list[int]] = ((cost - least) / (most - least).clamp_min(1e-12) * 99).round().long().tolist()
    return shade


def _list_actor_values(actor: Actor) -> dict[str, Any]:
    largest = actor.poses[actor.valid].abs().amax().clamp_min(1e-9)
    rounded = (actor.poses / largest * _SCALE).round().long()
    return {
        "name": actor.name,
        "label": actor.label,
        "tags": actor.tags,
        "bones": [list(bone) for bone in actor.bones],
        "poses": [
            [
                [point if valid else None for point, valid in zip(body, body_valid, strict=True)]
                for body, body_valid in zip(bodies, pose_valid, strict=True)
            ]
            for bodies, pose_valid in zip(rounded.tolist(), actor.valid.tolist(), strict=True)
        ],
    }


@torch.no_grad()
def find_examples(
    models: Models, report: Report, dataset: Dataset, splits: Sequence[Split], *, count: int = 6
) -> tuple[Example, ...]:
    """Return ``count`` example alignments from an evaluation of ``models`` on ``splits``.

    Half of the queries are classified correctly and half are not, if there are enough. Their margins range from
    clear to narrow, and their classes differ. A wrong query is shown with the support that it was mistaken for.
    A method that is not a FewShotModel has no alignments, so it gives no example.

    Args:
        models: The models that were evaluated, as ``evaluate`` takes them.
        report: The report of the evaluation.
        dataset: The data set of the evaluation.
        splits: The splits of the evaluation.
        count: Number of examples.

    >>> from jeanie import FewShotModel, evaluate, get_protocol
    >>> protocol, model = get_protocol("synthetic"), FewShotModel.raw("dtw")
    >>> dataset = protocol.open()
    >>> splits = protocol.splits(dataset)
    >>> report = evaluate(model, protocol, dataset=dataset, splits=splits, limit=1)
    >>> len(find_examples(model, report, dataset, splits, count=1))
    1
    """
    rows = _select_rows(report.predictions[report.predictions.seed == 0], count)
    examples: list[Example] = []
    for row in range(len(rows)):
        split = splits[int(rows.split[row])]
        model = get_model_of_split(models, split)
        if not isinstance(model, FewShotModel):
            continue
        training = model.training
        model.eval()
        try:
            examples.append(_build_example(model, report, dataset, split, rows[row : row + 1]))
        finally:
            model.train(training)
    return tuple(examples)


def _select_rows(rows: Predictions, count: int) -> Predictions:
    """Return correct and wrong rows, evenly spaced by their margins, of different classes."""
    margin = (rows.own - rows.other).abs()
    correct, wrong = (
        torch.nonzero(mask)[:, 0][margin[mask].argsort(descending=True, stable=True)]
        for mask in (rows.is_correct, ~rows.is_correct)
    )
    wrong_count = min(len(wrong), max(count // 2, count - len(correct)))
    correct_count = min(len(correct), count - wrong_count)
    selected = [
        row
        for candidates, number in ((correct, correct_count), (wrong, wrong_count))
        for row in _select_evenly(candidates.tolist(), rows.truth.tolist(), number)
    ]
    return rows[torch.tensor(selected, dtype=torch.int64)]


def _select_evenly(rows: list[int], classes: list[int], count: int) -> list[int]:
    """Return ``count`` of the rows, evenly spaced; rows of classes that were not selected yet come first."""
    selected: list[int] = []
    for number in range(count):
        target = round(number * (len(rows) - 1) / max(1, count - 1))
        used = {classes[row] for row in selected}
        left = [index for index in range(len(rows)) if rows[index] not in selected]
        fresh = [index for index in left if classes[rows[index]] not in used]
        selected.append(rows[min(fresh or left, key=lambda index: abs(index - target))])
    return selected


def _build_example(
    model: FewShotModel, report: Report, dataset: Dataset, split: Split, row: Predictions
) -> Example:
    episode = split.test[int(row.episode)]
    predicted = report.classes[int(row.predicted)]
    number = episode.classes.index(predicted)
    candidates = episode.support[episode.support_labels == number].tolist()
    query = dataset[int(row.query)]
    supports = [dataset[clip] for clip in candidates]
    distances = model.distances([query], supports)[0]
    support = supports[int(distances.argmin())]
    if model.is_mirrored_match(query, support):
        query = query.mirror()  # shown as it was compared
    alignment = model.trace(query, support)
    cost = _compute_block_costs(model, query, support)
    return Example(
        method=report.method,
        truth=report.titles[int(row.truth)],
        predicted=report.titles[int(row.predicted)],
        query=_build_actor(model, query, int(row.query), cost.shape[0]),
        support=_build_actor(model, support, candidates[int(distances.argmin())], cost.shape[1]),
        distance=float(distances.min()),
        own=float(row.own),
        other=float(row.other),
        cost=cost,
        path=alignment.path[:, :2].cpu(),
        steps=alignment.steps.cpu(),
        turns=_list_view_angles(model, alignment),
    )


def _compute_block_costs(
    model: FewShotModel, query: Motion, support: Motion
) -> Float[Tensor, "query support"]:
    """Return the base distance of every query block to every support block, in their best views."""
    left = model.features(model.collate([query]), "query")
    right = model.features(model.collate([support]), "support")
    by_view = model.costs(left, right)[0]
    return by_view.reshape(*by_view.shape[:2], -1).amin(2).cpu()


def _build_actor(model: FewShotModel, motion: Motion, clip: int, blocks: int) -> Actor:
    """Return an actor with the poses in the middle of each of the model's blocks."""
    prepared = prepare(motion, model.config.inputs.prepare)
    joints = prepared.joints - prepared.joints[prepared.valid].mean(0)
    first = (min(model.config.inputs.block, len(joints)) - 1) / 2
    frames = torch.linspace(first, len(joints) - 1 - first, blocks).round().long()
    tags = (("subject", motion.subject), ("camera", motion.view), ("take", motion.take))
    return Actor(
        name=motion.name or f"clip {clip}",
        label=str(motion.label),
        tags=", ".join(f"{key} {value}" for key, value in tags if value is not None),
        poses=joints[frames],
        valid=prepared.valid[frames],
        bones=prepared.layout.bones,
    )


def _list_view_angles(model: FewShotModel, alignment: Alignment) -> Float[Tensor, "step axis"]:
    """Return the views along the path in degrees: azimuth and altitude of the query, then of the support."""
    views, indices = model.views, alignment.path[:, 2:].cpu()
    if views is None:
        return torch.zeros(len(indices), 0)
    azimuths, altitudes = torch.tensor(views.azimuths), torch.tensor(views.altitudes)
    if isinstance(views, EulerSimple):
        level, ahead = torch.zeros(len(azimuths)), torch.zeros(len(altitudes))
        angles = torch.stack((torch.cat((azimuths, ahead)), torch.cat((level, altitudes))), 1)
        return angles[indices[:, 0]]
    return torch.stack(
        [(azimuths, altitudes)[axis % 2][indices[:, axis]] for axis in range(indices.shape[1])], 1
    )
