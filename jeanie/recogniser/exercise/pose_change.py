"""Constant differences between a recording and an example: the tilt of the sensor, proportions, posture."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.recogniser.exercise.cycle import Cycle
from jeanie.recogniser.exercise.passes import MeasuredPass

__all__ = ["PoseChange", "estimate_pose_change", "guess_pose_changes"]


@dataclass(frozen=True, eq=False)
class PoseChange:
    """A rotation and then an offset per joint."""

    rotation: Float[Tensor, "3 3"]
    offset: Float[Tensor, "15 3"]

    def apply(self, poses: Float[Tensor, "tick 15 3"]) -> Float[Tensor, "tick 15 3"]:
        """Return the changed poses; a joint that was never seen stays 0."""
        is_visible = (poses != 0).any(-1, keepdim=True)
        return torch.where(is_visible, poses @ self.rotation + self.offset, 0.0)


def guess_pose_changes(poses: Float[Tensor, "tick 15 3"], cycle: Cycle) -> list[PoseChange]:
    """Return first guesses of the change that turns the poses of a recording into those of a cycle.

    The tilt is that between the mean poses, or there is none. The mean poses are the same, apart from the tilt, or the
    usual pose of the recording is the first one of the cycle: people rest between repetitions.
    """
    none = torch.zeros_like(cycle.poses[0])
    mean, rest = poses.mean(0), poses.median(0).values
    tilt, lean = estimate_rotation(mean, cycle.poses.mean(0)), estimate_rotation(rest, cycle.poses[0])
    return [
        PoseChange(tilt, none),
        PoseChange(tilt, cycle.poses.mean(0) - mean @ tilt),
        PoseChange(torch.eye(3, dtype=poses.dtype), none),
        PoseChange(lean, cycle.poses[0] - rest @ lean),
    ]


def estimate_pose_change(measured: list[MeasuredPass]) -> PoseChange:
    """Return the change that turns the mean poses of passes into those of the cycle."""
    recorded_poses, cycle_poses = (
        torch.stack([getattr(passage, side) for passage in measured]).mean(0) for side in ("own", "example")
    )
    rotation = estimate_rotation(recorded_poses, cycle_poses)
    return PoseChange(rotation, cycle_poses - recorded_poses @ rotation)


def estimate_rotation(pose: Float[Tensor, "15 3"], target: Float[Tensor, "15 3"]) -> Float[Tensor, "3 3"]:
    """Return the rotation of row vectors that brings the joints that both poses have together (Kabsch, 1976)."""
    both = ((pose != 0).any(-1) & (target != 0).any(-1))[:, None]
    u, _, v = torch.linalg.svd((pose * both).T @ target)
    sign = torch.ones(3, dtype=pose.dtype)
    sign[2] = torch.linalg.det(u @ v).sign()
    rotation: Tensor = u @ (sign[:, None] * v)
    return rotation
