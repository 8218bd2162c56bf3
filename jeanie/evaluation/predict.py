"""Predict the classes of query clips in episodes; each distance of two clips is computed once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, distributed

from jeanie.compute.distributed import World
from jeanie.errors import ConfigError
from jeanie.evaluation.custom_method import DistanceMethod, measure_method_distances
from jeanie.fewshot.batching import (
    FIRST_BATCH,
    MAX_BATCH,
    Progress,
    encode_batches,
    encode_groups,
    evaluation_mode,
)
from jeanie.fewshot.classes import Rule, classify, compute_attention_distances, compute_class_distances
from jeanie.fewshot.episodes import Episode, Tag
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.motion import Motion

__all__ = ["Predictions", "measure_pair_distances", "predict"]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model, one row per query of an episode.

    Attributes:
        seed, split, episode: Numbers of the seed, split and episode that the row belongs to.
        query: Number of the query clip.
        truth, predicted: Indices into a list of classes.
        own: Distance to the true class.
        other: Distance to the nearest other class.
    """

    seed: Int[Tensor, " row"]
    split: Int[Tensor, " row"]
    episode: Int[Tensor, " row"]
    query: Int[Tensor, " row"]
    truth: Int[Tensor, " row"]
    predicted: Int[Tensor, " row"]
    own: Float[Tensor, " row"]
    other: Float[Tensor, " row"]

    def __len__(self) -> int:
        return len(self.query)

    @property
    def is_correct(self) -> Bool[Tensor, " row"]:
        """Whether the predicted class is the true class."""
        return self.truth == self.predicted

    def __getitem__(self, index: Tensor | slice) -> "Predictions":
        return Predictions(*(getattr(self, field.name)[index] for field in fields(self)))

    @staticmethod
    def concatenate(parts: "Sequence[Predictions]") -> "Predictions":
        """Concatenate the rows of several predictions."""
        return Predictions(
            *(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Predictions))
        )

    def with_numbers(self, *, seed: int | None = None, split: int | None = None) -> "Predictions":
        """Return the same rows with another seed number or split number."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in {"seed": seed, "split": split}.items():
            if value is not None:
                columns[name] = torch.full_like(columns[name], value)
        return Predictions(**columns)


def predict(
    model: FewShotModel | DistanceMethod,
    store: Store | Sequence[Motion],
    groups: Sequence[Sequence[Episode]],
    classes: Sequence[Tag],
    *,
    rule: Rule = "nearest",
    progress: Progress | None = None,
) -> list[Predictions]:
    """Predict the queries of several groups of episodes.

    A pair of clips that occurs several times, in any episode of any group, is compared once. With several
    processes (torch.distributed) each process takes a share of the query clips; every process returns all rows.

    Args:
        model: The model to test, or another object with ``distances``.
        store: Prepared clips, or motions for a method that is not a model; episodes refer to them by number.
        groups: Episodes, for example one group per split.
        classes: List of classes that ``truth`` and ``predicted`` index.
        rule: A query gets the class of its "nearest" support, or the class with the smallest "mean" distance.
        progress: Called with (pairs done, pairs in total).

    Returns:
        The predictions of each group.

    Raises:
        ConfigError: The rule is unknown or there is no episode.
    """
    if rule not in ("nearest", "mean"):
        raise ConfigError(f"rule is 'nearest' or 'mean', got {rule!r}")
    groups = [list(group) for group in groups]  # episodes may be drawn when they are read
    episodes = [episode for group in groups for episode in group]
    if not episodes:
        raise ConfigError("no episode to predict; give at least one")
    class_rule = "supports"
    if isinstance(model, FewShotModel):
        assert isinstance(store, Store)
        class_rule = model.config.align.classes
        with evaluation_mode(model):
            _measure_cost_scale(model, store, episodes[0])
            if _uses_prototypes(model, episodes):
                tables = _measure_prototype_distances(model, store, episodes)
            else:
                tables = _measure_support_distances(model, store, episodes, progress)
    else:
        tables = _measure_support_distances(model, store, episodes, progress)
    index = {tag: number for number, tag in enumerate(classes)}
    return [
        Predictions.concatenate([
            _predict_episode(number, episode, *_combine_columns(episode, next(tables), class_rule), index, rule)
            for number, episode in enumerate(group)
        ])
        for group in groups
    ]  # fmt: skip


def _measure_support_distances(
    model: FewShotModel | DistanceMethod, store: Any, episodes: Sequence[Episode], progress: Progress | None
) -> Iterator[Float[Tensor, "query support"]]:
    """Yield the distances of the queries to the supports of each episode."""
    clips = len(store)
    codes = [episode.query[:, None] * clips + episode.support for episode in episodes]  # one number per pair
    unique = torch.unique(torch.cat([code.flatten() for code in codes]))
    measure: Any = measure_pair_distances if isinstance(model, FewShotModel) else measure_method_distances
    distances = measure(model, store, unique // clips, unique % clips, progress=progress)
    return (distances[torch.searchsorted(unique, code)] for code in codes)


def _uses_prototypes(model: FewShotModel, episodes: Sequence[Episode]) -> bool:
    """Return whether classes are means of several supports, so that distances of two clips do not suffice."""
    several = any(len(episode.support) > episode.way for episode in episodes)
    return several and model.config.align.classes == "prototype"


def _measure_prototype_distances(
    model: FewShotModel, store: Store, episodes: Sequence[Episode]
) -> Iterator[Float[Tensor, "query way"]]:
    """Yield the distances of the queries to the class means of each episode; processes share the episodes."""
    world = _get_current_world(model.device)
    own_episodes = set(world.own_indices(len(episodes)))
    tables = []
    for number, episode in enumerate(episodes):
        table = torch.zeros(len(episode.query), episode.way, dtype=torch.float64)
        if number in own_episodes:
            support = model.features(store[episode.support], "support")
            classes = model.prototypes(support, episode.support_labels, episode.way)
            batches = encode_batches(model, store, episode.query, "query")
            table = torch.cat([model.compare(query, classes).cpu().double() for _, query in batches])
        tables.append(table)
    total = world.reduce_sum(torch.cat([table.flatten() for table in tables]))
    parts = total.split([table.numel() for table in tables])
    return (part.view(table.shape) for part, table in zip(parts, tables, strict=True))


def _combine_columns(
    episode: Episode, distances: Tensor, class_rule: str
) -> tuple[Tensor, Int[Tensor, " column"]]:
    """Return the distances of an episode, combined per class if the model does so, and the class of each column."""
    every_class = torch.arange(episode.way)
    if class_rule == "attention":
        return compute_attention_distances(distances, episode.support_labels, episode.way), every_class
    # prototypes of several supports have one column per class
    is_per_support = distances.shape[1] == len(episode.support)
    return distances, episode.support_labels if is_per_support else every_class


def _predict_episode(
    number: int, episode: Episode, distances: Tensor, labels: Tensor, index: dict[Tag, int], rule: Rule
) -> Predictions:
    numbers = torch.tensor([index[tag] for tag in episode.classes])
    by_class = compute_class_distances(distances, labels, episode.way, rule)
    predicted = classify(distances, labels, episode.way, rule)
    label = episode.query_labels[:, None]
    zero = torch.zeros_like(episode.query)
    return Predictions(
        seed=zero,
        split=zero,
        episode=zero + number,
        query=episode.query,
        truth=numbers[episode.query_labels],
        predicted=numbers[predicted],
        own=by_class.gather(1, label)[:, 0],
        other=by_class.scatter(1, label, torch.inf).amin(1),
    )


def _measure_cost_scale(model: FewShotModel, store: Store, episode: Episode) -> None:
    """Measure the cost scale of an untrained relative gamma on one episode, the same one in every process."""
    parts = [part for part in model.modules() if isinstance(part, FewShotModel)]
    if any(part.comparison.is_unmeasured for part in parts):
        model(store[episode.query[:FIRST_BATCH]], store[episode.support[:MAX_BATCH]])


def measure_pair_distances(
    model: FewShotModel,
    store: Store,
    queries: Int[Tensor, " pair"],
    supports: Int[Tensor, " pair"],
    *,
    progress: Progress | None = None,
) -> Float[Tensor, " pair"]:
    """Return the distance of each query clip to its support clip, in float64.

    Pairs must be sorted by query, then by support. Support features stay in memory while they are needed, query
    features only for one batch, so memory does not grow with the number of queries. If not all supports fit
    into memory, they are processed in groups.
    """
    world = _get_current_world(model.device)
    result = torch.zeros(len(queries), dtype=torch.float64)
    clips, counts = torch.unique_consecutive(queries, return_counts=True)
    ends = counts.cumsum(0)
    own_clips = torch.tensor(world.own_indices(len(clips)), dtype=torch.int64)
    spans = torch.stack((ends - counts, ends), 1)[own_clips].tolist()
    total = sum(end - start for start, end in spans)
    done = 0
    for group, support_features in encode_groups(model, store, torch.unique(supports)):
        for batch, query_features in encode_batches(model, store, clips[own_clips], "query"):
            rows = [_select_group(supports, span, group) for span in spans[batch]]
            columns = [torch.searchsorted(group, supports[row]) for row in rows]
            distances = _compare_columns(model, query_features, support_features, columns)
            for row, values in zip(rows, distances, strict=True):
                result[row] = values
            done += sum(len(column) for column in columns)
            if progress is not None:
                progress(done, total)
    return world.reduce_sum(result)  # each pair was computed in one process and is 0 in the others


def _get_current_world(device: torch.device) -> World:
    """Return the processes of torch.distributed, or only this one if it is not in use."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return World()
    return World(distributed.get_rank(), distributed.get_world_size(), device)


def _select_group(supports: Tensor, span: list[int], group: Tensor) -> slice:
    """Return the pairs of one query, whose supports ascend, that have a support in ``group``."""
    start, end = span
    low, high = torch.searchsorted(supports[start:end], group[[0, -1]] + torch.tensor([0, 1])).tolist()
    return slice(start + low, start + high)


def _compare_columns(
    model: FewShotModel, query: Features, support: Features, columns: list[Tensor]
) -> list[Tensor]:
    """Return the distances of each query to its own columns of supports.

    A full table is computed if at least half of it is needed.
    """
    used = torch.unique(torch.cat(columns))
    if not len(used):
        return [torch.zeros(0, dtype=torch.float64) for _ in columns]
    if 2 * sum(len(column) for column in columns) >= len(columns) * len(used):
        table = model.compare(query, support[used.to(model.device)]).cpu().double()
        return [row[torch.searchsorted(used, column)] for row, column in zip(table, columns, strict=True)]
    return [
        model.compare(query[number : number + 1], support[column.to(model.device)])[0].cpu().double()
        for number, column in enumerate(columns)
    ]
