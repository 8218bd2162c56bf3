"""Calibration on chessboards that the test renders itself, ray by ray, with a camera it knows."""

import importlib
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch.testing import assert_close

from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.views import CAMERAS, calibrate, fit_intrinsics
from jeanie.views.camera import project

DATA = os.environ.get("JEANIE_DATA")
HAS_OPENCV = importlib.util.find_spec("cv2") is not None
needs_opencv = pytest.mark.skipif(
    not HAS_OPENCV, reason="OpenCV is not installed: pip install 'jeanie[calibration]'"
)

CORNERS, SQUARE = (8, 5), 0.03
WIDTH, HEIGHT = 400, 300
FOCAL_X, FOCAL_Y, CENTRE_X, CENTRE_Y = 350.0, 342.0, 205.0, 145.0
POSES = [  # rotation vector (radians), middle of the board (metres)
    ((0.0, 0.0, 0.0), (0.0, 0.0, 0.45)),
    ((0.5, 0.0, 0.1), (-0.05, 0.02, 0.50)),
    ((-0.5, 0.1, 0.0), (0.05, -0.03, 0.48)),
    ((0.1, 0.6, 0.0), (0.04, 0.03, 0.50)),
    ((0.0, -0.6, 0.1), (-0.04, -0.02, 0.47)),
    ((0.4, 0.4, 0.3), (0.0, 0.04, 0.55)),
    ((-0.4, 0.4, -0.3), (0.06, 0.0, 0.52)),
]


def render(rotation_vector, middle, *, k1=0.0, samples=2):
    """A chessboard as a pinhole camera with radial distortion k1 sees it: one plane intersection a ray."""
    step = (np.arange(samples) + 0.5) / samples - 0.5
    v, u = np.meshgrid(
        (np.arange(HEIGHT)[:, None] + step).ravel(), (np.arange(WIDTH)[:, None] + step).ravel(), indexing="ij"
    )
    seen = np.stack(((u - CENTRE_X) / FOCAL_X, (v - CENTRE_Y) / FOCAL_Y))
    rays = seen.copy()
    for _ in range(10 if k1 else 0):  # invert seen = rays (1 + k1 r^2)
        rays = seen / (1 + k1 * (rays**2).sum(0))
    turn = Rotation.from_rotvec(rotation_vector).as_matrix()
    normal = turn[:, 2]
    directions = np.concatenate((rays, np.ones_like(rays[:1])))
    depth = (normal @ np.asarray(middle)) / np.tensordot(normal, directions, 1)
    points = directions * depth - np.asarray(middle)[:, None, None]
    squares = np.tensordot(turn.T[:2], points, 1) / SQUARE
    columns, rows = squares[0] + (CORNERS[0] + 1) / 2, squares[1] + (CORNERS[1] + 1) / 2
    on_board = (columns >= 0) & (columns < CORNERS[0] + 1) & (rows >= 0) & (rows < CORNERS[1] + 1)
    dark = on_board & ((np.floor(columns) + np.floor(rows)) % 2 == 0)
    grey = np.where(dark, 30.0, 225.0).reshape(HEIGHT, samples, WIDTH, samples).mean((1, 3))
    return grey.round().astype(np.uint8)


@pytest.fixture(scope="module")
def boards():
    return [render(*pose) for pose in POSES]


@pytest.fixture(scope="module")
def calibration(boards):
    return calibrate(boards, corners=CORNERS, square=SQUARE)


@needs_opencv
def test_the_known_camera_is_recovered(calibration):
    assert calibration.used == tuple(range(len(POSES)))
    assert calibration.size == (WIDTH, HEIGHT)
    assert calibration.error < 0.2
    assert_close(calibration.matrix[0, 0].item(), FOCAL_X, rtol=0.01, atol=0)
    assert_close(calibration.matrix[1, 1].item(), FOCAL_Y, rtol=0.01, atol=0)
    assert_close(
        calibration.matrix[:2, 2], torch.tensor([CENTRE_X, CENTRE_Y], dtype=torch.float64), atol=3, rtol=0
    )
    assert len(calibration.distortion) == 2
    assert abs(calibration.distortion[0]) < 0.05


@needs_opencv
def test_the_poses_of_the_boards_are_recovered(calibration):
    offset = torch.tensor([(CORNERS[0] - 1) / 2, (CORNERS[1] - 1) / 2, 0.0], dtype=torch.float64) * SQUARE
    middles = calibration.rotations @ offset + calibration.translations
    assert_close(
        middles, torch.tensor([middle for _, middle in POSES], dtype=torch.float64), atol=0.005, rtol=0
    )
    normals = np.stack([Rotation.from_rotvec(turn).as_matrix()[:, 2] for turn, _ in POSES])
    # a board may be read from either end, which turns it in its plane and leaves the normal
    assert_close(calibration.rotations[:, :, 2].abs(), torch.from_numpy(normals).abs(), atol=0.03, rtol=0)


@needs_opencv
def test_lens_distortion_and_focal_length_are_separated():
    calibration = calibrate([render(*pose, k1=-0.15) for pose in POSES], corners=CORNERS, square=SQUARE)
    assert_close(calibration.matrix[0, 0].item(), FOCAL_X, rtol=0.01, atol=0)
    assert_close(calibration.distortion[0], -0.15, atol=0.05, rtol=0)


@needs_opencv
def test_a_calibrated_camera_has_y_up(calibration):
    """+y is up here and down in OpenCV: the same point must land on the same pixel."""
    camera = calibration.camera(distance=3.0, height=1.2)
    assert (camera.distance, camera.height) == (3.0, 1.2)
    assert camera.distortion == calibration.distortion != ()
    import cv2

    lens = np.array([*calibration.distortion, 0, 0])
    down = np.array([[0.1, -0.2, 2.0]])
    expected, _ = cv2.projectPoints(down, np.zeros(3), np.zeros(3), calibration.matrix.numpy(), lens)
    seen = project(torch.tensor([0.1, 0.2, 2.0], dtype=torch.float64), camera)
    assert_close(seen[:2], torch.from_numpy(expected[0, 0]))


@needs_opencv
def test_files_and_colour_images_work_and_images_without_a_board_are_ignored(boards, tmp_path):
    import cv2

    paths = []
    for i, board in enumerate(boards[:3]):
        paths.append(tmp_path / f"board{i}.png")
        cv2.imwrite(str(paths[-1]), board)
    colour = np.repeat(boards[3][..., None], 3, 2)
    empty = np.full_like(boards[0], 128)
    calibration = calibrate(
        [paths[0], empty, str(paths[1]), paths[2], colour], corners=CORNERS, square=SQUARE
    )
    assert calibration.used == (0, 2, 3, 4)
    assert len(calibration.rotations) == len(calibration.translations) == 4
    same = calibrate(boards[:4], corners=CORNERS, square=SQUARE)
    assert_close(calibration.matrix, same.matrix)


def test_intrinsics_are_fitted_exactly_to_exact_pixels():
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(50, 3, generator=generator, dtype=torch.float64) + torch.tensor([-0.5, -0.5, 2.0])
    pixels = project(points, CAMERAS["kinect2"])[:, :2]
    points[7, 0], pixels[9, 1] = torch.nan, torch.inf
    points[11] = 0  # missing, as readers leave it
    matrix = fit_intrinsics(points, pixels)
    assert_close(matrix, CAMERAS["kinect2"].matrix(), atol=1e-9, rtol=0)


def test_intrinsics_are_the_least_squares_of_noisy_pixels():
    generator = torch.Generator().manual_seed(1)
    points = torch.rand(200, 3, generator=generator, dtype=torch.float64) + torch.tensor([-0.5, -0.5, 2.0])
    noise = torch.randn(200, 2, generator=generator, dtype=torch.float64)
    pixels = project(points, CAMERAS["kinect1"])[:, :2] + noise
    matrix = fit_intrinsics(points, pixels)
    for axis in (0, 1):
        rays = (points[:, axis] / points[:, 2]).numpy()
        slope, start = np.polyfit(rays, pixels[:, axis].numpy(), 1)
        assert_close((matrix[axis, axis].item(), matrix[axis, 2].item()), (slope, start))


@pytest.mark.skipif(DATA is None, reason="JEANIE_DATA is not set: needs the NTU samples")
def test_kinect2_has_the_intrinsics_that_the_ntu_samples_show():
    rows = []
    for file in sorted(Path(DATA, "ntu-samples").glob("*.skeleton")):
        words = (line.split() for line in file.read_text().splitlines())
        rows += [[float(word) for word in row[:5]] for row in words if len(row) == 12]
    joints = torch.tensor(rows, dtype=torch.float64)
    assert len(joints) == 21950
    assert_close(CAMERAS["kinect2"].matrix(), fit_intrinsics(joints[:, :3], joints[:, 3:]), atol=0.01, rtol=0)


@pytest.mark.errors
@needs_opencv
def test_too_few_boards_are_refused(boards):
    empty = np.full_like(boards[0], 128)
    with pytest.raises(DataError, match=r"at least 3 images.*8 x 5.*found it in 2 of 3"):
        calibrate([*boards[:2], empty], corners=CORNERS, square=SQUARE)
    with pytest.raises(DataError, match="found it in 0 of 0"):
        calibrate([])


@pytest.mark.errors
@needs_opencv
def test_bad_images_are_named(boards, tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("no image")
    with pytest.raises(DataError, match=r"notes\.txt: not an image"):
        calibrate([text])
    with pytest.raises(DataError, match=r"nowhere\.png: no such file"):
        calibrate([tmp_path / "nowhere.png"])
    with pytest.raises(DataError, match="image 0: expected uint8"):
        calibrate([boards[0].astype(np.float32)])
    with pytest.raises(DataError, match="one size"):
        calibrate([boards[0], boards[1][:-10]], corners=CORNERS)


@pytest.mark.errors
@needs_opencv
@pytest.mark.parametrize("options", [{"corners": (2, 5)}, {"square": 0}, {"square": -0.1}], ids=str)
def test_impossible_boards_are_refused(options):
    with pytest.raises(ConfigError, match="3 x 3 inner corners"):
        calibrate([], **options)


@pytest.mark.errors
def test_without_opencv_the_error_says_what_to_install(monkeypatch):
    def raise_import_error(name, *rest):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", raise_import_error)
    with pytest.raises(ConfigError, match=r"pip install 'jeanie\[calibration\]'"):
        calibrate([])


@pytest.mark.errors
def test_points_without_spread_or_pixels_are_refused():
    with pytest.raises(ShapeError, match=r"got \(4, 3\) and \(3, 2\)"):
        fit_intrinsics(torch.ones(4, 3), torch.ones(3, 2))
    with pytest.raises(DataError, match="several directions, got 4 usable of 4"):
        fit_intrinsics(torch.ones(4, 3), torch.ones(4, 2))
    with pytest.raises(DataError, match="got 0 usable of 4"):
        fit_intrinsics(torch.zeros(4, 3), torch.ones(4, 2))
