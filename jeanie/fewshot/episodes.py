"""Episodes: small tasks, each with its supports and queries.

An N-way Z-shot episode has N classes, and per class Z supports and some queries. Episodes hold clip numbers only.
They are built from tags (labels, subjects, views), so no motion is read. The draws are the same on every machine.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, overload

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.fewshot.draws import Draw

__all__ = [
    "Draw",
    "Episode",
    "Episodes",
    "Exemplars",
    "PublishedEpisodes",
    "Tag",
    "limit_episodes",
    "sort_tags",
]

Tag = str | int
Item = TypeVar("Item")
Clips = NDArray[np.int64]

_TRIES = 1000  # draws of supports before a class is reported to have too few queries that differ from them
_NO_CLIPS: Clips = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Episode:
    """One task: clip numbers of a data set, and the class of each clip as a number from 0 to way - 1.

    ``classes[number]`` is the tag of a class number. Clips are sorted by class number.
    """

    support: Int[Tensor, " support"]
    support_labels: Int[Tensor, " support"]
    query: Int[Tensor, " query"]
    query_labels: Int[Tensor, " query"]
    classes: tuple[Tag, ...]

    @property
    def way(self) -> int:
        """Number of classes."""
        return len(self.classes)


def sort_tags(tags: Collection[Tag | None]) -> tuple[Tag, ...]:
    """Return the different tags in order: first numbers, then texts. None is left out.

    >>> sort_tags([10, 9, "b", 9, None, "a"])
    (9, 10, 'a', 'b')
    """
    return tuple(
        sorted({tag for tag in tags if tag is not None}, key=lambda tag: (isinstance(tag, str), tag))
    )


def _check_query_classes(count: int | None, way: int) -> int | None:
    if count is not None and not 1 <= count <= way:
        raise ConfigError(f"query_classes is 1 to the way {way}, or none for all classes, got {count}")
    return count


def _build_episode(
    classes: Sequence[Tag],
    support: Sequence[Sequence[int]],
    query: Sequence[Sequence[int]],
    query_classes: int | None = None,
) -> Episode:
    """Return the episode with these supports and queries per class; only the first ``query_classes`` have queries."""
    support_clips, support_labels = _number_groups(support)
    query_clips, query_labels = _number_groups(query[:query_classes])
    return Episode(support_clips, support_labels, query_clips, query_labels, tuple(classes))


def _number_groups(groups: Sequence[Sequence[int]]) -> tuple[Int[Tensor, " clip"], Int[Tensor, " clip"]]:
    clips = [int(clip) for group in groups for clip in group]
    labels = [number for number, group in enumerate(groups) for _ in group]
    return torch.tensor(clips, dtype=torch.int64), torch.tensor(labels, dtype=torch.int64)


def _group_by_class(labels: Sequence[Tag | None], pool: Sequence[int], pool_name: str) -> dict[Tag, Clips]:
    """Return the clips of a pool per class, in the order of the pool. Clips without a label are left out."""
    groups: dict[Tag, list[int]] = {}
    if len(set(pool)) != len(pool) or (len(pool) and not 0 <= min(pool) <= max(pool) < len(labels)):
        raise ConfigError(
            f"the {pool_name} pool must contain each clip once, as a number from 0 to {len(labels) - 1}; "
            f"got {len(pool)} numbers, {len(set(pool))} of them different, "
            f"from {min(pool)} to {max(pool)}"
        )
    for clip in pool:
        label = labels[clip]
        if label is not None:
            groups.setdefault(label, []).append(int(clip))
    return {label: np.array(clips, dtype=np.int64) for label, clips in groups.items()}


def _number_tags(
    kind: str, columns: Mapping[str, Sequence[Tag | None] | None], groups: Collection[Clips]
) -> Clips:
    """Return one number per clip, equal for equal tags of a kind; every clip of the groups must have a tag."""
    if kind not in columns:
        raise ConfigError(f"apart is {' or '.join(map(repr, columns))}, got {kind!r}")
    column = columns[kind]
    if column is None or any(column[clip] is None for clips in groups for clip in clips.tolist()):
        raise ConfigError(
            f"apart={kind!r} needs the {kind} of every clip; give {kind}s=, one per clip, without None"
        )
    numbers: dict[Tag | None, int] = {}
    return np.array([numbers.setdefault(tag, len(numbers)) for tag in column], dtype=np.int64)


class Episodes(Sequence[Episode]):
    """Random episodes. Episode i depends only on the seed, on i and on the pools, not on earlier episodes.

    An episode draws ``way`` classes. For each class it draws ``shot`` supports from the support pool, then
    ``queries`` queries from the remaining clips of the query pool. All choices are uniform.

    Args:
        labels: Class of every clip of the data set. Clips without a label (None) are left out.
        way: Number of classes per episode.
        shot: Number of supports per class.
        queries: Number of queries per class.
        query_classes: Number of classes with queries, the first that are drawn; by default all. 1 with one query is the
            episode of the paper. Supports do not depend on it.
        count: Number of episodes.
        seed: Seed of the draws.
        support: Clip numbers of the support pool; by default all clips.
        query: Clip numbers of the query pool; by default all clips.
        subjects: Subject of every clip.
        views: View of every clip.
        apart: Tags ("subject", "view" or both) in which a query must differ from every support of its class.
            Supports that leave too few such queries are drawn again.

    Raises:
        ConfigError: If a class of the pools has too few clips, or an argument is wrong.

    >>> episodes = Episodes(["a"] * 5 + ["b"] * 5 + ["c"] * 5, way=2, queries=3, count=100, seed=0)
    >>> len(episodes), episodes[42].support_labels.tolist(), episodes[42].query_labels.tolist()
    (100, [0, 1], [0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        labels: Sequence[Tag | None],
        *,
        way: int,
        shot: int = 1,
        queries: int = 1,
        query_classes: int | None = None,
        count: int,
        seed: int,
        support: Sequence[int] | None = None,
        query: Sequence[int] | None = None,
        subjects: Sequence[Tag | None] | None = None,
        views: Sequence[Tag | None] | None = None,
        apart: Sequence[str] = (),
    ) -> None:
        if min(way, shot, queries, count) < 1:
            raise ConfigError(
                f"way, shot, queries and count are 1 or more, got {way}, {shot}, {queries} and {count}"
            )
        self.query_classes = _check_query_classes(query_classes, way)
        labels = list(labels)
        all_clips = range(len(labels))
        self.way, self.shot, self.queries, self.seed = way, shot, queries, seed
        self._count = count
        self._support = _group_by_class(labels, all_clips if support is None else support, "support")
        self._query = _group_by_class(labels, all_clips if query is None else query, "query")
        self.apart = tuple(apart)
        columns = {"subject": subjects, "view": views}
        groups = (*self._support.values(), *self._query.values())
        self._tag_numbers = [_number_tags(kind, columns, groups) for kind in self.apart]
        self.classes = sort_tags(self._support.keys() | self._query.keys())
        if len(self.classes) < way:
            raise ConfigError(
                f"{way}-way episodes need {way} classes, the pools hold {len(self.classes)}; "
                "use a smaller way or larger pools"
            )
        draw = Draw(seed)
        for (
            label
        ) in self.classes:  # a class with too few clips is an error now, not in the middle of a training
            self._draw_clips(draw, label)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Episode, ...]: ...
    def __getitem__(self, index: int | slice) -> Episode | tuple[Episode, ...]:
        number = range(self._count)[index]
        if isinstance(number, range):
            return tuple(self[i] for i in number)
        draw = Draw(self.seed, number)
        classes = draw.pick(self.classes, self.way)
        clips = [self._draw_clips(draw, label) for label in classes]
        queries = [query for _, query in clips]
        return _build_episode(classes, [support for support, _ in clips], queries, self.query_classes)

    def _draw_clips(self, draw: Draw, label: Tag) -> tuple[list[int], list[int]]:
        """Return supports and queries of one class."""
        pool, query_pool = self._support.get(label, _NO_CLIPS), self._query.get(label, _NO_CLIPS)
        for _ in range(_TRIES if len(pool) >= self.shot else 0):
            supports = pool[draw.pick_indices(len(pool), self.shot)]
            candidates = self._select_candidates(query_pool, supports)
            if len(candidates) >= self.queries:
                queries = candidates[draw.pick_indices(len(candidates), self.queries)]
                return supports.tolist(), queries.tolist()
        difference = f" that differ in {' and '.join(self.apart)}" if self.apart else ""
        raise ConfigError(
            f"class {label!r} has {len(pool)} clips in the support pool and {len(query_pool)} in the query pool: "
            f"too few for {self.shot} supports and {self.queries} queries{difference}; "
            "leave the class out of both pools, or use fewer supports or queries"
        )

    def _select_candidates(self, clips: Clips, supports: Clips) -> Clips:
        """Return the clips that are not supports and share no tag with a support."""
        is_excluded = (clips[:, None] == supports).any(1)
        for numbers in self._tag_numbers:
            is_excluded |= (numbers[clips][:, None] == numbers[supports]).any(1)
        candidates: Clips = clips[~is_excluded]
        return candidates


class Exemplars(Sequence[Episode]):
    """A single episode with fixed exemplars and fixed queries, as in the one-shot protocols of NTU RGB+D.

    Classes are in the order of their exemplars.

    Args:
        support: Clip numbers of the exemplars.
        query: Clip numbers of the queries.
        labels: Class of every clip of the data set.
        repeated: Whether queries may contain exemplars. The distance of such a query to itself is 0. Some published
            lists contain them; a reported number that includes them must say so.

    Raises:
        ConfigError: If a query has no exemplar of its class, or ``repeated`` is false and a query is an exemplar.
    """

    def __init__(
        self,
        support: Sequence[int],
        query: Sequence[int],
        labels: Sequence[Tag | None],
        *,
        repeated: bool = False,
    ) -> None:
        shared_clips = sorted(set(support) & set(query))
        if shared_clips and not repeated:
            raise ConfigError(
                f"clips {shared_clips[:5]} are exemplars and queries; leave them out, or set repeated=True"
            )
        supports = _group_by_class(labels, support, "support")
        queries = _group_by_class(labels, query, "query")
        missing = [label for label in queries if label not in supports]
        if missing or not supports:
            raise ConfigError(
                f"no exemplar of {missing[:5] or 'any class'}; every class of the queries needs one"
            )
        support_clips = [clips.tolist() for clips in supports.values()]
        query_clips = [queries.get(label, _NO_CLIPS).tolist() for label in supports]
        self._episodes = (_build_episode(tuple(supports), support_clips, query_clips),)

    def __len__(self) -> int:
        return len(self._episodes)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Episode, ...]: ...
    def __getitem__(self, index: int | slice) -> Episode | tuple[Episode, ...]:
        return self._episodes[index]


class PublishedEpisodes(Sequence[Episode]):
    """Episodes of a published cross-view protocol, drawn with the same generator calls from one seed.

    The generator is ``numpy.random.RandomState(seed)``, whose output numpy no longer changes. Each episode calls
    ``choice(classes, way, replace=False)``. Then, for each class in that order, it calls ``choice(n, shot,
    replace=False)`` over the clips of the class in the support pool, and ``choice(n, queries, replace=False)`` over
    those in the query pool that are not supports. Both are in the order of the pools.

    Args:
        labels: Class of every clip of the data set.
        classes: Classes to draw from.
        way: Number of classes per episode.
        shot: Number of supports per class.
        queries: Number of queries per class.
        count: Number of episodes.
        seed: Seed of the generator.
        support: Clip numbers of the support pool.
        query: Clip numbers of the query pool.

    Raises:
        ConfigError: If a class has too few clips, or there are fewer than ``way`` classes.
    """

    def __init__(
        self,
        labels: Sequence[Tag | None],
        *,
        classes: Sequence[Tag],
        way: int = 5,
        shot: int = 1,
        queries: int = 1,
        query_classes: int | None = None,
        count: int = 300,
        seed: int,
        support: Sequence[int],
        query: Sequence[int],
    ) -> None:
        self.query_classes = _check_query_classes(query_classes, way)
        self._support = _group_by_class(labels, support, "support")
        self._query = _group_by_class(labels, query, "query")
        self.classes, self.way, self.shot, self.queries, self.seed = tuple(classes), way, shot, queries, seed
        self._count = count
        too_small = [label for label in classes if not self._has_enough_clips(label)]
        if too_small or not 1 <= way <= len(classes):
            raise ConfigError(
                f"{way}-way episodes of {shot} supports and {queries} queries need {way} classes with enough clips; "
                f"got {len(classes)} classes, too few clips of {too_small}; use a smaller way, shot or queries"
            )

    @cached_property
    def _episodes(self) -> tuple[Episode, ...]:
        """All episodes. They are drawn together on first use, because each depends on those before it."""
        generator = np.random.RandomState(self.seed)
        return tuple(self._draw(generator) for _ in range(self._count))

    def _draw(self, generator: np.random.RandomState) -> Episode:
        # a choice of indices draws the same numbers as a choice of classes, for every type of tag
        classes = [self.classes[i] for i in generator.choice(len(self.classes), self.way, replace=False)]
        support: list[list[int]] = []
        query: list[list[int]] = []
        for label in classes:
            pool, query_pool = self._support[label], self._query[label]
            supports = pool[generator.choice(len(pool), self.shot, replace=False)]
            candidates = query_pool[~(query_pool[:, None] == supports).any(1)]
            support.append(supports.tolist())
            query.append(candidates[generator.choice(len(candidates), self.queries, replace=False)].tolist())
        return _build_episode(classes, support, query, self.query_classes)

    def _has_enough_clips(self, label: Tag) -> bool:
        """Return whether a class has enough supports, and enough queries even if all supports are in the query pool."""
        support, query = self._support.get(label, _NO_CLIPS), self._query.get(label, _NO_CLIPS)
        shared = min(self.shot, int(np.isin(query, support).sum()))
        return len(support) >= self.shot and len(query) - shared >= self.queries

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Episode, ...]: ...
    def __getitem__(self, index: int | slice) -> Episode | tuple[Episode, ...]:
        return self._episodes[index]


def limit_episodes(episodes: Sequence[Episode], limit: int) -> Sequence[Episode]:
    """Return the first ``limit`` episodes; fixed exemplars keep ``limit`` queries per class, evenly spaced."""
    if not isinstance(episodes, Exemplars):
        return [episodes[number] for number in range(min(limit, len(episodes)))]
    (episode,) = episodes
    selections = []
    for number in range(episode.way):
        places = torch.nonzero(episode.query_labels == number)[:, 0]
        count = min(limit, len(places))
        selections.append(places[torch.arange(count) * len(places) // max(1, count)])
    queries = torch.cat(selections)
    return [replace(episode, query=episode.query[queries], query_labels=episode.query_labels[queries])]
