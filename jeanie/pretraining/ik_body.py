"""A body of 15 core joints that follows curves, with two-bone inverse kinematics for arms and legs.

Units are metres with +y up; the person looks along -z and has the right hand at larger x.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional

__all__ = [
    "CROUCH",
    "LEAN",
    "LEFT_FOOT",
    "LEFT_HAND",
    "POSE",
    "RIGHT_FOOT",
    "RIGHT_HAND",
    "SIDE",
    "TURN",
    "TWIST",
    "X",
    "Y",
    "Z",
    "make_samplers",
    "pose_body",
]

# Channels of a pose: right hand, left hand, right foot, left foot (x y z in limb lengths, relative to the shoulder or
# to the standing position of the foot), then the trunk in radians and the position of the body in metres.
RIGHT_HAND, LEFT_HAND, RIGHT_FOOT, LEFT_FOOT = slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12)
LEAN, SIDE, TWIST, CROUCH, X, Y, Z, TURN = range(12, 20)
POSE = 20
# upper arm, forearm with hand, thigh, shin, trunk, half the shoulders, half the hips, neck with head
_SIZES = (0.29, 0.31, 0.42, 0.43, 0.5, 0.19, 0.1, 0.2)
_UP = (0.0, 1.0, 0.0)


def make_samplers(generator: Generator) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Return functions that draw uniform numbers from 0 to 1, and normal numbers, of a given shape."""
    return (
        lambda *shape: torch.rand(*shape, generator=generator),
        lambda *shape: torch.randn(*shape, generator=generator),
    )


def pose_body(
    curves: Float[Tensor, "instance frame channel"],
    swivel: Float[Tensor, "instance 2"],
    gait: Float[Tensor, " instance"],
    generator: Generator,
) -> Float[Tensor, "instance frame 15 3"]:
    """Return the joints of bodies with random proportions.

    Args:
        curves: Channels of the poses.
        swivel: Rotation of the right and the left elbow, radians.
        gait: Length of the steps in leg lengths.
        generator: Source of random numbers.
    """
    uniform, normal = make_samplers(generator)
    count, frames, _ = curves.shape
    scale = (1 + 0.05 * normal(count, len(_SIZES))).unbind(1)
    sizes = [(size * factor)[:, None, None] for size, factor in zip(_SIZES, scale, strict=True)]
    trunk, wide, neck = sizes[4], sizes[5], sizes[7]
    time = torch.linspace(0, 1.5, frames) * uniform(count, 4, 1) + uniform(count, 4, 1)
    sway = 0.02 * torch.sin(2 * torch.pi * time).mT
    bend = curves[..., LEAN : TWIST + 1] + sway[..., :3]
    ground = torch.cat([curves[..., [X]], curves[..., [Y]].clamp_min(0), curves[..., [Z]]], -1)
    pelvis = _place_pelvis(curves, ground, bend, sizes)
    zero = torch.zeros_like(trunk)

    def upper(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return pelvis + _bend(torch.cat([x, y, z], -1).expand(count, frames, 3), bend)

    joints = {0: upper(zero, trunk + neck, zero - 0.04), 1: upper(zero, trunk, zero)}
    for shoulder, hand, sign, swivel_rad in (
        (3, LEFT_HAND, -1.0, swivel[:, 1]),
        (6, RIGHT_HAND, 1.0, swivel[:, 0]),
    ):
        joints[shoulder] = upper(sign * wide, trunk - 0.04, zero)
        reach = _bend(curves[..., hand] * (sizes[0] + sizes[1]), bend)
        angle = swivel_rad[:, None, None] + 0.25 * normal(count, 1, 1)
        pole = torch.cat([sign * (0.5 + angle.sin()), -angle.cos(), 0.45 + zero], -1)
        pole = _bend(pole.expand(count, frames, 3), bend)
        joints[shoulder + 1], joints[shoulder + 2] = _solve_limb(
            joints[shoulder], reach, sizes[0], sizes[1], pole
        )
    clock = torch.linspace(0, 2 * torch.pi, frames)[:, None] * (1 + 3 * uniform(count, 1, 1))
    clock = clock + 2 * torch.pi * uniform(count, 1, 1)
    for hip, foot, sign in ((9, LEFT_FOOT, -1.0), (12, RIGHT_FOOT, 1.0)):
        stride = torch.cat([0 * clock, clock.cos().clamp_min(0) * 0.5, sign * clock.sin()], -1)
        step = curves[..., foot] + gait[:, None, None] * stride
        joints[hip], joints[hip + 1], joints[hip + 2] = _solve_leg(pelvis, ground, step, bend, sizes, sign)
    joints[2] = upper(zero, 0.45 * trunk, zero)
    body = torch.stack([joints[joint] for joint in range(15)], 2)
    return _turn(body, curves[..., TURN], pelvis * (1 - curves.new_tensor(_UP)))


def _place_pelvis(curves: Tensor, ground: Tensor, bend: Tensor, sizes: list[Tensor]) -> Tensor:
    """Return the centre of the hips: lower when crouched, further back when leaning forwards to keep balance."""
    leg = sizes[2] + sizes[3]
    drop = curves[..., [CROUCH]].clamp(-0.02, 0.65)
    back = 0.25 * sizes[4] * bend[..., :1].sin() + 0.3 * leg * drop
    return ground + curves.new_tensor(_UP) * leg * (0.985 - drop) + curves.new_tensor([0.0, 0.0, 1.0]) * back


def _solve_leg(
    pelvis: Tensor, ground: Tensor, step: Tensor, bend: Tensor, sizes: list[Tensor], sign: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return hip, knee and foot of one side; the hips follow a third of the trunk's twist."""
    thigh, shin, half = sizes[2], sizes[3], sizes[6]
    zero = torch.zeros_like(half)
    twist = 0.3 * bend[..., 2:]
    aside = torch.cat([sign * half * twist.cos(), zero.expand_as(twist), -sign * half * twist.sin()], -1)
    hip = pelvis + aside
    stands = ground + torch.cat([sign * half * 1.2, zero, zero], -1) + (thigh + shin) * step
    ahead = torch.cat([zero + 0.1 * sign, zero, zero - 1], -1).expand_as(pelvis)
    knee, foot = _solve_limb(hip, stands - hip, thigh, shin, ahead)
    return hip, knee, foot


def _bend(point: Tensor, bend: Tensor) -> Tensor:
    """Rotate points of the trunk by twist about y, then to the side about z, then forwards about x."""
    x, y, z = point.split(1, -1)
    lean, side, twist = bend.split(1, -1)
    x, z = twist.cos() * x + twist.sin() * z, twist.cos() * z - twist.sin() * x
    x, y = side.cos() * x + side.sin() * y, side.cos() * y - side.sin() * x
    y, z = lean.cos() * y + lean.sin() * z, lean.cos() * z - lean.sin() * y
    return torch.cat([x, y, z], -1)


def _turn(bodies: Tensor, yaw: Tensor, about: Tensor) -> Tensor:
    """Rotate bodies about the vertical axis through ``about``, by one angle per frame."""
    x, y, z = (bodies - about[:, :, None]).split(1, -1)
    c, s = yaw.cos()[..., None, None], yaw.sin()[..., None, None]
    return torch.cat([c * x + s * z, y, c * z - s * x], -1) + about[:, :, None]


def _solve_limb(
    start: Tensor, reach: Tensor, first: Tensor, second: Tensor, pole: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the middle and the end of two bones from ``start`` towards ``start + reach``, bent towards ``pole``.

    The middle lies on the circle that both bone lengths allow: cos a = (l1^2 + d^2 - l2^2) / (2 l1 d).
    """
    length = reach.norm(dim=-1, keepdim=True).clamp_min(1e-4)
    along = reach / length
    longest, least = 0.999 * (first + second), 1.05 * (first - second).abs() + 0.02
    length = torch.minimum(torch.maximum(length, least), longest)
    cosine = ((first**2 + length**2 - second**2) / (2 * first * length)).clamp(-1, 1)
    aside = functional.normalize(pole - (pole * along).sum(-1, keepdim=True) * along, dim=-1)
    middle = start + first * (cosine * along + (1 - cosine**2).clamp_min(0).sqrt() * aside)
    return middle, start + length * along
