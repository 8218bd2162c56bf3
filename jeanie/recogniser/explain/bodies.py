"""Canonical bodies of a recording, frame by frame, with the facing and the size that they were normalised by."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.canonical_body import BODY, compute_canonical_body, compute_centres, sample_core_joints
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.resample import interpolate

__all__ = ["HEIGHT", "Bodies", "compute_bodies", "wrap_angle"]

HEIGHT = 1.28
"""Length of the usual bones from head to foot, one after another, in the unit of canonical bodies."""

_PATH = BODY.index("path")


@dataclass(frozen=True, eq=False)
class Bodies:
    """Canonical bodies of a recording at its own frames, without frames that show no person.

    Axes are those of the person: +x right, +y up, -z forward. ``facing`` is the angle about the vertical, in degrees,
    by which the camera stands to the left of the person's facing direction. ``size`` is the length, in the unit of the
    recording, that becomes 1. The last joint is the path of the body centre.
    """

    joints: Float[Tensor, "frame person 16 3"]
    present: Bool[Tensor, "person 16"]
    frames: Float[Tensor, " frame"]
    facing: Float[Tensor, " person"]
    size: Float[Tensor, " person"]

    def at(self, frames: Float[Tensor, " moment"]) -> Float[Tensor, "moment person 16 3"]:
        """Interpolate the bodies linearly at moments given in frames of the recording."""
        after = torch.searchsorted(self.frames, frames.contiguous()).clamp(1, max(1, len(self.frames) - 1))
        if len(self.frames) == 1:
            return self.joints.expand(len(frames), *self.joints.shape[1:])
        low, high = self.frames[after - 1], self.frames[after]
        position = after - 1 + ((frames - low) / (high - low)).clamp(0, 1)
        return interpolate(self.joints, self.present.expand(self.joints.shape[:3]), position)[0]


def compute_bodies(motion: Motion) -> Bodies:
    """Compute the canonical bodies of a recording.

    Rotation and scale follow from centred joints (x, z) and canonical ones (x', z') = (c x + s z, c z - s x):
    sum(x x' + z z') is c and sum(z x' - x z') is s, up to one factor.
    """
    visible_frames = motion.valid.flatten(1).any(1).nonzero()[:, 0]
    count = len(visible_frames)
    normal, valid = compute_canonical_body(motion, count)
    recorded, present = sample_core_joints(motion, count)
    centred = (recorded - compute_centres(recorded, present)[:, :, None]) * present[:, None, :, None]
    bodies = normal.transpose(0, 1)[:, :, :_PATH]
    along = (centred[..., 0] * bodies[..., 0] + centred[..., 2] * bodies[..., 2]).sum((1, 2))
    aside = (centred[..., 2] * bodies[..., 0] - centred[..., 0] * bodies[..., 2]).sum((1, 2))
    length = bodies.norm(dim=-1).sum((1, 2))
    joints = normal.clone()
    joints[:, :, _PATH] *= 2  # it counts half in a canonical body
    return Bodies(
        joints=joints,
        present=valid[0],
        frames=visible_frames.to(normal.dtype),
        facing=torch.rad2deg(torch.atan2(aside, along)),
        size=centred.norm(dim=-1).sum((1, 2)) / torch.where(length > 0, length, 1.0),
    )


def wrap_angle(degrees: float) -> float:
    """Return the angle in (-180, 180] degrees."""
    return 180.0 - (180.0 - degrees) % 360
