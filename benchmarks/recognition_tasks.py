"""Tasks of benchmarks/recognition.py: every data set is measured from one table of distances."""

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
from jeanie.fewshot.classes import compute_class_distances
from jeanie.fewshot.episodes import Draw, Episode
from jeanie.recogniser.labelling import LabelConfig, propagate
from jeanie.recogniser.neighbours import Neighbours
from jeanie.skeleton import Motion
from jeanie.views.euler import make_rotations

YAW = 60  # largest rotation in degrees, in both directions
TAKES = 2  # draws of takes if one person performs all examples
DRAWS = 10  # draws of examples for labelling
SHUFFLES = 20
FUSED = (0.0, 0.1, 0.2, 0.4, 0.8)  # weights of a raw distance that is added to a learnt one
LEAD = 0.005  # gain in validation accuracy that a raw distance needs to be selected

Result = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """A data set in memory, as recorded and with every motion rotated by an unknown yaw."""

    dataset: Dataset
    motions: tuple[Motion, ...]
    rotated: tuple[Motion, ...]


@cache
def load_data(name: str) -> Data:
    dataset = get_protocol(name).open()
    motions = tuple(dataset.motions)
    draws = torch.rand(len(motions), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    turns = make_rotations(YAW * (2 * draws - 1), torch.zeros(()).double())
    rotated = tuple(
        motion.replace(joints=torch.einsum("ij,tpkj->tpki", turn.to(motion.joints), motion.joints))
        for motion, turn in zip(motions, turns, strict=True)
    )
    return Data(dataset, motions, rotated)


def compute_features(model: FewShotModel, motions: Sequence[Motion], side: str) -> Features:
    parts = [model.collate(motions[at : at + 64]) for at in range(0, len(motions), 64)]
    return Features.cat([model.features(part, side) for part in parts])  # type: ignore[arg-type]


@torch.no_grad()
def compute_distances(model: FewShotModel, queries: Sequence[Motion], supports: Sequence[Motion]) -> Tensor:
    """Return the distances from every query to every support."""
    support = compute_features(model, supports, "support")
    query = compute_features(model, queries, "query")
    rows = [model.compare(query[at : at + 64], support).cpu().double() for at in range(0, len(queries), 64)]
    return torch.cat(rows)


def mark_hits(distances: Tensor, episode: Episode) -> Tensor:
    """Return for each query of an episode whether its nearest support is of its own class."""
    episode_distances = distances[episode.query][:, episode.support]
    return (
        compute_class_distances(episode_distances, episode.support_labels, episode.way, "nearest").argmin(1)
        == episode.query_labels
    )


def average_splits(distances: Tensor, splits: Sequence[Any]) -> Result:
    """Return the accuracy of each split over all its queries."""
    means = [
        torch.cat([mark_hits(distances, episode) for episode in split.test]).double().mean().item()
        for split in splits
    ]
    return {"over": "splits", "units": means}


def draw_one_person_episodes(data: Data, classes: Sequence[Any], seed: int) -> Iterator[Episode]:
    """Yield episodes in which one subject performs all examples and the queries are all clips of the other subjects."""
    labels, subjects = data.dataset.labels, data.dataset.subjects
    for number, subject in enumerate(sorted(set(subjects), key=str)):
        for take in range(TAKES):
            draw, examples = Draw(seed, number, take), []
            for label in classes:
                clips = [i for i in range(len(labels)) if labels[i] == label and subjects[i] == subject]
                examples += [(label, *draw.pick(clips, 1))] if clips else []
            if len(examples) < 2:
                continue
            tags = [label for label, _ in examples]
            queries = [i for i in range(len(labels)) if labels[i] in tags and subjects[i] != subject]
            yield Episode(
                torch.tensor([clip for _, clip in examples]), torch.arange(len(tags)),
                torch.tensor(queries), torch.tensor([tags.index(labels[i]) for i in queries]), tuple(tags),
            )  # fmt: skip


def measure_msr(model: FewShotModel) -> dict[str, Result]:
    data, splits = load_data("msraction3d-splits"), get_protocol("msraction3d-splits").splits
    distances = compute_distances(model, data.motions, data.motions)
    ten, five = splits(data.dataset, way=10), splits(data.dataset, way=5)
    people = [
        replace(split, test=tuple(draw_one_person_episodes(data, split.test_classes, at)))
        for at, split in enumerate(ten)
    ]
    (fixed,) = get_protocol("msraction3d-exemplars").splits(data.dataset)
    exemplars = {"exemplars": fixed.test_variants["with exemplars"], "exemplars-without": fixed.test}
    archives = {
        "fixed": [fixed.test[0]],
        "drawn": [episode for split in ten for episode in _draw_labelling_episodes(data, split)],
    }
    return {
        "msr10": average_splits(distances, ten),
        "msr5": average_splits(distances, five),
        "msr10-person": average_splits(distances, people),
        "msr10-turned": average_splits(compute_distances(model, data.rotated, data.motions), ten),
        **{
            name: {"over": "queries", "units": mark_hits(distances, episodes[0]).double().tolist()}
            for name, episodes in exemplars.items()
        },
        **{f"label-{name}": measure_labelling(distances, episodes) for name, episodes in archives.items()},
    }


def _draw_labelling_episodes(data: Data, split: Any) -> Iterator[Episode]:
    """Yield episodes with one drawn example per test class; all other clips of these classes are unlabelled."""
    labels = data.dataset.labels
    clips = [i for i in range(len(labels)) if labels[i] in set(split.test_classes)]
    for number in range(DRAWS):
        draw = Draw(number, 7)
        examples = [draw.pick([i for i in clips if labels[i] == tag], 1)[0] for tag in split.test_classes]
        rest = [i for i in clips if i not in examples]
        truth = [split.test_classes.index(labels[i]) for i in rest]
        yield Episode(
            torch.tensor(examples), torch.arange(len(examples)), torch.tensor(rest), torch.tensor(truth),
            split.test_classes,
        )  # fmt: skip


def measure_labelling(distances: Tensor, episodes: Sequence[Episode]) -> Result:
    """Label the queries of each episode from its supports, also with shuffled labels of the supports."""
    generator = torch.Generator().manual_seed(0)
    label_all, rows = LabelConfig(abstain=0.0), []
    for episode in episodes:
        clips = torch.cat([episode.support, episode.query])
        episode_distances = distances[clips][:, clips].fill_diagonal_(torch.inf)
        near = Neighbours(*reversed(episode_distances.topk(LabelConfig().neighbours, largest=False)))
        truth, order = episode.query_labels, torch.arange(len(episode.support))
        labels = spread_labels(near, order, LabelConfig())
        is_labelled = labels >= 0
        shuffled = [
            spread_labels(near, order[torch.randperm(len(order), generator=generator)], label_all) == truth
            for _ in range(SHUFFLES if len(episodes) == 1 else 1)
        ]
        accuracies = {
            "all": spread_labels(near, order, label_all) == truth,
            "nearest": mark_hits(distances, episode),
            "labelled": is_labelled,
            "right_of_labelled": (labels == truth)[is_labelled],
            "shuffled": torch.cat(shuffled),
        }
        rows.append({name: some.double().mean().item() for name, some in accuracies.items()})
    return {name: [row[name] for row in rows] for name in rows[0]}


def spread_labels(near: Neighbours, order: Tensor, config: LabelConfig) -> Tensor:
    """Return the labels of all clips after the examples, which come first and have the labels ``order``; -1 is none."""
    labels = propagate(near, range(len(order)), order.tolist(), config).labels[len(order) :]
    return torch.tensor([-1 if tag is None else tag for tag in labels])


def measure_ucla(model: FewShotModel) -> dict[str, Result]:
    data = load_data("nwucla-crossview")
    distances = compute_distances(model, data.motions, data.motions)
    splits = get_protocol("nwucla-crossview").splits(data.dataset)
    published = get_protocol("nwucla-published").splits(data.dataset)
    same = [split for split in splits if split.name[0] == split.name[-1]]
    return {
        "ucla-same": average_splits(distances, same),
        "ucla-other": average_splits(distances, [split for split in splits if split not in same]),
        "ucla-published": average_splits(distances, published),
    }


def measure_sbu(model: FewShotModel) -> dict[str, Result]:
    data = load_data("sbu")
    (split,) = get_protocol("sbu").splits(data.dataset)
    distances = compute_distances(model, data.motions, data.motions)
    return {
        "sbu": {
            "over": "episodes",
            "units": [mark_hits(distances, episode).double().mean().item() for episode in split.test],
        }
    }


@torch.no_grad()
def measure_cost(model: FewShotModel) -> dict[str, Result]:
    """Return the milliseconds to prepare and encode a motion, and to compare it with ten encoded examples."""
    motions = load_data("msraction3d-splits").motions[:31]
    support = compute_features(model, motions[:10], "support")
    times: dict[str, list[float]] = {"encode_ms": [], "compare_ms": []}
    for motion in motions[11:]:
        start = perf_counter()
        query = model.features(model.collate([motion]))
        encoded = perf_counter()
        model.compare(query, support)
        times["encode_ms"].append(1000 * (encoded - start))
        times["compare_ms"].append(1000 * (perf_counter() - encoded))
    weights = sum(tensor.numel() for tensor in model.parameters())
    return {
        "cost": {name: sorted(some)[len(some) // 4] for name, some in times.items()} | {"weights": weights}
    }


def measure_fusion(model: FewShotModel) -> dict[str, Result]:
    """Return the accuracy on MSRAction3D if the distance of the reference is added, with a weight from validation."""
    data = load_data("msraction3d-splits")
    learnt, raw = (
        compute_distances(part, data.motions, data.motions) for part in (model, FewShotModel.raw())
    )
    learnt, raw = learnt / learnt.median(), raw / raw.median()
    results = {}
    for way in (10, 5):
        units = []
        for split in get_protocol("msraction3d-splits").splits(data.dataset, way=way):
            scores = [
                torch.cat([mark_hits(learnt + weight * raw, episode) for episode in add_distractors(split)])
                .double()
                .mean()
                .item()
                - (LEAD if weight else 0.0)
                for weight in FUSED
            ]
            best_weight = FUSED[scores.index(max(scores))]
            units += average_splits(learnt + best_weight * raw, [split])["units"]
        results[f"{way}-fused"] = {"over": "splits", "units": units}
    return results


SECTIONS = {"msr": measure_msr, "ucla": measure_ucla, "sbu": measure_sbu, "cost": measure_cost}
NEEDS = {"msr": "msraction3d-splits", "ucla": "nwucla-crossview", "sbu": "sbu", "cost": "msraction3d-splits"}


def is_available(name: str) -> bool:
    return get_protocol(name).available()
