"""The canonical body: 15 core joints and the path of the body, independent of place, size and direction.

A body is centred between its shoulders and hips, divided by its size and rotated to face the camera. Layout and
frame rate do not matter.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.convert import convert
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.resample import interpolate_gaps

__all__ = [
    "BODY",
    "BodyMeasures",
    "append_path",
    "average_over_time",
    "compute_canonical_body",
    "compute_centres",
    "normalise_bodies",
    "rotate_about_y",
    "sample_core_joints",
]

CORE = LAYOUTS["core15"]
BODY = Layout("body16", (*CORE.joints, "path"), CORE.bones, CORE.pairs, CORE.root, CORE.torso)
"""The core joints and, as the last joint, the path of the centre of the body."""

_LEFT = [CORE.index("left_shoulder"), CORE.index("left_hip")]
_RIGHT = [CORE.index("right_shoulder"), CORE.index("right_hip")]
_PARENT, _CHILD = (list(side) for side in zip(*CORE.bones, strict=True))
# Mean bone lengths of motion capture and synthetic bodies in the order of CORE.bones; the unit is four mean bones.
# With them, a body without legs is measured by its arms.
_LENGTHS = (0.103, 0.218, 0.163, 0.242, 0.226, 0.163, 0.242, 0.226, 0.226, 0.346, 0.387, 0.226, 0.346, 0.387)
_TAPS = 5  # samples averaged per frame
_PATH_WEIGHT = 0.5  # the path counts less than the limbs
_MIN_LINE = 0.02  # a shorter line from left to right does not determine the facing direction


def compute_canonical_body(
    motion: Motion, frames: int, dtype: torch.dtype = torch.float32
) -> tuple[Float[Tensor, "{frames} person 16 3"], Bool[Tensor, "{frames} person 16"]]:
    """Return the canonical body of every person at ``frames`` evenly spaced times, and a mask of known joints.

    One person faces the camera, according to shoulders and hips. Two persons face each other.
    """
    joints, present = sample_core_joints(motion, frames, dtype)
    if len(joints) == 2 and bool(present.any(1).all()):
        body, path = normalise_bodies(joints, present, partner=compute_centres(joints, present).flip(0))
    else:
        body, path = normalise_bodies(joints, present)
    body_and_path, valid = append_path(body, path, present)
    return body_and_path.transpose(0, 1), valid.expand(frames, *valid.shape)


def append_path(
    body: Float[Tensor, "batch frame 15 3"],
    path: Float[Tensor, "batch frame 3"],
    present: Bool[Tensor, "batch 15"],
) -> tuple[Float[Tensor, "batch frame 16 3"], Bool[Tensor, "batch 16"]]:
    """Append the path of the centre as the 16th joint; return the bodies and the mask of known joints."""
    any_joint = present.any(1, keepdim=True)
    return (
        torch.cat([body, _PATH_WEIGHT * path[:, :, None] * any_joint[..., None, None]], 2),
        torch.cat([present, any_joint], 1),
    )


def sample_core_joints(
    motion: Motion, frames: int, dtype: torch.dtype = torch.float32
) -> tuple[Float[Tensor, "person {frames} 15 3"], Bool[Tensor, "person 15"]]:
    """Return the core joints at ``frames`` evenly spaced times, and a mask of joints that are ever valid.

    Frames without any joint are skipped; other gaps are interpolated. A person who is never seen is 0.
    """
    core = convert(motion, CORE)
    if core.layout.up == "z":
        x, y, z = core.joints.unbind(-1)
        core = core.replace(joints=torch.stack([x, z, -y], -1))
    is_visible = core.valid.flatten(1).any(1)
    joints, valid = (
        (core.joints[is_visible], core.valid[is_visible])
        if bool(is_visible.any())
        else (core.joints, core.valid)
    )
    return average_over_time(interpolate_gaps(joints.to(dtype), valid).movedim(1, 0), frames), valid.any(0)


def average_over_time(
    joints: Float[Tensor, "*batch time joint axis"], frames: int
) -> Float[Tensor, "*batch {frames} joint axis"]:
    """Resample to ``frames`` frames; each is the mean over its share of the time, which reduces noise."""
    last = joints.shape[-3] - 1
    middle = torch.linspace(0, last, frames, dtype=joints.dtype, device=joints.device)
    taps = torch.linspace(-0.5, 0.5, _TAPS, dtype=joints.dtype, device=joints.device) * (last / frames)
    positions = (middle[:, None] + taps).clamp(0, last).flatten()
    low = positions.floor().long()
    weight = (positions - low)[:, None, None]
    sampled = joints[..., low, :, :] * (1 - weight) + joints[..., (low + 1).clamp_max(last), :, :] * weight
    means: Tensor = sampled.unflatten(-3, (frames, _TAPS)).mean(-3)
    return means


def normalise_bodies(
    joints: Float[Tensor, "batch frame 15 3"],
    present: Bool[Tensor, "batch 15"],
    partner: Float[Tensor, "batch frame 3"] | None = None,
) -> tuple[Float[Tensor, "batch frame 15 3"], Float[Tensor, "batch frame 3"]]:
    """Centre every frame, divide by the body size and rotate to face the camera.

    The size is the sum of the mean lengths of the known bones, divided by the sum of their reference lengths. The
    facing direction is the mean over the clip of the direction of shoulders and hips.

    Args:
        present: False for joints that are never valid.
        partner: Centre of the other person. The body then faces the partner, because shoulders are not reliable
            in a side view, and the path is relative to the partner.

    Returns:
        The bodies and the paths of their centres.
    """
    centre = compute_centres(joints, present)
    has_bone = (present[:, _PARENT] & present[:, _CHILD]).to(joints.dtype)
    lengths = (joints[:, :, _CHILD] - joints[:, :, _PARENT]).norm(dim=-1).mean(1)
    size = (lengths * has_bone).sum(1) / (has_bone * joints.new_tensor(_LENGTHS)).sum(1).clamp_min(1e-6)
    size = torch.where(size > 1e-6, size, 1.0)[:, None, None]
    body = (joints - centre[:, :, None]) / size[..., None] * present[:, None, :, None]
    path = centre if partner is None else centre - partner
    path = (path - path.mean(1, keepdim=True)) / size
    if partner is None:
        are_present = (present[:, _LEFT] & present[:, _RIGHT])[:, None, :, None]
        line = ((body[:, :, _RIGHT] - body[:, :, _LEFT]) * are_present).sum(2).mean(1)[:, [0, 2]]
    else:
        forward = ((partner - centre).mean(1) / size[:, 0])[:, [0, 2]]
        line = torch.stack(
            [-forward[:, 1], forward[:, 0]], -1
        )  # a person who looks along -z has +x on the right
    length = line.norm(dim=-1, keepdim=True)
    unit = torch.where(length > _MIN_LINE, line / length.clamp_min(_MIN_LINE), line.new_tensor([1.0, 0.0]))
    return _rotate(body, unit), _rotate(path[:, :, None], unit)[:, :, 0]


@dataclass(frozen=True, eq=False)
class BodyMeasures:
    """Measures of each frame that give the place, size and direction of bodies. A stream measures each frame once.

    ``lengths`` are those of the bones, ``lines`` lead from left to right in the plane of the ground.
    """

    centres: Float[np.ndarray, "frame person 1 3"]
    lengths: Float[np.ndarray, "frame person bone"]
    lines: Float[np.ndarray, "frame person 2"]

    @classmethod
    def from_joints(
        cls, joints: Float[np.ndarray, "frame person 15 3"], present: Bool[np.ndarray, "person 15"]
    ) -> "BodyMeasures":
        """Measure bodies, as ``normalise_bodies`` does."""
        trunk = np.zeros_like(present)
        trunk[:, _LEFT + _RIGHT] = present[:, _LEFT + _RIGHT]
        trunk = np.where(trunk.any(1, keepdims=True), trunk, present)
        weight = (trunk / np.maximum(trunk.sum(1, keepdims=True), 1)).astype(joints.dtype)
        bones = joints[:, :, _CHILD] - joints[:, :, _PARENT]
        are_present = (present[:, _LEFT] & present[:, _RIGHT])[..., None]
        lines = ((joints[:, :, _RIGHT] - joints[:, :, _LEFT]) * are_present).sum(2)[..., [0, 2]]
        centres = (weight[:, :, None] * joints).sum(2, keepdims=True)
        return cls(centres, np.sqrt((bones * bones).sum(-1)), lines)

    def place(
        self,
        joints: Float[np.ndarray, "frame person 15 3"],
        lengths: Float[np.ndarray, "#frame person bone"],
        lines: Float[np.ndarray, "#frame person 2"],
        present: Bool[np.ndarray, "person 15"],
    ) -> tuple[Float[np.ndarray, "frame person 15 3"], Float[np.ndarray, "#frame person"]]:
        """Return centred bodies of size 1 that face the camera, and their sizes.

        ``lengths`` and ``lines`` are means of these measures over some time, or over the whole recording.
        """
        known = (present[:, _PARENT] & present[:, _CHILD]).astype(joints.dtype)
        usual = np.maximum((known * np.array(_LENGTHS, joints.dtype)).sum(1), 1e-6)
        size = (lengths * known).sum(-1) / usual
        size = np.where(size > 1e-6, size, 1.0).astype(joints.dtype)
        lines = lines / size[..., None]
        length = np.sqrt((lines * lines).sum(-1, keepdims=True))
        ahead = np.array([1.0, 0.0], joints.dtype)
        unit = np.where(length > _MIN_LINE, lines / np.maximum(length, _MIN_LINE), ahead)
        c, s = unit[..., :1], unit[..., 1:]
        x, y, z = np.moveaxis((joints - self.centres) / size[..., None, None] * present[..., None], -1, 0)
        return np.stack([c * x + s * z, y, c * z - s * x], -1), size


def compute_centres(
    joints: Float[Tensor, "batch frame 15 3"], present: Bool[Tensor, "batch 15"]
) -> Float[Tensor, "batch frame 3"]:
    """Return the mean of the present shoulders and hips; without any of them, of all present joints."""
    trunk = torch.zeros_like(present)
    trunk[:, _LEFT + _RIGHT] = present[:, _LEFT + _RIGHT]
    trunk = torch.where(trunk.any(1, keepdim=True), trunk, present)
    weight = trunk / trunk.sum(1, keepdim=True).clamp_min(1)
    return torch.einsum("bj,bfjc->bfc", weight.to(joints.dtype), joints)


def rotate_about_y(
    joints: Float[Tensor, "batch frame joint 3"], yaw_rad: Float[Tensor, " batch"]
) -> Float[Tensor, "batch frame joint 3"]:
    """Rotate each motion about the vertical axis by its angle: x' = c x + s z, z' = c z - s x."""
    return _rotate(joints, torch.stack([yaw_rad.cos(), yaw_rad.sin()], -1))


def _rotate(
    joints: Float[Tensor, "batch frame joint 3"], unit: Float[Tensor, "batch 2"]
) -> Float[Tensor, "batch frame joint 3"]:
    c, s = unit[:, None, None, 0], unit[:, None, None, 1]
    x, y, z = joints.unbind(-1)
    return torch.stack([c * x + s * z, y, c * z - s * x], -1)
