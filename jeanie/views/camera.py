"""Simulated views by cameras: stereo projection (paper, "Stereo projections", Eq. 2).

The recording camera (left, ``l``) looks at the subject from the distance d: the subject is at s = (0, 0, d) of
camera space. A simulated camera (right, ``r``) lies on the sphere of radius d round the subject, rotated by
(azimuth, altitude), and also looks at the subject:

    p_r = R (p_l - t),   R = R_x(altitude + e) R_y(azimuth) R_x(-e),   t = s - R^T s   (position of the right camera)
    p*  = M p / depth,   E = R S,   F = M_r^-T E M_l^-1,   p*_r^T F p*_l = 0

e is the elevation of the recording camera above the torso, from its height and d. R_x(-e) turns the subject upright:
azimuths go round its vertical axis, and altitudes start from the height of the recording camera.

Points are column vectors in a right-handed space with +y up and +z along the view; R is the rotation of
``jeanie.views.euler``. Camera space has y up: a camera whose pixel rows grow downwards has a negative entry
(1, 1) in M.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError
from jeanie.views.euler import EulerViews, check_joints, make_rotation, rotate_joints

__all__ = [
    "CAMERAS",
    "NEAREST",
    "SENSORS",
    "Camera",
    "CameraViews",
    "compute_elevation",
    "epipolar_distance",
    "essential_matrix",
    "fundamental_matrix",
    "project",
]

Rows = tuple[tuple[float, ...], ...]

NEAREST = 0.3  # metres; a joint nearer to a camera, or behind it, is missing in that view
_TORSO_HEIGHT = (
    1.05  # metres from the floor to the torso: the mean of the clips of NW-UCLA, and of ten files of NTU
)


def _check_intrinsics(intrinsics: Tensor | NDArray[Any] | Sequence[Sequence[float]]) -> Rows:
    try:
        matrix = torch.as_tensor(intrinsics, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError) as error:
        raise ShapeError(f"intrinsics need 3 x 3 numbers, got {intrinsics!r}") from error
    if matrix.shape != (3, 3):
        raise ShapeError(
            f"intrinsics need shape (3, 3), got {tuple(matrix.shape)}; give M with p* = M p / depth"
        )
    zeros = bool(matrix[1, 0] == 0 and matrix[2, 0] == 0 and matrix[2, 1] == 0)
    focal = bool(matrix[0, 0] != 0 and matrix[1, 1] != 0)
    if not (zeros and focal and matrix[2, 2] == 1 and matrix.isfinite().all()):
        raise ConfigError(
            "intrinsics must be [[fx, skew, cx], [0, fy, cy], [0, 0, 1]] with fx and fy not 0, "
            f"got {matrix.tolist()}; divide by the entry (2, 2) if the matrix has another scale"
        )
    return tuple(tuple(row) for row in matrix.tolist())


@dataclass(frozen=True, init=False)
class Camera:
    """A pinhole camera and its position.

    Args:
        intrinsics: M, 3 x 3, upper triangular, in pixels: p* = M p / depth.
        distance: Metres from the lens to the torso of the subject.
        height: Metres from the floor to the lens; None if unknown: that of the torso is assumed.
        distortion: Radial lens distortion (k1, k2) as in OpenCV: a ray (x, y, 1) is measured at
            (x, y) (1 + k1 r^2 + k2 r^4), r^2 = x^2 + y^2.

    Raises:
        ShapeError: ``intrinsics`` is not a 3 x 3 matrix.
        ConfigError: ``intrinsics`` is not upper triangular, or a distance is out of range.

    >>> Camera([[500, 0, 320], [0, -500, 240], [0, 0, 1]], distance=3).matrix()[1]
    tensor([   0., -500.,  240.], dtype=torch.float64)
    """

    intrinsics: Rows
    distance: float
    height: float | None
    distortion: tuple[float, ...]

    def __init__(
        self,
        intrinsics: Tensor | NDArray[Any] | Sequence[Sequence[float]],
        distance: float,
        height: float | None = None,
        distortion: Sequence[float] = (),
    ) -> None:
        if not 0 < distance < float("inf"):
            raise ConfigError(
                f"distance is from the camera to the subject, above 0 metres, got {distance}; "
                "the subject must stand in front of the camera"
            )
        if height is not None and not math.isfinite(height):
            raise ConfigError(
                f"height is from the floor to the camera, metres, got {height}; None if unknown"
            )
        if len(distortion) > 2 or not all(math.isfinite(value) for value in distortion):
            raise ConfigError(f"distortion is the radial distortion (k1, k2), got {tuple(distortion)}")
        object.__setattr__(self, "distortion", tuple(float(value) for value in distortion))
        object.__setattr__(self, "intrinsics", _check_intrinsics(intrinsics))
        object.__setattr__(self, "distance", float(distance))
        object.__setattr__(self, "height", None if height is None else float(height))

    @property
    def elevation(self) -> float:
        """Angle of the camera above the torso of the subject, degrees; 0 if the height is unknown."""
        return 0.0 if self.height is None else compute_elevation(self.height, self.distance)

    def matrix(self) -> Float[Tensor, "3 3"]:
        """Return M in float64."""
        return torch.tensor(self.intrinsics, dtype=torch.float64)


def compute_elevation(height: float, distance: float) -> float:
    """Return the angle in degrees of a camera at ``height`` above a torso at ``distance``; negative below it.

    >>> round(compute_elevation(2.7, 3.5), 1)
    28.1
    """
    return math.degrees(math.asin(max(-1.0, min(1.0, (height - _TORSO_HEIGHT) / distance))))


CAMERAS: Mapping[str, Camera] = MappingProxyType(
    {
        "kinect1": Camera(((285.63, 0, 160), (0, -285.63, 120), (0, 0, 1)), distance=2.73, height=0.84),
        "kinect2": Camera(((367.29, 0, 256.28), (0, -366.62, 208.49), (0, 0, 1)), distance=3.71, height=1.63),
    }
)
"""Depth cameras by sensor. Joints are in the space of the depth camera. Units of one model differ slightly:
calibrate your own for exact results.

``kinect1``, 320 x 240: nominal focal length and centre of the Microsoft Kinect SDK 1.x
(NUI_CAMERA_DEPTH_NOMINAL_FOCAL_LENGTH_IN_PIXELS = 285.63); MSRAction3D's screen and world coordinates agree
with them to their rounding. Distance and height: ``estimate_camera_positions`` over MSRAction3D (566 clips).

``kinect2``, 512 x 424: ``fit_intrinsics`` over the 21,950 joints and depth pixels of 10 NTU RGB+D files
(S001C001, residual below 0.1 pixel). Distance and height: ``estimate_camera_positions`` over the same files.
"""


SENSORS: Mapping[str, str] = MappingProxyType(
    {
        "msr20": "kinect1",
        "kinect20": "kinect1",
        "openni15": "kinect1",
        "sbu15": "kinect1",
        "ntu25": "kinect2",
    }
)
"""Sensor that records a layout: Kinect v1 for MSRAction3D, 3D Action Pairs, UWA3D, NW-UCLA and SBU; v2 for NTU."""


@dataclass(frozen=True)
class CameraViews:
    """A grid of K x K' simulated cameras round a centred skeleton (the paper's CamVPC).

    A joint behind a camera, or nearer to it than ``NEAREST``, is missing in that view: ``measure`` returns which.

    Args:
        camera: Intrinsics, distance and height of the recording camera. The simulated cameras have the same distance.
        azimuth, altitude, step: The grid in degrees; see ``EulerViews``.
        units: "pixels" returns the measurements (u, v, depth) of each camera, also for the recorded view (0, 0).
            "metres" scales them to metres at the distance of the subject, with the torso at 0:
            (x d / depth, y d / depth, depth - d). Focal length and centre cancel, the perspective stays; for
            large d it approaches ``EulerViews``, because the elevation of the camera approaches 0.

    Raises:
        ConfigError: The angles or the units are invalid.

    >>> views = CameraViews(CAMERAS["kinect1"], azimuth=30, altitude=15)
    >>> views(torch.zeros(8, 20, 3))[0, 0, 0, 0]
    tensor([160.0000, 120.0000,   2.7300])
    """

    camera: Camera = CAMERAS["kinect2"]
    azimuth: float = 45
    altitude: float = 45
    step: float = 15
    units: Literal["pixels", "metres"] = "pixels"

    def __post_init__(self) -> None:
        if self.units not in ("pixels", "metres"):
            raise ConfigError(f"units must be 'pixels' or 'metres', got {self.units!r}")
        EulerViews(self.azimuth, self.altitude, self.step)

    @property
    def euler(self) -> EulerViews:
        """The same grid as rotations."""
        return EulerViews(self.azimuth, self.altitude, self.step)

    @property
    def azimuths(self) -> tuple[float, ...]:
        """The K azimuths, degrees, ascending."""
        return self.euler.azimuths

    @property
    def altitudes(self) -> tuple[float, ...]:
        """The K' altitudes, degrees, ascending."""
        return self.euler.altitudes

    @property
    def shape(self) -> tuple[int, int]:
        """(K, K')."""
        return self.euler.shape

    def rotations(self) -> Float[Tensor, "azimuth altitude 3 3"]:
        """Return R of every simulated camera in float64."""
        return self._compute_tilted_rotations(torch.tensor(self.camera.elevation, dtype=torch.float64))

    def _compute_tilted_rotations(
        self, elevation: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch azimuth altitude 3 3"]:
        """Return R = R_x(e) R_x(altitude) R_y(azimuth) R_x(-e) for elevations e in degrees, in float64."""
        tilt = make_rotation("x", elevation.double())[..., None, None, :, :]
        return torch.matmul(torch.matmul(tilt, self.euler.rotations().to(tilt)), tilt.mT)

    def translations(self) -> Float[Tensor, "azimuth altitude 3"]:
        """Return t = s - R^T s, the position of every simulated camera in the space of the recording camera."""
        subject = torch.tensor((0.0, 0.0, self.camera.distance), dtype=torch.float64)
        return subject - self.rotations().mT @ subject

    def fundamentals(self) -> Float[Tensor, "azimuth altitude 3 3"]:
        """Return F of every simulated camera and the recording camera in float64; 0 in the middle of the grid."""
        essential = essential_matrix(self.rotations(), self.translations())
        return fundamental_matrix(essential, self.camera, self.camera)

    def __call__(
        self, joints: Float[Tensor, "*batch frame joint 3"]
    ) -> Float[Tensor, "*batch azimuth altitude frame joint 3"]:
        """Return the measurements of every camera for joints in metres, centred on the torso.

        Joints that are missing in a view are 0 there. ``measure`` also returns which they are.

        Raises:
            ConfigError: Most joints are missing: they are not centred, or not in metres.
        """
        measured, is_visible = self.measure(joints)
        if 2 * is_visible.count_nonzero() < is_visible.numel():
            distance = self.camera.distance
            reach = distance - (self.euler(joints)[..., 2].min().item() + distance)
            raise ConfigError(
                f"most joints lie behind a camera: up to {reach:.3g} m towards it, the subject at {distance:g} m; "
                f"centre the joints on the torso, in metres, and use a distance above {reach:.3g}"
            )
        return measured

    def measure(
        self,
        joints: Float[Tensor, "*batch frame joint 3"],
        distance: Float[Tensor, "*#batch"] | None = None,
        elevation: Float[Tensor, "*#batch"] | None = None,
    ) -> tuple[
        Float[Tensor, "*batch azimuth altitude frame joint 3"],
        Bool[Tensor, "*batch azimuth altitude frame joint"],
    ]:
        """Return the measurements of every camera for centred joints in metres, and which joints it sees.

        R (p_l - t) = R (p_l - s) + s: the coordinates of a simulated camera are the rotated joints, moved to s.

        Args:
            joints: Joints in metres, centred on the torso.
            distance: Metres from the cameras to the subject, per body (default: that of ``camera``).
            elevation: Degrees of the recording camera above the torso, per body (default: that of ``camera``).

        Returns:
            The measurements, 0 for joints that the camera does not see, and the mask of the joints that it sees.
        """
        check_joints(joints)
        rotations = self.rotations() if elevation is None else self._compute_tilted_rotations(elevation)
        matrices = rotations.flatten(-4, -3)
        rotated = rotate_joints(joints, matrices, [matrices.shape[-3] // 2])
        rotated = rotated.unflatten(-4, self.shape)
        body_distance: Tensor | float = self.camera.distance
        if distance is not None:
            body_distance = distance.to(joints)[..., None, None, None, None, None]
        depth = rotated[..., 2:] + body_distance
        is_visible = depth >= NEAREST
        # on another device this would wait for it
        is_complete = is_visible.device.type == "cpu" and bool(is_visible.all())
        if not is_complete:
            depth = torch.where(is_visible, depth, 1.0)
        if self.units == "metres":
            plane = _distort(
                rotated[..., :2] * (body_distance / depth), self.camera.distortion, body_distance
            )
            measured = torch.cat((plane, rotated[..., 2:]), -1)
        else:
            measured = _to_pixels(rotated[..., :2], depth, self.camera)
        return measured if is_complete else torch.where(is_visible, measured, 0.0), is_visible[..., 0]


def project(points: Float[Tensor, "*batch 3"], camera: Camera) -> Float[Tensor, "*batch 3"]:
    """Project points in camera space to (u, v, depth): (u, v, 1) = M p / depth, with the camera's distortion."""
    if points.shape[-1:] != (3,):
        raise ShapeError(f"project needs points [..., 3], got shape {tuple(points.shape)}")
    depth = points[..., 2:]
    if (depth <= 0).any():
        raise ShapeError(
            f"project needs points in front of the camera (z above 0), got z = {depth.min().item():.3g}; "
            "add the subject's distance to centred points, and leave out missing joints"
        )
    return _to_pixels(points[..., :2], depth, camera)


def essential_matrix(
    rotation: Float[Tensor, "*views 3 3"], translation: Float[Tensor, "*views 3"]
) -> Float[Tensor, "*views 3 3"]:
    """Return E = R S: p_r^T E p_l = 0 if p_r = R (p_l - t) (paper, above Eq. 2).

    S is the matrix of the paper, S p = t x p. The paper writes p x t, which differs in sign only.
    """
    x, y, z = translation.unbind(-1)
    zero = torch.zeros_like(x)
    rows = ((zero, -z, y), (z, zero, -x), (-y, x, zero))
    cross = torch.stack([torch.stack(row, -1) for row in rows], -2)
    return torch.matmul(rotation, cross)


def fundamental_matrix(
    essential: Float[Tensor, "*views 3 3"], left: Camera, right: Camera
) -> Float[Tensor, "*views 3 3"]:
    """Return F = M_r^-T E M_l^-1: p*_r^T F p*_l = 0 in pixels without lens distortion (paper, Eq. 2)."""
    inverse_left = torch.inverse(left.matrix()).to(essential)
    inverse_right = torch.inverse(right.matrix()).to(essential)
    return torch.matmul(torch.matmul(inverse_right.mT, essential), inverse_left)


def epipolar_distance(
    fundamental: Float[Tensor, "*#batch 3 3"],
    left: Float[Tensor, "*#batch point 2"],
    right: Float[Tensor, "*#batch point 2"],
) -> Float[Tensor, "*batch point"]:
    """Return the distance in pixels of every right point from the epipolar line of its left point.

    |p*_r^T F p*_l| / |n|, where n, the normal of the line, is the first two numbers of F p*_l. If F is 0 (twice
    the same camera), there is no line and the distance is 0.
    """
    lines = torch.cat((left, torch.ones_like(left[..., :1])), -1) @ fundamental.mT
    residual = ((lines[..., :2] * right).sum(-1) + lines[..., 2]).abs()
    normal = torch.hypot(lines[..., 0], lines[..., 1])
    return residual / torch.where(normal > 0, normal, 1)


def _to_pixels(
    plane: Float[Tensor, "*batch 2"], depth: Float[Tensor, "*batch 1"], camera: Camera
) -> Float[Tensor, "*batch 3"]:
    """Return (u, v, depth): the upper rows of M times the distorted (x / depth, y / depth, 1)."""
    matrix = camera.matrix().to(plane)
    rays = _distort(plane / depth, camera.distortion)
    return torch.cat((rays @ matrix[:2, :2].mT + matrix[:2, 2], depth), -1)


def _distort(
    plane: Float[Tensor, "*batch 2"], distortion: tuple[float, ...], scale: Tensor | float = 1.0
) -> Float[Tensor, "*batch 2"]:
    """Return ``scale`` times rays (x, y, 1) as a lens with radial distortion measures them."""
    if not any(distortion):
        return plane
    k1, k2 = (*distortion, 0.0)[:2]
    square = (plane / scale).square().sum(-1, keepdim=True)
    return plane * (1 + square * (k1 + k2 * square))
