"""Procedural gestures: random classes of movement, performed by a simple body with two-bone inverse kinematics.

A class is a course through a few way points: for one hand, both hands, a foot, the trunk (lean, twist, crouch,
jump), the whole body and where it goes. An instance performs it in its own way: other way points nearby, tempo,
size, elbows, proportions, and now and then another number of repetitions. Metres, +y up, the person looks along -z
with the right hand at larger x.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from jeanie.experiments.pretraining.puppet import (
    CROUCH,
    LEAN,
    LEFT_FOOT,
    LEFT_HAND,
    POSE,
    RIGHT_FOOT,
    RIGHT_HAND,
    SIDE,
    TURN,
    TWIST,
    X,
    Z,
    body,
    sources,
)

__all__ = ["KINDS", "Gestures", "Kinds", "draw", "near_misses", "perform"]

_POINTS = 6  # way points a class may have
_KEYS = 12  # keys of a performance: rest, way points with their repetitions, rest
# where hands go on the own body, from the right shoulder: mouth, brow, other shoulder, chest, belly, own hip, ear
_CONTACTS = (
    (-0.32, 0.25, -0.25), (-0.3, 0.42, -0.22), (-0.62, -0.05, -0.2), (-0.3, -0.25, -0.3), (-0.3, -0.6, -0.3),
    (0.05, -0.8, -0.1), (-0.12, 0.35, -0.05),
)  # fmt: skip


Kinds = tuple[float, float, float, float, float, float]
"""What classes move, as shares: one hand, both in mirror symmetry, both apart, a foot, the trunk, everything."""

KINDS: Kinds = (0.6, 0.1, 0.08, 0.07, 0.08, 0.07)  # most gestures that people tell apart are of one hand
_BOTH, _APART, _FOOT, _TRUNK, _WHOLE = range(1, 6)


@dataclass(frozen=True, eq=False)
class Gestures:
    """Classes of movement, one a row."""

    points: Float[Tensor, "class point channel"]
    active: Bool[Tensor, "class channel"]
    count: Int[Tensor, " class"]
    repeats: Int[Tensor, " class"]
    cyclic: Bool[Tensor, " class"]
    flow: Float[Tensor, " class"]  # 0 stops at every way point, 1 flows through
    swivel: Float[Tensor, "class 2"]  # of the elbows, radians
    gait: Float[Tensor, " class"]  # length of the steps, in legs

    def __getitem__(self, index: Tensor) -> "Gestures":
        return Gestures(*(getattr(self, field.name)[index] for field in fields(self)))

    def joined(self, other: "Gestures") -> "Gestures":
        """These classes and then the ``other`` ones."""
        return Gestures(*(torch.cat([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


def draw(classes: int, generator: Generator, kinds: Kinds = KINDS) -> Gestures:
    """New random classes."""
    uniform, normal = sources(generator)
    kind = torch.multinomial(torch.tensor(kinds), classes, replacement=True, generator=generator)
    points = _way_points(classes, generator)
    both, whole = kind == _BOTH, kind == _WHOLE
    mirrored = points[..., RIGHT_HAND] * points.new_tensor([-1.0, 1.0, 1.0])
    points[..., LEFT_HAND] = torch.where(both[:, None, None], mirrored, points[..., LEFT_HAND])
    active = _moving(kind, generator)
    count = 1 + (uniform(classes) * _POINTS).long().clamp_max(_POINTS - 1)
    few = count <= 3
    repeats = torch.where(few, 1 + (uniform(classes) * 3.5).long().clamp_max(3), 1)
    cyclic = (uniform(classes) < 0.2) & (count > 1)
    return Gestures(
        points, active, count, repeats, cyclic, uniform(classes), 0.5 * normal(classes, 2),
        0.3 * uniform(classes) * (whole & (uniform(classes) < 0.5)),
    )  # fmt: skip


def _moving(kind: Int[Tensor, " class"], generator: Generator) -> Bool[Tensor, "class channel"]:
    """Which channels leave their rest: those of the kind, and at random some that come along."""
    uniform, _ = sources(generator)
    classes = len(kind)
    both, apart, foot, trunk, whole = (kind == one for one in (_BOTH, _APART, _FOOT, _TRUNK, _WHOLE))
    active = torch.zeros(classes, POSE, dtype=torch.bool)
    hand = ~foot & (~(trunk | whole) | (uniform(classes) < 0.65))
    active[:, RIGHT_HAND] = (hand | (foot & (uniform(classes) < 0.2)))[:, None]
    second = both | apart | ((trunk | whole) & hand & (uniform(classes) < 0.6))
    active[:, LEFT_HAND] = second[:, None]
    active[:, RIGHT_FOOT] = (foot | (whole & (uniform(classes) < 0.4)))[:, None]
    active[:, LEFT_FOOT] = (whole & (uniform(classes) < 0.25))[:, None]
    body = uniform(classes, 4) < torch.tensor([0.6, 0.3, 0.4, 0.45])
    body[:, 0] |= ~body.any(1)
    active[:, LEAN : CROUCH + 1] = body & (trunk | whole)[:, None]
    active[:, LEAN : TWIST + 1] |= (uniform(classes, 3) < 0.08) & hand[:, None]
    active[:, X : TURN + 1] = (uniform(classes, 4) < torch.tensor([0.3, 0.3, 0.5, 0.25])) & whole[:, None]
    return active


def _way_points(classes: int, generator: Generator) -> Float[Tensor, "class point channel"]:
    """Way points for all channels of all classes, active or not."""
    uniform, normal = sources(generator)
    points = torch.zeros(classes, _POINTS, POSE)
    for hand, side in ((RIGHT_HAND, 1.0), (LEFT_HAND, -1.0)):
        free = uniform(classes, _POINTS, 3) * torch.tensor([1.6, 1.9, 1.25]) + torch.tensor(
            [-0.65, -0.9, -1.0]
        )
        contacts = torch.tensor(_CONTACTS)[(uniform(classes, _POINTS) * len(_CONTACTS)).long()]
        free = torch.where((uniform(classes, _POINTS) < 0.2)[..., None], contacts, free)
        ring = _rings(classes, generator)
        chosen = torch.where((uniform(classes) < 0.22)[:, None, None], ring, free)
        length = chosen.norm(dim=-1, keepdim=True).clamp_min(1e-3)
        chosen = chosen / length * length.clamp(0.3, 0.99)
        points[..., hand] = chosen * torch.tensor([side, 1.0, 1.0])
    for foot, side in ((RIGHT_FOOT, 1.0), (LEFT_FOOT, -1.0)):
        kick = uniform(classes, _POINTS, 3) * torch.tensor([0.9, 0.75, 1.4]) + torch.tensor(
            [-0.25, 0.05, -0.95]
        )
        points[..., foot] = kick * torch.tensor([side, 1.0, 1.0])
    spans = torch.tensor(
        [[-0.35, 1.5], [-0.6, 0.6], [-1.0, 1.0], [0.0, 0.6], [-0.7, 0.7], [0.0, 0.4], [-1.0, 0.6]]
    )
    low, high = spans.T
    points[..., LEAN : Z + 1] = low + uniform(classes, _POINTS, 7) * (high - low)
    points[..., TURN] = 0.8 * normal(classes, _POINTS)
    return points


def _rings(classes: int, generator: Generator) -> Float[Tensor, "class point 3"]:
    """Way points on an ellipse about a point within reach, in a random plane."""
    uniform, normal = sources(generator)
    middle = uniform(classes, 1, 3) * torch.tensor([0.9, 1.0, 0.5]) + torch.tensor([-0.45, -0.45, -0.8])
    one = functional.normalize(normal(classes, 1, 3) * torch.tensor([1.5, 1.5, 0.7]), dim=-1)
    two = functional.normalize(
        torch.linalg.cross(one, functional.normalize(normal(classes, 1, 3), dim=-1)), dim=-1
    )
    angle = torch.arange(_POINTS) * (2 * torch.pi / _POINTS) + 2 * torch.pi * uniform(classes, 1)
    radius = 0.15 + 0.35 * uniform(classes, 2, 1, 1)
    return middle + radius[:, 0] * angle.cos()[..., None] * one + radius[:, 1] * angle.sin()[..., None] * two


def near_misses(of: Gestures, generator: Generator) -> Gestures:
    """For every class another that is almost it: other hand, backwards, upside down, one way point elsewhere.

    A class that is its own mirror image, or of feet alone, which have no upside down, gets another way point then.
    """
    uniform, _ = sources(generator)
    classes = len(of.count)
    how = (uniform(classes) * 4).long()
    swap = torch.tensor([3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8, *range(12, 20)])
    sign = torch.ones(POSE)
    sign[[0, 3, 6, 9, SIDE, TWIST, X, TURN]] = -1
    other = how == 0
    points = torch.where(other[:, None, None], of.points[..., swap] * sign, of.points)
    active = torch.where(other[:, None], of.active[:, swap], of.active)
    order = torch.arange(_POINTS)
    back = (of.count[:, None] - 1 - order).clamp_min(0)
    back = torch.where((how == 1)[:, None] & (of.count > 2)[:, None], back, order)
    points = points.gather(1, back[..., None].expand_as(points))
    flip = torch.ones(POSE)
    flip[[1, 4, LEAN, Z]] = -1
    points = torch.where((how == 2)[:, None, None], points * flip, points)
    real = of.active[:, None] & (order < of.count[:, None])[..., None]
    same = ((points == of.points) | ~real).flatten(1).all(1) & (active == of.active).all(1)
    moved = (uniform(classes) * of.count).long()[:, None] == order
    moved = moved & same[:, None]
    points = torch.where(moved[..., None], _way_points(classes, generator), points)
    return Gestures(points, active, of.count, of.repeats, of.cyclic, of.flow, of.swivel, of.gait)


def perform(
    gestures: Gestures, generator: Generator, frames: int = 48, jitter: float = 0.08
) -> Float[Tensor, "instance {frames} 15 3"]:
    """One performance of each class, as the 15 core joints."""
    curves = _curves(gestures, generator, frames, jitter)
    return body(curves, gestures.swivel, gestures.gait, generator)


def _curves(
    of: Gestures, generator: Generator, frames: int, jitter: float
) -> Float[Tensor, "instance frame channel"]:
    """Channels over time: keys (rest, way points, rest) at uneven times, joined by straight or flowing lines."""
    uniform, normal = sources(generator)
    count = len(of.count)
    keys, length = _keys(of, generator, jitter)
    key = torch.arange(_KEYS)
    span = torch.exp(0.3 * normal(count, _KEYS - 1)) * (key[1:] <= length[:, None] + 1)
    ends = torch.cat([torch.zeros(count, 1), span.cumsum(1)], 1)
    total = ends[:, -1:].clamp_min(1e-3)
    pause = 0.15 * uniform(count, 2) * ~of.cyclic[:, None]
    clock = torch.linspace(0, 1, frames) * (1 + pause.sum(1, keepdim=True)) - pause[:, :1]
    clock = clock.clamp(0, 1) * total
    at = (torch.searchsorted(ends, clock.contiguous(), right=True) - 1).clamp(0, _KEYS - 2)
    share = ((clock - ends.gather(1, at)) / span.gather(1, at).clamp_min(1e-3)).clamp(0, 1)
    return _joined(keys, at, share[..., None], of.flow[:, None, None])


def _keys(
    of: Gestures, generator: Generator, jitter: float
) -> tuple[Float[Tensor, "instance key channel"], Int[Tensor, " instance"]]:
    """Keys of one performance each, and how many of them are way points; a cycle begins anywhere and has no rest."""
    uniform, normal = sources(generator)
    count = len(of.count)
    rest = _rest(count, generator)
    size = 1 + 0.15 * normal(count, 1, 1)
    own = rest + size * (of.points + jitter * normal(count, _POINTS, POSE) - rest)
    own = torch.where(of.active[:, None], own, rest)
    more = (uniform(count) < 0.35) & (of.repeats > 1)
    repeats = torch.where(more, of.repeats + torch.where(uniform(count) < 0.5, -1, 1), of.repeats)
    length = (of.count * repeats).clamp_max(_KEYS - 2)
    key = torch.arange(_KEYS)
    phase = torch.where(of.cyclic, (uniform(count) * of.count).long(), 0)
    point = (key - 1 + phase[:, None]).clamp_min(0) % of.count[:, None]
    keys = own.gather(1, point[..., None].expand(-1, -1, POSE))
    keys = keys + 0.03 * normal(*keys.shape) * of.active[:, None]
    resting = ((key == 0) | (key > length[:, None])) & ~of.cyclic[:, None]
    return torch.where(resting[..., None], rest, keys), length


def _rest(count: int, generator: Generator) -> Float[Tensor, "instance 1 channel"]:
    """How someone stands who does nothing: arms down, now and then bent."""
    uniform, normal = sources(generator)
    rest = torch.zeros(count, 1, POSE)
    rest[..., RIGHT_HAND] = torch.tensor([0.12, -0.95, -0.08])
    rest[..., LEFT_HAND] = torch.tensor([-0.12, -0.95, -0.08])
    bent = (uniform(count, 1, 1) < 0.15) * torch.tensor([0.0, 0.35, -0.55]) * uniform(count, 1, 1)
    rest[..., RIGHT_HAND] += 0.06 * normal(count, 1, 3) + bent
    rest[..., LEFT_HAND] += 0.06 * normal(count, 1, 3) + bent
    rest[..., LEAN : CROUCH + 1] += 0.05 * normal(count, 1, 4)
    return rest


def _joined(
    keys: Float[Tensor, "instance key channel"],
    at: Int[Tensor, "instance frame"],
    share: Float[Tensor, "instance frame 1"],
    flow: Float[Tensor, "instance 1 1"],
) -> Float[Tensor, "instance frame channel"]:
    """Between keys ``at`` and ``at + 1``: minimum jerk with a stop at each, and Catmull-Rom, mixed by ``flow``."""
    a, b, c, d = (
        keys.gather(1, (at + step).clamp(0, keys.shape[1] - 1)[..., None].expand(-1, -1, keys.shape[2]))
        for step in (-1, 0, 1, 2)
    )
    s = share
    stop = b + (c - b) * s**3 * (10 - 15 * s + 6 * s**2)
    through = b + 0.5 * s * (c - a + s * (2 * a - 5 * b + 4 * c - d + s * (3 * (b - c) + d - a)))
    return flow * through + (1 - flow) * stop
