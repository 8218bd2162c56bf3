"""Measure on an archive how many of the exact results an index finds, and select how much a search reads.

Windows of the archive are the examples. The windows at the place of the example itself do not count, because every
index finds them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jeanie.recogniser.search.bounds import BoundedQuery, prepare_query
from jeanie.recogniser.search.cache import FeatureRecipe
from jeanie.recogniser.search.candidates import RecentMotions, Window, compute_overlap
from jeanie.recogniser.search.index import SearchIndex
from jeanie.recogniser.search.proposals import find_all, locate_rows
from jeanie.recogniser.search.windows import select_duration_steps

__all__ = ["Settings", "measure_recall"]

_MATCHES = 10  # results per search
_OVERLAP, _STRETCH = 0.25, 1.5  # of these searches
_PROBES = (4, 8, 16, 32, 64, 128, 256)
_CANDIDATES = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
_SEED = 0


@dataclass(frozen=True)
class Settings:
    """Cells per duration and candidates that a search reads."""

    probes: int
    candidates: int


@dataclass(frozen=True, eq=False)
class _Sample:
    query: BoundedQuery
    steps: tuple[int, ...]
    expected: list[tuple[int, int, int]]


def measure_recall(recipe: FeatureRecipe, index: SearchIndex, samples: int, wanted: float) -> dict[str, Any]:
    """Return the settings of an index and its recall, as values of ``index.json``.

    The first half of the samples selects the settings: the cheapest ones with the wanted recall, or the most thorough
    ones. The other half measures the recall with these settings.
    """
    drawn = [sample for sample in _draw_samples(recipe, index, samples) if sample.expected]
    middle = (len(drawn) + 1) // 2
    settings = _select_settings(index, drawn[:middle], wanted)
    found_count, total = _count_found(index, drawn[middle:], settings)
    return {
        "probes": settings.probes,
        "candidates": settings.candidates,
        "recall": found_count / total if total else None,
        "recall_of": total,
        "samples": len(drawn) - middle,
    }


def _draw_samples(recipe: FeatureRecipe, index: SearchIndex, count: int) -> list[_Sample]:
    """Return examples with their exact results."""
    assert recipe.projection is not None
    model, files = recipe.model, index.list_files()
    sizes = [file.count for file in files]
    motions = RecentMotions(recipe.archive)
    random = np.random.default_rng(_SEED)
    numbers = random.choice(sum(sizes), min(count, sum(sizes)), replace=False)
    samples = []
    for file, rows in [piece for number in numbers for piece in index.read_rows(np.array([number]))]:
        clip, start, end = locate_rows(file, rows)[0].tolist()
        motion = motions[clip]
        example = motion[start:end]
        with torch.no_grad():
            query = model.features(model.collate([example]), "query")
        seconds = len(example) / (motion.rate or recipe.rate)
        steps = tuple(step for step in select_duration_steps(seconds, _STRETCH) if step in index.cells)
        bounded = prepare_query(query, recipe.projection)
        some = [file for file in files if file.entry.duration_step in steps]
        best = find_all(model, query, bounded, motions, some, _MATCHES, _OVERLAP).best
        example_window = Window(0.0, clip, start, end)
        expected = [
            window for window in best if window.clip != clip or not compute_overlap(window, example_window)
        ]
        samples.append(
            _Sample(bounded, steps, [(window.clip, window.start, window.end) for window in expected])
        )
    return samples


def _select_settings(index: SearchIndex, samples: list[_Sample], wanted: float) -> Settings:
    """Return the cheapest settings with the wanted recall: few candidates first, then few cells."""
    largest = max((len(cells.centroids) for cells in index.cells.values()), default=1)
    probes = [count for count in _PROBES if count < largest] + [min(largest, 2 * _PROBES[-1])]
    for candidates in _CANDIDATES:
        for count in probes:
            settings = Settings(count, candidates)
            found_count, total = _count_found(index, samples, settings)
            if found_count >= wanted * total:
                return settings
    return Settings(probes[-1], _CANDIDATES[-1])


def _count_found(index: SearchIndex, samples: list[_Sample], settings: Settings) -> tuple[int, int]:
    """Return how many of the exact results are among the candidates, and how many there are."""
    found_count = total = 0
    for sample in samples:
        proposal = index.propose(sample.query, sample.steps, probes=settings.probes, most=settings.candidates)
        windows: set[tuple[int, ...]] = set()
        for file, rows in index.read_rows(proposal.numbers):
            windows.update(map(tuple, locate_rows(file, rows).tolist()))
        found_count += sum(window in windows for window in sample.expected)
        total += len(sample.expected)
    return found_count, total
