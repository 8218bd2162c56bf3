"""Train a lifter on 3-D motions that cameras at random positions see, and measure its error on other motions."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.datasets.lifter import CORE, Lifter
from jeanie.errors import DataError, ShapeError
from jeanie.skeleton.convert import convert
from jeanie.skeleton.motion import Motion

__all__ = ["LiftingError", "collect_poses", "measure_lifter", "train_lifter"]

AZIMUTH, ALTITUDE, ROLL = (
    math.pi,
    math.radians(30),
    math.radians(5),
)  # largest rotation of the training cameras
DISTANCES = (2.0, 8.0)  # metres from the camera to the torso
NOISE = 0.02  # standard deviation of key points, relative to the size of the body
HIDDEN = 0.1  # fraction of hidden key points
NEAREST = 0.2  # metres from the camera to the nearest joint


@dataclass(frozen=True)
class LiftingError:
    """Mean errors of a lifter in metres, over joints other than the torso.

    Args:
        joints: Distance of the joints of the network to the true ones, both relative to the torso.
        depth: |error| of the depth, in metres at the distance of the torso, as a lifted motion has it.
        flat: |error| of the depth without a lifter: all joints at the depth of the torso.
        poses: Number of poses, each seen by one random camera.
    """

    joints: float
    depth: float
    flat: float
    poses: int


def train_lifter(
    motions: Iterable[Motion] | Float[Tensor, "pose joint 3"],
    *,
    generator: torch.Generator,
    steps: int = 20_000,
    batch: int = 512,
    rate: float = 1e-3,
    width: int = 1024,
    blocks: int = 2,
    dropout: float = 0.5,
    max_norm: float | None = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> Lifter:
    """Train a lifter on 3-D motions in metres, or on poses of ``collect_poses``.

    Every step draws poses and one camera per pose (any azimuth, small altitude and roll, a distance), projects the
    joints to x / z and y / z, adds noise and hides some key points. The loss is the squared distance of the joints
    relative to the torso. Adam with a cosine schedule to 0.

    Args:
        motions: Motions whose layouts convert to the core joints.
        generator: Draws weights, poses, cameras and dropout.
        steps: Number of steps.
        batch: Poses per step.
        rate: Learning rate.
        width, blocks, dropout, max_norm: See ``Lifter``.
        progress: Called with (steps done, all steps).
    """
    poses = motions if isinstance(motions, Tensor) else collect_poses(motions)
    lifter = Lifter(
        width=width, blocks=blocks, dropout=dropout, max_norm=max_norm, generator=generator
    ).train()
    optimiser = torch.optim.Adam(lifter.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        rows = torch.randint(len(poses), (batch,), generator=generator)
        joints, points, visible, _ = _simulate_cameras(poses[rows], generator)
        loss = (lifter(points, visible, generator) - joints).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if progress is not None:
            progress(step + 1, steps)
    return lifter.eval()


def measure_lifter(
    lifter: Lifter,
    motions: Iterable[Motion] | Float[Tensor, "pose joint 3"],
    *,
    generator: torch.Generator,
    count: int = 20_000,
) -> LiftingError:
    """Return the mean errors of a lifter on motions that it was not trained on, seen by random cameras.

    The cameras are those of training: noisy key points, a tenth of them hidden.

    Args:
        lifter: The lifter.
        motions: Motions in metres, or poses of ``collect_poses``.
        generator: Draws poses and cameras.
        count: Number of poses.
    """
    poses = motions if isinstance(motions, Tensor) else collect_poses(motions)
    rows = torch.randint(len(poses), (count,), generator=generator)
    truth, points, visible, distance = _simulate_cameras(poses[rows], generator)
    others = [joint for joint in range(len(CORE)) if joint != CORE.torso]
    with torch.inference_mode():
        lifted = lifter.eval()(points, visible)
    depth = lifter.estimate_depth(points, visible) * distance
    return LiftingError(
        joints=(lifted - truth).norm(dim=-1)[:, others].mean().item(),
        depth=(depth - truth[..., 2]).abs()[:, others].mean().item(),
        flat=truth[:, others, 2].abs().mean().item(),
        poses=count,
    )


def collect_poses(motions: Iterable[Motion]) -> Float[Tensor, "pose joint 3"]:
    """Return all complete bodies of the motions as core joints relative to the torso."""
    bodies = []
    for motion in motions:
        if motion.layout.dims != 3 or motion.layout.unit != "m":
            raise ShapeError(f"{motion.name or 'a motion'}: a lifter learns from 3-D joints in metres")
        core = convert(motion, CORE)
        bodies.append(core.joints[core.valid.all(-1)])
    poses = torch.cat(bodies) if bodies else torch.empty(0, len(CORE), 3)
    if len(poses) < 2:
        raise DataError("a lifter learns from motions with all 15 core joints in some frames, found none")
    return poses - poses[:, CORE.torso, None]


def _simulate_cameras(
    poses: Float[Tensor, "body joint 3"], generator: torch.Generator
) -> tuple[
    Float[Tensor, "body joint 3"],
    Float[Tensor, "body joint 2"],
    Bool[Tensor, "body joint"],
    Float[Tensor, "body 1"],
]:
    """Return poses seen by random cameras: joints in camera space, key points, visible ones, and distances."""
    count = len(poses)

    def draw_uniform(*shape: int) -> Tensor:
        return 2 * torch.rand(*shape, generator=generator) - 1

    turn = (
        _make_rotation(2, ROLL * draw_uniform(count))
        @ _make_rotation(0, ALTITUDE * draw_uniform(count))
        @ _make_rotation(1, AZIMUTH * draw_uniform(count))
    )
    joints = poses @ turn.mT
    nearest, farthest = DISTANCES
    distance = nearest + (farthest - nearest) * torch.rand(count, 1, generator=generator)
    points = joints[..., :2] / (joints[..., 2] + distance).clamp_min(NEAREST)[..., None]
    size = points.std(dim=1, keepdim=True).mean(-1, keepdim=True)
    points = points + NOISE * size * torch.randn(points.shape, generator=generator)
    return joints, points, torch.rand(count, len(CORE), generator=generator) >= HIDDEN, distance


def _make_rotation(axis: int, angle_rad: Float[Tensor, " body"]) -> Float[Tensor, "body 3 3"]:
    """Return right-handed rotations of column vectors about a coordinate axis."""
    first, second = (axis + 1) % 3, (axis + 2) % 3
    turn = torch.zeros(len(angle_rad), 3, 3)
    turn[:, axis, axis] = 1
    turn[:, first, first] = turn[:, second, second] = angle_rad.cos()
    turn[:, second, first] = angle_rad.sin()
    turn[:, first, second] = -angle_rad.sin()
    return turn
