"""A recording frame by frame as normal bodies, with what was taken off: where each body faced, and its size."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.motion import Motion
from jeanie.skeleton.normal import BODY, centres, normal_body, sampled
from jeanie.skeleton.timing import between

__all__ = ["HEIGHT", "Bodies", "bodies_of", "wrapped"]

HEIGHT = 1.28
"""Usual bones from head to foot one after another, in the unit of normal bodies."""

_PATH = BODY.index("path")


@dataclass(frozen=True, eq=False)
class Bodies:
    """Normal bodies of a recording in its own frames, without those in which nobody was seen.

    Axes are the person's own: +x to the right, +y up, -z forward. ``facing`` is by how many degrees, about the
    vertical, the camera stood to the person's left of where the person faced, ``size`` how much of the
    recording's own unit makes 1. The last joint is the way of the body's centre.
    """

    joints: Float[Tensor, "frame person 16 3"]
    present: Bool[Tensor, "person 16"]
    frames: Float[Tensor, " frame"]
    facing: Float[Tensor, " person"]
    size: Float[Tensor, " person"]

    def at(self, frames: Float[Tensor, " moment"]) -> Float[Tensor, "moment person 16 3"]:
        """Bodies at moments that are given in frames of the recording, on lines between its frames."""
        after = torch.searchsorted(self.frames, frames.contiguous()).clamp(1, max(1, len(self.frames) - 1))
        if len(self.frames) == 1:
            return self.joints.expand(len(frames), *self.joints.shape[1:])
        low, high = self.frames[after - 1], self.frames[after]
        position = after - 1 + ((frames - low) / (high - low)).clamp(0, 1)
        return between(self.joints, self.present.expand(self.joints.shape[:3]), position)[0]


def bodies_of(motion: Motion) -> Bodies:
    """The normal bodies of a recording.

    What turning and scaling took off is read from both ends: with centred joints (x, z) and normal ones
    (x', z') = (c x + s z, c z - s x), sum(x x' + z z') is c and sum(z x' - x z') is s, up to one factor.
    """
    seen = motion.valid.flatten(1).any(1).nonzero()[:, 0]
    count = len(seen)
    normal, valid = normal_body(motion, count)
    recorded, present = sampled(motion, count)
    centred = (recorded - centres(recorded, present)[:, :, None]) * present[:, None, :, None]
    bodies = normal.transpose(0, 1)[:, :, :_PATH]
    along = (centred[..., 0] * bodies[..., 0] + centred[..., 2] * bodies[..., 2]).sum((1, 2))
    aside = (centred[..., 2] * bodies[..., 0] - centred[..., 0] * bodies[..., 2]).sum((1, 2))
    length = bodies.norm(dim=-1).sum((1, 2))
    whole = normal.clone()
    whole[:, :, _PATH] *= 2  # which counts half in a normal body
    return Bodies(
        joints=whole,
        present=valid[0],
        frames=seen.to(normal.dtype),
        facing=torch.rad2deg(torch.atan2(aside, along)),
        size=centred.norm(dim=-1).sum((1, 2)) / torch.where(length > 0, length, 1.0),
    )


def wrapped(degrees: float | int) -> float:
    """An angle from above -180 to 180 degrees."""
    return 180.0 - (180.0 - degrees) % 360
