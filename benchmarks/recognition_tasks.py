"""What benchmarks/recognition.py measures of a model, data set by data set, from one table of distances each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from jeanie.datasets import Dataset
from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.protocols.splits import add_distractors
from jeanie.fewshot import Features, FewShotModel
from jeanie.fewshot.classes import class_distances
from jeanie.fewshot.episodes import Draw, Episode
from jeanie.recogniser.labelling import LabelConfig, Neighbours, propagate
from jeanie.skeleton import Motion
from jeanie.views.euler import make_rotations

YAW = 60  # degrees either way
TAKES = 2  # draws of takes where one person shows all actions
DRAWS = 10  # of examples for labelling
SHUFFLES = 20
FUSED = (0.0, 0.1, 0.2, 0.4, 0.8)  # weights of a raw distance beside a learnt one
LEAD = 0.005  # of validation accuracy that a raw distance needs to be taken

Result = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """A data set in memory, and once more with every motion turned by an unknown yaw."""

    dataset: Dataset
    motions: tuple[Motion, ...]
    turned: tuple[Motion, ...]


@cache
def opened(name: str) -> Data:
    dataset = get_protocol(name).open()
    motions = tuple(dataset.motions)
    draws = torch.rand(len(motions), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    turns = make_rotations(YAW * (2 * draws - 1), torch.zeros(()).double())
    turned = tuple(
        motion.replace(joints=torch.einsum("ij,tpkj->tpki", turn.to(motion.joints), motion.joints))
        for motion, turn in zip(motions, turns, strict=True)
    )
    return Data(dataset, motions, turned)


def features(model: FewShotModel, motions: Sequence[Motion], side: str) -> Features:
    parts = [model.collate(motions[at : at + 64]) for at in range(0, len(motions), 64)]
    return Features.cat([model.features(part, side) for part in parts])  # type: ignore[arg-type]


@torch.no_grad()
def table(model: FewShotModel, queries: Sequence[Motion], supports: Sequence[Motion]) -> Tensor:
    """Distance of every motion as a query to every motion as a support: cheaper than the pairs one by one."""
    held = features(model, supports, "support")
    asked = features(model, queries, "query")
    rows = [model.compare(asked[at : at + 64], held).cpu().double() for at in range(0, len(queries), 64)]
    return torch.cat(rows)


def hits(distances: Tensor, episode: Episode) -> Tensor:
    """Which queries of an episode have their nearest support in their own class."""
    own = distances[episode.query][:, episode.support]
    return (
        class_distances(own, episode.support_labels, episode.way, "nearest").argmin(1) == episode.query_labels
    )


def over_splits(distances: Tensor, splits: Sequence[Any]) -> Result:
    """Mean accuracy of each split; all episodes of one have as many queries, or count by their queries."""
    means = [
        torch.cat([hits(distances, one) for one in split.test]).double().mean().item() for split in splits
    ]
    return {"over": "splits", "units": means}


def one_person(data: Data, classes: Sequence[Any], seed: int) -> Iterator[Episode]:
    """Each subject in turn shows one take of every class; queries are all clips of all others."""
    labels, subjects = data.dataset.labels, data.dataset.subjects
    for number, subject in enumerate(sorted(set(subjects), key=str)):
        for take in range(TAKES):
            draw, shown = Draw(seed, number, take), []
            for label in classes:
                own = [i for i in range(len(labels)) if labels[i] == label and subjects[i] == subject]
                shown += [(label, *draw.pick(own, 1))] if own else []
            if len(shown) < 2:
                continue
            tags = [label for label, _ in shown]
            asked = [i for i in range(len(labels)) if labels[i] in tags and subjects[i] != subject]
            yield Episode(
                torch.tensor([clip for _, clip in shown]), torch.arange(len(tags)),
                torch.tensor(asked), torch.tensor([tags.index(labels[i]) for i in asked]), tuple(tags),
            )  # fmt: skip


def msr(model: FewShotModel) -> dict[str, Result]:
    data, splits = opened("msraction3d-splits"), get_protocol("msraction3d-splits").splits
    found = table(model, data.motions, data.motions)
    ten, five = splits(data.dataset, way=10), splits(data.dataset, way=5)
    people = [
        replace(split, test=tuple(one_person(data, split.test_classes, at))) for at, split in enumerate(ten)
    ]
    (fixed,) = get_protocol("msraction3d-exemplars").splits(data.dataset)
    shown = {"exemplars": fixed.test_variants["with exemplars"], "exemplars-without": fixed.test}
    labelled = {"fixed": [fixed.test[0]], "drawn": [one for split in ten for one in _all_of(data, split)]}
    return {
        "msr10": over_splits(found, ten),
        "msr5": over_splits(found, five),
        "msr10-person": over_splits(found, people),
        "msr10-turned": over_splits(table(model, data.turned, data.motions), ten),
        **{
            name: {"over": "queries", "units": hits(found, episodes[0]).double().tolist()}
            for name, episodes in shown.items()
        },
        **{f"label-{name}": labelling(found, episodes) for name, episodes in labelled.items()},
    }


def _all_of(data: Data, split: Any) -> Iterator[Episode]:
    """One drawn example of every test class, all other clips of these classes unlabelled."""
    labels = data.dataset.labels
    clips = [i for i in range(len(labels)) if labels[i] in set(split.test_classes)]
    for number in range(DRAWS):
        draw = Draw(number, 7)
        shown = [draw.pick([i for i in clips if labels[i] == tag], 1)[0] for tag in split.test_classes]
        rest = [i for i in clips if i not in shown]
        truth = [split.test_classes.index(labels[i]) for i in rest]
        yield Episode(
            torch.tensor(shown), torch.arange(len(shown)), torch.tensor(rest), torch.tensor(truth),
            split.test_classes,
        )  # fmt: skip


def labelling(distances: Tensor, episodes: Sequence[Episode]) -> Result:
    """Archives of the clips of each episode, labelled from its supports; also with the supports' labels shuffled."""
    generator = torch.Generator().manual_seed(0)
    everybody, rows = LabelConfig(abstain=0.0), []
    for episode in episodes:
        clips = torch.cat([episode.support, episode.query])
        own = distances[clips][:, clips].fill_diagonal_(torch.inf)
        near = Neighbours(*reversed(own.topk(LabelConfig().neighbours, largest=False)))
        truth, order = episode.query_labels, torch.arange(len(episode.support))
        careful = spread_labels(near, order, LabelConfig())
        told = careful >= 0
        chance = [
            spread_labels(near, order[torch.randperm(len(order), generator=generator)], everybody) == truth
            for _ in range(SHUFFLES if len(episodes) == 1 else 1)
        ]
        found = {
            "all": spread_labels(near, order, everybody) == truth,
            "nearest": hits(distances, episode),
            "told": told,
            "right_of_told": (careful == truth)[told],
            "shuffled": torch.cat(chance),
        }
        rows.append({name: some.double().mean().item() for name, some in found.items()})
    return {name: [row[name] for row in rows] for name in rows[0]}


def spread_labels(near: Neighbours, order: Tensor, config: LabelConfig) -> Tensor:
    """Labels of all clips behind the examples, which come first and bear the labels ``order``; -1 for none."""
    named = propagate(near, range(len(order)), order.tolist(), config).labels[len(order) :]
    return torch.tensor([-1 if tag is None else tag for tag in named])


def ucla(model: FewShotModel) -> dict[str, Result]:
    data = opened("nwucla-crossview")
    found = table(model, data.motions, data.motions)
    splits = get_protocol("nwucla-crossview").splits(data.dataset)
    published = get_protocol("nwucla-published").splits(data.dataset)
    same = [split for split in splits if split.name[0] == split.name[-1]]
    return {
        "ucla-same": over_splits(found, same),
        "ucla-other": over_splits(found, [split for split in splits if split not in same]),
        "ucla-published": over_splits(found, published),
    }


def sbu(model: FewShotModel) -> dict[str, Result]:
    data = opened("sbu")
    (split,) = get_protocol("sbu").splits(data.dataset)
    found = table(model, data.motions, data.motions)
    return {
        "sbu": {"over": "episodes", "units": [hits(found, one).double().mean().item() for one in split.test]}
    }


@torch.no_grad()
def cost(model: FewShotModel) -> dict[str, Result]:
    """Milliseconds of one core: a motion prepared and encoded, and compared with ten examples that are."""
    motions = opened("msraction3d-splits").motions[:31]
    held = features(model, motions[:10], "support")
    times: dict[str, list[float]] = {"encode_ms": [], "compare_ms": []}
    for motion in motions[11:]:
        began = perf_counter()
        query = model.features(model.collate([motion]))
        between = perf_counter()
        model.compare(query, held)
        times["encode_ms"].append(1000 * (between - began))
        times["compare_ms"].append(1000 * (perf_counter() - between))
    weights = sum(tensor.numel() for tensor in model.parameters())
    return {
        "cost": {name: sorted(some)[len(some) // 4] for name, some in times.items()} | {"weights": weights}
    }


def fused(model: FewShotModel) -> dict[str, Result]:
    """MSRAction3D with the reference beside the model, both in medians, by a weight that validation classes choose."""
    data = opened("msraction3d-splits")
    own, raw = (table(one, data.motions, data.motions) for one in (model, FewShotModel.raw()))
    own, raw = own / own.median(), raw / raw.median()
    found = {}
    for way in (10, 5):
        units = []
        for split in get_protocol("msraction3d-splits").splits(data.dataset, way=way):
            scores = [
                torch.cat([hits(own + weight * raw, one) for one in add_distractors(split)])
                .double()
                .mean()
                .item()
                - (LEAD if weight else 0.0)
                for weight in FUSED
            ]
            chosen = FUSED[scores.index(max(scores))]
            units += over_splits(own + chosen * raw, [split])["units"]
        found[f"{way}-fused"] = {"over": "splits", "units": units}
    return found


SECTIONS = {"msr": msr, "ucla": ucla, "sbu": sbu, "cost": cost}
NEEDS = {"msr": "msraction3d-splits", "ucla": "nwucla-crossview", "sbu": "sbu", "cost": "msraction3d-splits"}


def there(name: str) -> bool:
    return get_protocol(name).available()
