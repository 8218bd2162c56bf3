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
from jeanie.recogniser.background import BackgroundSet, CohortStatistics, ignore_copies, log_distance
from jeanie.recogniser.distance_table import DistanceTable
from jeanie.recogniser.library.labels import NEGATIVE_PREFIX
from jeanie.recogniser.library.library import Example, Library
from jeanie.recogniser.proportions import measure_proportions
from jeanie.recogniser.search.windows import compute_coarse_basis, project_features
from jeanie.skeleton import Motion

__all__ = [
    "Gallery",
    "GallerySnapshot",
    "NearestExamples",
    "check_encodable",
    "encode_motions",
    "find_middle",
]

MIN_FRAMES, MIN_JOINTS = 2, 5
PRUNING_SIZE = 512  # number of examples from which pruning by lower bounds is faster
_ROUNDING = 1e-4  # relative rounding error of a lower bound
_BATCH = 32  # motions per call of the encoder
_MAX_COMPARED = 32  # newest examples of an action that are compared with each other
_TIE = 1e-4  # relative difference of sums of distances that does not count
_MAX_MEMBERS = 64  # actions with an example in the cohort of the other examples


@dataclass(frozen=True)
class NearestExamples:
    """The nearest example of each action: its distance to a query, and its row in the snapshot.

    ``background`` describes the distances to the background set, ``calibration`` holds the log distances to the
    calibration recordings; ``compared`` counts the examples that were aligned.
    """

    distances: Float[Tensor, " action"]
    rows: Int[Tensor, " action"]
    background: CohortStatistics
    calibration: Float[Tensor, " recording"]
    compared: int


@dataclass(frozen=True)
class GallerySnapshot:
    """The encoded examples at one revision of the library.

    ``ids`` and ``action`` (an index into ``actions``) have one entry per example, as has ``background``: the log
    distances from the background set to the example. ``members`` are the log distances from the calibration
    recordings and from one example of each other action to the example, inf for the example's own action.
    ``proportions`` are those of the bodies of the examples.
    ``targets`` are the features of the background set, of the ``recordings`` for calibration, and of the examples;
    ``coarse`` are the projected features of the examples. ``within_action`` is the mean log distance of the examples of
    an action to their nearest neighbour in the action, NaN for a single example.
    """

    revision: int
    actions: tuple[str, ...]
    ids: tuple[int, ...]
    action: Int[Tensor, " example"]
    targets: Features
    coarse: Features | None
    background: CohortStatistics
    members: Float[Tensor, "example member"]
    within_action: Float[Tensor, " action"]
    proportions: Float[Tensor, "example bone"]
    recordings: int

    @property
    def features(self) -> Features:
        """Features of the examples."""
        return self.targets[len(self.targets) - len(self.ids) :]


class _Rows(NamedTuple):
    """Examples that were encoded in one batch."""

    ids: tuple[int, ...]
    features: Features
    background: CohortStatistics
    proportions: Float[Tensor, "example bone"]


class _Group(NamedTuple):
    """The examples of one action compared with each other: their distance, and the example in the middle."""

    within: Tensor
    middle: int


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
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._calibration: tuple[tuple[int, ...], BackgroundSet | None] = ((), None)
        self._recording_table, self._example_table = DistanceTable(), DistanceTable()

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
    def find_nearest(self, queries: Features, snapshot: GallerySnapshot) -> list[NearestExamples]:
        """Return the nearest example of each action, per query.

        With many examples, lower bounds prune most of them: features projected on a few orthonormal directions are
        never farther apart than the features themselves, so the same holds for every alignment. An example whose
        bound exceeds the distance of another example of its action cannot be the nearest.
        """
        if snapshot.coarse is None or self._basis is None:
            rows = torch.arange(len(snapshot.ids), device=snapshot.action.device)
            return [
                _select_nearest(distances, rows, snapshot)
                for distances in self.model.compare(queries, snapshot.targets)
            ]
        return [
            self._find_nearest_pruned(queries[at : at + 1], snapshot, self._basis)
            for at in range(len(queries))
        ]

    def _find_nearest_pruned(
        self, query: Features, snapshot: GallerySnapshot, basis: Tensor
    ) -> NearestExamples:
        assert snapshot.coarse is not None
        count = len(snapshot.targets) - len(snapshot.ids)
        bound = self.model.compare(project_features(query, basis), snapshot.coarse)[0]
        bound = bound * (1 - _ROUNDING) - 1e-7
        _, rows = _find_minima(bound, snapshot.action, len(snapshot.actions))
        first = torch.cat([torch.arange(count, device=rows.device), count + rows])
        distances = self.model.compare(query, snapshot.targets[first])[0]
        is_candidate = bound <= distances[count:][snapshot.action]
        is_candidate[rows] = False
        candidates = is_candidate.nonzero()[:, 0]
        if len(candidates):
            more = self.model.compare(query, snapshot.targets[count + candidates])[0]
            distances, rows = torch.cat([distances, more]), torch.cat([rows, candidates])
        return _select_nearest(distances, rows, snapshot)

    @torch.no_grad()
    def _refresh(self, revision: int, old: GallerySnapshot | None) -> GallerySnapshot | None:
        index = self.library.index()
        last = max(old.ids) if old is not None else 0
        # an example that is enrolled at the same time is not in the index; the next snapshot sees a higher revision
        new = (example for example in self.library.examples(after=last) if example.id in index)
        parts = list(self._encode(new))
        old_rows = [row for row, example in enumerate(old.ids) if example in index] if old is not None else []
        if old is not None and old_rows:
            rows = torch.tensor(old_rows, device=old.action.device)
            ids = tuple(old.ids[row] for row in old_rows)
            old_proportions = old.proportions[torch.tensor(old_rows)]
            parts.insert(0, _Rows(ids, old.features[rows], old.background[rows], old_proportions))
        if not parts:
            return None
        ids = tuple(example for part in parts for example in part.ids)
        features = Features.cat([part.features for part in parts])
        background = CohortStatistics.cat([part.background for part in parts])
        actions = tuple(sorted({index[example] for example in ids}))
        number = {label: action for action, label in enumerate(actions)}
        action = torch.tensor([number[index[example]] for example in ids], device=background.mean.device)
        coarse = None
        if len(ids) >= PRUNING_SIZE:
            self._basis = compute_coarse_basis(self.model) if self._basis is None else self._basis
            coarse = None if self._basis is None else project_features(features, self._basis)
        groups = self._compare_within_actions(ids, features, action, actions)
        within_action = background.mean.new_full((len(actions),), torch.nan)
        for group_number, group in groups.items():
            within_action[group_number] = group.within
        calibration = self._encode_calibration()
        recordings = [] if calibration is None else [calibration.support]
        targets = Features.cat([self.background_set.support, *recordings, features])
        return GallerySnapshot(
            revision,
            actions,
            ids,
            action,
            targets,
            coarse,
            background,
            self._measure_members(ids, features, background, action, actions, groups),
            within_action,
            torch.cat([part.proportions for part in parts]),
            0 if calibration is None else len(calibration),
        )

    def _encode_calibration(self) -> BackgroundSet | None:
        """Return the encoded calibration recordings; they are encoded only when they have changed."""
        ids = self.library.calibration_ids()
        if ids != self._calibration[0]:
            motions = self.library.calibration()
            self._calibration = ids, BackgroundSet.from_motions(self.model, motions) if motions else None
        return self._calibration[1]

    def _measure_members(
        self,
        ids: tuple[int, ...],
        features: Features,
        background: CohortStatistics,
        action: Tensor,
        actions: Sequence[str],
        groups: dict[int, _Group],
    ) -> Float[Tensor, "example member"]:
        """Return the log distances from the calibration recordings and one example of each action to all examples.

        A model with simulated views would have to encode the examples again as queries; it uses the recordings only.
        """
        parts = []
        recordings, calibration = self._calibration
        if calibration is not None:
            table = self._recording_table.update(self.model, recordings, calibration.query, ids, features)
            parts.append(ignore_copies(table, background.background_nearest))
        if self.model.views is None:
            numbers = [at for at, label in enumerate(actions) if not label.startswith(NEGATIVE_PREFIX)]
            member_actions = torch.tensor(numbers[:_MAX_MEMBERS], dtype=torch.long, device=action.device)
            is_own = action == member_actions[:, None]
            rows = [is_member.nonzero()[-_MAX_COMPARED:, 0].tolist() for is_member in is_own]
            member_rows = [
                action_rows[groups[number].middle if number in groups else 0]
                for number, action_rows in zip(member_actions.tolist(), rows, strict=True)
            ]
            keys = tuple(ids[row] for row in member_rows)
            members = features[torch.tensor(member_rows, device=action.device)]
            table = self._example_table.update(self.model, keys, members, ids, features)
            parts.append(table.masked_fill(is_own, torch.inf))
        return torch.cat(parts).T if parts else features.values.new_zeros(len(features), 0)

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
            proportions = torch.stack([measure_proportions(example.motion) for example in batch])
            yield _Rows(tuple(example.id for example in batch), features, statistics, proportions)

    def _raise_for_bad_example(self, batch: Iterable[Example]) -> None:
        """Raise DataError with the id of the first example that cannot be encoded."""
        for example in batch:
            try:
                encode_motions(self.model, [example.motion], "support")
            except JeanieError as error:
                raise DataError(
                    f"{self.library.place}: example {example.id} of {example.label!r}: {error}; remove it"
                ) from None

    def _compare_within_actions(
        self, ids: tuple[int, ...], features: Features, action: Tensor, actions: Sequence[str]
    ) -> dict[int, _Group]:
        """Compare the newest examples of each action that has several; groups without a new example are kept.

        A model with simulated views would have to encode the examples again as queries; it has no groups.
        """
        groups: dict[int, _Group] = {}
        if self.model.views is not None:
            return groups
        cache: dict[tuple[int, ...], _Group] = {}
        for number, label in enumerate(actions):
            rows = (action == number).nonzero()[-_MAX_COMPARED:, 0]
            if len(rows) > 1 and not label.startswith(NEGATIVE_PREFIX):
                members = tuple(ids[row] for row in rows.tolist())
                if members not in self._groups:
                    self._groups[members] = _compare_group(self.model, features[rows])
                cache[members] = groups[number] = self._groups[members]
        self._groups = cache
        return groups


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


def check_encodable(model: FewShotModel, motions: Sequence[Motion]) -> None:
    """Raise DataError if the model cannot encode one of the motions."""
    for at in range(0, len(motions), _BATCH):
        encode_motions(model, motions[at : at + _BATCH], "support")


def _compare_group(model: FewShotModel, examples: Features) -> _Group:
    distances = model.compare(examples, examples)
    middle = find_middle(distances, examples)
    return _Group(log_distance(distances.fill_diagonal_(torch.inf).amin(1)).mean(), middle)


def find_middle(distances: Float[Tensor, "clip clip"], clips: Features) -> int:
    """Return the clip that is nearest to all others; of equally near ones, the same one in any order of the clips."""
    total = distances.sum(1)
    is_near = total <= (1 + _TIE) * total.min()
    size = clips.values.flatten(1).double().sum(1)
    return int(size.masked_fill(~is_near, -torch.inf).argmax())


def _select_nearest(
    distances: Float[Tensor, " target"], rows: Int[Tensor, " example"], snapshot: GallerySnapshot
) -> NearestExamples:
    """Return the nearest of some examples, from the distances to all other targets and to these examples."""
    count = len(snapshot.targets) - len(snapshot.ids)
    others, distances = distances[:count], distances[count:]
    nearest, best = _find_minima(distances, snapshot.action[rows], len(snapshot.actions))
    background, recordings = others.split([count - snapshot.recordings, snapshot.recordings])
    statistics = CohortStatistics.from_distances(background[None])[0]
    calibration = ignore_copies(log_distance(recordings), statistics.background_nearest)
    return NearestExamples(nearest, rows[best], statistics, calibration, len(rows))


def _find_minima(values: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return the smallest value of each group, and the index of its first occurrence."""
    minima = values.new_full((groups,), torch.inf).scatter_reduce(0, group, values, "amin")
    index = torch.arange(len(values), device=values.device)
    is_minimum = values <= minima[group]
    first = torch.full_like(minima, len(values), dtype=torch.long)
    return minima, first.scatter_reduce(0, group[is_minimum], index[is_minimum], "amin")
