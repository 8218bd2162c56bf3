"""Episodes: which clips are supports and which are queries, drawn anew for every small task.

An N-way Z-shot episode has N classes, Z supports of each and some queries of each. Episodes hold clip numbers
only and are made from tags: no motion is read. All draws can be repeated on any machine and in any process.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, overload

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from jeanie.errors import ConfigError

__all__ = ["Draw", "Episode", "Episodes", "Exemplars", "PublishedEpisodes", "Tag", "in_order"]

Tag = str | int
Item = TypeVar("Item")
Clips = NDArray[np.int64]

_TRIES = 1000  # draws of supports before a class is said to have no query that is apart from them
_NONE: Clips = np.zeros(0, np.int64)


class Draw:
    """Draws without replacement from a key of whole numbers; the same key gives the same draws for ever.

    numpy keeps the raw words of a bit generator unchanged between versions, but not what its own methods make
    of them, so the words of PCG64 are turned into choices here (Fisher and Yates; word modulo what is left).

    >>> Draw(0, 7).pick("abcdef", 3) == Draw(0, 7).pick("abcdef", 3)
    True
    """

    def __init__(self, *key: int) -> None:
        if any(part < 0 for part in key):
            raise ConfigError(f"a seed is a whole number of 0 or more, got {key}")
        # the length comes first because numpy pads a short key with zeros: (5,) would be (5, 0)
        self._words = np.random.PCG64(np.random.SeedSequence([len(key), *key]))

    def places(self, total: int, count: int) -> list[int]:
        """``count`` different numbers below ``total``, in the order in which they were drawn."""
        moved: dict[int, int] = {}
        chosen = []
        for place in range(count):
            other = place + int(self._words.random_raw()) % (total - place)
            chosen.append(moved.get(other, other))
            moved[other] = moved.get(place, place)
        return chosen

    def pick(self, items: Sequence[Item], count: int) -> list[Item]:
        """``count`` of the items, no place twice, in the order in which they were drawn."""
        return [items[place] for place in self.places(len(items), count)]


@dataclass(frozen=True, eq=False)
class Episode:
    """One task: clip numbers of a data set, and for each its class as a number from 0 to way - 1.

    ``classes[number]`` is the tag behind a class number. Clips of one class stand together, in class order.
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


def in_order(tags: Collection[Tag | None]) -> tuple[Tag, ...]:
    """The different tags in their order: numbers first, then texts; None is no tag.

    >>> in_order([10, 9, "b", 9, None, "a"])
    (9, 10, 'a', 'b')
    """
    return tuple(
        sorted({tag for tag in tags if tag is not None}, key=lambda tag: (isinstance(tag, str), tag))
    )


def _episode(
    classes: Sequence[Tag], support: Sequence[Sequence[int]], query: Sequence[Sequence[int]]
) -> Episode:
    """An episode from the clips of each class."""
    support_clips, support_labels = _number_groups(support)
    query_clips, query_labels = _number_groups(query)
    return Episode(support_clips, support_labels, query_clips, query_labels, tuple(classes))


def _number_groups(groups: Sequence[Sequence[int]]) -> tuple[Int[Tensor, " clip"], Int[Tensor, " clip"]]:
    clips = [int(clip) for group in groups for clip in group]
    labels = [number for number, group in enumerate(groups) for _ in group]
    return torch.tensor(clips, dtype=torch.int64), torch.tensor(labels, dtype=torch.int64)


def _by_class(labels: Sequence[Tag | None], pool: Sequence[int], what: str) -> dict[Tag, Clips]:
    """Clips of a pool by class, in the order of the pool; clips without a label belong to none."""
    groups: dict[Tag, list[int]] = {}
    if len(set(pool)) != len(pool) or (len(pool) and not 0 <= min(pool) <= max(pool) < len(labels)):
        raise ConfigError(
            f"the {what} pool holds each clip once, as a number from 0 to {len(labels) - 1}; "
            f"got {len(pool)} numbers, {len(set(pool))} of them different, "
            f"from {min(pool)} to {max(pool)}"
        )
    for clip in pool:
        label = labels[clip]
        if label is not None:
            groups.setdefault(label, []).append(int(clip))
    return {label: np.array(clips, dtype=np.int64) for label, clips in groups.items()}


def _codes(tag: str, columns: Mapping[str, Sequence[Tag | None] | None], groups: Collection[Clips]) -> Clips:
    """A column of tags as numbers, equal where the tags are; the clips of all groups must have one."""
    if tag not in columns:
        raise ConfigError(f"queries can be apart from supports in {' or '.join(columns)}, got {tag!r}")
    column = columns[tag]
    if column is None or any(column[clip] is None for clips in groups for clip in clips.tolist()):
        raise ConfigError(
            f"queries apart in {tag} need the {tag} of each clip; give {tag}s=, one a clip, without None"
        )
    numbers: dict[Tag | None, int] = {}
    return np.array([numbers.setdefault(one, len(numbers)) for one in column], dtype=np.int64)


class Episodes(Sequence[Episode]):
    """``count`` random episodes; episode i depends on (seed, i) and the pools alone, not on those before it.

    An episode draws ``way`` classes, of each class ``shot`` supports from the pool ``support``, and of what
    is left ``queries`` queries from the pool ``query`` (pools are clip numbers; all clips by default). All
    choices are uniform. ``apart`` names the tags, "subject" or "view" or both, in which a query differs from
    every support of its class; supports that leave too few such queries are drawn again. Every class of the
    pools must be able to serve, and clips without a label are passed over.

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
        labels = list(labels)
        everything = range(len(labels))
        self.way, self.shot, self.queries, self.seed = way, shot, queries, seed
        self._count = count
        self._support = _by_class(labels, everything if support is None else support, "support")
        self._query = _by_class(labels, everything if query is None else query, "query")
        self.apart = tuple(apart)
        columns = {"subject": subjects, "view": views}
        groups = (*self._support.values(), *self._query.values())
        self._codes = [_codes(tag, columns, groups) for tag in self.apart]
        self.classes = in_order(self._support.keys() | self._query.keys())
        if len(self.classes) < way:
            raise ConfigError(
                f"{way}-way episodes need {way} classes, the pools hold {len(self.classes)}; "
                "use a smaller way or larger pools"
            )
        probe = Draw(seed)
        for label in self.classes:  # what cannot be served is said now, not in the middle of a training
            self._clips(probe, label)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Episode, ...]: ...
    def __getitem__(self, index: int | slice) -> Episode | tuple[Episode, ...]:
        number = range(self._count)[index]
        if isinstance(number, range):
            return tuple(self[one] for one in number)
        draw = Draw(self.seed, number)
        classes = draw.pick(self.classes, self.way)
        clips = [self._clips(draw, label) for label in classes]
        return _episode(classes, [support for support, _ in clips], [query for _, query in clips])

    def _clips(self, draw: Draw, label: Tag) -> tuple[list[int], list[int]]:
        """Supports and queries of one class."""
        support, query = self._support.get(label, _NONE), self._query.get(label, _NONE)
        for _ in range(_TRIES if len(support) >= self.shot else 0):
            chosen = support[draw.places(len(support), self.shot)]
            left = self._select_queries(query, chosen)
            if len(left) >= self.queries:
                return chosen.tolist(), left[draw.places(len(left), self.queries)].tolist()
        differing = f" that differ in {' and '.join(self.apart)}" if self.apart else ""
        raise ConfigError(
            f"class {label!r} has {len(support)} clips in the support pool and {len(query)} in the query pool: "
            f"too few for {self.shot} supports and {self.queries} queries{differing}; "
            "leave the class out of both pools, or ask for less"
        )

    def _select_queries(self, clips: Clips, supports: Clips) -> Clips:
        """Those of ``clips`` that are no support and share none of the tags with one."""
        taken = (clips[:, None] == supports).any(1)
        for codes in self._codes:
            taken |= (codes[clips][:, None] == codes[supports]).any(1)
        left: Clips = clips[~taken]
        return left


class Exemplars(Sequence[Episode]):
    """One episode: fixed exemplars against fixed queries, the way of the one-shot protocols of NTU RGB+D.

    ``support`` and ``query`` are clip numbers, ``labels`` the tags of the whole data set; classes stand in
    the order of their exemplars. ``repeated`` allows exemplars among the queries, where each is at distance
    0 from itself: some published lists have them, and a number that counts them must say so.
    """

    def __init__(
        self,
        support: Sequence[int],
        query: Sequence[int],
        labels: Sequence[Tag | None],
        *,
        repeated: bool = False,
    ) -> None:
        both = sorted(set(support) & set(query))
        if both and not repeated:
            raise ConfigError(
                f"clips {both[:5]} are exemplars and queries; leave them out, or say repeated=True"
            )
        supports, queries = _by_class(labels, support, "support"), _by_class(labels, query, "query")
        orphans = [label for label in queries if label not in supports]
        if orphans or not supports:
            raise ConfigError(
                f"no exemplar of {orphans[:5] or 'any class'}; every class of the queries needs one"
            )
        asked = [queries.get(label, _NONE).tolist() for label in supports]
        self._listed = (_episode(tuple(supports), [clips.tolist() for clips in supports.values()], asked),)

    def __len__(self) -> int:
        return len(self._listed)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Episode, ...]: ...
    def __getitem__(self, index: int | slice) -> Episode | tuple[Episode, ...]:
        return self._listed[index]


class PublishedEpisodes(Sequence[Episode]):
    """Episodes by the generator calls of a published cross-view protocol, one after another from one seed.

    The generator is ``numpy.random.RandomState(seed)``, whose methods numpy has frozen. For each episode:
    ``choice(classes, way, replace=False)``; then for each class in that order ``choice(n, shot,
    replace=False)`` over its clips in the support pool, and ``choice(n, queries, replace=False)`` over its
    clips in the query pool without the supports, both in the order of the pools.
    """

    def __init__(
        self,
        labels: Sequence[Tag | None],
        *,
        classes: Sequence[Tag],
        way: int = 5,
        shot: int = 1,
        queries: int = 1,
        count: int = 300,
        seed: int,
        support: Sequence[int],
        query: Sequence[int],
    ) -> None:
        supports, asked = _by_class(labels, support, "support"), _by_class(labels, query, "query")
        few = [label for label in classes if not _enough(supports, asked, label, shot, queries)]
        if few or not 1 <= way <= len(classes):
            raise ConfigError(
                f"{way}-way episodes of {shot} supports and {queries} queries from {len(classes)} classes; "
                f"too few clips of {few}; ask for less"
            )
        self.classes, self.way, self.shot, self.queries, self.seed = tuple(classes), way, shot, queries, seed
        self._support, self._query, self._count = supports, asked, count

    @cached_property
    def _listed(self) -> tuple[Episode, ...]:
        """All episodes, drawn together when the first is asked for: each depends on those before it."""
        state = np.random.RandomState(self.seed)
        return tuple(self._draw(state) for _ in range(self._count))

    def _draw(self, state: np.random.RandomState) -> Episode:
        # choice of places draws the same numbers as choice of the classes themselves, whatever their tags are
        chosen = [self.classes[at] for at in state.choice(len(self.classes), self.way, replace=False)]
        support: list[list[int]] = []
        query: list[list[int]] = []
        for label in chosen:
            own, others = self._support[label], self._query[label]
            taken = own[state.choice(len(own), self.shot, replace=False)]
            left = others[~(others[:, None] == taken).any(1)]
            support.append(taken.tolist())
            query.append(left[state.choice(len(left), self.queries, replace=False)].tolist())
        return _episode(chosen, support, query)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Episode, ...]: ...
    def __getitem__(self, index: int | slice) -> Episode | tuple[Episode, ...]:
        return self._listed[index]


def _enough(
    supports: Mapping[Tag, Clips], queries: Mapping[Tag, Clips], label: Tag, shot: int, asked: int
) -> bool:
    """Whether a class has its supports, and its queries even where all supports come from among them."""
    support, query = supports.get(label, _NONE), queries.get(label, _NONE)
    return len(support) >= shot and len(query) - min(shot, int(np.isin(query, support).sum())) >= asked
