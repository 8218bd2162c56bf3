"""Viewpoints by Euler rotation of a centred skeleton (paper, Eq. 1).

Convention, for the whole room: camera space is right-handed with +y up and +z away from the camera; angles
are in degrees; a point is a column vector, p' = R p with R = R_x(altitude) R_y(azimuth), so a joint stored as
a row becomes ``row @ R.T``. The paper's matrices express a point in turned axes, so R p is what a camera sees
that went round the subject: a positive altitude lifts it (towards +y), a positive azimuth carries it towards
-x. The azimuth is taken first, about the vertical, so the subject's up axis never leans sideways.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError

__all__ = ["EulerSimple", "EulerViews", "ViewAngles", "angles", "check_joints", "rotations", "turn"]

_LIMITS = {"azimuth": 180.0, "altitude": 90.0}


@dataclass(frozen=True)
class ViewAngles:
    """Azimuths and altitudes to either side of the recording's own view, ``step`` degrees apart."""

    azimuth: float | int = 45
    altitude: float | int = 45
    step: float | int = 15

    def __post_init__(self) -> None:
        angles(self.azimuth, self.step, "azimuth")
        angles(self.altitude, self.step, "altitude")

    @property
    def azimuths(self) -> tuple[float, ...]:
        """The K azimuths, degrees, ascending."""
        return angles(self.azimuth, self.step, "azimuth")

    @property
    def altitudes(self) -> tuple[float, ...]:
        """The K' altitudes, degrees, ascending."""
        return angles(self.altitude, self.step, "altitude")


@dataclass(frozen=True)
class EulerViews(ViewAngles):
    """A grid of K x K' rotations of a centred skeleton: every azimuth with every altitude.

    K = 2 * azimuth / step + 1 and likewise K'; the default is 7 x 7. View (0, 0), in the middle of the grid,
    is the input itself to the last bit.

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
        """R of every view, float64."""
        pairs = tuple((azimuth, altitude) for azimuth in self.azimuths for altitude in self.altitudes)
        return torch.tensor(_matrices(pairs)).view(*self.shape, 3, 3)

    def __call__(
        self, joints: Float[Tensor, "*batch frame joint 3"]
    ) -> Float[Tensor, "*batch azimuth altitude frame joint 3"]:
        """The joints, centred on the torso, from every view; dtype and device follow the input."""
        check_joints(joints)
        matrices = self.rotations().flatten(0, 1)
        turned = turn(joints, matrices, [len(matrices) // 2])
        return turned.view(*joints.shape[:-3], *self.shape, *joints.shape[-3:])


@dataclass(frozen=True)
class EulerSimple(ViewAngles):
    """K + K' rotations: K azimuths at altitude 0, then K' altitudes at azimuth 0 (paper, "Euler simple").

    Each row of views is aligned by itself and the smaller distance counts: encode all K + K' at once, then
    index the view axis with ``azimuth_rows`` and with ``altitude_rows``. Both rows hold the input itself, to
    the last bit, in their middle.

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
        """Where the azimuth-only views lie on the view axis."""
        return slice(0, len(self.azimuths))

    @property
    def altitude_rows(self) -> slice:
        """Where the altitude-only views lie on the view axis."""
        return slice(len(self.azimuths), self.shape[0])

    def rotations(self) -> Float[Tensor, "view 3 3"]:
        """R of every view, float64."""
        level = tuple((azimuth, 0.0) for azimuth in self.azimuths)
        ahead = tuple((0.0, altitude) for altitude in self.altitudes)
        return torch.tensor(_matrices(level + ahead))

    def __call__(
        self, joints: Float[Tensor, "*batch frame joint 3"]
    ) -> Float[Tensor, "*batch view frame joint 3"]:
        """The joints, centred on the torso, from every view; dtype and device follow the input."""
        check_joints(joints)
        middles = [len(self.azimuths) // 2, len(self.azimuths) + len(self.altitudes) // 2]
        return turn(joints, self.rotations(), middles)


def angles(limit: float | int, step: float | int, name: str) -> tuple[float, ...]:
    """-limit, ..., -step, 0, step, ..., limit: exact multiples of ``step``, in degrees.

    ``name`` is "azimuth" (at most 180) or "altitude" (at most 90); 0 keeps the recording's own angle alone.
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


def rotations(
    azimuths: Float[Tensor, "*#views"], altitudes: Float[Tensor, "*#views"]
) -> Float[Tensor, "*views 3 3"]:
    """R_x(altitude) R_y(azimuth) for angles in degrees, broadcast against each other (paper, Eq. 1)."""
    turned = torch.deg2rad(azimuths + torch.zeros_like(altitudes))
    lifted = torch.deg2rad(altitudes + torch.zeros_like(azimuths))
    one, zero = torch.ones_like(turned), torch.zeros_like(turned)
    about_x = _matrix(
        (one, zero, zero),
        (zero, lifted.cos(), lifted.sin()),
        (zero, -lifted.sin(), lifted.cos()),
    )
    about_y = _matrix(
        (turned.cos(), zero, -turned.sin()),
        (zero, one, zero),
        (turned.sin(), zero, turned.cos()),
    )
    return torch.matmul(about_x, about_y)


def turn(
    joints: Float[Tensor, "*batch frame joint 3"], matrices: Float[Tensor, "view 3 3"], same: list[int]
) -> Float[Tensor, "*batch view frame joint 3"]:
    """``matrices @ joint`` for every view; the views listed in ``same`` are copies of the input.

    One product a clip: the stacked rows of all matrices by the clip's points as columns. In memory the three
    coordinates are therefore planes, [..., view, 3, frame, joint]: what runs over frames and joints of one
    axis, such as scaling, runs over neighbours.
    """
    frames, count = joints.shape[-3:-1]
    points = joints.reshape(math.prod(joints.shape[:-3]), frames * count, 3).mT
    stacked = matrices.to(joints).reshape(1, -1, 3).expand(len(points), -1, -1)
    planes = torch.bmm(stacked, points).reshape(*joints.shape[:-3], len(matrices), 3, frames, count)
    turned = planes.movedim(-3, -1)
    # 1 * x + 0 * y would still turn -0.0 into 0.0 and spread a NaN to its neighbours
    turned[..., same, :, :, :] = joints.unsqueeze(-4)
    return turned


def check_joints(joints: Tensor) -> None:
    """Raise unless ``joints`` is a floating tensor [..., frame, joint, 3]."""
    if joints.ndim < 3 or joints.shape[-1] != 3:
        raise ShapeError(
            f"views need joints with axes (..., frame, joint, 3), got shape {tuple(joints.shape)}; "
            "for one frame use joints[None]"
        )
    if not joints.is_floating_point():
        raise ShapeError(f"views need floating-point joints, got {joints.dtype}; use joints.float()")


def _matrix(*rows: tuple[Tensor, Tensor, Tensor]) -> Float[Tensor, "*views 3 3"]:
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


@lru_cache(maxsize=64)
def _matrices(pairs: tuple[tuple[float, float], ...]) -> NDArray[Any]:
    """R for every (azimuth, altitude), [view, 3, 3] in float64; an array, for a tensor that is kept would also
    keep the device and the inference mode of the call that made it."""
    degrees = torch.tensor(pairs, dtype=torch.float64, device="cpu")
    matrices: NDArray[Any] = rotations(degrees[:, 0], degrees[:, 1]).numpy()
    return matrices
