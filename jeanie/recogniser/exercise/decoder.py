"""Find repetitions of a cycle in a sequence of poses: a best path through repetitions, rest and other movements."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.recogniser.exercise.cycle import Cycle

__all__ = ["CycleDecoder", "Pass", "compute_axes", "compute_costs", "make_templates"]

# The unit of cost is the variance of the cycle: 1 per tick is a person who stays at the mean pose.
_CAP = 6.0  # largest cost of a tick
_EXPLAINED = 0.9  # share of the variance of the cycle in the directions that count
_HALF = 0.5  # amplitude of the second template, which finds partial repetitions
_DWELL = 0.05  # for a tick without progress inside a repetition; the first and the last pose are free
_SKIP = 0.05  # for each pose that is skipped
_FASTEST = 3  # poses per tick
_ENTER = 0.3  # for the start of a repetition
_LEAVE = 1.0  # for giving up a repetition
_LATE_START = 1 / 3  # share of a repetition that may be missing at the start of a recording
_EARLY_END = 3 / 4  # share of the movement of a repetition that must be there at the end of a recording
_MIN_LIMIT = 512  # complete repetitions in memory before those that no explanation uses are forgotten


@dataclass(frozen=True)
class Pass:
    """One pass through the cycle: ticks ``start`` to ``end`` (exclusive)."""

    start: int
    end: int


def compute_costs(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle
) -> Float[np.ndarray, "tick amplitude pose"]:
    """Return the cost of each tick at each pose of the cycle, in full and at half the amplitude.

    Only the principal directions of the cycle count, so noise and posture of joints that do not take part cost nothing.
    Squared distances are divided by the variance of the cycle.
    """
    scale = cycle.weights.sqrt()[:, None]
    centre = cycle.poses.mean(0)
    visible = (poses != 0).any(-1, keepdim=True)  # a joint that was never seen is 0
    ours = (torch.where(visible, poses.to(cycle.poses) - centre, 0.0) * scale).flatten(1)
    theirs = ((cycle.poses - centre) * scale).flatten(1)
    axes = compute_axes(theirs)
    ours, theirs = ours @ axes, theirs @ axes
    templates = make_templates(theirs)
    variance = theirs.square().sum(1).mean()
    squared = torch.cdist(ours, templates.flatten(0, 1)).square() / variance
    costs: Float[np.ndarray, "tick amplitude pose"] = (
        squared.clamp_max(_CAP).unflatten(1, templates.shape[:2]).numpy()
    )
    return costs


def make_templates(poses: Float[Tensor, " pose *any"]) -> Float[Tensor, "2 pose *any"]:
    """Return a cycle in full and at half the amplitude, about the line from the first pose to the last."""
    share = torch.linspace(0, 1, len(poses), dtype=poses.dtype).reshape(-1, *[1] * (poses.ndim - 1))
    line = poses[0] + share * (poses[-1] - poses[0])
    return torch.stack([poses, line + _HALF * (poses - line)])


def compute_axes(poses: Float[Tensor, "pose 45"]) -> Float[Tensor, "45 axis"]:
    """Return the principal directions of poses about their mean."""
    _, sizes, axes = torch.linalg.svd(poses, full_matrices=False)
    explained = sizes.square().cumsum(0) / sizes.square().sum()
    principal: Tensor = axes[: int((explained < _EXPLAINED).sum()) + 1].T
    return principal


class CycleDecoder:
    """The cheapest explanation of all ticks so far by repetitions, rest and other movements (Viterbi).

    Inside a repetition a tick stays at its pose or advances by one to three poses. A repetition that reaches the last
    pose is complete. Any tick may instead belong to another movement, which costs ``other`` per tick. Rest needs no
    state of its own: it stays at the first or the last pose.

    Args:
        poses: Number of poses of the cycle.
        other: Cost of a tick of another movement.
        amplitudes: Number of templates of the cycle.
        progress: Share of the movement up to each pose; by default all poses are equally far apart.
    """

    def __init__(
        self,
        poses: int,
        other: float,
        amplitudes: int = 2,
        progress: Float[np.ndarray, " pose"] | None = None,
    ) -> None:
        shape = (amplitudes, poses)
        self._other = other
        self._progress = np.linspace(0, 1, poses) if progress is None else progress
        self._cost = np.full(shape, np.inf)
        self._cost[:, : max(1, int(poses * _LATE_START))] = 0.0
        self._start = np.zeros(shape, np.int64)
        self._history = np.full(shape, -1, np.int64)  # last complete repetition of each state
        self._other_cost, self._other_history = 0.0, -1
        self._passes: dict[int, tuple[int, Pass]] = {}  # number: the one before it, and the repetition
        self._next, self._tick, self._limit = 0, 0, _MIN_LIMIT
        self._dwell = np.full(poses, _DWELL)
        self._dwell[[0, -1]] = 0.0
        self._index = np.arange(poses)

    def push(self, costs: Float[np.ndarray, "tick amplitude pose"]) -> None:
        """Add ticks."""
        for cost in costs:
            self._advance(cost)
        if len(self._passes) > self._limit:
            self._forget_unreachable()
            self._limit = _MIN_LIMIT + 2 * len(self._passes)

    def list_passes(self, *, finish: bool = False) -> list[Pass]:
        """Return the repetitions of the cheapest explanation; ``finish`` includes one that is nearly complete."""
        best = np.unravel_index(int(self._cost.argmin()), self._cost.shape)
        last, passes = self._other_history, []
        if self._cost[best] < self._other_cost:
            last = int(self._history[best])
            if finish and self._progress[best[1]] >= _EARLY_END:
                passes.append(Pass(int(self._start[best]), self._tick))
        while last in self._passes:
            last, passage = self._passes[last]
            passes.append(passage)
        return passes[::-1]

    def forget_before(self, tick: int) -> None:
        """Forget the repetitions that end before a tick, so that memory stays bounded."""
        self._passes = {number: row for number, row in self._passes.items() if row[1].end >= tick}

    def _advance(self, cost: Float[np.ndarray, "amplitude pose"]) -> None:
        tick, old = self._tick, self._cost
        row = int(old[:, -1].argmin())
        ended, number = old[row, -1], -1
        if np.isfinite(ended):
            number = self._next
            self._passes[number] = (int(self._history[row, -1]), Pass(int(self._start[row, -1]), tick))
            self._next += 1
        left = np.unravel_index(int(old.argmin()), old.shape)
        options = (
            (self._other_cost, self._other_history),
            (ended, number),
            (old[left] + _LEAVE, int(self._history[left])),
        )
        entered, entered_history = min(options[:2], key=lambda option: option[0])
        steps = np.full((_FASTEST + 1, *old.shape), np.inf)
        steps[0] = old + self._dwell
        for step in range(1, min(_FASTEST + 1, old.shape[1])):
            steps[step, :, step:] = old[:, :-step] + _SKIP * (step - 1)
        step = steps.argmin(0)
        before = self._index - step
        best = np.take_along_axis(steps, step[None], 0)[0]
        start = np.take_along_axis(self._start, before, 1)
        history = np.take_along_axis(self._history, before, 1)
        start[:, 0] = tick
        new = (entered + _ENTER < best) & (self._index < 2)
        self._cost = np.where(new, entered + _ENTER, best) + cost
        self._start = np.where(new, tick, start)
        self._history = np.where(new, entered_history, history)
        self._other_cost, self._other_history = min(options, key=lambda option: option[0])
        self._other_cost += self._other
        lowest = min(float(self._cost.min()), self._other_cost)
        self._cost -= lowest
        self._other_cost -= lowest
        self._tick += 1

    def _forget_unreachable(self) -> None:
        reachable: set[int] = set()
        for last in {*np.unique(self._history).tolist(), self._other_history}:
            while last in self._passes and last not in reachable:
                reachable.add(last)
                last = self._passes[last][0]
        self._passes = {number: self._passes[number] for number in sorted(reachable)}
