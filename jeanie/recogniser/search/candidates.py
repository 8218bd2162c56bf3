"""Candidates: windows with a lower bound, and the best of them by their exact distances.

The exact distance of a window needs its features in full, which are computed from the recording. Windows are
evaluated in the order of their bounds, until no other window can change the result.
"""

from collections.abc import Sequence
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

__all__ = ["Candidates", "Window", "compute_distances", "compute_overlap", "find_best"]

_BATCH = (
    16  # windows that are always compared at once, so that rounding does not depend on how many are evaluated
)
_FIRST = 32  # windows evaluated before the first check of the bounds
_MOST = 512


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
    """Windows (clip, start, end) and lower bounds of their distances."""

    windows: NDArray[np.int64]
    bounds: NDArray[np.float32]

    def sort(self) -> "Candidates":
        """Return the candidates in the order of their bounds, then of the archive."""
        order = np.lexsort((*self.windows.T[::-1], self.bounds))
        return Candidates(self.windows[order], self.bounds[order])


def find_best(
    model: FewShotModel,
    query: Features,
    archive: Dataset,
    candidates: Candidates,
    k: int,
    overlap: float,
) -> tuple[list[Window], int]:
    """Return the k best windows without too much overlap, and the number of evaluated windows.

    ``candidates`` are sorted. A window is left out if its bound is above the distance of the k-th window, or if it
    overlaps a selected window whose distance is below its bound: that window would replace it. The search ends if this
    holds for all windows that were not evaluated; by induction over the order of distances, none of them is selected.
    """
    evaluated: list[Window] = []
    best: list[Window] = []
    waiting = np.arange(len(candidates.bounds))
    step = _FIRST
    while True:
        limit = best[-1].distance if len(best) == k else np.inf
        waiting = waiting[: int(np.searchsorted(candidates.bounds[waiting], limit, "right"))]
        chosen = _choose(candidates, waiting, best, overlap, step)
        if not len(chosen):
            return best, len(evaluated)
        evaluated += _evaluate(model, query, archive, candidates.windows[chosen])
        waiting = waiting[~np.isin(waiting, chosen)]
        evaluated.sort(key=lambda window: window.order)
        best = _suppress_overlaps(evaluated, k, overlap)
        step = min(2 * step, _MOST)


def _choose(
    candidates: Candidates, waiting: NDArray[np.int64], best: Sequence[Window], overlap: float, count: int
) -> NDArray[np.int64]:
    """Return the first ``count`` waiting candidates that no selected window replaces."""
    by_clip: dict[int, list[Window]] = {}
    for window in best:
        by_clip.setdefault(window.clip, []).append(window)
    chosen: list[int] = []
    for at in waiting.tolist():
        clip, start, end = candidates.windows[at].tolist()
        bound = float(candidates.bounds[at])
        rivals = by_clip.get(clip, ())
        here = Window(bound, clip, start, end)
        if not any(other.distance < bound and compute_overlap(here, other) > overlap for other in rivals):
            chosen.append(at)
            if len(chosen) == count:
                break
    return np.array(chosen, np.int64)


def _evaluate(
    model: FewShotModel, query: Features, archive: Dataset, windows: NDArray[np.int64]
) -> list[Window]:
    """Return windows with their distances. A recording is read once."""
    order = np.lexsort((windows[:, 1], windows[:, 2] - windows[:, 1], windows[:, 0]))
    rows: list[list[int]] = windows[order].tolist()
    segments = (
        Segments(clip, archive.motions[clip], [(start, end) for _, start, end in group])
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
