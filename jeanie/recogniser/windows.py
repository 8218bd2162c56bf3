"""Windows of long recordings and their features: the pieces that a search compares with an example."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.datasets.synthetic import open_synthetic
from jeanie.errors import ConfigError
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import NORMAL_FRAMES, Batch
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.normal import BODY, normal_body

__all__ = ["coarse_basis", "projected", "rungs", "spans", "window_features", "window_frames"]

_TOGETHER = 128  # windows encoded at once
_SEEN = 0.5  # share of a window's frames in which somebody must be seen
_DIRECTIONS = 64  # of the features, which carry most of what differs between motions
# Any orthonormal directions give bounds: a model whose weights have changed since may keep its own.
_known: WeakKeyDictionary[FewShotModel, Tensor | None] = WeakKeyDictionary()
_EVERY = 3  # of the generated actions one in three is enough to tell them


def rungs(seconds: float | int, stretch: float | int) -> tuple[int, ...]:
    """Rungs r of the ladder of durations 2^(r/2) seconds that lie within a factor ``stretch`` of a duration.

    Examples of similar durations share rungs, and so the features of an archive. There is always the nearest one.

    >>> [round(2 ** (rung / 2), 2) for rung in rungs(2.0, 1.5)]
    [1.41, 2.0, 2.83]
    """
    if not 0 < seconds < math.inf or not 1 <= stretch < math.inf:
        raise ConfigError(f"needs a duration above 0 and a stretch of 1 or more, got {seconds} and {stretch}")
    middle, reach = 2 * math.log2(seconds), 2 * math.log2(stretch)
    inside = range(math.ceil(middle - reach - 1e-9), math.floor(middle + reach + 1e-9) + 1)
    return tuple(inside) or (round(middle),)


def window_frames(rung: int, rate: float | int) -> int:
    """Frames of a window of a rung, at least 2."""
    return max(2, round(2 ** (rung / 2) * rate))


def spans(motion: Motion, length: int, stride: float | int) -> list[tuple[int, int]]:
    """First and behind-last frames of the windows of ``length`` frames, ``stride`` of a length apart.

    The last one ends with the recording. A recording that is shorter, but not below half of it, is one window.
    Windows in which somebody is seen less than half of the time are left out.
    """
    frames = len(motion)
    if frames < length:
        found = [(0, frames)] if 2 * frames >= length and frames > 1 else []
    else:
        step = max(1, round(stride * length))
        starts = [*range(0, frames - length, step), frames - length]
        found = [(start, start + length) for start in starts]
    total = torch.zeros(frames + 1, dtype=torch.long)
    total[1:] = motion.valid.flatten(1).any(1).cumsum(0)
    return [(a, b) for a, b in found if int(total[b] - total[a]) >= max(2, math.ceil(_SEEN * (b - a)))]


def window_features(
    model: FewShotModel, motion: Motion, windows: Sequence[tuple[int, int]]
) -> Iterator[Features]:
    """Features of windows of one recording as a model's supports, in portions.

    They are those of ``motion[start:end]`` for each window. Windows of one person of whom something is seen in
    every frame are prepared all at once.
    """
    together = (
        model.config.inputs.prepare.body == "normal"
        and not model.beside
        and motion.persons == 1
        and len({end - start for start, end in windows}) == 1
        and bool(motion.valid.flatten(1).any(1).all())
    )
    for at in range(0, len(windows), _TOGETHER):
        some = windows[at : at + _TOGETHER]
        if together:
            batch = _batch(motion, some, model.config.inputs.prepare.frames or NORMAL_FRAMES, model.dtype)
        else:
            batch = model.collate([motion[start:end] for start, end in some])
        with torch.no_grad():
            features = model.features(batch, "support")
        yield features


def _batch(motion: Motion, windows: Sequence[tuple[int, int]], frames: int, dtype: torch.dtype) -> Batch:
    """Windows as a batch of normal bodies: each takes the place of a person in one motion of a window's length."""
    length = windows[0][1] - windows[0][0]
    index = torch.tensor([start for start, _ in windows])
    if len(windows) == 2:
        index = torch.cat([index, index[:1]])  # two persons would be turned to face each other
    at = index + torch.arange(length)[:, None]
    crowd = motion.replace(joints=motion.joints[at, 0], valid=motion.valid[at, 0])
    bodies, valid = normal_body(crowd, frames, dtype)
    count = len(windows)
    joints = bodies[:, :count].transpose(0, 1)[:, None].contiguous()
    seen = valid[:, :count].transpose(0, 1)[:, None].contiguous()
    return Batch(joints, seen, torch.full((count,), frames), BODY)


@torch.no_grad()
def coarse_basis(model: FewShotModel) -> Float[Tensor, "feature direction"] | None:
    """Orthonormal directions in which the features of generated motions differ most, for bounds of distances.

    Projected features are never farther apart than the features themselves; alignments of any temperature, through
    any views, grow with every cost; hence distances of projected features are lower bounds. None where that
    does not hold or brings nothing: where several models are added, distances are no sums along a path,
    self-distances are taken off, or the temperature follows the costs.
    """
    align = model.config.align
    if model.beside or align.normalise == "divergence" or align.relative:
        return None
    if align.method not in ("jeanie", "fvm") or align.metric == "cosine":
        return None
    if model.layout is None:
        return None
    if model not in _known:
        _known[model] = _directions(model)
    return _known[model]


def _directions(model: FewShotModel) -> Float[Tensor, "feature direction"] | None:
    clips = open_synthetic(subjects=1, takes=1, cameras=1).motions[::_EVERY]
    values = model.features(model.collate(clips), "support").inside().double()
    if values.shape[1] <= _DIRECTIONS:
        return None
    values = values - values.mean(0)
    basis: Tensor = torch.linalg.eigh(values.T @ values)[1][:, -_DIRECTIONS:].to(model.dtype)
    return basis


def projected(features: Features, basis: Float[Tensor, "feature direction"]) -> Features:
    """Features in a few directions."""
    second = None if features.second is None else features.second @ basis
    image = None if features.reflected is None else projected(features.reflected, basis)
    return replace(features, values=features.values @ basis, beside=(), second=second, reflected=image)
