"""Find the segments of long recordings nearest to an example. Lower bounds avoid most alignments."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import overload

import torch

from jeanie.datasets.dataset import Dataset
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.bounds import prepare_query
from jeanie.recogniser.search.cache import (
    FeatureRecipe,
    build_cache,
    delete_entry,
    list_entries,
)
from jeanie.recogniser.search.candidates import (
    RecentMotions,
    Window,
    compute_distances,
    compute_overlap,
)
from jeanie.recogniser.search.clip_states import read_clip_states
from jeanie.recogniser.search.encoding import Segments
from jeanie.recogniser.search.proposals import Searched, find_all, search_index
from jeanie.recogniser.search.row_files import DamagedRows, RowFile
from jeanie.recogniser.search.rows import compute_projection
from jeanie.recogniser.search.windows import select_duration_steps
from jeanie.skeleton.motion import Motion

__all__ = ["Match", "SearchResult", "find"]

_CLIPS = 16  # whose matches are refined together
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

    ``windows`` counts the windows of the archive, ``looked_at`` those that were compared with the example in any form,
    ``compared`` those that were aligned in full. ``recall`` is 1 for an exact search. With an index it is the share of
    the exact results that the index found in a sample of searches, or None if that was not measured.
    ``skipped`` lists (clip, reason) of unreadable clips.
    """

    matches: tuple[Match, ...]
    windows: int
    compared: int
    skipped: tuple[tuple[str, str], ...] = ()
    looked_at: int = 0
    exact: bool = True
    recall: float | None = 1.0

    def __len__(self) -> int:
        return len(self.matches)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Match, ...]: ...
    def __getitem__(self, index: int | slice) -> Match | tuple[Match, ...]:
        return self.matches[index]


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
    exact: bool | None = None,
    jobs: int = 1,
    cluster: str | None = None,
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
        exact: True compares the example with every window. False uses the index that ``build_index`` made in the cache
            folder, which may miss some matches. None uses it only for archives of 500,000 windows or more. Without an
            index of the archive as it is now, a search is exact; ``SearchResult.exact`` says which search it was.
        jobs: Number of worker processes that compute features.
        cluster: Address of a Dask scheduler whose workers compute features; they need ``cache`` under the same path.
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
    projection, motions = compute_projection(model), RecentMotions(archive)
    if cache is not None and projection is not None and prune and exact is not True:
        recipe = FeatureRecipe(model, archive, Path(cache), stride, rate, projection)
        searched = search_index(
            recipe, query, motions, duration_steps, k, overlap, may_be_small=exact is False
        )
    else:
        searched = None
    bad: list[tuple[str, str]] = []
    if searched is None:
        states = None if cache is None else read_clip_states(archive, Path(cache))
        with tempfile.TemporaryDirectory(prefix="jeanie") as scratch:
            keep = cache is not None and states is not None
            if cluster is not None and not keep:
                raise ConfigError(
                    "a cluster computes features of files in a shared folder; give cache=FOLDER"
                )
            folder = Path(cache) if keep and cache is not None else Path(scratch)
            recipe = FeatureRecipe(model, archive, folder, stride, rate, projection)
            work = list_entries(recipe, duration_steps, states or [str(clip) for clip in range(len(archive))])
            build = partial(
                build_cache, recipe, work, jobs=jobs, cluster=cluster, skip_bad=skip_bad, progress=progress
            )
            searched, bad = _find_all(recipe, query, motions, k, overlap, prune, build)
    matches = _refine(model, query, motions, searched.best, stride, overlap, refine)
    return SearchResult(
        tuple(matches), searched.windows, searched.compared, tuple(bad),
        searched.looked_at, searched.exact, searched.recall,
    )  # fmt: skip


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


def _make_match(motion: Motion, window: Window) -> Match:
    return Match(
        window.clip, motion.name, motion.label, window.start, window.end, motion.rate, window.distance
    )


def _find_all(
    recipe: FeatureRecipe,
    query: Features,
    motions: RecentMotions,
    k: int,
    overlap: float,
    prune: bool,
    build: Callable[[], tuple[list[RowFile], list[tuple[str, str]]]],
) -> tuple[Searched, list[tuple[str, str]]]:
    """Return the exact result, and the unreadable clips. A damaged file is computed again once."""
    bounded = None if recipe.projection is None or not prune else prepare_query(query, recipe.projection)
    repaired: set[Path] = set()
    while True:
        files, bad = build()
        try:
            return find_all(recipe.model, query, bounded, motions, files, k, overlap), bad
        except DamagedRows as error:
            if error.file.path in repaired:
                raise
            repaired.add(error.file.path)
            delete_entry(error.file)


def _refine(
    model: FewShotModel,
    query: Features,
    recordings: RecentMotions,
    best: Sequence[Window],
    stride: float,
    overlap: float,
    refine: bool,
) -> list[Match]:
    """Return the best windows as matches, sorted by distance; with ``refine``, with better ends."""
    ordered = sorted(best, key=lambda window: window.clip)
    groups = [(clip, list(windows)) for clip, windows in groupby(ordered, lambda window: window.clip)]
    matches: list[Match] = []
    for first in range(0, len(groups), _CLIPS):
        some = groups[first : first + _CLIPS]
        motions = [recordings[clip] for clip, _ in some]
        by_clip = [
            [_make_match(motion, window) for window in windows]
            for motion, (_, windows) in zip(motions, some, strict=True)
        ]
        if refine:
            _refine_matches(model, query, motions, by_clip, stride, overlap)
        matches += chain.from_iterable(by_clip)
    return sorted(matches, key=lambda match: (match.distance, match.clip, match.start, match.end))


def _refine_matches(
    model: FewShotModel,
    query: Features,
    motions: Sequence[Motion],
    by_clip: Sequence[list[Match]],
    stride: float,
    overlap: float,
) -> None:
    """Replace the matches of each clip by segments with the best start and end near theirs, with little overlap.

    One match of each clip at a time, so that the segments of all clips are encoded together.
    """
    for turn in range(max(map(len, by_clip), default=0)):
        candidates_per_clip = [
            _list_candidates(motion, matches, turn, stride, overlap) if turn < len(matches) else []
            for motion, matches in zip(motions, by_clip, strict=True)
        ]
        segments = [
            Segments(None, motion, [(candidate.start, candidate.end) for candidate in candidates])
            for motion, candidates in zip(motions, candidates_per_clip, strict=True)
        ]
        distances = iter(compute_distances(model, query, segments))
        for matches, candidates in zip(by_clip, candidates_per_clip, strict=True):
            for candidate in candidates:
                distance = next(distances)
                if distance < matches[turn].distance:
                    matches[turn] = replace(candidate, distance=distance)


def _list_candidates(
    motion: Motion, matches: Sequence[Match], place: int, stride: float, overlap: float
) -> list[Match]:
    """Return other segments near a match that do not overlap the other matches of the clip too much."""
    match, other_matches = matches[place], [*matches[:place], *matches[place + 1 :]]
    lengths = dict.fromkeys(round(factor * (match.end - match.start)) for factor in _LENGTHS)
    places = (_list_segments_around(match, length, len(motion), stride) for length in lengths)
    shifted = (replace(match, start=start, end=end) for start, end in chain.from_iterable(places))
    return [
        candidate
        for candidate in shifted
        if (candidate.start, candidate.end) != (match.start, match.end)
        and not any(compute_overlap(candidate, other) > overlap for other in other_matches)
        and _is_visible(motion, candidate)
    ]


def _list_segments_around(match: Match, length: int, frames: int, stride: float) -> list[tuple[int, int]]:
    """Return segments of a length with centres within half a stride of the centre of the match."""
    length = min(length, frames)
    middle, step = (match.start + match.end - length) / 2, stride * (match.end - match.start)
    starts = (round(min(max(0, middle + shift * step), frames - length)) for shift in _SHIFTS)
    return [(start, start + length) for start in dict.fromkeys(starts) if length > 1]


def _is_visible(motion: Motion, match: Match) -> bool:
    return int(motion.valid[match.start : match.end].flatten(1).any(1).sum()) >= 2
