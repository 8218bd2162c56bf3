"""Simulated views by Euler rotation of a centred skeleton (paper, Eq. 1).

Convention of this folder: camera space is right-handed with +y up and +z away from the camera; angles are in
degrees; a point is a column vector, p' = R p with R = R_x(altitude) R_y(azimuth), so a joint stored as a row
becomes ``row @ R.T``. The paper's matrices express a point in rotated axes: R p is the view of a camera that
moves round the subject. A positive altitude moves the camera up (+y), a positive azimuth moves it towards -x.
The azimuth rotation about the vertical comes first, so the up axis of the subject never tilts sideways. Rotations do
not commute: ``order`` names the product from left to right, "xyz" is R_x R_y R_z and "yxz" is R_y R_x R_z. R_z rolls
the camera about its optical axis; views of a grid have no roll.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError

__all__ = [
    "EulerSimple",
    "EulerViews",
    "Order",
    "ViewAngles",
    "check_joints",
    "list_angles",
    "make_rotation",
    "make_rotations",
    "rotate_joints",
]

Order = Literal["xyz", "xzy", "yxz", "yzx", "zxy", "zyx"]

_LIMITS = {"azimuth": 180.0, "altitude": 90.0}


@dataclass(frozen=True)
class ViewAngles:
    """Azimuths and altitudes on both sides of the recorded view, in steps of ``step`` degrees."""

    azimuth: float = 45
    altitude: float = 45
    step: float = 15
    order: Order = "xyz"

    def __post_init__(self) -> None:
        list_angles(self.azimuth, self.step, "azimuth")
        list_angles(self.altitude, self.step, "altitude")
        _check_order(self.order)

    @property
    def azimuths(self) -> tuple[float, ...]:
        """The K azimuths, degrees, ascending."""
        return list_angles(self.azimuth, self.step, "azimuth")

    @property
    def altitudes(self) -> tuple[float, ...]:
        """The K' altitudes, degrees, ascending."""
        return list_angles(self.altitude, self.step, "altitude")


@dataclass(frozen=True)
class EulerViews(ViewAngles):
    """A grid of K x K' rotations of a centred skeleton: every azimuth with every altitude.

    K = 2 * azimuth / step + 1, and K' likewise; the default is 7 x 7. View (0, 0), in the middle of the grid,
    equals the input bit for bit.

    Args:
        azimuth: Largest azimuth to either side, 0 to 180 degrees; a multiple of ``step``.
        altitude: Largest altitude to either side, 0 to 90 degrees; a multiple of ``step``.
        step: Angle between neighbouring views in degrees.
        order: Order of the rotations: "xyz" is R_x(altitude) R_y(azimuth), "yxz" is R_y(azimuth) R_x(altitude).

    Raises:
        ConfigError: An angle is out of range, or not a multiple of ``step``.

    >>> views = EulerViews(azimuth=30, altitude=15)
    >>> views.azimuths, views.shape
    ((-30.0, -15.0, 0.0, 15.0, 30.0), (5, 3))
    >>> views(torch.zeros(8, 25, 3)).shape
    torch.Size([5, 3, 8, 25, 3])
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(K, K')."""
        return len(self.azimuths), len(self.altitudes)

    def rotations(self) -> Float[Tensor, "azimuth altitude 3 3"]:
        """Return R of every view in float64."""
        pairs = tuple((azimuth, altitude) for azimuth in self.azimuths for altitude in self.altitudes)
        return torch.tensor(_compute_rotations(pairs, self.order)).view(*self.shape, 3, 3)

    def __call__(
        self, joints: Float[Tensor, "*batch frame joint 3"]
    ) -> Float[Tensor, "*batch azimuth altitude frame joint 3"]:
        """Rotate joints, centred on the torso, to every view; dtype and device follow the input."""
        check_joints(joints)
        matrices = self.rotations().flatten(0, 1)
        rotated = rotate_joints(joints, matrices, [len(matrices) // 2])
        return rotated.view(*joints.shape[:-3], *self.shape, *joints.shape[-3:])


@dataclass(frozen=True)
class EulerSimple(ViewAngles):
    """K + K' rotations: K azimuths at altitude 0, then K' altitudes at azimuth 0 (paper, "Euler simple").

    The two rows of views are aligned separately and the smaller distance counts: encode all K + K' views, then
    index the view axis with ``azimuth_rows`` and with ``altitude_rows``. The middle of each row equals the input
    bit for bit.

    >>> views = EulerSimple(azimuth=30, altitude=15)
    >>> views.shape, views.azimuth_rows, views.altitude_rows
    ((8,), slice(0, 5, None), slice(5, 8, None))
    """

    @property
    def shape(self) -> tuple[int]:
        """(K + K',)."""
        return (len(self.azimuths) + len(self.altitudes),)

    @property
    def azimuth_rows(self) -> slice:
        """The views with altitude 0 on the view axis."""
        return slice(0, len(self.azimuths))

    @property
    def altitude_rows(self) -> slice:
        """The views with azimuth 0 on the view axis."""
        return slice(len(self.azimuths), self.shape[0])

    def rotations(self) -> Float[Tensor, "view 3 3"]:
        """Return R of every view in float64."""
        row = tuple((azimuth, 0.0) for azimuth in self.azimuths)
        column = tuple((0.0, altitude) for altitude in self.altitudes)
        return torch.tensor(_compute_rotations(row + column, self.order))

    def __call__(
        self, joints: Float[Tensor, "*batch frame joint 3"]
    ) -> Float[Tensor, "*batch view frame joint 3"]:
        """Rotate joints, centred on the torso, to every view; dtype and device follow the input."""
        check_joints(joints)
        middles = [len(self.azimuths) // 2, len(self.azimuths) + len(self.altitudes) // 2]
        return rotate_joints(joints, self.rotations(), middles)


def list_angles(limit: float, step: float, name: str) -> tuple[float, ...]:
    """Return -limit, ..., -step, 0, step, ..., limit: exact multiples of ``step`` in degrees.

    ``name`` is "azimuth" (at most 180) or "altitude" (at most 90). A limit of 0 gives the recorded angle only.
    """
    if not (math.isfinite(step) and step > 0):
        raise ConfigError(
            f"step is the angle between neighbouring views, above 0 degrees, got {step}; try 15"
        )
    if not 0 <= limit <= _LIMITS[name]:
        raise ConfigError(
            f"{name} is the largest angle to either side, from 0 to {_LIMITS[name]:g} degrees, got {limit}; "
            f"views go from -{name} to +{name}"
        )
    count = round(limit / step)
    if not math.isclose(count * step, limit, rel_tol=1e-9):
        raise ConfigError(
            f"{name} must be a multiple of step, got {name}={limit} with step={step}; "
            f"try {name}={count * step:g}, or a step that divides {limit:g}"
        )
    return tuple(float(step * i) for i in range(-count, count + 1))


def make_rotations(
    azimuths: Float[Tensor, "*#views"],
    altitudes: Float[Tensor, "*#views"],
    rolls: Float[Tensor, "*#views"] | None = None,
    *,
    order: Order = "xyz",
) -> Float[Tensor, "*views 3 3"]:
    """Return the product of R_x(altitude), R_y(azimuth) and R_z(roll) for angles in degrees (paper, Eq. 1).

    Args:
        azimuths, altitudes, rolls: Angles, broadcast to one shape; without ``rolls`` there is no R_z.
        order: The factors from left to right: "xyz" is R_x R_y R_z, "yxz" is R_y R_x R_z.
    """
    _check_order(order)
    angles = {"x": altitudes, "y": azimuths} | ({} if rolls is None else {"z": rolls})
    shape = torch.broadcast_shapes(*(angle.shape for angle in angles.values()))
    factors = [make_rotation(axis, angles[axis].expand(shape)) for axis in order if axis in angles]
    return reduce(torch.matmul, factors)


def make_rotation(axis: str, angles: Float[Tensor, "*views"]) -> Float[Tensor, "*views 3 3"]:
    """Return R_x, R_y or R_z of the paper (Eq. 1) for angles in degrees; ``axis`` is "x", "y" or "z".

    The rows of a matrix are the rotated axes: R p is point p in these axes.
    """
    angle_rad = torch.deg2rad(angles)
    cos, sin = angle_rad.cos(), angle_rad.sin()
    ones, zeros = torch.ones_like(cos), torch.zeros_like(cos)
    if axis == "x":
        return _stack_matrix((ones, zeros, zeros), (zeros, cos, sin), (zeros, -sin, cos))
    if axis == "y":
        return _stack_matrix((cos, zeros, -sin), (zeros, ones, zeros), (sin, zeros, cos))
    if axis == "z":
        return _stack_matrix((cos, sin, zeros), (-sin, cos, zeros), (zeros, zeros, ones))
    raise ConfigError(f"axis is 'x', 'y' or 'z', got {axis!r}")


def _check_order(order: str) -> None:
    if order not in get_args(Order):
        raise ConfigError(f"order is one of {', '.join(get_args(Order))}, got {order!r}")


def rotate_joints(
    joints: Float[Tensor, "*batch frame joint 3"],
    matrices: Float[Tensor, "*#batch view 3 3"],
    same: list[int],
) -> Float[Tensor, "*batch view frame joint 3"]:
    """Return ``matrices @ joint`` for every view; the views in ``same`` are copies of the input.

    Every body may have its own matrices. One matrix product per clip: the stacked rows of all matrices times the points
    as columns. The coordinates are therefore planes in memory, [..., view, 3, frame, joint]; operations over frames and
    joints, such as scaling, read neighbouring values.
    """
    frames, count = joints.shape[-3:-1]
    batch, views = joints.shape[:-3], matrices.shape[-3]
    points = joints.reshape(math.prod(batch), frames * count, 3).mT
    stacked = matrices.to(joints).flatten(-3, -2).expand(*batch, -1, -1).reshape(-1, 3 * views, 3)
    planes = torch.bmm(stacked, points).reshape(*batch, views, 3, frames, count)
    rotated = planes.movedim(-3, -1)
    # 1 * x + 0 * y would change -0.0 to 0.0 and spread NaN to the other coordinates
    rotated[..., same, :, :, :] = joints.unsqueeze(-4)
    return rotated


def check_joints(joints: Tensor) -> None:
    """Raise ShapeError unless ``joints`` is a floating-point tensor [..., frame, joint, 3]."""
    if joints.ndim < 3 or joints.shape[-1] != 3:
        raise ShapeError(
            f"views need joints with axes (..., frame, joint, 3), got shape {tuple(joints.shape)}; "
            "for one frame use joints[None]"
        )
    if not joints.is_floating_point():
        raise ShapeError(f"views need floating-point joints, got {joints.dtype}; use joints.float()")


def _stack_matrix(*rows: tuple[Tensor, Tensor, Tensor]) -> Float[Tensor, "*views 3 3"]:
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


@lru_cache(maxsize=64)
def _compute_rotations(pairs: tuple[tuple[float, float], ...], order: Order) -> NDArray[Any]:
    """Return R for every (azimuth, altitude), [view, 3, 3] in float64.

    An array, because a cached tensor would keep the device and the inference mode of the first call.
    """
    degrees = torch.tensor(pairs, dtype=torch.float64, device="cpu")
    matrices: NDArray[Any] = make_rotations(degrees[:, 0], degrees[:, 1], order=order).numpy()
    return matrices
