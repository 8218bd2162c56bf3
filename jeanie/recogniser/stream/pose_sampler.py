"""Sample a live skeleton at regular ticks: the pose as a canonical body and its speed, from a bounded past."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.canonical_body import BodyMeasures
from jeanie.skeleton.convert import map_joints
from jeanie.skeleton.layout import LAYOUTS, Layout

__all__ = ["MAX_COORDINATE", "MAX_TICK_RATE", "PoseSampler", "PoseSamples"]

CORE = LAYOUTS["core15"]
MAX_TICK_RATE = 15.0  # ticks per second
_PAST_SECONDS = 2.0  # for the size and the facing direction of a body
_MOVING = 4  # joints that determine the speed: those that move most, so that one hand is enough
MAX_COORDINATE = 1e15  # joints farther from the origin are missing: squares would overflow
_LAG_SECONDS = 0.25  # for speeds: long enough that sensor jitter is small against limb motion


@dataclass(frozen=True)
class PoseSamples:
    """Poses ``[tick, person, 15 joints, 3]`` of canonical bodies, speeds in body units per second, and visibility."""

    poses: Float[Tensor, "tick person 15 3"]
    speeds: Float[Tensor, "tick person"]
    seen: Bool[Tensor, "tick person"]

    def __len__(self) -> int:
        return self.poses.shape[0]


class PoseSampler:
    """Convert frames to ticks. The sampler keeps the last two seconds, however long the stream is.

    A tick is the mean of ``frames`` frames. A missing joint keeps its last position. A person without any visible
    joint has speed 0. Every tick is measured once: size and facing direction are means of the measures in memory.
    """

    def __init__(self, layout: Layout, persons: int, rate: float) -> None:
        weights = map_joints(layout, CORE).weights
        count = max(1, int((weights > 0).sum(-1).max()))
        self._weights, self._sources = (part.numpy() for part in weights.topk(count))
        self._z_up = layout.up == "z"
        self.frames = max(1, round(rate / MAX_TICK_RATE))
        self.rate = rate / self.frames
        self.lag = max(1, round(_LAG_SECONDS * self.rate))
        self._past = max(self.lag + 1, round(_PAST_SECONDS * self.rate))
        self._rest = (
            np.zeros((0, persons, len(layout), 3), np.float32),
            np.zeros((0, persons, len(layout)), np.bool_),
        )
        self._held = np.zeros((persons, len(CORE), 3), np.float32)
        self._known = np.zeros((persons, len(CORE)), np.bool_)
        # of the last ticks: joints, visibility, lengths of the bones, line from left to right
        self._memory: tuple[np.ndarray, ...] | None = None

    def push(
        self, joints: Float[Tensor, "frame person joint 3"], valid: Bool[Tensor, "frame person joint"]
    ) -> PoseSamples:
        """Return the ticks that these frames complete."""
        new = (joints.float().numpy(force=True), valid.numpy(force=True))
        positions, is_visible = (np.concatenate(pair) for pair in zip(self._rest, new, strict=True))
        used = len(positions) // self.frames * self.frames
        self._rest = positions[used:], is_visible[used:]
        if not used:
            persons = positions.shape[1]
            return PoseSamples(
                torch.zeros(0, persons, len(CORE), 3),
                torch.zeros(0, persons),
                torch.zeros(0, persons, dtype=torch.bool),
            )
        core, present = self._map_joints(positions[:used], is_visible[:used])
        core, present = (part.reshape(-1, self.frames, *part.shape[1:]) for part in (core, present))
        count = present.sum(1)
        means = (core * present[..., None]).sum(1) / np.maximum(count, 1)[..., None]
        poses = self._hold_missing_joints(means.astype(np.float32), count > 0)
        return self._compute_samples(poses, (count > 0).any(-1))

    def _map_joints(self, joints: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the core joints, with y upwards, and their mask; a joint is valid if all its sources are."""
        present = (valid[..., self._sources] | (self._weights == 0)).all(-1) & (self._weights[:, 0] > 0)
        core = (joints[..., self._sources, :] * self._weights[..., None]).sum(-2)
        if self._z_up:
            core = np.stack([core[..., 0], core[..., 2], -core[..., 1]], -1)
        return core, present

    def _hold_missing_joints(self, means: np.ndarray, is_visible: np.ndarray) -> np.ndarray:
        """Return poses in which every missing joint keeps its last known position."""
        if is_visible.all():
            self._held, self._known = means[-1], np.ones_like(self._known)
            return means
        # the last tick, up to each one, that shows the joint; 0 is the past
        rows = np.arange(1, len(means) + 1)[:, None, None]
        at = np.maximum.accumulate(np.where(is_visible, rows, 0), 0)[..., None]
        poses = np.take_along_axis(np.concatenate([self._held[None], means]), at, 0)
        self._held, self._known = poses[-1], self._known | is_visible.any(0)
        return poses

    def _compute_samples(self, joints: np.ndarray, is_seen: np.ndarray) -> PoseSamples:
        """Return poses and speeds of new ticks; each uses the two seconds before it."""
        new, past_count = len(joints), self._past - 1
        measures = BodyMeasures.from_joints(joints, self._known)
        rows = (joints, is_seen, measures.lengths, measures.lines)
        if self._memory is None:  # before the first tick the person stood still, unseen
            first = (np.repeat(row[:1], past_count, 0) for row in rows)
            self._memory = tuple(first)
            self._memory[1][:] = False
        past = [np.concatenate(pair) for pair in zip(self._memory, rows, strict=True)]
        self._memory = tuple(row[len(row) - past_count :] for row in past)
        lengths, lines = (_average_windows(row, self._past) for row in past[2:])
        bodies, size = measures.place(joints, lengths, lines, self._known)
        moved = joints - past[0][past_count - self.lag : past_count - self.lag + new]
        square = np.sort((moved * moved).sum(-1) * self._known, -1)[..., -_MOVING:].mean(-1)
        speed = np.sqrt(square) / size * (self.rate / self.lag)
        visible = np.lib.stride_tricks.sliding_window_view(past[1][past_count - self.lag :], self.lag + 1, 0)
        return PoseSamples(
            torch.from_numpy(bodies),
            torch.from_numpy(np.where(visible.all(-1), speed, 0.0).astype(np.float32)),
            torch.from_numpy(is_seen),
        )


def _average_windows(rows: np.ndarray, width: int) -> np.ndarray:
    """Return the mean of each ``width`` successive rows."""
    windows = rows[None] if len(rows) == width else np.lib.stride_tricks.sliding_window_view(rows, width, 0)
    means: np.ndarray = windows.mean(1 if len(rows) == width else -1)
    return means
