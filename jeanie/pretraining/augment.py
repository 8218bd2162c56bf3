"""Augmentation of core joints: other bodies, other performances and other sensors, for a batch of motions.

Joints are ``[batch, frame, 15, 3]`` with +y up, at any position and in any direction. Bodies are changed by their bone
vectors, so that limbs stay connected. Sensor errors are added to the positions afterwards.
"""

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from jeanie.config import Config
from jeanie.skeleton.layout import LAYOUTS

__all__ = [
    "STRONG_AUGMENTATION",
    "AugmentationStrength",
    "augment",
    "draw_present_joints",
    "mirror_motions",
    "retime",
]

_CORE = LAYOUTS["core15"]
_PARENTS = _CORE.parents
_LIMBS = ((3, 4, 5), (6, 7, 8), (9, 10, 11), (12, 13, 14))  # shoulder or hip first
_ENDS = (5, 8, 11, 14)


class AugmentationStrength(Config):
    """Strength of each change: standard deviations unless stated otherwise; lengths relative to the body size."""

    tilt_rad: float = Field(default=0.2, ge=0, description="tilt of the camera")
    lengths: float = Field(default=0.12, ge=0, description="bone lengths, the same on both sides")
    bias: float = Field(
        default=0.03, ge=0, description="constant error of a joint's position, because sensors differ"
    )
    limb_rad: float = Field(default=0.1, ge=0, description="constant error of a limb's direction")
    slow_rad: float = Field(default=0.05, ge=0, description="slowly changing error of a limb's direction")
    amplitude: float = Field(default=0.15, ge=0, description="amplitude of the movement")
    warp: float = Field(default=0.35, ge=0, description="logarithm of the speed")
    crop: float = Field(default=0.12, ge=0, lt=0.5, description="largest share cut off at each end")
    jitter: float = Field(default=0.012, ge=0, description="error of a joint's position in each frame")
    burst: float = Field(
        default=0.25, ge=0, le=1, description="probability that a hand or foot is lost for some frames"
    )
    hidden: float = Field(
        default=0.4, ge=0, le=1, description="probability that the sensor guesses the limbs of one side"
    )
    guess: float = Field(default=0.1, ge=0, description="slowly changing error of these guesses")
    swap: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="probability that the arms are swapped for some frames; the same for the legs",
    )
    drop: float = Field(
        default=0.15, ge=0, le=1, description="probability that joints are missing in all frames"
    )
    independent_drop: float = Field(
        default=0.5, ge=0, le=1, description="share of pairs whose two motions miss different joints"
    )


STRONG_AUGMENTATION = AugmentationStrength(limb_rad=0.2, slow_rad=0.1, amplitude=0.25)
"""Bodies that differ more: for members that separate postures, for validation, and to fit a recogniser's confidence."""


def _make_ancestor_matrix() -> Float[Tensor, "joint joint"]:
    """Return a matrix with 1 where the second joint is the first joint or one of its ancestors."""
    above = torch.eye(len(_CORE))
    for joint in range(len(_CORE)):
        parent = _PARENTS[joint]
        while parent >= 0:
            above[joint, parent] = 1
            parent = _PARENTS[parent]
    return above


_ANCESTORS = _make_ancestor_matrix()


def retime(
    joints: Float[Tensor, "batch time 15 3"],
    strength: AugmentationStrength,
    generator: Generator,
    frames: int,
) -> Float[Tensor, "batch {frames} 15 3"]:
    """Crop motions at both ends and resample them to ``frames`` frames at an uneven speed."""
    batch, time = joints.shape[:2]
    knots = strength.warp * torch.randn(batch, 1, 5, generator=generator)
    speed = functional.interpolate(knots, frames - 1, mode="linear", align_corners=True)[:, 0].exp()
    clock = functional.pad(speed.cumsum(1), (1, 0))
    clock = clock / clock[:, -1:]
    start, end = strength.crop * torch.rand(2, batch, 1, generator=generator)
    position = (start + clock * (1 - start - end)) * (time - 1)
    low = position.floor().long().clamp(0, time - 2)
    share = (position - low)[..., None, None]
    row = torch.arange(batch)[:, None]
    resampled: Tensor = joints[row, low] * (1 - share) + joints[row, low + 1] * share
    return resampled


def mirror_motions(
    joints: Float[Tensor, "batch time 15 3"], is_mirrored: Bool[Tensor, " batch"]
) -> Float[Tensor, "batch time 15 3"]:
    """Swap left and right and negate x in the motions for which ``is_mirrored`` is true."""
    return torch.where(is_mirrored[:, None, None, None], _CORE.mirror_joints(joints), joints)


def augment(
    joints: Float[Tensor, "batch frame 15 3"], strength: AugmentationStrength, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Return the motions as another body performs them in front of another sensor."""
    batch, frames = joints.shape[:2]

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    parents = [max(parent, 0) for parent in _PARENTS]
    bones = joints - joints[:, :, parents]
    bones[:, :, _CORE.torso] = 0
    place = joints[:, :, _CORE.torso]
    lengths = bones.norm(dim=-1, keepdim=True)
    unit = lengths.mean((1, 2, 3), keepdim=True) * 4
    mean = bones.mean(1, keepdim=True)
    grown = 1 + strength.amplitude * normal(batch, 1, 1, 1)
    bones = mean + grown.clamp(0.5, 1.6) * (bones - mean)
    bones = _rotate(bones, _draw_limb_rotations(batch, frames, strength, generator))
    factor = torch.exp(strength.lengths * normal(batch, 15))
    factor = (factor + factor[:, list(_CORE.mirror_indices)]) / 2
    bones = functional.normalize(bones, dim=-1) * lengths * factor[:, None, :, None]
    positions = torch.einsum("ij,bfjc->bfic", _ANCESTORS, bones) + place[:, :, None]
    tilt = strength.tilt_rad * normal(batch, 1, 1, 3) * positions.new_tensor([1.0, 0.0, 1.0])
    positions = _rotate(positions, tilt)
    positions = positions + unit * strength.bias * normal(batch, 1, 15, 3)
    positions = positions + unit * _draw_guess_errors(batch, frames, strength, generator)
    # the jitter differs between clips and is larger at hands and feet
    shake = (
        strength.jitter
        * normal(batch, 1, 1, 1).abs()
        * torch.ones(15, 1).index_fill(0, torch.tensor(_ENDS), 2.0)
    )
    positions = _lose_ends(positions + unit * shake * normal(batch, frames, 15, 3), strength, generator)
    return _swap_sides(positions, strength, generator) if strength.swap else positions


def _draw_limb_rotations(
    batch: int, frames: int, strength: AugmentationStrength, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Draw rotation vectors of all bones: both bones of a limb rotate, the outer one more; the trunk does not."""
    constant = strength.limb_rad * torch.randn(batch, 1, 4, 2, 3, generator=generator)
    knots = strength.slow_rad * torch.randn(batch, 24, 4, generator=generator)
    slow = functional.interpolate(knots, frames, mode="linear", align_corners=True).mT.reshape(
        batch, frames, 4, 2, 3
    )
    both = constant + slow
    turns = torch.zeros(batch, frames, 15, 3)
    for limb, (_, middle, end) in enumerate(_LIMBS):
        turns[:, :, middle] = 0.7 * both[:, :, limb, 0]
        turns[:, :, end] = 0.7 * both[:, :, limb, 0] + 0.7 * both[:, :, limb, 1]
    return turns


def _draw_guess_errors(
    batch: int, frames: int, strength: AugmentationStrength, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Draw slow errors of the limbs of one side, which the body hides from the camera; most motions have none."""
    error = torch.zeros(batch, frames, 15, 3)
    if not strength.hidden:
        return error
    knots = strength.guess * torch.randn(batch, 24, 6, generator=generator)
    slow = functional.interpolate(knots, frames, mode="linear", align_corners=True).mT.reshape(
        batch, frames, 8, 3
    )
    far = torch.rand(batch, 1, 1, 1, generator=generator)
    for limb, (_, middle, end) in enumerate(_LIMBS):
        left = limb % 2 == 0
        is_hidden = (far < strength.hidden / 2) if left else (far > 1 - strength.hidden / 2)
        error[:, :, [middle, end]] = slow[:, :, 2 * limb : 2 * limb + 2] * is_hidden
    return error


def _rotate(vectors: Tensor, turns: Tensor) -> Tensor:
    """Rotate vectors by rotation vectors (Rodrigues)."""
    angle = turns.norm(dim=-1, keepdim=True).clamp_min(1e-8)
    axis = (turns / angle).expand_as(vectors)
    across = torch.linalg.cross(axis, vectors)
    along = (axis * vectors).sum(-1, keepdim=True)
    rotated: Tensor = vectors * angle.cos() + across * angle.sin() + axis * along * (1 - angle.cos())
    return rotated


def _lose_ends(
    joints: Float[Tensor, "batch frame 15 3"], strength: AugmentationStrength, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Replace parts of the path of a hand or foot by a straight line, as gap filling does."""
    batch, frames = joints.shape[:2]
    first = torch.randint(0, frames - 2, (batch, 4), generator=generator)
    last = (first + torch.randint(2, max(3, frames // 3), (batch, 4), generator=generator)).clamp_max(
        frames - 1
    )
    is_missing = torch.rand(batch, 4, generator=generator) < strength.burst
    ends = joints[:, :, list(_ENDS)]
    row, limb = torch.arange(batch)[:, None], torch.arange(4)
    a, b = ends[row, first, limb][:, None], ends[row, last, limb][:, None]
    time = torch.arange(frames)[:, None]
    share = (time - first[:, None]) / (last - first)[:, None]
    within = (share > 0) & (share < 1) & is_missing[:, None]
    out = joints.clone()
    out[:, :, list(_ENDS)] = torch.where(within[..., None], a + share[..., None] * (b - a), ends)
    return out


def _swap_sides(
    joints: Float[Tensor, "batch frame 15 3"], strength: AugmentationStrength, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Swap left and right hands and elbows, or feet and knees, for up to two fifths of a clip."""
    batch, frames = joints.shape[:2]
    other, time = joints[:, :, list(_CORE.mirror_indices)], torch.arange(frames)
    for pair in (_LIMBS[:2], _LIMBS[2:]):
        chance, start, share = torch.rand(3, batch, 1, generator=generator)
        first = (start * frames).long()
        last = first + 2 + (0.4 * share * frames).long()
        wrong = (chance < strength.swap) & (time >= first) & (time < last)
        limbs = torch.zeros(15, dtype=torch.bool)
        limbs[[joint for limb in pair for joint in limb[1:]]] = True
        joints = torch.where(wrong[..., None, None] & limbs[:, None], other, joints)
    return joints


def draw_present_joints(
    pairs: int, strength: AugmentationStrength, generator: Generator
) -> Bool[Tensor, "pair 2 15"]:
    """Draw the joints that the two motions of each pair have: usually all; some lack joints, a limb or the legs.

    With ``independent_drop`` the two motions miss different joints, so that the model learns to compare a recording
    without a hand with one that has it.
    """
    first, second = (_draw_present(pairs, strength, generator) for _ in range(2))
    independent = torch.rand(pairs, 1, generator=generator) < strength.independent_drop
    return torch.stack([first, torch.where(independent, second, first)], 1)


def _draw_present(
    motions: int, strength: AugmentationStrength, generator: Generator
) -> Bool[Tensor, "motion 15"]:
    kind = torch.rand(motions, 1, generator=generator) / max(strength.drop, 1e-9)
    single = torch.rand(motions, 15, generator=generator) < 0.1
    limb = torch.zeros(4, 15, dtype=torch.bool)
    for row, joints in zip(limb, _LIMBS, strict=True):
        row[list(joints[1:])] = True
    limbs = limb[torch.randint(0, 4, (motions,), generator=generator)]
    legs = limb[2] | limb[3]
    gone = torch.where(kind < 0.4, single, torch.where(kind < 0.7, limbs, legs.expand(motions, 15)))
    return ~(gone & (kind < 1))
