"""Measure on an archive how many of the exact results an index finds, and select how much a search reads.

The examples are segments of the archive at random places, as long as the examples that users will search for. Windows
at the place of the example itself do not count, because every index finds them.

Results of one example are found or missed together, and a small sample may find all results by luck. So the settings
are selected by a lower confidence limit of the recall, and the recall is measured with other examples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray

from jeanie.recogniser.search.bounds import prepare_query
from jeanie.recogniser.search.cache import FeatureRecipe
from jeanie.recogniser.search.candidates import RecentMotions, Window, compute_overlap
from jeanie.recogniser.search.index import SearchIndex
from jeanie.recogniser.search.proposals import find_all
from jeanie.recogniser.search.row_files import RowFile
from jeanie.recogniser.search.windows import select_duration_steps
from jeanie.skeleton.motion import Motion

__all__ = ["Sample", "Settings", "compute_lower_limit", "draw_samples", "measure_recall"]

_MATCHES = 10  # results per search
_OVERLAP = 0.25  # of these searches
_PROBES = (4, 8, 16, 32, 64, 128, 256, 512)
_CANDIDATES = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
_CANDIDATE_COST = 100  # windows in cells that take as long to read as one candidate takes to compare
_SELECTING = 2 / 3  # of the samples select the settings, the others measure the recall
_QUANTILE = 1.645  # of the normal distribution at 95 %
_MISSED = 2**62
_SEED = 0


@dataclass(frozen=True)
class Settings:
    """Cells per duration and candidates that a search reads."""

    probes: int
    candidates: int


@dataclass(frozen=True, eq=False)
class Sample:
    """An example: for each number of cells, the windows in them, and the places of the exact results among these."""

    windows: Int[np.ndarray, " probe"]
    places: Int[np.ndarray, "result probe"]


def measure_recall(index: SearchIndex, samples: Sequence[Sample], wanted: float) -> dict[str, Any]:
    """Return the settings of an index and its recall, as values of ``index.json``.

    Two thirds of the samples select the settings: the cheapest ones whose recall is the wanted one with a confidence of
    95 %, or the most thorough ones. The other samples measure the recall with these settings.
    """
    probes = _list_probes(index)
    middle = round(_SELECTING * len(samples))
    settings = _select_settings(probes, samples[:middle], wanted)
    place = int(np.searchsorted(probes, settings.probes))
    hits, expected = _count_found(samples[middle:], place, settings.candidates)
    return {
        "probes": settings.probes,
        "candidates": settings.candidates,
        "recall": float(hits.sum() / expected.sum()) if expected.sum() else None,
        "recall_of": int(expected.sum()),
        "samples": len(samples) - middle,
    }


def _list_probes(index: SearchIndex) -> Int[np.ndarray, " probe"]:
    """Return the numbers of cells per duration that a search may read."""
    largest = max((len(cells.centroids) for cells in index.cells.values()), default=1)
    return np.array(sorted({min(count, largest) for count in _PROBES}))


def compute_lower_limit(hits: Int[np.ndarray, " sample"], expected: Int[np.ndarray, " sample"]) -> float:
    """Return the lower limit of the recall with a confidence of 95 %, one-sided.

    It is the Wilson limit for as many independent results as have the variance of these samples.

    >>> round(compute_lower_limit(np.full(30, 10), np.full(30, 10)), 3)
    0.991
    >>> round(compute_lower_limit(np.array([10, 0] * 15), np.full(30, 10)), 2)
    0.35
    """
    total = float(expected.sum())
    if not total:
        return 0.0
    share, count = float(hits.sum()) / total, len(hits)
    binomial = share * (1 - share) / total
    if binomial > 0 and count > 1:
        between = count / (count - 1) * float(np.square(hits - share * expected).sum()) / total**2
        total /= max(1.0, between / binomial)
    square = _QUANTILE**2 / total
    spread: float = _QUANTILE * (share * (1 - share) / total + square / 4 / total) ** 0.5
    return (share + square / 2 - spread) / (1 + square)


def draw_samples(
    recipe: FeatureRecipe,
    index: SearchIndex,
    seconds: Sequence[float],
    stretch: float,
    count: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[Sample]:
    """Return examples that have results, with the places of their exact results.

    Args:
        recipe: How the rows were computed.
        index: The index.
        seconds: Durations of the examples, in turn.
        stretch: As in ``find``.
        count: Number of examples to search for.
        progress: Called with the number of finished searches and the total.
    """
    assert recipe.projection is not None
    probes = _list_probes(index)
    model, files = recipe.model, index.row_files
    motions = RecentMotions(recipe.archive)
    random = np.random.default_rng(_SEED)
    total = sum(file.count for file in files)
    numbers = random.choice(total, min(count, total), replace=False)
    samples = []
    for turn, number in enumerate(numbers):
        ((_, windows, _),) = index.read_rows(np.array([number]))
        clip, start, end = windows[0].tolist()
        motion, duration = motions[clip], seconds[turn % len(seconds)]
        length = max(2, round(duration * (motion.rate or recipe.rate)))
        start, end = _move_segment(motion, start, end, length, random)
        with torch.no_grad():
            query = model.features(model.collate([motion[start:end]]), "query")
        steps = [
            step for step in select_duration_steps(duration, stretch) if len(index.cells[step].centroids)
        ]
        bounded = prepare_query(query, recipe.projection)
        some = [file for file in files if file.entry.duration_step in steps]
        best = find_all(model, query, bounded, motions, some, _MATCHES, _OVERLAP).best
        example_window = Window(0.0, clip, start, end)
        results = [
            window for window in best if window.clip != clip or not compute_overlap(window, example_window)
        ]
        if results:
            nearest = index.read_nearest_cells(bounded, steps, int(probes[-1]))
            samples.append(_locate_results(*nearest, _find_numbers(files, steps, results), probes))
        if progress is not None:
            progress(turn + 1, len(numbers))
    return samples


def _move_segment(
    motion: Motion, start: int, end: int, length: int, random: np.random.Generator
) -> tuple[int, int]:
    """Return a segment of some length at a random place near a window; the window if too little is visible there."""
    length = min(length, len(motion))
    middle = (start + end) / 2 + (random.random() - 0.5) * (end - start)
    first = min(max(0, round(middle - length / 2)), len(motion) - length)
    is_visible = motion.valid[first : first + length].flatten(1).any(1)
    return (first, first + length) if 2 * int(is_visible.sum()) >= length else (start, end)


def _find_numbers(
    files: Sequence[RowFile], steps: Sequence[int], results: Sequence[Window]
) -> list[NDArray[np.int64]]:
    """Return the numbers of each result: a short recording is the same window in several durations."""
    counts = np.array([file.count for file in files])
    first_numbers = np.cumsum(counts) - counts
    firsts, stops = (
        np.array([getattr(file.entry.clips, name) for file in files]) for name in ("start", "stop")
    )
    has_step = np.isin([file.entry.duration_step for file in files], steps)
    numbers_per_result = []
    for result in results:
        numbers = []
        for place in np.flatnonzero(has_step & (firsts <= result.clip) & (result.clip < stops)).tolist():
            window = [result.clip - firsts[place], result.start, result.end]
            rows = np.flatnonzero((files[place].open()["window"] == window).all(1))
            numbers.append(first_numbers[place] + rows)
        numbers_per_result.append(np.concatenate(numbers))
    return numbers_per_result


def _locate_results(
    numbers: NDArray[np.int64],
    distances: NDArray[np.float32],
    cells: NDArray[np.int32],
    results: Sequence[NDArray[np.int64]],
    probes: Int[np.ndarray, " probe"],
) -> Sample:
    """Return the places of results among the windows of the nearest cells, nearest vector first."""
    # for each window, the first of the numbers of cells that includes it
    needed = np.searchsorted(probes, cells, "right")
    places = np.full((len(results), len(probes)), _MISSED)
    for result, result_numbers in zip(places, results, strict=True):
        for at in np.flatnonzero(np.isin(numbers, result_numbers)).tolist():
            nearer = np.bincount(needed[distances <= distances[at]], minlength=len(probes)).cumsum() - 1
            is_read = np.arange(len(probes)) >= needed[at]
            result[is_read] = np.minimum(result, nearer)[is_read]
    return Sample(np.bincount(needed, minlength=len(probes)).cumsum(), places)


def _select_settings(probes: Int[np.ndarray, " probe"], samples: Sequence[Sample], wanted: float) -> Settings:
    """Return the cheapest settings with the wanted recall, or the most thorough ones."""
    windows = np.mean([sample.windows for sample in samples], 0) if samples else np.zeros(len(probes))
    grid = sorted(
        (windows[place] + _CANDIDATE_COST * min(candidates, windows[place]), place, candidates)
        for place in range(len(probes))
        for candidates in _CANDIDATES
    )
    for _, place, candidates in grid:
        if samples and compute_lower_limit(*_count_found(samples, place, candidates)) >= wanted:
            return Settings(int(probes[place]), candidates)
    return Settings(int(probes[-1]), _CANDIDATES[-1])


def _count_found(
    samples: Sequence[Sample], place: int, candidates: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return per sample how many results a search with some settings finds, and how many there are."""
    hits = np.array([(sample.places[:, place] < candidates).sum() for sample in samples], np.int64)
    return hits, np.array([len(sample.places) for sample in samples], np.int64)
