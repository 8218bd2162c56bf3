"""Example alignments of an evaluation: which query met which support, along which path through time and views."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from jeanie.align import Alignment
from jeanie.datasets import Dataset
from jeanie.experiments.evaluation import Models, model_of
from jeanie.experiments.predictions import Predictions
from jeanie.experiments.protocols.splits import Split
from jeanie.experiments.reports.report import Report
from jeanie.fewshot.inputs import prepare
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.motion import Motion
from jeanie.views import EulerSimple

__all__ = ["Actor", "Example", "examples"]

_SCALE = 1000  # poses are told in whole thousandths of the largest coordinate


@dataclass(frozen=True, eq=False)
class Actor:
    """One side of an alignment: whose motion, and its pose in the middle of each block."""

    name: str
    label: str
    told: str
    poses: Float[Tensor, "block person joint 3"]
    valid: Bool[Tensor, "block person joint"]
    bones: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Example:
    """A query and the nearest support of the class that it was given.

    ``cost`` is the base distance of every two blocks in their best view, ``path`` the blocks and ``turns``
    the degrees (azimuth and altitude of the query; with views on both sides those of the support as well) of
    each step, ``steps`` its cost. Where distances of several models are added it is the first one's.
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
        """The example in plain values: poses in thousandths, None for a missing joint, costs from 0 to 99."""
        return {
            "method": self.method,
            "truth": self.truth,
            "predicted": self.predicted,
            "distance": _digits(self.distance),
            "own": _digits(self.own),
            "other": _digits(self.other),
            "query": _plain(self.query),
            "support": _plain(self.support),
            "shade": _shade(self.cost),
            "path": self.path.tolist(),
            "steps": [_digits(value) for value in self.steps.tolist()],
            "turns": self.turns.tolist(),
        }


def _digits(value: float | int) -> float:
    return float(f"{value:.4g}")


def _shade(cost: Float[Tensor, "query support"]) -> list[list[int]]:
    least, most = cost.amin(), cost.amax()
    shade: list[list[int]] = ((cost - least) / (most - least).clamp_min(1e-12) * 99).round().long().tolist()
    return shade


def _plain(actor: Actor) -> dict[str, Any]:
    largest = actor.poses[actor.valid].abs().amax().clamp_min(1e-9)
    whole = (actor.poses / largest * _SCALE).round().long()
    return {
        "name": actor.name,
        "label": actor.label,
        "told": actor.told,
        "bones": [list(bone) for bone in actor.bones],
        "poses": [
            [
                [point if there else None for point, there in zip(body, seen, strict=True)]
                for body, seen in zip(bodies, all_seen, strict=True)
            ]
            for bodies, all_seen in zip(whole.tolist(), actor.valid.tolist(), strict=True)
        ],
    }


@torch.no_grad()
def examples(
    models: Models, report: Report, dataset: Dataset, splits: Sequence[Split], *, count: int = 6
) -> tuple[Example, ...]:
    """``count`` alignments from an evaluation of ``models`` on ``splits``.

    Half of the queries were recognised and half were not, as far as there are any: from the clearest to the
    closest call, of different classes. One that was not is shown with the support it was mistaken for.
    """
    rows = _chosen(report.predictions[report.predictions.seed == 0], count)
    found = []
    for row in range(len(rows)):
        split = splits[int(rows.split[row])]
        model = model_of(models, split)
        training = model.training
        model.eval()
        try:
            found.append(_example(model, report, dataset, split, rows[row : row + 1]))
        finally:
            model.train(training)
    return tuple(found)


def _chosen(rows: Predictions, count: int) -> Predictions:
    """Rows that were right and rows that were wrong, evenly by how clear they were, classes in turn."""
    margin = (rows.own - rows.other).abs()
    right, wrong = (
        torch.nonzero(some)[:, 0][margin[some].argsort(descending=True, stable=True)]
        for some in (rows.right, ~rows.right)
    )
    wrongs = min(len(wrong), max(count // 2, count - len(right)))
    picked = [
        place
        for some, wanted in ((right, min(len(right), count - wrongs)), (wrong, wrongs))
        for place in _spread(some.tolist(), rows.truth.tolist(), wanted)
    ]
    return rows[torch.tensor(picked, dtype=torch.int64)]


def _spread(places: list[int], classes: list[int], count: int) -> list[int]:
    """``count`` of the places, evenly from first to last; a class that was had already waits."""
    taken: list[int] = []
    for number in range(count):
        target = round(number * (len(places) - 1) / max(1, count - 1))
        had = {classes[place] for place in taken}
        left = [at for at in range(len(places)) if places[at] not in taken]
        fresh = [at for at in left if classes[places[at]] not in had]
        taken.append(places[min(fresh or left, key=lambda at: abs(at - target))])
    return taken


def _example(
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
    if model.reflects(query, support):
        query = query.mirrored()  # is shown as it was compared
    alignment = model.trace(query, support)
    cost = _cost(model, query, support)
    return Example(
        method=report.method,
        truth=str(report.classes[int(row.truth)]),
        predicted=str(predicted),
        query=_actor(model, query, int(row.query), cost.shape[0]),
        support=_actor(model, support, candidates[int(distances.argmin())], cost.shape[1]),
        distance=float(distances.min()),
        own=float(row.own),
        other=float(row.other),
        cost=cost,
        path=alignment.path[:, :2].cpu(),
        steps=alignment.steps.cpu(),
        turns=_turns(model, alignment),
    )


def _cost(model: FewShotModel, query: Motion, support: Motion) -> Float[Tensor, "query support"]:
    """Base distance of every block of the query, in its best view, to every block of the support in its."""
    left = model.features(model.collate([query]), "query")
    right = model.features(model.collate([support]), "support")
    by_view = model.costs(left, right)[0]
    return by_view.reshape(*by_view.shape[:2], -1).amin(2).cpu()


def _actor(model: FewShotModel, motion: Motion, clip: int, blocks: int) -> Actor:
    """Poses at the middles of ``blocks`` windows, the first and the last where the model's blocks have them."""
    seen = prepare(motion, model.config.inputs.prepare)
    joints = seen.joints - seen.joints[seen.valid].mean(0)
    first = (min(model.config.inputs.block, len(joints)) - 1) / 2
    frames = torch.linspace(first, len(joints) - 1 - first, blocks).round().long()
    tags = (("subject", motion.subject), ("camera", motion.view), ("take", motion.take))
    return Actor(
        name=motion.name or f"clip {clip}",
        label=str(motion.label),
        told=", ".join(f"{key} {value}" for key, value in tags if value is not None),
        poses=joints[frames],
        valid=seen.valid[frames],
        bones=seen.layout.bones,
    )


def _turns(model: FewShotModel, alignment: Alignment) -> Float[Tensor, "step axis"]:
    """The path's views in degrees: azimuth and altitude of the query, then of the support; no views, no axes."""
    views, indices = model.views, alignment.path[:, 2:].cpu()
    if views is None:
        return torch.zeros(len(indices), 0)
    azimuths, altitudes = torch.tensor(views.azimuths), torch.tensor(views.altitudes)
    if isinstance(views, EulerSimple):
        level, ahead = torch.zeros(len(azimuths)), torch.zeros(len(altitudes))
        both = torch.stack((torch.cat((azimuths, ahead)), torch.cat((level, altitudes))), 1)
        return both[indices[:, 0]]
    return torch.stack(
        [(azimuths, altitudes)[axis % 2][indices[:, axis]] for axis in range(indices.shape[1])], 1
    )
