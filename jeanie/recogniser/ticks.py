"""A live skeleton tick by tick: its pose as a normal body, and how fast it moves, from a bounded past."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.conversion import mapping
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.normal import centres, normalise

__all__ = ["TICKS", "Clock", "Ticks"]

CORE = LAYOUTS["core15"]
TICKS = 15.0  # a second, at most
_PAST = 2.0  # seconds that a body's size and facing are taken from
_LAG = (
    0.25  # seconds over which speed is measured: jitter of a sensor is small against what a limb goes in them
)


@dataclass(frozen=True)
class Ticks:
    """Poses ``[tick, person, 15 joints, 3]`` of normal bodies, speeds in body units a second, who is there."""

    poses: Float[Tensor, "tick person 15 3"]
    speeds: Float[Tensor, "tick person"]
    seen: Bool[Tensor, "tick person"]

    def __len__(self) -> int:
        return self.poses.shape[0]


class Clock:
    """Turns frames into ticks. It keeps two seconds of the past, however long the stream is.

    A tick is the mean of ``frames`` frames. A joint that is not seen stays where it was last; somebody of whom
    nothing is seen has speed 0.
    """

    def __init__(self, layout: Layout, persons: int, rate: float | int) -> None:
        self._mapping = mapping(layout, CORE)
        self._z_up = layout.up == "z"
        self.frames = max(1, round(rate / TICKS))
        self.rate = rate / self.frames
        self.lag = max(1, round(_LAG * self.rate))
        self._past = max(self.lag + 1, round(_PAST * self.rate))
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
    ) -> Ticks:
        """The ticks that these frames complete."""
        joints, valid = (torch.cat([old, new]) for old, new in zip(self._rest, (joints, valid), strict=True))
        whole = len(joints) // self.frames * self.frames
        self._rest = joints[whole:], valid[whole:]
        core, there = self._mapping.apply(joints[:whole], valid[:whole])
        if self._z_up:
            x, y, z = core.unbind(-1)
            core = torch.stack([x, z, -y], -1)
        core, there = (x.unflatten(0, (-1, self.frames)) for x in (core, there))
        count = there.sum(1)
        means = (core * there[..., None]).sum(1) / count.clamp_min(1)[..., None]
        return self._ticked(self._hold(means, count > 0), (count > 0).any(-1))

    def _hold(self, means: Tensor, there: Tensor) -> Tensor:
        """Every joint at its last known place; what was never seen is taken from where it first is."""
        held = []
        for pose, seen in zip(means, there, strict=True):
            self._held = torch.where(seen[..., None], pose, self._held)
            self._known = self._known | seen
            held.append(self._held)
        return torch.stack(held) if held else means

    def _ticked(self, joints: Tensor, seen: Tensor) -> Ticks:
        """Poses and speeds of new ticks, each in the light of the two seconds before it."""
        new = len(joints)
        joints, seen = torch.cat([self._joints, joints]), torch.cat([self._seen, seen])
        kept = max(0, len(joints) - self._past + 1)
        self._joints, self._seen = joints[kept:], seen[kept:]
        if not new:
            return Ticks(joints[:0], torch.zeros(0, joints.shape[1]), seen[:0])
        missing = self._past - 1 - (len(joints) - new)
        early = torch.cat([joints[:1].expand(missing, *joints.shape[1:]), joints])
        past = early.unfold(0, self._past, 1).movedim(-1, 2)  # [tick, person, past, 15, 3]
        flat = past.flatten(0, 1)
        present = self._known.expand(new, *self._known.shape).flatten(0, 1)
        body, _ = normalise(flat, present)
        size = _size(flat, present, body)
        moved = flat[:, -1] - flat[:, -1 - self.lag]
        square = (moved.square().sum(-1) * present).sum(-1) / present.sum(-1).clamp_min(1)
        speed = (square.sqrt() / size * (self.rate / self.lag)).unflatten(0, (new, -1))
        wide = torch.cat([torch.zeros(missing, *seen.shape[1:], dtype=torch.bool), seen])
        followed = wide.unfold(0, self._past, 1)[..., -1 - self.lag :].all(-1)
        return Ticks(body[:, -1].unflatten(0, (new, -1)), torch.where(followed, speed, 0.0), seen[-new:])


def _size(joints: Tensor, present: Tensor, body: Tensor) -> Tensor:
    """How much of the recording's unit is 1 of the normal body."""
    centred = (joints - centres(joints, present)[:, :, None]) * present[:, None, :, None]
    length = body.norm(dim=-1).sum((1, 2))
    return torch.where(length > 0, centred.norm(dim=-1).sum((1, 2)) / length.clamp_min(1e-9), 1.0)
