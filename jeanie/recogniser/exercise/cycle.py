"""One repetition of an example as a sequence of poses: rest is cut off, and a periodic example gives one period."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.canonical_body import compute_canonical_body
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["Cycle", "compute_side_difference", "extract_cycle", "find_movement", "make_cycle"]

CORE = LAYOUTS["core15"]
_STILL = 0.08  # of the largest distance from the first or the last pose: less is rest
_SHORTEST = 0.3  # seconds of a period
_PERIODIC = 0.3  # change over one period, relative to the change over an arbitrary time
_ALIKE = 0.1  # multiples of a period fit as well: the first within this of the best wins
_OVERLAP = 1.8  # smallest number of periods in a periodic example
_FEWEST = 6  # poses of a cycle
MOVES = 0.03  # body units: an example whose joints all move less shows a still person
_ALTERNATING = 0.5  # correlation of the mirror image with the cycle half a repetition later
_EMPHASIS = 0.5  # exponent of the variance in the weight of a joint
_FLOOR = 0.1  # smallest variance of a joint, relative to that of the joint that moves most


@dataclass(frozen=True, eq=False)
class Cycle:
    """Poses of one repetition at ``rate`` poses per second, with the weight and the variance of each joint."""

    poses: Float[Tensor, "pose 15 3"]
    rate: float
    weights: Float[Tensor, " 15"]
    variances: Float[Tensor, " 15"]

    def __len__(self) -> int:
        return self.poses.shape[0]

    @property
    def seconds(self) -> float:
        """Duration of the repetition."""
        return (len(self) - 1) / self.rate

    def mirror(self) -> "Cycle":
        """Return the cycle of the mirror image."""
        order = list(CORE.mirror_indices)
        return Cycle(CORE.mirror_joints(self.poses), self.rate, self.weights[order], self.variances[order])

    def rotate(self, share: float) -> "Cycle":
        """Return the closed cycle from the pose at ``share`` of its duration on.

        The difference between the last pose and the first one is spread over all poses.
        """
        last = len(self) - 1
        along = torch.linspace(-0.5, 0.5, last + 1, dtype=self.poses.dtype)[:, None, None]
        closed = self.poses - along * (self.poses[-1] - self.poses[0])
        at = (torch.arange(last + 1, dtype=self.poses.dtype) + share * last) % last
        low = at.floor().long()
        return replace(self, poses=torch.lerp(closed[low], closed[low + 1], (at - low)[:, None, None]))

    @cached_property
    def is_alternating(self) -> bool:
        """Whether the second half of the repetition is the mirror image of the first, as in walking."""
        mirrored = self.mirror()
        weights = (self.weights + mirrored.weights)[:, None]
        later, same = (_correlate(mirrored.poses, cycle.poses, weights) for cycle in (self.rotate(0.5), self))
        return later > _ALTERNATING and same < 0

    def balance_sides(self) -> "Cycle":
        """Return the mean of an alternating cycle and its mirror image half a cycle later."""
        poses = (self.rotate(0).poses + self.rotate(0.5).mirror().poses) / 2
        return make_cycle(poses, self.rate, self.weights > 0)

    def separate_sides(self) -> "Cycle":
        """Return the cycle of the differences between each pose and its mirror image."""
        return make_cycle(compute_side_difference(self.poses), self.rate, self.weights > 0)

    def measure_progress(self) -> Float[np.ndarray, " pose"]:
        """Return the share of the movement up to each pose, from 0 to 1; rest adds little."""
        steps = (self.poses.diff(dim=0) * self.weights.sqrt()[:, None]).flatten(1).norm(dim=1)
        done = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
        progress: Float[np.ndarray, " pose"] = (done / done[-1].clamp_min(1e-9)).numpy()
        return progress


def compute_side_difference(poses: Float[Tensor, "pose 15 3"]) -> Float[Tensor, "pose 15 3"]:
    """Return half the difference between each pose and its mirror image; 0 for a joint that one side lacks."""
    mirrored = CORE.mirror_joints(poses)
    is_visible = (poses != 0).any(-1, keepdim=True) & (mirrored != 0).any(-1, keepdim=True)
    return torch.where(is_visible, (poses - mirrored) / 2, 0.0)


def extract_cycle(example: Motion, rate: float, repetitions: int | None = None) -> Cycle:
    """Return one repetition of an example, sampled at ``rate`` poses per second.

    Args:
        example: One repetition, or several of equal duration. Of several persons, the most active one counts.
        repetitions: Number of repetitions in the example. By default a periodic example is split at its period, and
            any other example is one repetition.

    Raises:
        DataError: Nobody moves in the example.
    """
    if repetitions is not None and repetitions < 1:
        raise ConfigError(
            f"repetitions is the number of repetitions in the example, at least 1, got {repetitions}"
        )
    count = max(_FEWEST, round(len(example) / (example.rate or 30.0) * rate))
    body, present = compute_canonical_body(example.select_most_active(1), count, torch.float64)
    poses = body[:, 0, : len(CORE)]
    first, last = find_movement(poses)
    poses = poses[first : last + 1]
    period = _find_period(poses, rate) if repetitions is None else (len(poses) - 1) / repetitions
    if repetitions is not None and period < 1:
        raise ConfigError(
            f"{example.name or 'the example'}: {repetitions} repetitions in {(len(poses) - 1) / rate:.1f} s of "
            "movement are too many; give the number of repetitions in the example"
        )
    length = max(2, round(period) + 1)
    # a period in the middle that starts at the same phase as the example
    start = min(round(period * ((len(poses) - 1) / period // 2)), len(poses) - length)
    poses = poses[start : start + length]
    name = example.name or "the example"
    spread = _compute_variances(poses)
    if float(spread.max()) < MOVES**2:
        raise DataError(f"{name}: nobody moves; an example of an exercise shows one repetition or more")
    if len(poses) < _FEWEST:
        positions = torch.linspace(0, len(poses) - 1, _FEWEST, dtype=torch.float64)
        low = positions.floor().long().clamp_max(len(poses) - 2)
        share = (positions - low)[:, None, None]
        poses, rate = (
            poses[low] + share * (poses[low + 1] - poses[low]),
            rate * (_FEWEST - 1) / (len(poses) - 1),
        )
    return make_cycle(poses, rate, present[0, 0, : len(CORE)])


def make_cycle(poses: Float[Tensor, "pose 15 3"], rate: float, present: Bool[Tensor, " 15"]) -> Cycle:
    """Return the cycle of poses; joints count more the more they move."""
    spread = _compute_variances(poses)
    relative = (spread / spread.max().clamp_min(1e-12)).clamp_min(_FLOOR)
    return Cycle(poses, rate, relative**_EMPHASIS * present, relative * spread.max())


def _compute_variances(poses: Float[Tensor, "pose 15 3"]) -> Float[Tensor, " 15"]:
    return (poses - poses.mean(0)).square().sum(-1).mean(0)


def _correlate(
    a: Float[Tensor, "pose 15 3"], b: Float[Tensor, "pose 15 3"], weights: Float[Tensor, "15 1"]
) -> float:
    """Return the correlation of two sequences of poses about their means."""
    a, b = a - a.mean(0), b - b.mean(0)
    common, own, other = ((weights * product).sum() for product in (a * b, a * a, b * b))
    return float(common / (own * other).sqrt().clamp_min(1e-12))


def find_movement(poses: Float[Tensor, "pose 15 3"]) -> tuple[int, int]:
    """Return the first and the last pose of the movement, without the rest before and after it.

    At rest a body stays near its first or its last pose. Joints count more the more they move, so noise counts little.
    """
    scaled = (poses * _compute_variances(poses).sqrt()[:, None]).flatten(1)
    start, end = ((scaled - scaled[at]).norm(dim=1) for at in (0, -1))
    moved, stays = (start > _STILL * start.max()).nonzero()[:, 0], (end > _STILL * end.max()).nonzero()[:, 0]
    if not len(moved) or not len(stays):
        return 0, len(poses) - 1
    return max(0, int(moved[0]) - 1), min(len(poses) - 1, int(stays[-1]) + 1)


def _find_period(poses: Float[Tensor, "pose 15 3"], rate: float) -> float:
    """Return the number of poses of one period; the whole length unless the example is periodic.

    The change over a lag is the mean of |x[t + lag] - x[t]|^2 / (2 variance): 1 for an arbitrary time and 0 for a
    perfect period.
    """
    last = len(poses) - 1
    joints = poses * _compute_variances(poses).sqrt().sqrt()[:, None]
    flat = joints.flatten(1)
    variance = (flat - flat.mean(0)).square().sum(1).mean()
    lags = range(max(2, round(_SHORTEST * rate)), int(len(poses) / _OVERLAP) + 1)
    if len(lags) < 3 or variance <= 0:
        return float(last)
    change = torch.stack([(flat[lag:] - flat[:-lag]).square().sum(1).mean() for lag in lags]) / (2 * variance)
    lowest = (change[1:-1] <= change[:-2]) & (change[1:-1] <= change[2:]) & (change[1:-1] < _PERIODIC)
    minima = lowest.nonzero()[:, 0] + 1
    if not len(minima):
        return float(last)
    first = minima[change[minima] <= change[minima].min() + _ALIKE][0]
    return float(lags[int(first)])
