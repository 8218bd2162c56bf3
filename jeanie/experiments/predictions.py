"""Predictions of a model on episodes: each distance of a query clip to a support clip is computed once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed

from jeanie.errors import ConfigError
from jeanie.experiments.learning.distributed import World
from jeanie.fewshot.baselines import attention_distances
from jeanie.fewshot.classes import classify
from jeanie.fewshot.episodes import Episode, Tag
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel

__all__ = [
    "Predictions",
    "Progress",
    "Rule",
    "class_distances",
    "evaluating",
    "feature_batches",
    "pair_distances",
    "predict",
    "support_groups",
]

Rule = Literal["nearest", "mean"]
Progress = Callable[[int, int], Any]

_HELD = 2**26  # numbers of features of one side that are held at once: 256 MB in float32
_FIRST = 16  # clips of the first batch, before it is known how large features are
_MOST = 512  # clips in a batch


@dataclass(frozen=True, eq=False)
class Predictions:
    """One row a query of an episode.

    ``query`` is its clip number, ``truth`` and ``predicted`` are places in a list of classes, ``own`` is its
    distance to its own class and ``other`` to the nearest other class. ``seed``, ``split`` and ``episode``
    say where the row belongs.
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
    def right(self) -> Tensor:
        """Whether the class is the true one."""
        return self.truth == self.predicted

    def __getitem__(self, index: Tensor | slice) -> "Predictions":
        return Predictions(*(getattr(self, field.name)[index] for field in fields(self)))

    @staticmethod
    def joined(parts: "Sequence[Predictions]") -> "Predictions":
        """The rows of one after another."""
        return Predictions(
            *(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Predictions))
        )

    def at(self, *, seed: int | None = None, split: int | None = None) -> "Predictions":
        """The same rows under another seed or split number."""
        changed = {"seed": seed, "split": split}
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in changed.items():
            if value is not None:
                columns[name] = torch.full_like(columns[name], value)
        return Predictions(**columns)


def class_distances(
    distances: Float[Tensor, "query support"], support_labels: Int[Tensor, " support"], way: int, rule: Rule
) -> Float[Tensor, "query way"]:
    """Distance of every query to every class: to its nearest support, or the mean over its supports."""
    reduce = {"nearest": "amin", "mean": "mean"}[rule]
    index = support_labels.expand(len(distances), -1)
    empty = distances.new_full((len(distances), way), torch.inf)
    return empty.scatter_reduce(1, index, distances, reduce, include_self=False)


def predict(
    model: FewShotModel,
    store: Store,
    groups: Sequence[Sequence[Episode]],
    classes: Sequence[Tag],
    *,
    rule: Rule = "nearest",
    progress: Progress | None = None,
) -> list[Predictions]:
    """Predictions on some groups of episodes, one set of rows a group, numbered by ``classes``.

    A pair of clips that recurs, in any episode of any group, is compared once. In several processes
    (torch.distributed) each takes its share of the query clips; all of them return all rows.
    """
    if rule not in ("nearest", "mean"):
        raise ConfigError(f"rule is 'nearest' or 'mean', got {rule!r}")
    listed = [list(group) for group in groups]
    clips = len(store)
    wanted = [_codes(episode, clips).flatten() for group in listed for episode in group]
    if not wanted:
        raise ConfigError("no episode to predict; give at least one")
    codes = torch.unique(torch.cat(wanted))
    with evaluating(model):
        _settle(model, store, next(group[0] for group in listed if group))
        if _has_prototypes(model, listed):
            tables = _to_prototypes(model, store, [episode for group in listed for episode in group])
        else:
            found = pair_distances(model, store, codes // clips, codes % clips, progress=progress)
            pairs = (_codes(episode, clips) for group in listed for episode in group)
            tables = (found[torch.searchsorted(codes, code)] for code in pairs)
    place = {tag: number for number, tag in enumerate(classes)}
    decide = model.config.align.classes
    return [
        Predictions.joined([
            _rows(number, episode, *_judged(episode, next(tables), decide), place, rule)
            for number, episode in enumerate(group)
        ])
        for group in listed
    ]  # fmt: skip


def _has_prototypes(model: FewShotModel, groups: Sequence[Sequence[Episode]]) -> bool:
    """Whether classes are told by means of several supports, which no distance of two clips knows."""
    several = any(len(episode.support) > episode.way for group in groups for episode in group)
    return several and model.config.align.classes == "prototype"


def _to_prototypes(
    model: FewShotModel, store: Store, episodes: Sequence[Episode]
) -> Iterator[Float[Tensor, "query way"]]:
    """Distances of queries to the mean of each class, episode by episode; processes share the episodes."""
    world = _world(model.device)
    mine = set(world.share(len(episodes)))
    tables = []
    for number, episode in enumerate(episodes):
        table = torch.zeros(len(episode.query), episode.way, dtype=torch.float64)
        if number in mine:
            support = model.features(store[episode.support], "support")
            classes = model.prototypes(support, episode.support_labels, episode.way)
            batches = feature_batches(model, store, episode.query, "query")
            table = torch.cat([model.compare(query, classes).cpu().double() for _, query in batches])
        tables.append(table)
    whole = world.added(torch.cat([table.flatten() for table in tables]))
    parts = whole.split([table.numel() for table in tables])
    return (part.view(table.shape) for part, table in zip(parts, tables, strict=True))


def _judged(episode: Episode, distances: Tensor, classes: str) -> tuple[Tensor, Int[Tensor, " support"]]:
    """Distances of an episode with the class of each column: as they are, or by class where the model decides so."""
    every = torch.arange(episode.way)
    if classes == "attention":
        return attention_distances(distances, episode.support_labels, episode.way), every
    # as many columns as supports, but for prototypes of several
    return distances, episode.support_labels if distances.shape[1] == len(episode.support) else every


def _codes(episode: Episode, clips: int) -> Int[Tensor, "query support"]:
    """One number for each pair of clips of an episode."""
    return episode.query[:, None] * clips + episode.support


def _rows(
    number: int, episode: Episode, distances: Tensor, labels: Tensor, place: dict[Tag, int], rule: Rule
) -> Predictions:
    places = torch.tensor([place[tag] for tag in episode.classes])
    of_class = class_distances(distances, labels, episode.way, rule)
    chosen = classify(distances, labels, episode.way, rule)
    label = episode.query_labels[:, None]
    zero = torch.zeros_like(episode.query)
    return Predictions(
        seed=zero,
        split=zero,
        episode=zero + number,
        query=episode.query,
        truth=places[episode.query_labels],
        predicted=places[chosen],
        own=of_class.gather(1, label)[:, 0],
        other=of_class.scatter(1, label, torch.inf).amin(1),
    )


@contextmanager
def evaluating(model: FewShotModel) -> Iterator[None]:
    """Evaluation mode without gradients; the model leaves as it came, its measured scale included."""
    training = model.training
    scales = [
        (buffer, buffer.clone()) for name, buffer in model.named_buffers() if name.endswith("cost_scale")
    ]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)
        for buffer, before in scales:
            buffer.copy_(before)


def _settle(model: FewShotModel, store: Store, episode: Episode) -> None:
    """Measure the scale of a relative gamma that was never trained, on one episode: in every process the same."""
    parts = [part for part in model.modules() if isinstance(part, FewShotModel)]
    if any(part.config.align.relative and not bool(part.get_buffer("cost_scale") > 0) for part in parts):
        model(store[episode.query[:_FIRST]], store[episode.support[:_MOST]])


def pair_distances(
    model: FewShotModel,
    store: Store,
    queries: Int[Tensor, " pair"],
    supports: Int[Tensor, " pair"],
    *,
    progress: Progress | None = None,
) -> Float[Tensor, " pair"]:
    """Distance of each query clip to its support clip, float64; pairs come sorted by query, then support.

    Features of a support are held while they are needed, those of a query for its batch only, so memory does
    not grow with the queries. Supports that do not fit are taken in groups.
    """
    world = _world(model.device)
    result = torch.zeros(len(queries), dtype=torch.float64)
    clips, counts = torch.unique_consecutive(queries, return_counts=True)
    ends = counts.cumsum(0)
    mine = torch.tensor(world.share(len(clips)), dtype=torch.int64)
    spans = torch.stack((ends - counts, ends), 1)[mine].tolist()
    pairs = sum(end - start for start, end in spans)
    done = 0
    for group, held in support_groups(model, store, torch.unique(supports)):
        for at, features in feature_batches(model, store, clips[mine], "query"):
            rows = [_within(supports, span, group) for span in spans[at]]
            columns = [torch.searchsorted(group, supports[row]) for row in rows]
            for row, values in zip(rows, _compared(model, features, held, columns), strict=True):
                result[row] = values
            done += sum(len(column) for column in columns)
            if progress is not None:
                progress(done, pairs)
    return world.added(result)  # each pair was computed in one process and is 0 in the others


def _world(device: torch.device) -> World:
    """The processes of the process group, where there is one."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return World()
    return World(distributed.get_rank(), distributed.get_world_size(), device)


def _within(supports: Tensor, span: list[int], group: Tensor) -> slice:
    """Those pairs of one query, whose supports ascend, that a group of supports serves."""
    start, end = span
    low, high = torch.searchsorted(supports[start:end], group[[0, -1]] + torch.tensor([0, 1])).tolist()
    return slice(start + low, start + high)


def _compared(model: FewShotModel, query: Features, support: Features, columns: list[Tensor]) -> list[Tensor]:
    """Distances of each query to its own columns of supports: as a table where most of it is wanted."""
    used = torch.unique(torch.cat(columns))
    if not len(used):
        return [torch.zeros(0, dtype=torch.float64) for _ in columns]
    if 2 * sum(len(column) for column in columns) >= len(columns) * len(used):
        table = model.compare(query, support[used.to(model.device)]).cpu().double()
        return [row[torch.searchsorted(used, column)] for row, column in zip(table, columns, strict=True)]
    return [
        model.compare(query[at : at + 1], support[column.to(model.device)])[0].cpu().double()
        for at, column in enumerate(columns)
    ]


def _numbers(features: Features) -> int:
    return features.values.numel() + sum(_numbers(part) for part in features.beside)


def feature_batches(
    model: FewShotModel, store: Store, clips: Tensor, side: Literal["query", "support"]
) -> Iterator[tuple[slice, Features]]:
    """Features of clips, batch by batch; a batch is as large as memory allows."""
    start, step = 0, _FIRST
    while start < len(clips):
        at = slice(start, min(start + step, len(clips)))
        features = model.features(store[clips[at]], side)
        yield at, features
        start = at.stop
        step = max(1, min(_MOST, _HELD * len(features) // _numbers(features)))


def support_groups(
    model: FewShotModel, store: Store, clips: Tensor
) -> Iterator[tuple[Int[Tensor, " clip"], Features]]:
    """Ascending support clips with their features, in groups that fit into memory; usually one."""
    first, held, parts = 0, 0, []
    for at, features in feature_batches(model, store, clips, "support"):
        parts.append(features)
        held += _numbers(features)
        if held >= _HELD or at.stop == len(clips):
            yield clips[first : at.stop], Features.cat(parts)
            first, held, parts = at.stop, 0, []
