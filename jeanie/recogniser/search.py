"""Search: the segments of long recordings that are most like an example, exactly and without aligning most of them."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import torch
from torch import Tensor

from jeanie.datasets.dataset import Dataset
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.shards import Part, Recipe, build, portions, stamps
from jeanie.recogniser.windows import coarse_basis, projected, rungs, window_features
from jeanie.skeleton.motion import Motion

__all__ = ["Found", "Match", "find"]

_UNIT = (
    16  # windows that are always compared together, so that rounding is the same however many are left out
)
_FIRST = 8  # units compared before the first look at what is left
_SLACK = 1e-4, 1e-6  # share and size by which a bound may be off through rounding
_SHIFTS = (0.0, -0.5, -0.25, 0.25, 0.5)  # of a stride
_LENGTHS = (1.0, 0.84, 0.92, 1.09, 1.19)  # of a window; rungs are 1.41 apart


@dataclass(frozen=True)
class Match:
    """A segment of a clip: frames from ``start`` to before ``end``, and its distance from the example."""

    clip: int
    name: str | None
    label: str | int | None
    start: int
    end: int
    rate: float | None
    distance: float

    @property
    def seconds(self) -> tuple[float, float] | None:
        """From when to when, where the frame rate is known."""
        return None if self.rate is None else (self.start / self.rate, self.end / self.rate)


@dataclass(frozen=True)
class Found(Sequence[Match]):
    """The matches, best first. Of ``windows`` in the archive ``compared`` were aligned; ``skipped`` clips are bad."""

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
    """A compared window; the order is that of the answer, also among equal distances."""

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
    stretch: float | int = 1.5,
    stride: float | int = 0.25,
    overlap: float | int = 0.25,
    rate: float | int = 30.0,
    refine: bool = True,
    prune: bool = True,
    jobs: int = 1,
    cache: str | Path | None = None,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """The ``k`` segments of an archive that are nearest to an example.

    Windows have durations 2^(r/2) s within a factor ``stretch`` of the example's and lie ``stride`` of their length
    apart. In the order of their distance, those are kept that share at most ``overlap`` of the shorter one with
    a better one. With ``prune`` most windows are left out by a lower bound of their distance; the answer is that
    without. ``refine`` then looks for better ends around each match. ``rate`` is that of recordings that do not
    say theirs.

    Features of windows are kept in the folder ``cache``, made by ``jobs`` processes, and a search that was stopped
    goes on from there; without a folder they are forgotten. ``progress`` is told how many clips of how many are done.
    """
    _check(k, stride, overlap, rate, jobs, archive)
    stride, overlap, rate = float(stride), float(overlap), float(rate)
    query = _query(model, example)
    wanted = rungs(len(example) / (example.rate or rate), stretch)
    states = stamps(archive)
    with tempfile.TemporaryDirectory(prefix="jeanie") as scratch:
        keep = cache is not None and states is not None
        folder = Path(cache) if keep and cache is not None else Path(scratch)
        basis = coarse_basis(model)
        recipe = Recipe(model, archive, folder, stride, rate, basis)
        work = portions(recipe, wanted, states or [str(clip) for clip in range(len(archive))])
        parts, bad = build(recipe, work, jobs=jobs, skip_bad=skip_bad, progress=progress)
        bounds = _bounds(model, query, parts, basis if prune else None)
        kept, compared = _best(model, query, parts, bounds, k, overlap)
    matches = [_match(archive, window) for window in kept]
    if refine:
        matches = _refined(model, query, archive, matches, stride, overlap)
    return Found(tuple(matches), sum(part.count for part in parts), compared, tuple(bad))


def _check(
    k: int, stride: float | int, overlap: float | int, rate: float | int, jobs: int, archive: Dataset
) -> None:
    if k < 1 or jobs < 1:
        raise ConfigError(f"k counts matches and jobs processes, at least 1, got {k} and {jobs}")
    if not 0 < stride <= 1 or not 0 <= overlap < 1:
        raise ConfigError(f"stride is above 0 to 1 and overlap 0 to below 1, got {stride} and {overlap}")
    if not 0 < rate < float("inf"):
        raise ConfigError(f"rate is frames a second, above 0, got {rate!r}")
    if not len(archive):
        raise DataError(f"{archive.name}: no clips to search")


@torch.no_grad()
def _query(model: FewShotModel, example: Motion) -> Features:
    if len(example) < 2:
        raise DataError(f"{example.name or 'the example'}: one frame is no movement; give a longer example")
    return model.features(model.collate([example]), "query")


@torch.no_grad()
def _bounds(
    model: FewShotModel, query: Features, parts: Sequence[Part], basis: Tensor | None
) -> list[tuple[float, int, int]]:
    """(lower bound, part, unit) of all units of windows, the most promising first."""
    found: list[tuple[float, int, int]] = []
    for place, part in enumerate(parts):
        count, units = part.count, -(-part.count // _UNIT)
        if basis is None:
            found += [(-torch.inf, place, unit) for unit in range(units)]
            continue
        coarse = part.features(slice(0, count), "coarse.")
        bound = model.compare(projected(query, basis), coarse)[0].double() * (1 - _SLACK[0]) - _SLACK[1]
        padded = torch.cat([bound, bound.new_full((units * _UNIT - count,), torch.inf)])
        least = padded.unflatten(0, (units, _UNIT)).amin(1).tolist()
        found += [(value, place, unit) for unit, value in enumerate(least)]
    return sorted(found)


@torch.no_grad()
def _best(
    model: FewShotModel,
    query: Features,
    parts: Sequence[Part],
    bounds: Sequence[tuple[float, int, int]],
    k: int,
    overlap: float,
) -> tuple[list[_Window], int]:
    """The k best windows that are apart, and how many windows were compared for that.

    All windows whose distance is at most that of the k-th kept one are compared when no unit is left with a bound
    that small; no other window can change which k are kept.
    """
    compared: list[_Window] = []
    kept: list[_Window] = []
    done, step = 0, _FIRST
    while done < len(bounds) and (len(kept) < k or bounds[done][0] <= kept[-1].distance):
        for _, place, unit in bounds[done : done + step]:
            compared += _compared(model, query, parts[place], unit)
        done, step = done + step, 2 * step
        compared.sort(key=lambda window: window.order)
        kept = _apart(compared, k, overlap)
    return kept, len(compared)


def _compared(model: FewShotModel, query: Features, part: Part, unit: int) -> list[_Window]:
    rows = slice(unit * _UNIT, min((unit + 1) * _UNIT, part.count))
    distances = model.compare(query, part.features(rows))[0].tolist()
    return [
        _Window(distance, *window)
        for distance, window in zip(distances, part.windows(rows).tolist(), strict=True)
    ]


def _apart(windows: Sequence[_Window], k: int, overlap: float) -> list[_Window]:
    """The first k windows that share no more than ``overlap`` of the shorter one with an earlier one."""
    kept: list[_Window] = []
    for window in windows:
        if len(kept) == k:
            break
        rivals = (other for other in kept if other.clip == window.clip)
        if not any(_share(window, other) > overlap for other in rivals):
            kept.append(window)
    return kept


def _share(one: _Window | Match, other: _Window | Match) -> float:
    common = min(one.end, other.end) - max(one.start, other.start)
    return max(0, common) / min(one.end - one.start, other.end - other.start)


def _match(archive: Dataset, window: _Window) -> Match:
    motion = archive.motions[window.clip]
    return Match(
        window.clip, motion.name, motion.label, window.start, window.end, motion.rate, window.distance
    )


@torch.no_grad()
def _refined(
    model: FewShotModel,
    query: Features,
    archive: Dataset,
    matches: Sequence[Match],
    stride: float,
    overlap: float,
) -> list[Match]:
    """Matches with the best ends around those of their windows, where they stay apart."""
    better = list(matches)
    for place, match in enumerate(matches):
        motion = archive.motions[match.clip]
        others = [one for at, one in enumerate(better) if at != place and one.clip == match.clip]
        for length in dict.fromkeys(round(factor * (match.end - match.start)) for factor in _LENGTHS):
            near = [
                one
                for one in (
                    replace(match, start=a, end=b) for a, b in _around(match, length, len(motion), stride)
                )
                if not any(_share(one, other) > overlap for other in others) and _seen(motion, one)
            ]
            for one, distance in zip(near, _distances(model, query, motion, near), strict=True):
                if distance < better[place].distance:
                    better[place] = replace(one, distance=distance)
    return sorted(better, key=lambda one: (one.distance, one.clip, one.start, one.end))


def _around(match: Match, length: int, frames: int, stride: float) -> list[tuple[int, int]]:
    """Segments of a length whose middles lie within half a stride of the match's."""
    length = min(length, frames)
    middle, step = (match.start + match.end - length) / 2, stride * (match.end - match.start)
    starts = (round(min(max(0, middle + shift * step), frames - length)) for shift in _SHIFTS)
    return [(start, start + length) for start in dict.fromkeys(starts) if length > 1]


def _seen(motion: Motion, match: Match) -> bool:
    return int(motion.valid[match.start : match.end].flatten(1).any(1).sum()) >= 2


def _distances(model: FewShotModel, query: Features, motion: Motion, matches: Sequence[Match]) -> list[float]:
    found: list[float] = []
    for features in window_features(model, motion, [(one.start, one.end) for one in matches]):
        found += model.compare(query, features)[0].tolist()
    return found
