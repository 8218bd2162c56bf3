"""Procedural gestures: random movement classes, performed by a simple body with two-bone inverse kinematics.

A class is a path through a few way points of one hand, both hands, a foot, the trunk (lean, twist, crouch, jump), or
the whole body and its position. Performances of a class differ in way points, tempo, size, elbows, proportions, and
sometimes in the number of repetitions. Units are metres with +y up; the person looks along -z and has the right hand
at larger x.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from jeanie.pretraining.ik_body import (
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
    make_samplers,
    pose_body,
)

__all__ = ["GESTURE_SHARES", "GestureShares", "Gestures", "draw_gestures", "draw_near_misses", "perform"]

_POINTS = 6  # largest number of way points of a class
_KEYS = 12  # keys of a performance: rest, way points with repetitions, rest
# hand positions on the body, relative to the right shoulder: mouth, brow, other shoulder, chest, belly, hip, ear
_CONTACTS = (
    (-0.32, 0.25, -0.25), (-0.3, 0.42, -0.22), (-0.62, -0.05, -0.2), (-0.3, -0.25, -0.3), (-0.3, -0.6, -0.3),
    (0.05, -0.8, -0.1), (-0.12, 0.35, -0.05),
)  # fmt: skip


GestureShares = tuple[float, float, float, float, float, float]
"""Shares of classes of one hand, both hands mirrored, both hands independent, a foot, the trunk, the whole body."""

GESTURE_SHARES: GestureShares = (
    0.6,
    0.1,
    0.08,
    0.07,
    0.08,
    0.07,
)  # most gestures are of one hand
_BOTH, _INDEPENDENT, _FOOT, _TRUNK, _WHOLE = range(1, 6)


@dataclass(frozen=True, eq=False)
class Gestures:
    """Movement classes, one per row."""

    points: Float[Tensor, "class point channel"]
    active: Bool[Tensor, "class channel"]
    count: Int[Tensor, " class"]
    repeats: Int[Tensor, " class"]
    cyclic: Bool[Tensor, " class"]
    flow: Float[Tensor, " class"]  # 0 stops at every way point, 1 moves through smoothly
    swivel: Float[Tensor, "class 2"]  # of the elbows, radians
    gait: Float[Tensor, " class"]  # length of the steps, in legs

    def __getitem__(self, index: Tensor) -> "Gestures":
        return Gestures(*(getattr(self, field.name)[index] for field in fields(self)))

    def concatenate(self, other: "Gestures") -> "Gestures":
        """Return these classes followed by the ``other`` ones."""
        return Gestures(*(torch.cat([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


def draw_gestures(classes: int, generator: Generator, shares: GestureShares = GESTURE_SHARES) -> Gestures:
    """Draw random classes."""
    uniform, normal = make_samplers(generator)
    kind = torch.multinomial(torch.tensor(shares), classes, replacement=True, generator=generator)
    points = _draw_way_points(classes, generator)
    both, whole = kind == _BOTH, kind == _WHOLE
    mirrored = points[..., RIGHT_HAND] * points.new_tensor([-1.0, 1.0, 1.0])
    points[..., LEFT_HAND] = torch.where(both[:, None, None], mirrored, points[..., LEFT_HAND])
    active = _draw_active_channels(kind, generator)
    count = 1 + (uniform(classes) * _POINTS).long().clamp_max(_POINTS - 1)
    few = count <= 3
    repeats = torch.where(few, 1 + (uniform(classes) * 3.5).long().clamp_max(3), 1)
    cyclic = (uniform(classes) < 0.2) & (count > 1)
    return Gestures(
        points, active, count, repeats, cyclic, uniform(classes), 0.5 * normal(classes, 2),
        0.3 * uniform(classes) * (whole & (uniform(classes) < 0.5)),
    )  # fmt: skip


def _draw_active_channels(kind: Int[Tensor, " class"], generator: Generator) -> Bool[Tensor, "class channel"]:
    """Draw which channels move: those of the kind, and some others at random."""
    uniform, _ = make_samplers(generator)
    classes = len(kind)
    both, independent, foot, trunk, whole = (
        kind == value for value in (_BOTH, _INDEPENDENT, _FOOT, _TRUNK, _WHOLE)
    )
    active = torch.zeros(classes, POSE, dtype=torch.bool)
    hand = ~foot & (~(trunk | whole) | (uniform(classes) < 0.65))
    active[:, RIGHT_HAND] = (hand | (foot & (uniform(classes) < 0.2)))[:, None]
    second = both | independent | ((trunk | whole) & hand & (uniform(classes) < 0.6))
    active[:, LEFT_HAND] = second[:, None]
    active[:, RIGHT_FOOT] = (foot | (whole & (uniform(classes) < 0.4)))[:, None]
    active[:, LEFT_FOOT] = (whole & (uniform(classes) < 0.25))[:, None]
    trunk_channels = uniform(classes, 4) < torch.tensor([0.6, 0.3, 0.4, 0.45])
    trunk_channels[:, 0] |= ~trunk_channels.any(1)
    active[:, LEAN : CROUCH + 1] = trunk_channels & (trunk | whole)[:, None]
    active[:, LEAN : TWIST + 1] |= (uniform(classes, 3) < 0.08) & hand[:, None]
    active[:, X : TURN + 1] = (uniform(classes, 4) < torch.tensor([0.3, 0.3, 0.5, 0.25])) & whole[:, None]
    return active


def _draw_way_points(classes: int, generator: Generator) -> Float[Tensor, "class point channel"]:
    """Draw way points for all channels of all classes, active or not."""
    uniform, normal = make_samplers(generator)
    points = torch.zeros(classes, _POINTS, POSE)
    for hand, side in ((RIGHT_HAND, 1.0), (LEFT_HAND, -1.0)):
        free = uniform(classes, _POINTS, 3) * torch.tensor([1.6, 1.9, 1.25]) + torch.tensor(
            [-0.65, -0.9, -1.0]
        )
        contacts = torch.tensor(_CONTACTS)[(uniform(classes, _POINTS) * len(_CONTACTS)).long()]
        free = torch.where((uniform(classes, _POINTS) < 0.2)[..., None], contacts, free)
        ring = _draw_ellipses(classes, generator)
        way_points = torch.where((uniform(classes) < 0.22)[:, None, None], ring, free)
        length = way_points.norm(dim=-1, keepdim=True).clamp_min(1e-3)
        way_points = way_points / length * length.clamp(0.3, 0.99)
        points[..., hand] = way_points * torch.tensor([side, 1.0, 1.0])
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


def _draw_ellipses(classes: int, generator: Generator) -> Float[Tensor, "class point 3"]:
    """Draw way points on an ellipse around a point within reach, in a random plane."""
    uniform, normal = make_samplers(generator)
    middle = uniform(classes, 1, 3) * torch.tensor([0.9, 1.0, 0.5]) + torch.tensor([-0.45, -0.45, -0.8])
    first = functional.normalize(normal(classes, 1, 3) * torch.tensor([1.5, 1.5, 0.7]), dim=-1)
    second = functional.normalize(
        torch.linalg.cross(first, functional.normalize(normal(classes, 1, 3), dim=-1)), dim=-1
    )
    angle = torch.arange(_POINTS) * (2 * torch.pi / _POINTS) + 2 * torch.pi * uniform(classes, 1)
    radius = 0.15 + 0.35 * uniform(classes, 2, 1, 1)
    return (
        middle
        + radius[:, 0] * angle.cos()[..., None] * first
        + radius[:, 1] * angle.sin()[..., None] * second
    )


def draw_near_misses(gestures: Gestures, generator: Generator) -> Gestures:
    """Draw a similar class for every class: other hand, backwards, upside down, or with another way point.

    A class that this does not change, such as its own mirror image, gets another way point.
    """
    uniform, _ = make_samplers(generator)
    classes = len(gestures.count)
    how = (uniform(classes) * 4).long()
    swap = torch.tensor([3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8, *range(12, 20)])
    sign = torch.ones(POSE)
    sign[[0, 3, 6, 9, SIDE, TWIST, X, TURN]] = -1
    other = how == 0
    points = torch.where(other[:, None, None], gestures.points[..., swap] * sign, gestures.points)
    active = torch.where(other[:, None], gestures.active[:, swap], gestures.active)
    order = torch.arange(_POINTS)
    back = (gestures.count[:, None] - 1 - order).clamp_min(0)
    back = torch.where((how == 1)[:, None] & (gestures.count > 2)[:, None], back, order)
    points = points.gather(1, back[..., None].expand_as(points))
    flip = torch.ones(POSE)
    flip[[1, 4, LEAN, Z]] = -1
    points = torch.where((how == 2)[:, None, None], points * flip, points)
    real = gestures.active[:, None] & (order < gestures.count[:, None])[..., None]
    same = ((points == gestures.points) | ~real).flatten(1).all(1) & (active == gestures.active).all(1)
    moved = (uniform(classes) * gestures.count).long()[:, None] == order
    moved = moved & same[:, None]
    points = torch.where(moved[..., None], _draw_way_points(classes, generator), points)
    return Gestures(
        points,
        active,
        gestures.count,
        gestures.repeats,
        gestures.cyclic,
        gestures.flow,
        gestures.swivel,
        gestures.gait,
    )


def perform(
    gestures: Gestures, generator: Generator, frames: int = 48, jitter: float = 0.08
) -> Float[Tensor, "instance {frames} 15 3"]:
    """Return one performance of each class as 15 core joints."""
    curves = _draw_curves(gestures, generator, frames, jitter)
    return pose_body(curves, gestures.swivel, gestures.gait, generator)


def _draw_curves(
    gestures: Gestures, generator: Generator, frames: int, jitter: float
) -> Float[Tensor, "instance frame channel"]:
    """Draw the channels over time: interpolated keys (rest, way points, rest) at uneven times."""
    uniform, normal = make_samplers(generator)
    count = len(gestures.count)
    keys, length = _draw_keys(gestures, generator, jitter)
    key = torch.arange(_KEYS)
    span = torch.exp(0.3 * normal(count, _KEYS - 1)) * (key[1:] <= length[:, None] + 1)
    ends = torch.cat([torch.zeros(count, 1), span.cumsum(1)], 1)
    total = ends[:, -1:].clamp_min(1e-3)
    pause = 0.15 * uniform(count, 2) * ~gestures.cyclic[:, None]
    clock = torch.linspace(0, 1, frames) * (1 + pause.sum(1, keepdim=True)) - pause[:, :1]
    clock = clock.clamp(0, 1) * total
    index = (torch.searchsorted(ends, clock.contiguous(), right=True) - 1).clamp(0, _KEYS - 2)
    share = ((clock - ends.gather(1, index)) / span.gather(1, index).clamp_min(1e-3)).clamp(0, 1)
    return _interpolate_keys(keys, index, share[..., None], gestures.flow[:, None, None])


def _draw_keys(
    gestures: Gestures, generator: Generator, jitter: float
) -> tuple[Float[Tensor, "instance key channel"], Int[Tensor, " instance"]]:
    """Draw the keys of one performance per class, and the number of way points; cycles start anywhere, without rest."""
    uniform, normal = make_samplers(generator)
    count = len(gestures.count)
    rest = _draw_rest_poses(count, generator)
    size = 1 + 0.15 * normal(count, 1, 1)
    way_points = rest + size * (gestures.points + jitter * normal(count, _POINTS, POSE) - rest)
    way_points = torch.where(gestures.active[:, None], way_points, rest)
    more = (uniform(count) < 0.35) & (gestures.repeats > 1)
    repeats = torch.where(more, gestures.repeats + torch.where(uniform(count) < 0.5, -1, 1), gestures.repeats)
    length = (gestures.count * repeats).clamp_max(_KEYS - 2)
    key = torch.arange(_KEYS)
    phase = torch.where(gestures.cyclic, (uniform(count) * gestures.count).long(), 0)
    point = (key - 1 + phase[:, None]).clamp_min(0) % gestures.count[:, None]
    keys = way_points.gather(1, point[..., None].expand(-1, -1, POSE))
    keys = keys + 0.03 * normal(*keys.shape) * gestures.active[:, None]
    resting = ((key == 0) | (key > length[:, None])) & ~gestures.cyclic[:, None]
    return torch.where(resting[..., None], rest, keys), length


def _draw_rest_poses(count: int, generator: Generator) -> Float[Tensor, "instance 1 channel"]:
    """Draw poses at rest: arms down, sometimes bent."""
    uniform, normal = make_samplers(generator)
    rest = torch.zeros(count, 1, POSE)
    rest[..., RIGHT_HAND] = torch.tensor([0.12, -0.95, -0.08])
    rest[..., LEFT_HAND] = torch.tensor([-0.12, -0.95, -0.08])
    bent = (uniform(count, 1, 1) < 0.15) * torch.tensor([0.0, 0.35, -0.55]) * uniform(count, 1, 1)
    rest[..., RIGHT_HAND] += 0.06 * normal(count, 1, 3) + bent
    rest[..., LEFT_HAND] += 0.06 * normal(count, 1, 3) + bent
    rest[..., LEAN : CROUCH + 1] += 0.05 * normal(count, 1, 4)
    return rest


def _interpolate_keys(
    keys: Float[Tensor, "instance key channel"],
    index: Int[Tensor, "instance frame"],
    share: Float[Tensor, "instance frame 1"],
    flow: Float[Tensor, "instance 1 1"],
) -> Float[Tensor, "instance frame channel"]:
    """Interpolate from key ``index`` to the next: minimum jerk with stops and Catmull-Rom, mixed by ``flow``."""
    a, b, c, d = (
        keys.gather(1, (index + step).clamp(0, keys.shape[1] - 1)[..., None].expand(-1, -1, keys.shape[2]))
        for step in (-1, 0, 1, 2)
    )
    s = share
    stop = b + (c - b) * s**3 * (10 - 15 * s + 6 * s**2)
    through = b + 0.5 * s * (c - a + s * (2 * a - 5 * b + 4 * c - d + s * (3 * (b - c) + d - a)))
    return flow * through + (1 - flow) * stop
