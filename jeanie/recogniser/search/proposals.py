"""Search with bounds: all rows of an archive, or those that an index proposes."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.bounds import (
    BoundedQuery,
    compute_bounds,
    compute_quick_bounds,
    prepare_query,
)
from jeanie.recogniser.search.cache import FeatureRecipe
from jeanie.recogniser.search.candidates import (
    Candidates,
    CandidatesMissing,
    RecentMotions,
    Window,
    find_best,
)
from jeanie.recogniser.search.index import IndexDamaged, SearchIndex, find_index_path, open_index
from jeanie.recogniser.search.row_files import DamagedRows, RowFile, read_batches, read_numbered

__all__ = ["Searched", "collect_candidates", "find_all", "propose_candidates", "search_index"]

_LARGE = 500_000  # windows from which an index is used
_MAIN_COLUMNS = 24  # multiplied for the first bounds of all windows
_MAX_CANDIDATES = 2**20  # windows whose bounds an exact search keeps in memory


@dataclass(frozen=True)
class Searched:
    """The best windows, and how they were found; see ``SearchResult``."""

    best: list[Window]
    windows: int
    looked_at: int
    compared: int
    exact: bool
    recall: float | None


def find_all(
    model: FewShotModel,
    query: Features,
    bounded: BoundedQuery | None,
    motions: RecentMotions,
    files: Sequence[RowFile],
    k: int,
    overlap: float,
) -> Searched:
    """Return the exact result of a search in all windows of some files; without bounds, all windows are aligned.

    Raises:
        DamagedRows: If a file is damaged.
    """
    candidates = collect_candidates(model, bounded, files, _MAX_CANDIDATES)
    try:
        best, compared = find_best(model, query, motions, candidates, k, overlap)
    except CandidatesMissing:
        candidates = collect_candidates(model, bounded, files)
        best, compared = find_best(model, query, motions, candidates, k, overlap)
    return Searched(best, candidates.count, candidates.count, compared, True, 1.0)


def collect_candidates(
    model: FewShotModel, query: BoundedQuery | None, files: Sequence[RowFile], most: int | None = None
) -> Candidates:
    """Return the windows of the files with their bounds; without a query the bounds are minus infinity.

    Args:
        model: The model.
        query: The example.
        files: The rows.
        most: Number of windows to return, those with the smallest bounds; by default all. Memory holds twice as many.

    Raises:
        DamagedRows: If a file is damaged.
    """
    collector, has_quick = _SmallestBounds(most), False
    for some, rows in read_batches(files):
        if query is None:
            bounds = np.full(len(rows), -np.inf, np.float32)
        else:
            quick = compute_quick_bounds(model, query, rows, _MAIN_COLUMNS)
            has_quick |= quick is not None
            bounds = compute_bounds(model, query, rows) if quick is None else quick
        collector.add(some, bounds)
    windows, least, numbers = collector.join()
    if query is None or not has_quick:
        return Candidates(windows, least, None, collector.seen, collector.floor)

    def tighten(places: NDArray[np.int64], limit: float) -> NDArray[np.float32]:
        tight = np.empty(len(places), np.float32)
        for at, _, rows in read_numbered(files, numbers[places]):
            tight[at] = _compute_bounds_below(model, query, rows, limit)
        return tight

    return Candidates(windows, least, tighten, collector.seen, collector.floor)


def _compute_bounds_below(
    model: FewShotModel, query: BoundedQuery, rows: NDArray[Any], limit: float
) -> NDArray[np.float32]:
    """Return bounds of rows: quick ones where they are above the limit, better ones elsewhere."""
    quick = compute_quick_bounds(model, query, rows)
    if quick is None:
        return compute_bounds(model, query, rows)
    near = np.flatnonzero(quick <= limit)
    quick[near] = compute_bounds(model, query, rows[near])
    return quick


class _SmallestBounds:
    """The windows with the smallest bounds; ``numbers`` are their places among all that were added."""

    def __init__(self, most: int | None) -> None:
        self.most, self.seen, self.floor = most, 0, np.inf
        self._parts: list[tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]] = []
        self._count = 0

    def add(self, windows: NDArray[np.int32], bounds: NDArray[np.float32]) -> None:
        self._parts.append((windows, bounds, np.arange(self.seen, self.seen + len(bounds))))
        self.seen += len(bounds)
        self._count += len(bounds)
        if self.most is not None and self._count > 2 * self.most:
            self._drop(self.most)

    def join(self) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        empty = np.empty((0, 3), np.int32), np.empty(0, np.float32), np.empty(0, np.int64)
        windows, bounds, numbers = map(np.concatenate, zip(empty, *self._parts, strict=True))
        return windows, bounds, numbers

    def _drop(self, most: int) -> None:
        windows, bounds, numbers = self.join()
        order = np.argpartition(bounds, most)
        self.floor = min(self.floor, float(bounds[order[most]]))
        places = np.sort(order[:most])
        self._parts = [(windows[places], bounds[places], numbers[places])]
        self._count = most


def propose_candidates(
    model: FewShotModel, query: BoundedQuery, index: SearchIndex, numbers: NDArray[np.int64]
) -> Candidates:
    """Return some windows of an index with their bounds.

    Raises:
        IndexDamaged, DamagedRows: If the index or a file of the cache is damaged.
    """
    bounds, windows = [np.empty(0, np.float32)], [np.empty((0, 3), np.int32)]
    for _, some, rows in index.read_rows(numbers):
        bounds.append(compute_bounds(model, query, rows))
        windows.append(some)
    return Candidates(np.concatenate(windows), np.concatenate(bounds))


def search_index(
    recipe: FeatureRecipe,
    query: Features,
    motions: RecentMotions,
    duration_steps: Sequence[int],
    k: int,
    overlap: float,
    *,
    may_be_small: bool,
) -> Searched | None:
    """Return the result of a search with the index of an archive, or None if that is not possible.

    It is not possible without an index, or if the index is damaged, lacks a duration, or belongs to an earlier state of
    the archive. With ``may_be_small`` also small archives are searched in this way.
    """
    assert recipe.projection is not None
    bounded = prepare_query(query, recipe.projection)
    with contextlib.suppress(IndexDamaged, DamagedRows):
        index = open_index(find_index_path(recipe))
        if index is None or not index.covers(recipe.archive, duration_steps):
            return None
        windows = index.count_windows(duration_steps)
        if windows < _LARGE and not may_be_small:
            return None
        proposal = index.propose(bounded, duration_steps)
        candidates = propose_candidates(recipe.model, bounded, index, proposal.numbers)
        best, compared = find_best(recipe.model, query, motions, candidates, k, overlap)
        return Searched(best, windows, proposal.looked_at, compared, False, index.recall)
    return None
