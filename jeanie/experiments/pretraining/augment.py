"""Other bodies, other sensors, other manners: random changes of core joints for a batch of motions at once.

Joints ``[batch, frame, 15, 3]``, +y up, any place and direction. Bones are changed as vectors and put together again,
so that limbs stay limbs; sensors err on positions afterwards.
"""

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from jeanie.config import Config
from jeanie.skeleton.layout import LAYOUTS

__all__ = ["HARSH", "Manner", "augment", "dropped", "mirrored", "retimed"]

_CORE = LAYOUTS["core15"]
_PARENTS = _CORE.parents
_LIMBS = ((3, 4, 5), (6, 7, 8), (9, 10, 11), (12, 13, 14))  # shoulder or hip first
_ENDS = (5, 8, 11, 14)


class Manner(Config):
    """How strong each change is: standard deviations unless said, lengths as shares of a body's unit."""

    tilt_rad: float = Field(default=0.2, ge=0, description="of the camera")
    lengths: float = Field(default=0.12, ge=0, description="of bones, left and right alike")
    bias: float = Field(
        default=0.03, ge=0, description="of a joint's place, for the whole clip: sensors disagree"
    )
    limb_rad: float = Field(default=0.1, ge=0, description="of a limb's direction, for the whole clip")
    slow_rad: float = Field(default=0.05, ge=0, description="of a limb's direction, slowly changing")
    amplitude: float = Field(default=0.15, ge=0, description="of the size of movements")
    warp: float = Field(default=0.35, ge=0, description="of the logarithm of speed")
    crop: float = Field(default=0.12, ge=0, lt=0.5, description="part cut off at either end, at most")
    jitter: float = Field(default=0.012, ge=0, description="of a joint's place, frame by frame")
    burst: float = Field(
        default=0.25, ge=0, le=1, description="chance that a hand or foot is lost for a while"
    )
    hidden: float = Field(
        default=0.4, ge=0, le=1, description="chance that the limbs of one side are guessed"
    )
    guess: float = Field(default=0.1, ge=0, description="of those guesses, slowly changing")
    swap: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="chance that the arms are taken for each other for a while, and as much for the legs",
    )
    drop: float = Field(default=0.15, ge=0, le=1, description="chance that joints are missing altogether")
    apart: float = Field(
        default=0.5, ge=0, le=1, description="share of pairs whose two motions miss joints of their own"
    )


HARSH = Manner(limb_rad=0.2, slow_rad=0.1, amplitude=0.25)
"""Bodies that differ more: for networks that tell postures, validation, and the fit of a recogniser's confidence."""


def _ancestry() -> Float[Tensor, "joint joint"]:
    """1 where the second joint lies on the way from the torso to the first, itself included."""
    above = torch.eye(len(_CORE))
    for joint in range(len(_CORE)):
        parent = _PARENTS[joint]
        while parent >= 0:
            above[joint, parent] = 1
            parent = _PARENTS[parent]
    return above


_ANCESTRY = _ancestry()


def retimed(
    joints: Float[Tensor, "batch time 15 3"], manner: Manner, generator: Generator, frames: int
) -> Float[Tensor, "batch {frames} 15 3"]:
    """Cropped at both ends and read at an uneven speed."""
    batch, time = joints.shape[:2]
    knots = manner.warp * torch.randn(batch, 1, 5, generator=generator)
    speed = functional.interpolate(knots, frames - 1, mode="linear", align_corners=True)[:, 0].exp()
    clock = functional.pad(speed.cumsum(1), (1, 0))
    clock = clock / clock[:, -1:]
    start, end = manner.crop * torch.rand(2, batch, 1, generator=generator)
    at = (start + clock * (1 - start - end)) * (time - 1)
    low = at.floor().long().clamp(0, time - 2)
    share = (at - low)[..., None, None]
    row = torch.arange(batch)[:, None]
    read: Tensor = joints[row, low] * (1 - share) + joints[row, low + 1] * share
    return read


def mirrored(
    joints: Float[Tensor, "batch time 15 3"], chosen: Bool[Tensor, " batch"]
) -> Float[Tensor, "batch time 15 3"]:
    """The ``chosen`` motions in a mirror: left and right swapped, x negated."""
    return torch.where(chosen[:, None, None, None], _CORE.mirrored(joints), joints)


def augment(
    joints: Float[Tensor, "batch frame 15 3"], manner: Manner, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Another body with other habits before another sensor does the same."""
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
    grown = 1 + manner.amplitude * normal(batch, 1, 1, 1)
    bones = mean + grown.clamp(0.5, 1.6) * (bones - mean)
    bones = _rotated(bones, _limb_turns(batch, frames, manner, generator))
    factor = torch.exp(manner.lengths * normal(batch, 15))
    factor = (factor + factor[:, list(_CORE.mirror)]) / 2
    bones = functional.normalize(bones, dim=-1) * lengths * factor[:, None, :, None]
    made = torch.einsum("ij,bfjc->bfic", _ANCESTRY, bones) + place[:, :, None]
    tilt = manner.tilt_rad * normal(batch, 1, 1, 3) * made.new_tensor([1.0, 0.0, 1.0])
    made = _rotated(made, tilt)
    made = made + unit * manner.bias * normal(batch, 1, 15, 3)
    made = made + unit * _guesses(batch, frames, manner, generator)
    # some recordings are clean, some shake: the size of the jitter differs by clip and is larger at the ends
    shake = (
        manner.jitter
        * normal(batch, 1, 1, 1).abs()
        * torch.ones(15, 1).index_fill(0, torch.tensor(_ENDS), 2.0)
    )
    made = _lost(made + unit * shake * normal(batch, frames, 15, 3), manner, generator)
    return _swapped(made, manner, generator) if manner.swap else made


def _limb_turns(
    batch: int, frames: int, manner: Manner, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Rotation vectors of all bones: a limb turns as one, its outer bone a little more, the trunk not at all."""
    constant = manner.limb_rad * torch.randn(batch, 1, 4, 2, 3, generator=generator)
    knots = manner.slow_rad * torch.randn(batch, 24, 4, generator=generator)
    slow = functional.interpolate(knots, frames, mode="linear", align_corners=True).mT.reshape(
        batch, frames, 4, 2, 3
    )
    both = constant + slow
    turns = torch.zeros(batch, frames, 15, 3)
    for limb, (_, middle, end) in enumerate(_LIMBS):
        turns[:, :, middle] = 0.7 * both[:, :, limb, 0]
        turns[:, :, end] = 0.7 * both[:, :, limb, 0] + 0.7 * both[:, :, limb, 1]
    return turns


def _guesses(
    batch: int, frames: int, manner: Manner, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Slow errors at the limbs of one side, which the body hides from the camera; mostly none."""
    error = torch.zeros(batch, frames, 15, 3)
    if not manner.hidden:
        return error
    knots = manner.guess * torch.randn(batch, 24, 6, generator=generator)
    slow = functional.interpolate(knots, frames, mode="linear", align_corners=True).mT.reshape(
        batch, frames, 8, 3
    )
    far = torch.rand(batch, 1, 1, 1, generator=generator)
    for limb, (_, middle, end) in enumerate(_LIMBS):
        left = limb % 2 == 0
        chosen = (far < manner.hidden / 2) if left else (far > 1 - manner.hidden / 2)
        error[:, :, [middle, end]] = slow[:, :, 2 * limb : 2 * limb + 2] * chosen
    return error


def _rotated(vectors: Tensor, turns: Tensor) -> Tensor:
    """Vectors turned by rotation vectors (Rodrigues)."""
    angle = turns.norm(dim=-1, keepdim=True).clamp_min(1e-8)
    axis = (turns / angle).expand_as(vectors)
    across = torch.linalg.cross(axis, vectors)
    along = (axis * vectors).sum(-1, keepdim=True)
    rotated: Tensor = vectors * angle.cos() + across * angle.sin() + axis * along * (1 - angle.cos())
    return rotated


def _lost(
    joints: Float[Tensor, "batch frame 15 3"], manner: Manner, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """A hand or foot that is lost for a while moves on a straight line, as the bridging of gaps makes it."""
    batch, frames = joints.shape[:2]
    first = torch.randint(0, frames - 2, (batch, 4), generator=generator)
    last = (first + torch.randint(2, max(3, frames // 3), (batch, 4), generator=generator)).clamp_max(
        frames - 1
    )
    lost = torch.rand(batch, 4, generator=generator) < manner.burst
    ends = joints[:, :, list(_ENDS)]
    row, limb = torch.arange(batch)[:, None], torch.arange(4)
    a, b = ends[row, first, limb][:, None], ends[row, last, limb][:, None]
    time = torch.arange(frames)[:, None]
    share = (time - first[:, None]) / (last - first)[:, None]
    within = (share > 0) & (share < 1) & lost[:, None]
    out = joints.clone()
    out[:, :, list(_ENDS)] = torch.where(within[..., None], a + share[..., None] * (b - a), ends)
    return out


def _swapped(
    joints: Float[Tensor, "batch frame 15 3"], manner: Manner, generator: Generator
) -> Float[Tensor, "batch frame 15 3"]:
    """Left and right hands and elbows, or feet and knees, taken for each other for up to two fifths of a clip."""
    batch, frames = joints.shape[:2]
    other, time = joints[:, :, list(_CORE.mirror)], torch.arange(frames)
    for pair in (_LIMBS[:2], _LIMBS[2:]):
        chosen, start, share = torch.rand(3, batch, 1, generator=generator)
        first = (start * frames).long()
        last = first + 2 + (0.4 * share * frames).long()
        wrong = (chosen < manner.swap) & (time >= first) & (time < last)
        limbs = torch.zeros(15, dtype=torch.bool)
        limbs[[joint for limb in pair for joint in limb[1:]]] = True
        joints = torch.where(wrong[..., None, None] & limbs[:, None], other, joints)
    return joints


def dropped(pairs: int, manner: Manner, generator: Generator) -> Bool[Tensor, "pair 2 15"]:
    """Which joints the two motions of each pair have: mostly all, sometimes without some joints, a limb or the legs.

    Where a pair is ``apart``, each of its motions misses joints of its own: so one recording that lacks a hand
    learns to meet one that has it.
    """
    first, second = (_dropped(pairs, manner, generator) for _ in range(2))
    apart = torch.rand(pairs, 1, generator=generator) < manner.apart
    return torch.stack([first, torch.where(apart, second, first)], 1)


def _dropped(motions: int, manner: Manner, generator: Generator) -> Bool[Tensor, "motion 15"]:
    kind = torch.rand(motions, 1, generator=generator) / max(manner.drop, 1e-9)
    single = torch.rand(motions, 15, generator=generator) < 0.1
    limb = torch.zeros(4, 15, dtype=torch.bool)
    for row, joints in zip(limb, _LIMBS, strict=True):
        row[list(joints[1:])] = True
    chosen = limb[torch.randint(0, 4, (motions,), generator=generator)]
    legs = limb[2] | limb[3]
    gone = torch.where(kind < 0.4, single, torch.where(kind < 0.7, chosen, legs.expand(motions, 15)))
    return ~(gone & (kind < 1))
