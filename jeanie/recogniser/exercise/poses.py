"""Sample a recording as poses of canonical bodies at any rate; a person who turns faces the camera all the time."""

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.skeleton.canonical_body import BodyMeasures, average_over_time
from jeanie.skeleton.convert import convert
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.resample import interpolate_gaps

__all__ = ["sample_poses"]

CORE = LAYOUTS["core15"]


def sample_poses(motion: Motion, rate: float, window: float) -> Float[Tensor, "pose 15 3"]:
    """Return the poses of the most active person at ``rate`` per second; joints that are never seen are 0.

    The size of the body is its mean over the recording. The direction in which it faces is the mean over ``window``
    seconds around each pose, because people turn between exercises.
    """
    core = convert(motion.select_most_active(1), CORE)
    if core.layout.up == "z":
        x, y, z = core.joints.unbind(-1)
        core = core.replace(joints=torch.stack([x, z, -y], -1))
    count = max(1, round(len(core) / (core.rate or 30.0) * rate))
    filled = interpolate_gaps(core.joints.double(), core.valid)
    joints = average_over_time(filled.movedim(1, 0), count)[0][:, None].numpy()
    present = core.valid.any(0).numpy()
    measures = BodyMeasures.from_joints(joints, present)
    lines = _average_around(torch.from_numpy(measures.lines), round(window * rate / 2))
    bodies, _ = measures.place(joints, measures.lengths.mean(0, keepdims=True), lines.numpy(), present)
    return torch.from_numpy(bodies[:, 0])


def _average_around(rows: Float[Tensor, " *any"], half: int) -> Float[Tensor, " *any"]:
    """Return the mean of the rows up to ``half`` before and after each row."""
    total = torch.cat([torch.zeros_like(rows[:1]), rows.cumsum(0)])
    at = torch.arange(len(rows))
    first, last = (at - half).clamp_min(0), (at + half + 1).clamp_max(len(rows))
    means: Tensor = (total[last] - total[first]) / (last - first).reshape(-1, *[1] * (rows.ndim - 1))
    return means
