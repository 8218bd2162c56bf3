"""Cut long recordings into windows and compute their features, which a search compares with an example."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.alignment.base_distance import METRICS
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError
from jeanie.fewshot.config import FvmConfig, JeanieConfig
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import CANONICAL_FRAMES, Batch
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.canonical_body import BODY, compute_canonical_body
from jeanie.skeleton.motion import Motion

__all__ = [
    "compute_coarse_basis",
    "count_window_frames",
    "cut_windows",
    "encode_windows",
    "project_features",
    "select_duration_steps",
]

_TOGETHER = 128  # windows encoded at once
_SEEN = 0.5  # minimum share of a window's frames with a visible person
_DIRECTIONS = 64  # of the features, with most of the variance between motions
# Any orthonormal directions give valid bounds, so a model may keep its basis when its weights change.
_bases: WeakKeyDictionary[FewShotModel, Tensor | None] = WeakKeyDictionary()
_EVERY = 3  # one in three of the generated motions is enough


def select_duration_steps(seconds: float, stretch: float) -> tuple[int, ...]:
    """Return all integers r whose duration 2^(r/2) seconds lies within a factor ``stretch`` of ``seconds``.

    Examples of similar durations share these steps, and so the features of an archive. If no step lies within
    the factor, the nearest one is returned.

    >>> [round(2 ** (r / 2), 2) for r in select_duration_steps(2.0, 1.5)]
    [1.41, 2.0, 2.83]
    """
    if not 0 < seconds < math.inf or not 1 <= stretch < math.inf:
        raise ConfigError(f"needs a duration above 0 and a stretch of 1 or more, got {seconds} and {stretch}")
    middle, reach = 2 * math.log2(seconds), 2 * math.log2(stretch)
    inside = range(math.ceil(middle - reach - 1e-9), math.floor(middle + reach + 1e-9) + 1)
    return tuple(inside) or (round(middle),)


def count_window_frames(duration_step: int, rate: float) -> int:
    """Return the number of frames of a window of 2^(duration_step/2) seconds, at least 2."""
    return max(2, round(2 ** (duration_step / 2) * rate))


def cut_windows(motion: Motion, length: int, stride: float) -> list[tuple[int, int]]:
    """Return the start and end (exclusive) frames of windows of ``length`` frames, ``stride`` of a length apart.

    The last window ends with the recording. A recording of half a length or more, but less than a length, is one
    window. Windows with a visible person in less than half of the frames are dropped.
    """
    frames = len(motion)
    if frames < length:
        segments = [(0, frames)] if 2 * frames >= length and frames > 1 else []
    else:
        step = max(1, round(stride * length))
        starts = [*range(0, frames - length, step), frames - length]
        segments = [(start, start + length) for start in starts]
    total = torch.zeros(frames + 1, dtype=torch.long)
    total[1:] = motion.valid.flatten(1).any(1).cumsum(0)
    return [(a, b) for a, b in segments if int(total[b] - total[a]) >= max(2, math.ceil(_SEEN * (b - a)))]


def encode_windows(
    model: FewShotModel, motion: Motion, windows: Sequence[tuple[int, int]]
) -> Iterator[Features]:
    """Yield the support features of windows of one recording, in batches.

    They equal the features of ``motion[start:end]`` for each window. Windows of a single person who is visible in
    every frame are prepared in one step.
    """
    together = (
        model.config.inputs.prepare.body == "canonical"
        and not model.components
        and motion.persons == 1
        and len({end - start for start, end in windows}) == 1
        and bool(motion.valid.flatten(1).any(1).all())
    )
    for at in range(0, len(windows), _TOGETHER):
        some = windows[at : at + _TOGETHER]
        if together:
            batch = _make_batch(
                motion, some, model.config.inputs.prepare.frames or CANONICAL_FRAMES, model.dtype
            )
        else:
            batch = model.collate([motion[start:end] for start, end in some])
        with torch.no_grad():
            features = model.features(batch, "support")
        yield features


def _make_batch(motion: Motion, windows: Sequence[tuple[int, int]], frames: int, dtype: torch.dtype) -> Batch:
    """Return windows as a batch of canonical bodies. Each window becomes one person of a single motion."""
    length = windows[0][1] - windows[0][0]
    index = torch.tensor([start for start, _ in windows])
    if len(windows) == 2:
        index = torch.cat([index, index[:1]])  # two persons would be turned to face each other
    at = index + torch.arange(length)[:, None]
    crowd = motion.replace(joints=motion.joints[at, 0], valid=motion.valid[at, 0])
    bodies, valid = compute_canonical_body(crowd, frames, dtype)
    count = len(windows)
    joints = bodies[:, :count].transpose(0, 1)[:, None].contiguous()
    is_valid = valid[:, :count].transpose(0, 1)[:, None].contiguous()
    return Batch(joints, is_valid, torch.full((count,), frames), BODY)


@torch.no_grad()
def compute_coarse_basis(model: FewShotModel) -> Float[Tensor, "feature direction"] | None:
    """Return the orthonormal directions in which features of generated motions vary most, for lower bounds.

    Projected features are never farther apart than the features themselves; alignments of any temperature, through
    any views, grow with every cost; hence distances of projected features are lower bounds. Return None
    if that does not hold: for models with components, distances that are not sums along a path, divergences, or a
    temperature that depends on the costs. Also return None if the features have few dimensions.
    """
    align = model.config.align
    if model.components or model.layout is None or not isinstance(align, JeanieConfig | FvmConfig):
        return None
    if align.normalise == "divergence" or align.relative or align.metric not in METRICS:
        return None
    if model not in _bases:
        _bases[model] = _compute_directions(model)
    return _bases[model]


def _compute_directions(model: FewShotModel) -> Float[Tensor, "feature direction"] | None:
    clips = open_synthetic(subjects=1, takes=1, cameras=1).motions[::_EVERY]
    values = model.features(model.collate(clips), "support").flatten_blocks().double()
    if values.shape[1] <= _DIRECTIONS:
        return None
    values = values - values.mean(0)
    basis: Tensor = torch.linalg.eigh(values.T @ values)[1][:, -_DIRECTIONS:].to(model.dtype)
    return basis


def project_features(features: Features, basis: Float[Tensor, "feature direction"]) -> Features:
    """Project features onto a few directions."""
    second = None if features.second is None else features.second @ basis
    image = None if features.mirrored is None else project_features(features.mirrored, basis)
    return replace(features, values=features.values @ basis, components=(), second=second, mirrored=image)
