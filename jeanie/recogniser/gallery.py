"""The gallery: features of a library's examples, kept up to date, and the nearest example of every action."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.errors import DataError, JeanieError
from jeanie.fewshot import Features, FewShotModel
from jeanie.fewshot.model import Side
from jeanie.recogniser.bank import Bank, log_distance, spread
from jeanie.recogniser.library import Example, Library
from jeanie.recogniser.windows import coarse_basis, projected
from jeanie.skeleton import Motion

__all__ = ["Gallery", "Nearest", "Shelf", "encoded"]

LEAST_FRAMES, LEAST_JOINTS = 2, 5
PRUNED = 512  # examples from which on looking at bounds first is quicker
_SLACK = 1e-4  # share by which a bound may be off through rounding
_TOGETHER = 32  # motions encoded at once
_FELLOWS = 32  # examples of an action that are compared with each other


@dataclass(frozen=True)
class Nearest:
    """What a query is away from each action (distance, and row of its nearest example) and from the bank.

    ``compared`` counts the examples that were aligned in full.
    """

    distances: Float[Tensor, " action"]
    rows: Int[Tensor, " action"]
    background: tuple[Float[Tensor, ""], Float[Tensor, ""]]
    compared: int


@dataclass(frozen=True)
class Shelf:
    """The examples at one revision of the library. Row by row: number, action, background.

    ``targets`` are the features of the bank and, behind them, of the examples; ``coarse`` those of the examples in
    a few directions. ``own`` is the mean log distance of an action's examples to their nearest fellow, NaN for one
    alone.
    """

    revision: int
    actions: tuple[str, ...]
    ids: tuple[int, ...]
    action: Int[Tensor, " example"]
    targets: Features
    coarse: Features | None
    mean: Float[Tensor, " example"]
    spread: Float[Tensor, " example"]
    own: Float[Tensor, " action"]

    @property
    def features(self) -> Features:
        """Of the examples."""
        return self.targets[len(self.targets) - len(self.ids) :]


class _Rows(NamedTuple):
    """Examples that were encoded together: numbers, features, mean and spread of the background."""

    ids: tuple[int, ...]
    features: Features
    mean: Tensor
    spread: Tensor


class Gallery:
    """A library's examples as a model sees them. ``shelf()`` looks what has changed and encodes only that.

    Without a ``bank`` it is the model's own, encoded when it is first needed: who only enrols does not wait for it.
    """

    def __init__(self, model: FewShotModel, library: Library, bank: Bank | None = None) -> None:
        self.model, self.library, self._bank = model, library, bank
        self._lock = threading.Lock()
        self._shelf: Shelf | None = None
        self._basis: Tensor | None = None
        self._own: dict[tuple[int, ...], Tensor] = {}

    @cached_property
    def bank(self) -> Bank:
        """Background motions."""
        return Bank.for_model(self.model) if self._bank is None else self._bank

    def shelf(self) -> Shelf | None:
        """The examples as they are now, whoever enrolled them; None while there are none."""
        with self._lock:
            revision = self.library.revision
            if self._shelf is None or self._shelf.revision != revision:
                self._shelf = self._refreshed(revision, self._shelf)
            return self._shelf

    @torch.no_grad()
    def nearest(self, query: Features, shelf: Shelf) -> Nearest:
        """The nearest example of every action.

        Of many examples most are left out after a look: features projected on a few orthonormal directions are
        never farther apart than the features themselves, hence neither is any alignment of them. An example
        whose bound is above the distance of another one of its action cannot be the nearest.
        """
        count = len(self.bank)
        if shelf.coarse is None or self._basis is None:
            rows = torch.arange(len(shelf.ids), device=shelf.action.device)
            found = self.model.compare(query, shelf.targets)[0]
            background, found = found[:count], found[count:]
        else:
            bound = self.model.compare(projected(query, self._basis), shelf.coarse)[0] * (1 - _SLACK) - 1e-7
            _, rows = _least(bound, shelf.action, len(shelf.actions))
            first = torch.cat([torch.arange(count, device=rows.device), count + rows])
            found = self.model.compare(query, shelf.targets[first])[0]
            background, found = found[:count], found[count:]
            possible = bound <= found[shelf.action]
            possible[rows] = False
            others = possible.nonzero()[:, 0]
            if len(others):
                found = torch.cat([found, self.model.compare(query, shelf.targets[count + others])[0]])
                rows = torch.cat([rows, others])
        distances, best = _least(found, shelf.action[rows], len(shelf.actions))
        mean, deviation = spread(background[None])
        return Nearest(distances, rows[best], (mean[0], deviation[0]), len(rows))

    @torch.no_grad()
    def _refreshed(self, revision: int, old: Shelf | None) -> Shelf | None:
        index = self.library.index()
        known = max(old.ids) if old is not None else 0
        # who enrols while we read is not in the index yet, and has raised the revision for the next look
        fresh = (one for one in self.library.examples(after=known) if one.id in index)
        parts = list(self._encoded(fresh))
        kept = [row for row, number in enumerate(old.ids) if number in index] if old is not None else []
        if old is not None and kept:
            chosen = torch.tensor(kept, device=old.action.device)
            ids = tuple(old.ids[row] for row in kept)
            parts.insert(0, _Rows(ids, old.features[chosen], old.mean[chosen], old.spread[chosen]))
        if not parts:
            return None
        ids = tuple(number for part in parts for number in part.ids)
        targets = Features.cat([self.bank.support, *(part.features for part in parts)])
        mean, deviation = (torch.cat(side) for side in zip(*(part[2:] for part in parts), strict=True))
        actions = tuple(sorted({index[number] for number in ids}))
        places = {label: place for place, label in enumerate(actions)}
        action = torch.tensor([places[index[number]] for number in ids], device=mean.device)
        features = targets[len(self.bank) :]
        coarse = self._coarse(features) if len(ids) >= PRUNED else None
        own = self._fellows(ids, features, action, len(actions))
        return Shelf(revision, actions, ids, action, targets, coarse, mean, deviation, own)

    def _coarse(self, features: Features) -> Features | None:
        if self._basis is None:
            self._basis = coarse_basis(self.model)
        return None if self._basis is None else projected(features, self._basis)

    def _encoded(self, examples: Iterable[Example]) -> Iterator[_Rows]:
        """Examples as a model's supports, some at a time."""
        examples = iter(examples)
        while some := list(islice(examples, _TOGETHER)):
            try:
                features = encoded(self.model, [one.motion for one in some], "support")
            except JeanieError:  # one by one, to say which it was
                features = Features.cat([self._one(one) for one in some])
            around = self.bank.around_supports(self.model, features)
            yield _Rows(tuple(one.id for one in some), features, *around)

    def _one(self, example: Example) -> Features:
        try:
            return encoded(self.model, [example.motion], "support")
        except JeanieError as error:
            raise DataError(
                f"{self.library.place}: example {example.id} of {example.label!r}: {error}; forget it"
            ) from None

    def _fellows(self, ids: tuple[int, ...], features: Features, action: Tensor, actions: int) -> Tensor:
        """Mean log distance of every action's newest examples to their nearest fellow.

        With simulated views an example would have to be encoded again as a query; then none is known.
        """
        own = features.values.new_full((actions,), torch.nan)
        if self.model.views is not None:
            return own
        known: dict[tuple[int, ...], Tensor] = {}
        for place in range(actions):
            rows = (action == place).nonzero()[-_FELLOWS:, 0]
            if len(rows) > 1:
                members = tuple(ids[row] for row in rows.tolist())
                if members not in self._own:
                    self._own[members] = _apart(self.model, features[rows])
                known[members] = own[place] = self._own[members]
        self._own = known
        return own


@torch.no_grad()
def encoded(model: FewShotModel, motions: Sequence[Motion], side: Side) -> Features:
    """Features of motions; an error where one shows no movement or too little of a body."""
    for motion in motions:
        frames = int(motion.valid.flatten(1).any(1).sum())
        if frames < LEAST_FRAMES:
            raise DataError(
                f"{motion.name or 'a motion'}: a joint is seen in {frames} of {len(motion)} frames; a movement "
                f"needs at least {LEAST_FRAMES}"
            )
    batch = model.collate(motions)
    seen = batch.valid.any(2).sum(2).amax(1)
    for motion, joints in zip(motions, seen.tolist(), strict=True):
        if joints < LEAST_JOINTS:
            raise DataError(
                f"{motion.name or 'a motion'}: layout {motion.layout.name!r} shows {joints} of the model's "
                f"{len(batch.layout)} joints, {LEAST_JOINTS} are needed; rename its joints after docs/motions.md"
            )
    features = model.features(batch, side)
    for motion, good in zip(motions, features.values.flatten(1).isfinite().all(1).tolist(), strict=True):
        if not good:
            raise DataError(f"{motion.name or 'a motion'}: its positions are too large to compute with")
    return features


def _apart(model: FewShotModel, some: Features) -> Tensor:
    distances = model.compare(some, some).fill_diagonal_(torch.inf)
    return log_distance(distances.amin(1)).mean()


def _least(values: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """The least value of every group, and where it is first."""
    least = values.new_full((groups,), torch.inf).scatter_reduce(0, group, values, "amin")
    at = torch.arange(len(values), device=values.device)
    hit = values <= least[group]
    first = torch.full_like(least, len(values), dtype=torch.long)
    return least, first.scatter_reduce(0, group[hit], at[hit], "amin")
