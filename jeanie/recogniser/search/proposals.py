"""Search with bounds: all rows of an archive, or those that an index proposes."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.bounds import BoundedQuery, compute_bounds, prepare_query
from jeanie.recogniser.search.cache import DamagedRows, FeatureRecipe, RowFile
from jeanie.recogniser.search.candidates import Candidates, Window, find_best
from jeanie.recogniser.search.index import IndexDamaged, SearchIndex, find_index_path, open_index

__all__ = ["Searched", "collect_candidates", "locate_rows", "propose_candidates", "search_index"]

_LARGE = 500_000  # windows from which an index is used


@dataclass(frozen=True)
class Searched:
    """The best windows, and how they were found; see ``SearchResult``."""

    best: list[Window]
    windows: int
    looked_at: int
    compared: int
    exact: bool
    recall: float | None


def collect_candidates(
    model: FewShotModel, query: BoundedQuery | None, files: Sequence[RowFile]
) -> Candidates:
    """Return all windows of the files with their bounds; without a query the bounds are minus infinity.

    Raises:
        DamagedRows: If a file is damaged.
    """
    parts = ((file, rows) for file in files for rows in file.read_in_parts())
    windows, bounds = [np.empty((0, 3), np.int64)], [np.empty(0, np.float32)]
    for file, rows in parts:
        windows.append(locate_rows(file, rows))
        none = np.full(len(rows), -np.inf, np.float32)
        bounds.append(none if query is None else compute_bounds(model, query, rows))
    return Candidates(np.concatenate(windows), np.concatenate(bounds)).sort()


def locate_rows(file: RowFile, rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return clip of the archive, start and end of windows."""
    windows: NDArray[np.int64] = rows["window"].astype(np.int64)
    windows[:, 0] += file.entry.clips.start
    return windows


def propose_candidates(
    model: FewShotModel, query: BoundedQuery, index: SearchIndex, numbers: NDArray[np.int64]
) -> Candidates:
    """Return some windows of an index with their bounds.

    Raises:
        IndexDamaged, DamagedRows: If the index or a file of the cache is damaged.
    """
    kinds: dict[Any, list[NDArray[Any]]] = {}
    windows: dict[Any, list[NDArray[np.int64]]] = {}
    for file, rows in index.read_rows(numbers):
        kinds.setdefault(rows.dtype, []).append(rows)
        windows.setdefault(rows.dtype, []).append(locate_rows(file, rows))
    bounds = [np.empty(0, np.float32)]
    bounds += [compute_bounds(model, query, np.concatenate(rows)) for rows in kinds.values()]
    places = [np.empty((0, 3), np.int64), *(part for parts in windows.values() for part in parts)]
    return Candidates(np.concatenate(places), np.concatenate(bounds)).sort()


def search_index(
    recipe: FeatureRecipe,
    query: Features,
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
        best, compared = find_best(recipe.model, query, recipe.archive, candidates, k, overlap)
        return Searched(best, windows, proposal.looked_at, compared, False, index.recall)
    return None
