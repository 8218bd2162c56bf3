"""The gallery: the encoded examples of a library, kept up to date, and the nearest example of each action."""

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
from jeanie.recogniser.background import BackgroundSet, compute_log_statistics, log_distance
from jeanie.recogniser.library.library import Example, Library
from jeanie.recogniser.search.windows import coarse_basis, project_features
from jeanie.skeleton import Motion

__all__ = ["Gallery", "GallerySnapshot", "NearestExamples", "encode_motions"]

MIN_FRAMES, MIN_JOINTS = 2, 5
PRUNING_SIZE = 512  # number of examples from which pruning by lower bounds is faster
_ROUNDING = 1e-4  # relative rounding error of a lower bound
_BATCH = 32  # motions per call of the encoder
_MAX_COMPARED = 32  # newest examples of an action that are compared with each other


@dataclass(frozen=True)
class NearestExamples:
    """The nearest example of each action: its distance to a query, and its row in the snapshot.

    ``background`` holds mean and standard deviation of the log distances from the query to the background set;
    ``compared`` counts the examples that were aligned.
    """

    distances: Float[Tensor, " action"]
    rows: Int[Tensor, " action"]
    background: tuple[Float[Tensor, ""], Float[Tensor, ""]]
    compared: int


@dataclass(frozen=True)
class GallerySnapshot:
    """The encoded examples at one revision of the library.

    ``ids`` and ``action`` (an index into ``actions``) have one entry per example, as have ``background_mean`` and
    ``background_std``: statistics of the log distances from the background set to the example. ``targets`` are the
    features of the background set followed by those of the examples, ``coarse`` the projected features of the
    examples. ``within_action`` is the mean log distance of the examples of an action to their nearest neighbour in
    the action, NaN for a single example.
    """

    revision: int
    actions: tuple[str, ...]
    ids: tuple[int, ...]
    action: Int[Tensor, " example"]
    targets: Features
    coarse: Features | None
    background_mean: Float[Tensor, " example"]
    background_std: Float[Tensor, " example"]
    within_action: Float[Tensor, " action"]

    @property
    def features(self) -> Features:
        """Features of the examples."""
        return self.targets[len(self.targets) - len(self.ids) :]


class _Rows(NamedTuple):
    """Examples that were encoded in one batch."""

    ids: tuple[int, ...]
    features: Features
    background_mean: Tensor
    background_std: Tensor


class Gallery:
    """The examples of a library, encoded by a model. ``take_snapshot`` encodes only examples that are new.

    The default background set is that of the model. It is encoded at the first recognition, not at enrolment.
    """

    def __init__(
        self, model: FewShotModel, library: Library, background_set: BackgroundSet | None = None
    ) -> None:
        self.model, self.library, self._background_set = model, library, background_set
        self._lock = threading.Lock()
        self._snapshot: GallerySnapshot | None = None
        self._basis: Tensor | None = None
        self._within_action: dict[tuple[int, ...], Tensor] = {}

    @cached_property
    def background_set(self) -> BackgroundSet:
        """Background motions."""
        return BackgroundSet.for_model(self.model) if self._background_set is None else self._background_set

    def take_snapshot(self) -> GallerySnapshot | None:
        """Return the current examples, including those that other programs enrolled; None if there are none."""
        with self._lock:
            revision = self.library.revision
            if self._snapshot is None or self._snapshot.revision != revision:
                self._snapshot = self._refresh(revision, self._snapshot)
            return self._snapshot

    @torch.no_grad()
    def find_nearest(self, query: Features, snapshot: GallerySnapshot) -> NearestExamples:
        """Return the nearest example of each action.

        With many examples, lower bounds prune most of them: features projected on a few orthonormal directions are
        never farther apart than the features themselves, so the same holds for every alignment. An example whose
        bound exceeds the distance of another example of its action cannot be the nearest.
        """
        count = len(self.background_set)
        if snapshot.coarse is None or self._basis is None:
            rows = torch.arange(len(snapshot.ids), device=snapshot.action.device)
            distances = self.model.compare(query, snapshot.targets)[0]
            background, distances = distances[:count], distances[count:]
        else:
            bound = self.model.compare(project_features(query, self._basis), snapshot.coarse)[0]
            bound = bound * (1 - _ROUNDING) - 1e-7
            _, rows = _find_minima(bound, snapshot.action, len(snapshot.actions))
            first = torch.cat([torch.arange(count, device=rows.device), count + rows])
            distances = self.model.compare(query, snapshot.targets[first])[0]
            background, distances = distances[:count], distances[count:]
            is_candidate = bound <= distances[snapshot.action]
            is_candidate[rows] = False
            others = is_candidate.nonzero()[:, 0]
            if len(others):
                more = self.model.compare(query, snapshot.targets[count + others])[0]
                distances, rows = torch.cat([distances, more]), torch.cat([rows, others])
        nearest, best = _find_minima(distances, snapshot.action[rows], len(snapshot.actions))
        mean, deviation = compute_log_statistics(background[None])
        return NearestExamples(nearest, rows[best], (mean[0], deviation[0]), len(rows))

    @torch.no_grad()
    def _refresh(self, revision: int, old: GallerySnapshot | None) -> GallerySnapshot | None:
        index = self.library.index()
        last = max(old.ids) if old is not None else 0
        # an example that is enrolled meanwhile is not in the index; the next snapshot sees a higher revision
        new = (example for example in self.library.examples(after=last) if example.id in index)
        parts = list(self._encode(new))
        kept = [row for row, example in enumerate(old.ids) if example in index] if old is not None else []
        if old is not None and kept:
            rows = torch.tensor(kept, device=old.action.device)
            ids = tuple(old.ids[row] for row in kept)
            parts.insert(
                0, _Rows(ids, old.features[rows], old.background_mean[rows], old.background_std[rows])
            )
        if not parts:
            return None
        ids = tuple(example for part in parts for example in part.ids)
        targets = Features.cat([self.background_set.support, *(part.features for part in parts)])
        mean, deviation = (torch.cat(side) for side in zip(*(part[2:] for part in parts), strict=True))
        actions = tuple(sorted({index[example] for example in ids}))
        number = {label: action for action, label in enumerate(actions)}
        action = torch.tensor([number[index[example]] for example in ids], device=mean.device)
        features = targets[len(self.background_set) :]
        coarse = None
        if len(ids) >= PRUNING_SIZE:
            self._basis = coarse_basis(self.model) if self._basis is None else self._basis
            coarse = None if self._basis is None else project_features(features, self._basis)
        within_action = self._measure_within_actions(ids, features, action, len(actions))
        return GallerySnapshot(
            revision, actions, ids, action, targets, coarse, mean, deviation, within_action
        )

    def _encode(self, examples: Iterable[Example]) -> Iterator[_Rows]:
        """Encode examples as supports, one batch at a time."""
        examples = iter(examples)
        while batch := list(islice(examples, _BATCH)):
            try:
                features = encode_motions(self.model, [example.motion for example in batch], "support")
            except JeanieError:
                self._raise_for_bad_example(batch)
                raise
            statistics = self.background_set.measure_supports(self.model, features)
            yield _Rows(tuple(example.id for example in batch), features, *statistics)

    def _raise_for_bad_example(self, batch: Iterable[Example]) -> None:
        """Raise DataError with the id of the first example that cannot be encoded."""
        for example in batch:
            try:
                encode_motions(self.model, [example.motion], "support")
            except JeanieError as error:
                raise DataError(
                    f"{self.library.place}: example {example.id} of {example.label!r}: {error}; forget it"
                ) from None

    def _measure_within_actions(
        self, ids: tuple[int, ...], features: Features, action: Tensor, actions: int
    ) -> Tensor:
        """Return the mean log distance of the newest examples of each action to their nearest neighbour.

        A model with simulated views would have to encode the examples again as queries; it returns NaN.
        """
        distances = features.values.new_full((actions,), torch.nan)
        if self.model.views is not None:
            return distances
        cache: dict[tuple[int, ...], Tensor] = {}
        for number in range(actions):
            rows = (action == number).nonzero()[-_MAX_COMPARED:, 0]
            if len(rows) > 1:
                members = tuple(ids[row] for row in rows.tolist())
                if members not in self._within_action:
                    self._within_action[members] = _within_action_distance(self.model, features[rows])
                cache[members] = distances[number] = self._within_action[members]
        self._within_action = cache
        return distances


@torch.no_grad()
def encode_motions(model: FewShotModel, motions: Sequence[Motion], side: Side) -> Features:
    """Encode motions.

    Raises:
        DataError: a motion shows no movement, too few joints, or positions that are too large.
    """
    for motion in motions:
        frames = int(motion.valid.flatten(1).any(1).sum())
        if frames < MIN_FRAMES:
            raise DataError(
                f"{motion.name or 'a motion'}: joints are visible in {frames} of {len(motion)} frames; a movement "
                f"needs at least {MIN_FRAMES}"
            )
    batch = model.collate(motions)
    visible = batch.valid.any(2).sum(2).amax(1)
    for motion, joints in zip(motions, visible.tolist(), strict=True):
        if joints < MIN_JOINTS:
            raise DataError(
                f"{motion.name or 'a motion'}: layout {motion.layout.name!r} shows {joints} of the model's "
                f"{len(batch.layout)} joints, {MIN_JOINTS} are needed; rename its joints as in docs/motions.md"
            )
    features = model.features(batch, side)
    is_finite = features.values.flatten(1).isfinite().all(1)
    for motion, finite in zip(motions, is_finite.tolist(), strict=True):
        if not finite:
            raise DataError(f"{motion.name or 'a motion'}: its positions are too large to compute with")
    return features


def _within_action_distance(model: FewShotModel, examples: Features) -> Tensor:
    distances = model.compare(examples, examples).fill_diagonal_(torch.inf)
    return log_distance(distances.amin(1)).mean()


def _find_minima(values: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return the smallest value of each group, and the index of its first occurrence."""
    minima = values.new_full((groups,), torch.inf).scatter_reduce(0, group, values, "amin")
    index = torch.arange(len(values), device=values.device)
    is_minimum = values <= minima[group]
    first = torch.full_like(minima, len(values), dtype=torch.long)
    return minima, first.scatter_reduce(0, group[is_minimum], index[is_minimum], "amin")
