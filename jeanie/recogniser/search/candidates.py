"""Candidates: windows with a lower bound, and the best of them by their exact distances.

The exact distance of a window needs its features in full, which are computed from the recording. Windows are
evaluated in the order of their bounds, until no other window can change the result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from jeanie.datasets.dataset import Dataset
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.encoding import Segments, encode_segments
from jeanie.skeleton.motion import Motion

__all__ = [
    "Candidates",
    "CandidatesMissing",
    "RecentMotions",
    "Window",
    "compute_distances",
    "compute_overlap",
    "find_best",
]

# windows that are always compared at once, so that rounding does not depend on how many are evaluated
_BATCH = 48
_FIRST = 48  # windows evaluated before the first check of the bounds
_MOST = 512
_KEPT_FRAMES = 100_000  # of recordings in memory
_TIGHTENED = 1024, 2**16  # windows whose bounds are tightened at once: the first ones, and later ones


@dataclass(frozen=True)
class Window:
    """An evaluated window. ``order`` also sorts windows of equal distance."""

    distance: float
    clip: int
    start: int
    end: int

    @property
    def order(self) -> tuple[float, int, int, int]:
        """The place among the results."""
        return self.distance, self.clip, self.start, self.end


@runtime_checkable
class Segment(Protocol):
    """A part of a clip."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Candidates:
    """Windows (clip, start, end) with lower bounds of their distances.

    Args:
        windows: The windows.
        bounds: A lower bound per window.
        tighten: Returns better bounds of the windows at some places, at least of those whose bounds are not above a
            limit; without it there are no better ones.
        seen: Number of windows that were compared with the example in any form, by default ``windows``.
        floor: Smallest bound of a window that was left out to save memory.
    """

    windows: NDArray[np.int32]
    bounds: NDArray[np.float32]
    tighten: Callable[[NDArray[np.int64], float], NDArray[np.float32]] | None = None
    seen: int | None = None
    floor: float = np.inf

    @property
    def count(self) -> int:
        """Number of windows that were compared with the example in any form."""
        return len(self.bounds) if self.seen is None else self.seen


class RecentMotions:
    """The recordings of an archive. The last ones that were read stay in memory, because a search reads them again."""

    def __init__(self, archive: Dataset) -> None:
        self._archive = archive
        self._kept: dict[int, Motion] = {}

    def __getitem__(self, clip: int) -> Motion:
        motion = self._kept.pop(clip, None) or self._archive.motions[clip]
        self._kept[clip] = motion
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > _KEPT_FRAMES:
            del self._kept[next(iter(self._kept))]
        return motion


class CandidatesMissing(Exception):
    """The result of a search may contain windows that were left out of the candidates."""


def find_best(
    model: FewShotModel,
    query: Features,
    motions: RecentMotions,
    candidates: Candidates,
    k: int,
    overlap: float,
) -> tuple[list[Window], int]:
    """Return the k best windows without too much overlap, and the number of evaluated windows.

    A window is left out if its bound is above the distance of the k-th window, or if it overlaps a selected window
    whose distance is below its bound: that window would replace it. The search ends if this holds for all windows that
    were not evaluated; by induction over the order of distances, none of them is selected. Until then no window is left
    out for good: an evaluated window may replace two selected ones, and the distance of the k-th window grows again.

    Raises:
        CandidatesMissing: The k-th distance is above ``candidates.floor``.
    """
    evaluated: list[Window] = []
    best: list[Window] = []
    order = np.argsort(candidates.bounds, kind="stable")
    loose, bounds = candidates.bounds[order], candidates.bounds.copy()
    waiting, done, step = np.empty(0, np.int64), 0, _FIRST
    while True:
        limit = best[-1].distance if len(best) == k else np.inf
        near = waiting[: int(np.searchsorted(bounds[waiting], limit, "right"))]
        positions = _choose(candidates.windows, bounds, near, best, overlap, step)
        if len(positions):
            evaluated += _evaluate(model, query, motions, candidates.windows[positions])
            waiting = waiting[~np.isin(waiting, positions)]
            evaluated.sort(key=lambda window: window.order)
            best = _suppress_overlaps(evaluated, k, overlap)
            step = min(step + _FIRST, _MOST)
            continue
        last = min(done + _TIGHTENED[done > 0], int(np.searchsorted(loose, limit, "right")))
        if last <= done:
            if candidates.floor <= limit and candidates.floor < np.inf:
                raise CandidatesMissing
            return best, len(evaluated)
        some, done = order[done:last], last
        if candidates.tighten is not None:
            bounds[some] = np.maximum(bounds[some], candidates.tighten(some, limit))
        waiting = np.concatenate([waiting, some])
        waiting = waiting[np.argsort(bounds[waiting], kind="stable")]


def _choose(
    windows: NDArray[np.int32],
    bounds: NDArray[np.float32],
    waiting: NDArray[np.int64],
    best: Sequence[Window],
    overlap: float,
    count: int,
) -> NDArray[np.int64]:
    """Return the first ``count`` waiting windows that no selected window replaces."""
    by_clip: dict[int, list[Window]] = {}
    for window in best:
        by_clip.setdefault(window.clip, []).append(window)
    positions: list[int] = []
    for at in waiting.tolist():
        clip, start, end = windows[at].tolist()
        bound = float(bounds[at])
        selected = by_clip.get(clip, ())
        candidate = Window(bound, clip, start, end)
        if not any(
            other.distance < bound and compute_overlap(candidate, other) > overlap for other in selected
        ):
            positions.append(at)
            if len(positions) == count:
                break
    return np.array(positions, np.int64)


def _evaluate(
    model: FewShotModel, query: Features, motions: RecentMotions, windows: NDArray[np.int32]
) -> list[Window]:
    """Return windows with their distances."""
    order = np.lexsort((windows[:, 1], windows[:, 2] - windows[:, 1], windows[:, 0]))
    rows: list[list[int]] = windows[order].tolist()
    segments = (
        Segments(clip, motions[clip], [(start, end) for _, start, end in group])
        for clip, group in groupby(rows, lambda row: row[0])
    )
    distances = compute_distances(model, query, segments)
    return [Window(distance, *row) for distance, row in zip(distances, rows, strict=True)]


@torch.no_grad()
def compute_distances(model: FewShotModel, query: Features, segments: Any) -> list[float]:
    """Return the distances of the example to the windows of ``Segments``, in order."""
    distances: list[float] = []
    for _, features in encode_segments(model, segments, batch=_BATCH):
        count = len(features)
        if count < _BATCH:
            features = Features.cat([features, *[features[:1]] * (_BATCH - count)])
        distances += model.compare(query, features)[0, :count].tolist()
    return distances


def _suppress_overlaps(windows: Sequence[Window], k: int, overlap: float) -> list[Window]:
    """Return the first k windows that share at most ``overlap`` of the shorter one with an earlier one."""
    selected: list[Window] = []
    for window in windows:
        if len(selected) == k:
            break
        others = (other for other in selected if other.clip == window.clip)
        if not any(compute_overlap(window, other) > overlap for other in others):
            selected.append(window)
    return selected


def compute_overlap(window: Segment, other: Segment) -> float:
    """Return the share of the shorter segment that both cover."""
    common = min(window.end, other.end) - max(window.start, other.start)
    return max(0, common) / min(window.end - window.start, other.end - other.start)
