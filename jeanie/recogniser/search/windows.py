"""Cut long recordings into windows, and find directions in which their features vary."""

import math
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
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.motion import Motion

__all__ = [
    "compute_centre_and_basis",
    "compute_coarse_basis",
    "count_window_frames",
    "cut_windows",
    "project_features",
    "select_duration_steps",
]

_SEEN = 0.5  # minimum share of a window's frames with a visible person
_DIRECTIONS = 64  # of the features, with most of the variance between motions
# Any orthonormal directions give valid bounds, so a model may keep its basis when its weights change.
_bases: WeakKeyDictionary[FewShotModel, tuple[Tensor, Tensor] | None] = WeakKeyDictionary()
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


@torch.no_grad()
def compute_coarse_basis(model: FewShotModel) -> Float[Tensor, "feature direction"] | None:
    """Return the orthonormal directions in which features of generated motions vary most, for lower bounds.

    Projected features are never farther apart than the features themselves; alignments of any temperature, through
    any views, grow with every cost; hence distances of projected features are lower bounds. Return None
    if that does not hold: for models with components, distances that are not sums along a path, divergences, or a
    temperature that depends on the costs. Also return None if the features have few dimensions.
    """
    centre_and_basis = compute_centre_and_basis(model)
    return None if centre_and_basis is None else centre_and_basis[1]


@torch.no_grad()
def compute_centre_and_basis(
    model: FewShotModel,
) -> tuple[Float[Tensor, " feature"], Float[Tensor, "feature direction"]] | None:
    """Return the mean feature of generated motions and ``compute_coarse_basis``, the main direction last."""
    align = model.config.align
    if model.components or model.layout is None or not isinstance(align, JeanieConfig | FvmConfig):
        return None
    if align.normalise == "divergence" or align.relative or align.metric not in METRICS:
        return None
    if model not in _bases:
        _bases[model] = _compute_directions(model)
    return _bases[model]


def _compute_directions(
    model: FewShotModel,
) -> tuple[Float[Tensor, " feature"], Float[Tensor, "feature direction"]] | None:
    clips = open_synthetic(subjects=1, takes=1, cameras=1).motions[::_EVERY]
    values = model.features(model.collate(clips), "support").flatten_blocks().double()
    if values.shape[1] <= _DIRECTIONS:
        return None
    centre = values.mean(0)
    values = values - centre
    basis: Tensor = torch.linalg.eigh(values.T @ values)[1][:, -_DIRECTIONS:].to(model.dtype)
    return centre.to(model.dtype), basis


def project_features(features: Features, basis: Float[Tensor, "feature direction"]) -> Features:
    """Project features onto a few directions."""
    second = None if features.second is None else features.second @ basis
    image = None if features.mirrored is None else project_features(features.mirrored, basis)
    return replace(features, values=features.values @ basis, components=(), second=second, mirrored=image)
