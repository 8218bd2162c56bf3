"""Split a movement into passes through the enrolled examples: connected dynamic time warping of all actions at once."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from jeanie.skeleton.canonical_body import compute_canonical_body
from jeanie.skeleton.motion import Motion

__all__ = ["ActionDecoder", "ActionPass", "ActionTemplates"]

_JOINTS = 15
_VELOCITY_SECONDS = 0.1  # weight of velocities: the change of a pose in this time counts as much as the pose
_STILL = 0.2  # body units per second: slower ticks at the ends of an example are rest
_LAG_SECONDS = 0.25  # for speeds
_MOVING = 4  # joints that determine the speed, as for the ticks of a stream
_EMPHASIS = 0.25  # exponent of the variance in the scale of a joint
_FLOOR = 0.1  # smallest variance of a joint, relative to that of the joint that moves most
_FEWEST = 4  # ticks of an example
# The unit of cost is the variance of the poses of all examples.
_OTHER = 3.75  # for a tick of another movement
_ENTER = 2.5  # for the start of a pass
_DWELL = 0.5  # for a tick at the pose of the tick before
_SKIP = 0.2  # for each pose that is skipped
_FASTEST = 3  # poses per tick
_EARLY_END = 3 / 4  # share of an example that must be there at the end of a movement

Features = Float[np.ndarray, "tick feature"]


@dataclass(frozen=True)
class ActionPass:
    """One pass through an example: ticks ``start`` to ``end`` (exclusive)."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class ActionTemplates:
    """Examples without the rest at their ends, as features of ticks, padded to the longest.

    Features are poses and velocities, with the variance 1 over all examples. Joints count more the more they move in
    the examples.
    """

    labels: tuple[str, ...]
    features: Float[np.ndarray, "example tick feature"]
    lengths: Int[np.ndarray, " example"]
    scales: Float[np.ndarray, " joint"]
    rate: float

    @classmethod
    def from_motions(
        cls, examples: Iterable[tuple[str, Motion]], clock_rate: float, rate: float
    ) -> "ActionTemplates":
        """Return templates of labelled motions at ``clock_rate`` ticks per second.

        ``rate`` applies to motions without a frame rate. The person who moves most represents a motion.
        """
        labels: list[str] = []
        poses: list[np.ndarray] = []
        for label, motion in examples:
            count = max(_FEWEST, round(len(motion) / (motion.rate or rate) * clock_rate))
            body, _ = compute_canonical_body(motion.select_most_active(1), count)
            labels.append(label)
            poses.append(_cut_rest(body[:, 0, :_JOINTS].double().numpy(), clock_rate))
        if not poses:
            return cls((), np.zeros((0, 1, 6 * _JOINTS)), np.zeros(0, np.int64), np.ones(_JOINTS), clock_rate)
        variances = np.mean([((body - body.mean(0)) ** 2).sum(-1).mean(0) for body in poses], 0)
        scales = np.maximum(variances / max(variances.max(), 1e-12), _FLOOR) ** _EMPHASIS
        all_features = np.concatenate(
            [
                _compute_features(example_poses, example_poses[:1], scales, clock_rate)
                for example_poses in poses
            ]
        )
        scales = scales / max(float(np.sqrt(all_features.var(0).sum())), 1e-6)
        lengths = np.array([len(example_poses) for example_poses in poses])
        features = np.zeros((len(poses), lengths.max(), 6 * _JOINTS))
        for row, example_poses in enumerate(poses):
            features[row, : len(example_poses)] = _compute_features(
                example_poses, example_poses[:1], scales, clock_rate
            )
        return cls(tuple(labels), features, lengths, scales, clock_rate)

    def compute_costs(
        self, poses: Float[np.ndarray, "tick 15 3"], before: Float[np.ndarray, "1 15 3"]
    ) -> Float[np.ndarray, "tick example pose"]:
        """Return the squared distance of the features at each tick and each pose of each example.

        ``before`` is the pose of the tick before the first one, for its velocity.
        """
        tick_features = _compute_features(poses, before, self.scales, self.rate)
        template_features = self.features.reshape(-1, self.features.shape[-1])
        squares = (
            (tick_features**2).sum(1)[:, None]
            + (template_features**2).sum(1)
            - 2 * tick_features @ template_features.T
        )
        costs = np.maximum(squares, 0.0).reshape(len(tick_features), *self.features.shape[:2])
        padding = np.arange(self.features.shape[1]) >= self.lengths[:, None]
        return np.where(padding, np.inf, costs)


def _cut_rest(poses: Float[np.ndarray, "tick 15 3"], rate: float) -> Float[np.ndarray, "rest 15 3"]:
    """Return the poses from the first to the last fast one."""
    lag = max(1, round(_LAG_SECONDS * rate))
    if len(poses) <= lag + 2:
        return poses
    squares = np.sort(((poses[lag:] - poses[:-lag]) ** 2).sum(-1), -1)[:, -_MOVING:]
    fast = np.flatnonzero(np.sqrt(squares.mean(-1)) * rate / lag > _STILL)
    if len(fast) < _FEWEST - 1:
        return poses
    return poses[max(0, fast[0] - 1) : fast[-1] + lag + 1]


def _compute_features(
    poses: Float[np.ndarray, "tick 15 3"],
    before: Float[np.ndarray, "1 15 3"],
    scales: Float[np.ndarray, " joint"],
    rate: float,
) -> Features:
    """Return the scaled positions and velocities of poses."""
    scaled = poses * scales[:, None]
    change = np.diff(scaled, axis=0, prepend=before * scales[:, None])
    features: Features = np.concatenate([scaled, _VELOCITY_SECONDS * rate * change], 1)
    return features.reshape(len(poses), -1)


class ActionDecoder:
    """The cheapest explanation of all ticks so far by passes through examples and other movements (Viterbi).

    All examples compete at every tick (one-stage dynamic programming of connected words; Ney, 1984). Inside a pass, a
    tick stays at its pose or advances by one to three poses. Where an example ends, any other one may start.

    Args:
        templates: The examples, at least one.
        start: Number of the first tick.
    """

    def __init__(self, templates: ActionTemplates, start: int) -> None:
        self._labels, self._last = templates.labels, templates.lengths - 1
        shape = templates.features.shape[:2]
        self._rows, self._index = np.arange(shape[0]), np.arange(shape[1])
        self._cost = np.full(shape, np.inf)
        self._start, self._history = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
        self._other_cost, self._other_history = 0.0, -1
        self._passes: list[tuple[int, ActionPass]] = []  # the pass before it, and the pass
        self._tick = start

    def push(self, costs: Float[np.ndarray, "tick example pose"]) -> None:
        """Add ticks."""
        for cost in costs:
            self._advance(cost)

    def list_passes(self, *, finish: bool = False) -> list[ActionPass]:
        """Return the passes of the cheapest explanation; ``finish`` includes one that is nearly complete."""
        best = np.unravel_index(int(self._cost.argmin()), self._cost.shape)
        unfinished = float(self._cost[best]), int(self._history[best])
        options = self._end_pass(), unfinished, (self._other_cost, self._other_history)
        cheapest = min(options, key=lambda option: option[0])
        last, passes = cheapest[1], []
        if finish and cheapest == unfinished and best[1] >= _EARLY_END * self._last[best[0]]:
            passes.append(ActionPass(self._labels[best[0]], int(self._start[best]), self._tick))
        while last >= 0:
            last, passage = self._passes[last]
            passes.append(passage)
        return passes[::-1]

    def _end_pass(self) -> tuple[float, int]:
        """Return the cost and the number of the pass that ends now at least cost."""
        ends = self._cost[self._rows, self._last]
        row = int(ends.argmin())
        if not np.isfinite(ends[row]):
            return np.inf, -1
        at = row, self._last[row]
        passage = ActionPass(self._labels[row], int(self._start[at]), self._tick)
        self._passes.append((int(self._history[at]), passage))
        return float(ends[row]), len(self._passes) - 1

    def _advance(self, cost: Float[np.ndarray, "example pose"]) -> None:
        tick = self._tick
        other = self._other_cost, self._other_history
        entered, history_entered = min(other, self._end_pass(), key=lambda option: option[0])
        best, step = self._cost + _DWELL, np.zeros(self._cost.shape, np.int64)
        for count in range(1, min(_FASTEST + 1, len(self._index))):
            moved = self._cost[:, :-count] + _SKIP * (count - 1)
            is_less = moved < best[:, count:]
            best[:, count:] = np.where(is_less, moved, best[:, count:])
            step[:, count:][is_less] = count
        before = self._index - step
        start = np.take_along_axis(self._start, before, 1)
        history = np.take_along_axis(self._history, before, 1)
        new = entered + _ENTER < best[:, :2]
        best[:, :2] = np.where(new, entered + _ENTER, best[:, :2])
        start[:, :2] = np.where(new, tick, start[:, :2])
        history[:, :2] = np.where(new, history_entered, history[:, :2])
        self._cost, self._start, self._history = best + cost, start, history
        self._other_cost, self._other_history = entered + _OTHER, history_entered
        lowest = min(float(self._cost.min()), self._other_cost)
        self._cost -= lowest
        self._other_cost -= lowest
        self._tick += 1
