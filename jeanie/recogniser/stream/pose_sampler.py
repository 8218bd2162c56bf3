"""Sample a live skeleton at regular ticks: the pose as a canonical body and its speed, from a bounded past."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.canonical_body import compute_centres, normalise_bodies
from jeanie.skeleton.convert import map_joints
from jeanie.skeleton.layout import LAYOUTS, Layout

__all__ = ["MAX_TICK_RATE", "PoseSampler", "PoseSamples"]

CORE = LAYOUTS["core15"]
MAX_TICK_RATE = 15.0  # ticks per second
_PAST_SECONDS = 2.0  # for the size and the facing direction of a body
_MOVING = 4  # joints that determine the speed: those that move most, so that one hand is enough
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
    joint has speed 0.
    """

    def __init__(self, layout: Layout, persons: int, rate: float) -> None:
        self._mapping = map_joints(layout, CORE)
        self._z_up = layout.up == "z"
        self.frames = max(1, round(rate / MAX_TICK_RATE))
        self.rate = rate / self.frames
        self.lag = max(1, round(_LAG_SECONDS * self.rate))
        self._past = max(self.lag + 1, round(_PAST_SECONDS * self.rate))
        self._rest = (
            torch.zeros(0, persons, len(layout), 3),
            torch.zeros(0, persons, len(layout), dtype=torch.bool),
        )
        self._held = torch.zeros(persons, 15, 3)
        self._known = torch.zeros(persons, 15, dtype=torch.bool)
        self._joints = torch.zeros(0, persons, 15, 3)
        self._seen = torch.zeros(0, persons, dtype=torch.bool)

    def push(
        self, joints: Float[Tensor, "frame person joint 3"], valid: Bool[Tensor, "frame person joint"]
    ) -> PoseSamples:
        """Return the ticks that these frames complete."""
        joints, valid = (torch.cat([old, new]) for old, new in zip(self._rest, (joints, valid), strict=True))
        used = len(joints) // self.frames * self.frames
        self._rest = joints[used:], valid[used:]
        core, is_valid = self._mapping.apply(joints[:used], valid[:used])
        if self._z_up:
            x, y, z = core.unbind(-1)
            core = torch.stack([x, z, -y], -1)
        core, is_valid = (x.unflatten(0, (-1, self.frames)) for x in (core, is_valid))
        count = is_valid.sum(1)
        means = (core * is_valid[..., None]).sum(1) / count.clamp_min(1)[..., None]
        return self._compute_samples(self._hold_missing_joints(means, count > 0), (count > 0).any(-1))

    def _hold_missing_joints(self, means: Tensor, is_valid: Tensor) -> Tensor:
        """Return poses in which every missing joint keeps its last known position."""
        poses = []
        for pose, is_seen in zip(means, is_valid, strict=True):
            self._held = torch.where(is_seen[..., None], pose, self._held)
            self._known = self._known | is_seen
            poses.append(self._held)
        return torch.stack(poses) if poses else means

    def _compute_samples(self, joints: Tensor, seen: Tensor) -> PoseSamples:
        """Return poses and speeds of new ticks; each uses the two seconds before it."""
        new = len(joints)
        joints, seen = torch.cat([self._joints, joints]), torch.cat([self._seen, seen])
        first = max(0, len(joints) - self._past + 1)
        self._joints, self._seen = joints[first:], seen[first:]
        if not new:
            return PoseSamples(joints[:0], torch.zeros(0, joints.shape[1]), seen[:0])
        missing = self._past - 1 - (len(joints) - new)
        early = torch.cat([joints[:1].expand(missing, *joints.shape[1:]), joints])
        past = early.unfold(0, self._past, 1).movedim(-1, 2)  # [tick, person, past, 15, 3]
        flat = past.flatten(0, 1)
        present = self._known.expand(new, *self._known.shape).flatten(0, 1)
        body, _ = normalise_bodies(flat, present)
        size = _compute_unit_length(flat, present, body)
        moved = flat[:, -1] - flat[:, -1 - self.lag]
        square = (moved.square().sum(-1) * present).topk(_MOVING).values.mean(-1)
        speed = (square.sqrt() / size * (self.rate / self.lag)).unflatten(0, (new, -1))
        wide = torch.cat([torch.zeros(missing, *seen.shape[1:], dtype=torch.bool), seen])
        followed = wide.unfold(0, self._past, 1)[..., -1 - self.lag :].all(-1)
        return PoseSamples(
            body[:, -1].unflatten(0, (new, -1)), torch.where(followed, speed, 0.0), seen[-new:]
        )


def _compute_unit_length(joints: Tensor, present: Tensor, body: Tensor) -> Tensor:
    """Return the length, in units of the recording, of one unit of the canonical body."""
    centred = (joints - compute_centres(joints, present)[:, :, None]) * present[:, None, :, None]
    length = body.norm(dim=-1).sum((1, 2))
    return torch.where(length > 0, centred.norm(dim=-1).sum((1, 2)) / length.clamp_min(1e-9), 1.0)
