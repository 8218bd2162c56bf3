"""Calibrate a camera: from images of a chessboard (OpenCV), or from joints with known pixels.

The paper uses the Camera Calibrator of MATLAB. OpenCV estimates the same quantities: intrinsics, lens
distortion, and the pose of the board in every image. The camera space of OpenCV has +y down;
``Calibration.camera`` returns M for +y up.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.views.camera import Camera

__all__ = ["Calibration", "calibrate", "fit_intrinsics"]

Image = str | Path | NDArray[Any]
_MIN_BOARDS = 3  # two leave the principal point undetermined


@dataclass(frozen=True, eq=False)
class Calibration:
    """The result of a calibration in the convention of OpenCV: columns right, rows down, z along the view.

    In the i-th image of ``used``, a board point b (metres, z = 0) lies at ``rotations[i] @ b + translations[i]``,
    and ``matrix`` maps it to pixels. ``distortion`` is the radial distortion (k1, k2): a few boards do not
    determine more. ``size`` is (width, height) and ``error`` the root mean square reprojection error in pixels.
    """

    matrix: Float[Tensor, "3 3"]
    distortion: tuple[float, ...]
    error: float
    size: tuple[int, int]
    used: tuple[int, ...]
    rotations: Float[Tensor, "board 3 3"]
    translations: Float[Tensor, "board 3"]

    def camera(self, distance: float, height: float | None = None) -> Camera:
        """Return the camera for +y up at a distance from the subject, with its lens distortion."""
        up = torch.tensor((1.0, -1.0, 1.0), dtype=torch.float64)
        return Camera(self.matrix * up, distance, height, self.distortion)


def calibrate(
    images: Sequence[Image], *, corners: tuple[int, int] = (9, 6), square: float = 0.025
) -> Calibration:
    """Calibrate a camera from images of a flat chessboard at different angles; 10 to 20 images suffice.

    Args:
        images: Files, or uint8 arrays [row, column] or [row, column, 3], all of one size. Images without the
            complete board are ignored; ``Calibration.used`` lists the others.
        corners: Number of inner corners along a row and along a column of the board.
        square: Side of a square in metres.

    Raises:
        DataError: Fewer than 3 images show the complete board.
        ConfigError: OpenCV is not installed, or an argument is out of range.
    """
    cv2 = _import_opencv()
    if min(corners) < 3 or not 0 < square < float("inf"):
        raise ConfigError(
            "a board needs at least 3 x 3 inner corners and squares of a size above 0 metres, "
            f"got corners={corners}, square={square}"
        )
    greys = [_read_grey(image, i, cv2) for i, image in enumerate(images)]
    sizes = {grey.shape[::-1] for grey in greys}
    if len(sizes) > 1:
        raise DataError(f"images must be of one size, got {sorted(sizes)}; calibrate each size separately")
    boards = [_find_corners(grey, corners, cv2) for grey in greys]
    used = tuple(i for i, board in enumerate(boards) if board is not None)
    if len(used) < _MIN_BOARDS:
        raise DataError(
            f"calibration needs at least {_MIN_BOARDS} images with the complete board of {corners[0]} x {corners[1]} "
            f"inner corners, found it in {len(used)} of {len(greys)}; check corners=, light and sharpness"
        )
    size = (int(greys[0].shape[1]), int(greys[0].shape[0]))
    error, matrix, distortion, rotations, translations = cv2.calibrateCamera(
        [_list_corners(corners, square)] * len(used),
        [boards[i] for i in used],
        size,
        None,
        None,
        flags=cv2.CALIB_ZERO_TANGENT_DIST | cv2.CALIB_FIX_K3,
    )
    return Calibration(
        matrix=torch.as_tensor(matrix, dtype=torch.float64),
        distortion=tuple(float(value) for value in np.ravel(distortion)[:2]),
        error=float(error),
        size=size,
        used=used,
        rotations=torch.as_tensor(np.stack([cv2.Rodrigues(vector)[0] for vector in rotations])),
        translations=torch.as_tensor(np.stack([np.ravel(vector) for vector in translations])),
    )


def fit_intrinsics(
    points: Float[Tensor, "point 3"], pixels: Float[Tensor, "point 2"]
) -> Float[Tensor, "3 3"]:
    """Return M in float64, fitted to points in camera space and their pixels: u = fx x / z + cx, v likewise.

    For recordings with both, such as NTU RGB+D (joints with depth and colour pixels), without a calibration.
    Points with NaN and points behind the camera are ignored.

    >>> points = torch.tensor([[0.0, 0.0, 2.0], [1.0, 1.0, 2.0], [1.0, -1.0, 4.0]])
    >>> pixels = torch.tensor([[160.0, 120.0], [310.0, -30.0], [235.0, 195.0]])
    >>> fit_intrinsics(points, pixels).round().tolist()
    [[300.0, 0.0, 160.0], [0.0, -300.0, 120.0], [0.0, 0.0, 1.0]]
    """
    if points.ndim != 2 or points.shape[1] != 3 or pixels.shape != (len(points), 2):
        raise ShapeError(
            "fit_intrinsics needs points [point, 3] and pixels [point, 2], "
            f"got {tuple(points.shape)} and {tuple(pixels.shape)}; flatten frames and joints first"
        )
    points, pixels = points.double(), pixels.double()
    usable = points.isfinite().all(1) & pixels.isfinite().all(1) & (points[:, 2] > 0)
    rays = points[usable, :2] / points[usable, 2:]
    if len(rays) < 2 or bool((rays.amax(0) == rays.amin(0)).any()):
        raise DataError(
            f"the focal length needs points in several directions, got {len(rays)} usable of {len(points)}; "
            "use all joints of several frames"
        )
    ray_mean, pixel_mean = rays.mean(0), pixels[usable].mean(0)
    spread = rays - ray_mean
    focal = (spread * (pixels[usable] - pixel_mean)).sum(0) / spread.square().sum(0)
    matrix = torch.diag(torch.cat((focal, focal.new_ones(1))))
    matrix[:2, 2] = pixel_mean - focal * ray_mean
    return matrix


def _import_opencv() -> Any:
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise ConfigError(
            "calibration from images needs OpenCV, which is not installed; "
            "run: pip install 'jeanie[calibration]' (or: pip install opencv-python-headless)"
        ) from error


def _list_corners(corners: tuple[int, int], square: float) -> NDArray[np.float32]:
    """Return the corner positions on the board in the order of OpenCV: row by row."""
    columns, rows = np.meshgrid(np.arange(corners[0]), np.arange(corners[1]))
    flat = np.stack((columns, rows, np.zeros_like(rows)), -1).reshape(-1, 3)
    return (flat * square).astype(np.float32)


def _find_corners(grey: NDArray[np.uint8], corners: tuple[int, int], cv2: Any) -> NDArray[np.float32] | None:
    """Return the pixels of the inner corners, row by row; None if the board is not complete."""
    is_found, pixels = cv2.findChessboardCornersSB(grey, corners, flags=cv2.CALIB_CB_EXHAUSTIVE)
    if not is_found:
        return None
    # on rendered boards, the corners of the detector bias the focal length by 1 %, refined ones by 0.3 %
    grid = np.reshape(pixels, (corners[1], corners[0], 2))
    spacing = min(np.linalg.norm(np.diff(grid, axis=axis), axis=-1).min() for axis in (0, 1))
    half = int(np.clip(spacing / 3, 2, 11))
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 50, 1e-4)
    return np.asarray(cv2.cornerSubPix(grey, np.float32(pixels), (half, half), (-1, -1), stop))


def _read_grey(image: Image, index: int, cv2: Any) -> NDArray[np.uint8]:
    if isinstance(image, str | Path):
        if not Path(image).is_file():
            raise DataError(f"{image}: no such file")
        picture = cv2.imread(str(image), cv2.IMREAD_GRAYSCALE)
        if picture is None:
            raise DataError(f"{image}: not an image that OpenCV can read")
        return np.asarray(picture)
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise DataError(
            f"image {index}: expected uint8 [row, column] or [row, column, 3], "
            f"got {image.dtype} {image.shape}"
        )
    return image if image.ndim == 2 else np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY))
