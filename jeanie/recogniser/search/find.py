"""Find the segments of long recordings nearest to an example. Lower bounds avoid most alignments."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import overload

import torch
from torch import Tensor

from jeanie.datasets.dataset import Dataset
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.cache import (
    FeatureFile,
    FeatureRecipe,
    build_cache,
    list_entries,
)
from jeanie.recogniser.search.clip_states import read_clip_states
from jeanie.recogniser.search.windows import (
    compute_coarse_basis,
    encode_windows,
    project_features,
    select_duration_steps,
)
from jeanie.skeleton.motion import Motion

__all__ = ["Match", "SearchResult", "find"]

_UNIT = (
    16  # windows that are always compared together, so that rounding is the same however many are left out
)
_FIRST = 8  # units compared before the first check of the bounds
_SLACK = 1e-4, 1e-6  # share and size by which a bound may be off through rounding
_SHIFTS = (0.0, -0.5, -0.25, 0.25, 0.5)  # of a stride
_LENGTHS = (1.0, 0.84, 0.92, 1.09, 1.19)  # of a window; select_duration_steps are 1.41 apart


@dataclass(frozen=True)
class Match:
    """A segment of a clip, frames ``start`` to ``end`` (exclusive), and its distance to the example."""

    clip: int
    name: str | None
    label: str | int | None
    start: int
    end: int
    rate: float | None
    distance: float

    @property
    def seconds(self) -> tuple[float, float] | None:
        """Start and end in seconds, or None if the frame rate is unknown."""
        return None if self.rate is None else (self.start / self.rate, self.end / self.rate)


@dataclass(frozen=True)
class SearchResult(Sequence[Match]):
    """The matches, sorted by distance.

    ``windows`` counts the windows of the archive, ``compared`` those that were aligned. ``skipped`` lists
    (clip, reason) of unreadable clips.
    """

    matches: tuple[Match, ...]
    windows: int
    compared: int
    skipped: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.matches)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Match, ...]: ...
    def __getitem__(self, index: int | slice) -> Match | tuple[Match, ...]:
        return self.matches[index]


@dataclass(frozen=True)
class _Window:
    """A compared window. ``order`` also sorts windows of equal distance."""

    distance: float
    clip: int
    start: int
    end: int

    @property
    def order(self) -> tuple[float, int, int, int]:
        return self.distance, self.clip, self.start, self.end


def find(
    model: FewShotModel,
    example: Motion,
    archive: Dataset,
    k: int = 10,
    *,
    stretch: float = 1.5,
    stride: float = 0.25,
    overlap: float = 0.25,
    rate: float = 30.0,
    refine: bool = True,
    prune: bool = True,
    jobs: int = 1,
    cache: str | Path | None = None,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Return the ``k`` segments of an archive that are nearest to an example.

    Args:
        model: Model that measures the distances.
        example: The movement to search for, at least two frames.
        archive: Data set to search.
        k: Maximum number of matches.
        stretch: Windows last 2^(r/2) seconds, within this factor of the duration of the example.
        stride: Distance between two windows as a share of their length.
        overlap: Largest share of the shorter of two matches that both may cover.
        rate: Frame rate of recordings without one.
        refine: Search for better start and end frames around each match.
        prune: Skip windows by a lower bound of their distance. The result is the same without it.
        jobs: Number of worker processes that compute features.
        cache: Folder that keeps features; an interrupted search continues from it. None keeps nothing.
        skip_bad: Skip unreadable clips and list them in the result.
        progress: Called with the number of finished clips and the total.

    Returns:
        The matches, sorted by distance.

    Raises:
        ConfigError: If an argument is out of range.
        DataError: If the archive is empty, a clip is unreadable or the example is too short.

    >>> from jeanie import FewShotModel, open_synthetic
    >>> archive = open_synthetic(subjects=1, takes=1, cameras=1, actions=["wave", "walk"])
    >>> find(FewShotModel.raw(), archive[1], archive, k=1)[0].clip
    1
    """
    _check_arguments(k, stride, overlap, rate, jobs, archive)
    stride, overlap, rate = float(stride), float(overlap), float(rate)
    query = _encode_query(model, example)
    duration_steps = select_duration_steps(len(example) / (example.rate or rate), stretch)
    states = None if cache is None else read_clip_states(archive, Path(cache))
    with tempfile.TemporaryDirectory(prefix="jeanie") as scratch:
        keep = cache is not None and states is not None
        folder = Path(cache) if keep and cache is not None else Path(scratch)
        basis = compute_coarse_basis(model)
        recipe = FeatureRecipe(model, archive, folder, stride, rate, basis)
        work = list_entries(recipe, duration_steps, states or [str(clip) for clip in range(len(archive))])
        parts, bad = build_cache(recipe, work, jobs=jobs, skip_bad=skip_bad, progress=progress)
        bounds = _compute_bounds(model, query, parts, basis if prune else None)
        best, compared = _find_best(model, query, parts, bounds, k, overlap)
    matches: list[Match] = []
    for clip, windows in groupby(sorted(best, key=lambda window: window.clip), lambda window: window.clip):
        motion = archive.motions[clip]
        in_clip = [_make_match(motion, window) for window in windows]
        matches += _refine_matches(model, query, motion, in_clip, stride, overlap) if refine else in_clip
    matches.sort(key=lambda match: (match.distance, match.clip, match.start, match.end))
    return SearchResult(tuple(matches), sum(part.count for part in parts), compared, tuple(bad))


def _check_arguments(k: int, stride: float, overlap: float, rate: float, jobs: int, archive: Dataset) -> None:
    if k < 1 or jobs < 1:
        raise ConfigError(f"k and jobs must be at least 1, got {k} and {jobs}")
    if not 0 < stride <= 1 or not 0 <= overlap < 1:
        raise ConfigError(f"stride must be in (0, 1] and overlap in [0, 1), got {stride} and {overlap}")
    if not 0 < rate < float("inf"):
        raise ConfigError(f"rate is frames per second and must be above 0, got {rate!r}")
    if not len(archive):
        raise DataError(f"{archive.name}: no clips to search")


@torch.no_grad()
def _encode_query(model: FewShotModel, example: Motion) -> Features:
    if len(example) < 2:
        raise DataError(
            f"{example.name or 'the example'}: a single frame is not a movement; give a longer example"
        )
    return model.features(model.collate([example]), "query")


@torch.no_grad()
def _compute_bounds(
    model: FewShotModel, query: Features, parts: Sequence[FeatureFile], basis: Tensor | None
) -> list[tuple[float, int, int]]:
    """Return (lower bound, file, unit) of all units of windows, sorted by bound."""
    bounds: list[tuple[float, int, int]] = []
    for place, part in enumerate(parts):
        count, units = part.count, -(-part.count // _UNIT)
        if basis is None:
            bounds += [(-torch.inf, place, unit) for unit in range(units)]
            continue
        coarse = part.read_features(slice(0, count), "coarse.")
        bound = (
            model.compare(project_features(query, basis), coarse)[0].double() * (1 - _SLACK[0]) - _SLACK[1]
        )
        padded = torch.cat([bound, bound.new_full((units * _UNIT - count,), torch.inf)])
        least = padded.unflatten(0, (units, _UNIT)).amin(1).tolist()
        bounds += [(value, place, unit) for unit, value in enumerate(least)]
    return sorted(bounds)


@torch.no_grad()
def _find_best(
    model: FewShotModel,
    query: Features,
    parts: Sequence[FeatureFile],
    bounds: Sequence[tuple[float, int, int]],
    k: int,
    overlap: float,
) -> tuple[list[_Window], int]:
    """Return the k best windows without too much overlap, and the number of compared windows.

    The search stops when the bounds of all other units are above the distance of the k-th window. No other window can
    then change the result.
    """
    compared: list[_Window] = []
    best: list[_Window] = []
    done, step = 0, _FIRST
    while done < len(bounds) and (len(best) < k or bounds[done][0] <= best[-1].distance):
        for _, place, unit in bounds[done : done + step]:
            compared += _compare_unit(model, query, parts[place], unit)
        done, step = done + step, 2 * step
        compared.sort(key=lambda window: window.order)
        best = _suppress_overlaps(compared, k, overlap)
    return best, len(compared)


def _compare_unit(model: FewShotModel, query: Features, part: FeatureFile, unit: int) -> list[_Window]:
    rows = slice(unit * _UNIT, min((unit + 1) * _UNIT, part.count))
    distances = model.compare(query, part.read_features(rows))[0].tolist()
    return [
        _Window(distance, *window)
        for distance, window in zip(distances, part.read_windows(rows).tolist(), strict=True)
    ]


def _suppress_overlaps(windows: Sequence[_Window], k: int, overlap: float) -> list[_Window]:
    """Return the first k windows that share at most ``overlap`` of the shorter one with an earlier one."""
    selected: list[_Window] = []
    for window in windows:
        if len(selected) == k:
            break
        others = (other for other in selected if other.clip == window.clip)
        if not any(_compute_overlap(window, other) > overlap for other in others):
            selected.append(window)
    return selected


def _compute_overlap(window: _Window | Match, other: _Window | Match) -> float:
    common = min(window.end, other.end) - max(window.start, other.start)
    return max(0, common) / min(window.end - window.start, other.end - other.start)


def _make_match(motion: Motion, window: _Window) -> Match:
    return Match(
        window.clip, motion.name, motion.label, window.start, window.end, motion.rate, window.distance
    )


@torch.no_grad()
def _refine_matches(
    model: FewShotModel,
    query: Features,
    motion: Motion,
    matches: Sequence[Match],
    stride: float,
    overlap: float,
) -> list[Match]:
    """Return the matches of one clip with the best start and end near those of their windows, with little overlap."""
    best = list(matches)
    for index, match in enumerate(matches):
        others = [other for i, other in enumerate(best) if i != index]
        for length in dict.fromkeys(round(factor * (match.end - match.start)) for factor in _LENGTHS):
            segments = _list_segments_around(match, length, len(motion), stride)
            shifted = [replace(match, start=start, end=end) for start, end in segments]
            candidates = [
                candidate
                for candidate in shifted
                if not any(_compute_overlap(candidate, other) > overlap for other in others)
                and _is_visible(motion, candidate)
            ]
            distances = _compute_distances(model, query, motion, candidates)
            for candidate, distance in zip(candidates, distances, strict=True):
                if distance < best[index].distance:
                    best[index] = replace(candidate, distance=distance)
    return best


def _list_segments_around(match: Match, length: int, frames: int, stride: float) -> list[tuple[int, int]]:
    """Return segments of a length with centres within half a stride of the centre of the match."""
    length = min(length, frames)
    middle, step = (match.start + match.end - length) / 2, stride * (match.end - match.start)
    starts = (round(min(max(0, middle + shift * step), frames - length)) for shift in _SHIFTS)
    return [(start, start + length) for start in dict.fromkeys(starts) if length > 1]


def _is_visible(motion: Motion, match: Match) -> bool:
    return int(motion.valid[match.start : match.end].flatten(1).any(1).sum()) >= 2


def _compute_distances(
    model: FewShotModel, query: Features, motion: Motion, matches: Sequence[Match]
) -> list[float]:
    distances: list[float] = []
    for features in encode_windows(model, motion, [(match.start, match.end) for match in matches]):
        distances += model.compare(query, features)[0].tolist()
    return distances
