"""Simulated cameras: look-at geometry by hand, the epipolar law, and real pixels of real sensors."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from torch.autograd import gradcheck
from torch.testing import assert_close

from jeanie.errors import ConfigError, ShapeError
from jeanie.views import CAMERAS, Camera, CameraViews, EulerViews
from jeanie.views.camera import epipolar_distance, essential_matrix, fundamental_matrix, project

DATA = os.environ.get("JEANIE_DATA")
SQUARE = ((500.0, 0.0, 320.0), (0.0, -500.0, 240.0), (0.0, 0.0, 1.0))
SKEWED = ((480.0, 3.0, 310.0), (0.0, -520.0, 250.0), (0.0, 0.0, 1.0))


def body(*shape, dtype=torch.float64, seed=0):
    """Joints within 0.9 m of the torso on each axis, the torso itself at 0."""
    numbers = torch.rand(*shape, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    joints = 1.8 * numbers - 0.9
    joints[..., 0, :] = 0
    return joints.to(dtype)


def look_at(point, azimuth, altitude, distance, matrix):
    """(u, v, depth) of one point for a camera on the sphere, by a look-at frame and no rotation matrix.

    The subject is at the origin; the camera goes to -x with the azimuth and up with the altitude.
    """
    a, b = math.radians(azimuth), math.radians(altitude)
    place = distance * np.array([-math.sin(a) * math.cos(b), math.sin(b), -math.cos(a) * math.cos(b)])
    ahead = -place / np.linalg.norm(place)
    right = np.cross([0.0, 1.0, 0.0], ahead)
    right /= np.linalg.norm(right)
    up = np.cross(ahead, right)
    x, y, z = (np.asarray(point) - place) @ np.stack((right, up, ahead)).T
    u, v, w = np.asarray(matrix) @ [x, y, z]
    return u / w, v / w, z


@pytest.mark.parametrize("matrix", [SQUARE, SKEWED], ids=["plain", "skewed"])
def test_every_camera_stands_on_the_sphere_and_looks_at_the_subject(matrix):
    views = CameraViews(Camera(matrix, distance=3.2), azimuth=60, altitude=60, step=30)
    joints = body(2, 4)
    seen = views(joints)
    assert seen.shape == (5, 5, 2, 4, 3)
    for a, azimuth in enumerate(views.azimuths):
        for b, altitude in enumerate(views.altitudes):
            for f in range(2):
                for n in range(4):
                    expected = look_at(joints[f, n].tolist(), azimuth, altitude, 3.2, matrix)
                    assert_close(seen[a, b, f, n].tolist(), list(expected), atol=1e-9, rtol=1e-12)


@pytest.mark.parametrize("height", [0.3, 1.05, 2.7])
def test_azimuths_go_round_the_vertical_and_altitudes_start_at_the_height_of_the_camera(height):
    """A camera above the torso looks down: the same joints, given upright, by look-at frames without elevation."""
    camera = Camera(SQUARE, 3.5, height)
    elevation = math.degrees(math.asin((height - 1.05) / 3.5))
    assert camera.elevation == pytest.approx(elevation)
    recorded = body(2, 4)
    upright = recorded.numpy() @ Rotation.from_euler("x", elevation, degrees=True).as_matrix().T
    views = CameraViews(camera, azimuth=60, altitude=30, step=30)
    seen = views(recorded)
    for a, azimuth in enumerate(views.azimuths):
        for b, altitude in enumerate(views.altitudes):
            for n in range(4):
                expected = look_at(upright[1, n], azimuth, altitude + elevation, 3.5, SQUARE)
                assert_close(seen[a, b, 1, n].tolist(), list(expected), atol=1e-9, rtol=1e-12)
    assert torch.equal(seen[2, 1], project(recorded + torch.tensor([0, 0, 3.5]), camera))
    level = CameraViews(Camera(SQUARE, 3.5), azimuth=60, altitude=30, step=30)(recorded)
    assert_close(seen[2], level[2])  # altitudes alone
    assert ((seen - level).abs().max() > 1) == (height != 1.05)


def test_translations_are_the_camera_positions():
    views = CameraViews(Camera(SQUARE, distance=3.0))
    subject = torch.tensor([0.0, 0.0, 3.0], dtype=torch.float64)
    places = views.translations()
    assert_close((places - subject).norm(dim=-1), torch.full((7, 7), 3.0, dtype=torch.float64))
    assert_close(places[3, 3], torch.zeros(3, dtype=torch.float64))
    assert places[3, 4, 1] > 0  # a positive altitude lifts the camera
    assert places[4, 3, 0] < 0  # a positive azimuth carries it towards -x


def test_coordinates_are_those_of_the_stereo_equations():
    """p_r = R (p_l - t) and p* = M p / depth, from the matrices that the views publish."""
    views = CameraViews(Camera(SKEWED, distance=2.5), azimuth=30, altitude=45)
    joints = body(2, 3, 5)
    left = joints + torch.tensor([0.0, 0.0, 2.5], dtype=torch.float64)
    rotation, place = views.rotations(), views.translations()
    right = torch.einsum("abij,cfnabj->cabfni", rotation, left[..., None, None, :] - place)
    pixels = torch.einsum("ij,...j->...i", views.camera.matrix(), right / right[..., 2:])
    seen = views(joints)
    assert_close(seen[..., :2], pixels[..., :2])
    assert_close(seen[..., 2], right[..., 2])


def test_the_recorded_view_is_projected_too():
    views = CameraViews(CAMERAS["kinect1"])
    joints = body(4, 20)
    shifted = joints + torch.tensor([0.0, 0.0, views.camera.distance], dtype=torch.float64)
    assert torch.equal(views(joints)[3, 3], project(shifted, views.camera))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31),
    st.floats(2.5, 8),
    st.sampled_from([SQUARE, SKEWED, CAMERAS["kinect1"].intrinsics, CAMERAS["kinect2"].intrinsics]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_every_joint_lies_on_its_epipolar_line(seed, distance, matrix, dtype):
    """|p*_r^T F p*_l| in pixels from the line, and as the bare product, below 1e-6 of the pixel scale."""
    views = CameraViews(Camera(matrix, distance), azimuth=45, altitude=45)
    seen = views(body(3, 8, dtype=dtype, seed=seed)).double().flatten(-3, -2)
    scale = abs(matrix[0][0])
    left, right = seen[3, 3, :, :2], seen[..., :2]
    fundamental = views.fundamentals()
    assert epipolar_distance(fundamental, left, right).max() < 1e-6 * scale
    homogeneous = [torch.cat((p, torch.ones_like(p[..., :1])), -1) for p in (left, right)]
    product = torch.einsum("abni,abij,nj->abn", homogeneous[1], fundamental, homogeneous[0])
    assert product.abs().max() < 1e-6 * scale


def test_a_wrong_pixel_leaves_its_epipolar_line():
    views = CameraViews(Camera(SQUARE, 3.0))
    seen = views(body(2, 6)).flatten(-3, -2)
    moved = seen[..., :2] + torch.tensor([0.0, 1.0], dtype=torch.float64)
    distances = epipolar_distance(views.fundamentals(), seen[3, 3, :, :2], moved)
    assert distances[0, 3].min() > 0.5  # cameras side by side: lines run nearly level
    assert distances[3, 3].max() == 0  # one camera twice: no line


def test_two_different_cameras_keep_the_epipolar_law():
    left, right = Camera(SQUARE, 3.0), Camera(SKEWED, 3.0)
    turn = Rotation.from_rotvec([0.3, -0.5, 0.2]).as_matrix()
    rotation, place = torch.from_numpy(turn), torch.tensor([0.7, -0.3, 0.4], dtype=torch.float64)
    in_right = body(50, seed=4) + torch.tensor([0.0, 0.0, 4.0], dtype=torch.float64)
    in_left = in_right @ rotation + place  # p_l = R^T p_r + t
    essential = essential_matrix(rotation, place)
    assert torch.einsum("ni,ij,nj->n", in_right, essential, in_left).abs().max() < 1e-12
    fundamental = fundamental_matrix(essential, left, right)
    pixels = project(in_left, left)[:, :2], project(in_right, right)[:, :2]
    assert epipolar_distance(fundamental, *pixels).max() < 1e-6


def test_metres_are_scaled_pixels():
    camera = Camera(SKEWED, 2.8)
    joints = body(3, 6)
    pixels, metres = (CameraViews(camera, units=units)(joints) for units in ("pixels", "metres"))
    rays = (
        torch.cat((pixels[..., :2], torch.ones_like(pixels[..., :1])), -1) @ torch.inverse(camera.matrix()).T
    )
    assert_close(metres[..., :2], 2.8 * rays[..., :2])
    assert_close(metres[..., 2], pixels[..., 2] - 2.8)
    assert_close(metres[..., 0, :], torch.zeros(7, 7, 3, 3, dtype=torch.float64))


def test_a_far_camera_sees_the_euler_views():
    joints = body(3, 6)
    expected = EulerViews()(joints)
    near, far = (
        (CameraViews(Camera(SQUARE, d), units="metres")(joints) - expected).abs().max() for d in (3.0, 1e6)
    )
    assert far < 1e-5
    assert near > 0.1  # perspective is there: this is where stereo differs from Euler


@pytest.mark.parametrize("units", ["pixels", "metres"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_any_batch_shape_and_dtype_is_accepted(units, batch, dtype):
    joints = body(*batch, 4, 5, dtype=dtype)
    seen = CameraViews(azimuth=30, altitude=15, units=units)(joints)
    assert seen.shape == (*batch, 5, 3, 4, 5, 3)
    assert seen.dtype == dtype
    assert seen.isfinite().all()


@pytest.mark.parametrize("units", ["pixels", "metres"])
def test_gradients_flow_through_the_projection(units):
    views = CameraViews(Camera(((2.0, 0, 1), (0, -2.0, 1), (0, 0, 1)), 3.0), 15, 15, units=units)
    assert gradcheck(views, (body(1, 3).requires_grad_(),))


def test_a_camera_takes_tensors_arrays_and_rows_alike():
    cameras = {
        Camera(SQUARE, 3),
        Camera(torch.tensor(SQUARE), 3.0),
        Camera(np.array(SQUARE), 3.0),
        Camera([list(row) for row in SQUARE], 3.0),
    }
    assert len(cameras) == 1
    assert CameraViews(Camera(SQUARE, 3)) == CameraViews(Camera(torch.tensor(SQUARE), 3.0))
    assert Camera(SQUARE, 3).height is None


@pytest.mark.skipif(DATA is None, reason="JEANIE_DATA is not set: needs recordings with joints in pixels")
def test_kinect1_projects_msraction3d_to_its_own_screen_coordinates():
    screens = sorted(Path(DATA, "msraction3d", "skeleton_txt").glob("*.txt"))
    assert len(screens) == 8
    for screen in screens:
        world = screen.parent.parent / "real3d_txt" / screen.name.replace("skeleton.txt", "skeleton3D.txt")
        points, pixels = np.loadtxt(world)[:, :3], np.loadtxt(screen)[:, :2]
        there = points[:, 2] > 0
        found = project(torch.from_numpy(points[there]), CAMERAS["kinect1"])[:, :2].numpy()
        assert np.abs(found - pixels[there]).max() < 1  # the file holds whole pixels
        assert np.sqrt(np.square(found - pixels[there]).mean()) < 0.35


@pytest.mark.skipif(DATA is None, reason="JEANIE_DATA is not set: needs recordings with joints in pixels")
def test_kinect2_projects_ntu_joints_to_their_own_depth_pixels():
    files = sorted(Path(DATA, "ntu-samples").glob("*.skeleton"))
    assert len(files) == 10
    for file in files:
        rows = [line.split() for line in file.read_text().splitlines()]
        joints = np.array([[float(word) for word in row[:5]] for row in rows if len(row) == 12])
        found = project(torch.from_numpy(joints[:, :3]), CAMERAS["kinect2"])[:, :2].numpy()
        assert np.abs(found - joints[:, 3:]).max() < 0.5


@pytest.mark.parametrize("units", ["pixels", "metres"])
def test_a_joint_behind_a_camera_or_too_near_is_missing_in_that_view_only(units):
    """The subject at 1.2 m: a joint 1 m towards the camera is 0.2 m away from it, and 1.2 m from one at 90 degrees."""
    joints = torch.zeros(1, 3, 3, dtype=torch.float64)
    joints[0, 1] = torch.tensor([0.0, 0.0, -1.0])
    joints[0, 2] = torch.tensor([0.5, 0.25, 0.0])
    views = CameraViews(Camera(SQUARE, 1.2), azimuth=90, altitude=0, step=30, units=units)
    measured, seen = views.measure(joints)
    depths = [1.2 - math.cos(math.radians(azimuth)) for azimuth in views.azimuths]
    assert seen[:, 0, 0, 1].tolist() == [depth >= 0.3 for depth in depths]
    assert seen[:, 0, 0, 1].sum() == 6
    assert seen[..., [0, 2]].all()
    assert (measured[~seen] == 0).all()
    assert measured.isfinite().all()
    others = CameraViews(Camera(SQUARE, 1.2), azimuth=90, altitude=0, step=30, units=units)(joints[:, [0, 2]])
    assert torch.equal(measured[..., [0, 2], :], others)
    assert torch.equal(views(joints), measured)


def test_gradients_stay_finite_where_a_joint_is_missing():
    joints = torch.zeros(1, 2, 3, dtype=torch.float64)
    joints[0, 1, 2] = -3.0  # at the camera itself
    joints.requires_grad_()
    CameraViews(Camera(SQUARE, 3.0), 15, 15, units="metres")(joints).square().sum().backward()
    assert joints.grad.isfinite().all()


@pytest.mark.parametrize("units", ["pixels", "metres"])
def test_each_body_may_have_its_own_distance(units):
    joints, distances = body(3, 2, 4, 5), torch.tensor([[2.5], [3.0], [4.5]], dtype=torch.float64)
    cameras = [
        Camera(CAMERAS["kinect1"].intrinsics, *place) for place in ((2.5, 0.4), (3.0, 1.6), (4.5, None))
    ]
    elevations = torch.tensor([[camera.elevation] for camera in cameras], dtype=torch.float64)
    views = CameraViews(CAMERAS["kinect1"], 30, 15, units=units)
    together, seen = views.measure(joints, distances, elevations)
    assert seen.shape == (3, 2, 5, 3, 4, 5)
    for clip, camera in enumerate(cameras):
        assert_close(together[clip], CameraViews(camera, 30, 15, units=units)(joints[clip]))


def test_lens_distortion_is_that_of_opencv():
    import cv2

    coefficients, joints = (-0.2, 0.05), body(2, 6)
    views = CameraViews(Camera(SQUARE, 3.0, distortion=coefficients), 30, 15)
    seen = views(joints)
    matrix = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])  # OpenCV: y down
    for a, b in ((0, 0), (2, 1), (4, 2)):
        points = (views.rotations()[a, b] @ joints.mT).mT + torch.tensor([0.0, 0.0, 3.0])
        down = (points * torch.tensor([1.0, -1.0, 1.0])).reshape(-1, 3).numpy()
        expected, _ = cv2.projectPoints(
            down, np.zeros(3), np.zeros(3), matrix, np.array([*coefficients, 0, 0])
        )
        assert_close(seen[a, b, ..., :2].reshape(-1, 2), torch.from_numpy(expected[:, 0]), atol=1e-9, rtol=0)
    metres = CameraViews(Camera(SQUARE, 3.0, distortion=coefficients), 30, 15, units="metres")(joints)
    offset = seen[..., :2] - torch.tensor([320.0, 240.0], dtype=torch.float64)
    assert_close(metres[..., :2], offset * torch.tensor([3.0 / 500, -3.0 / 500], dtype=torch.float64))


@pytest.mark.errors
def test_joints_that_are_not_centred_are_refused_with_a_distance():
    joints = torch.zeros(1, 3, 3)
    joints[0, 1:] = torch.tensor([0.0, 0.0, -1.5])
    with pytest.raises(ConfigError, match=r"behind a camera.*subject at 1\.2 m.*distance above 1\.5"):
        CameraViews(Camera(SQUARE, 1.2))(joints)
    CameraViews(Camera(SQUARE, 1.9))(joints)
    with pytest.raises(ConfigError, match=r"distortion \(k1, k2\)"):
        Camera(SQUARE, 3.0, distortion=(0.1, 0.2, 0.3))


@pytest.mark.errors
@pytest.mark.parametrize("distance", [0, -2, math.nan, math.inf])
def test_a_subject_that_is_not_in_front_is_refused(distance):
    with pytest.raises(ConfigError, match="in front of the camera"):
        Camera(SQUARE, distance)


@pytest.mark.errors
@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (((1, 0), (0, 1)), ShapeError, r"shape \(3, 3\), got \(2, 2\)"),
        (((1, 0, 0), (0, 1), (0, 0, 1)), ShapeError, "3 x 3 numbers"),
        (((0, 0, 1), (0, 1, 1), (0, 0, 1)), ConfigError, "fx and fy not 0"),
        (((1, 0, 1), (0, 1, 1), (0, 0, 2)), ConfigError, "divide by the entry"),
        (((1, 0, 1), (0, 1, 1), (1, 0, 1)), ConfigError, "intrinsics must be"),
        (((1, 0, math.nan), (0, 1, 1), (0, 0, 1)), ConfigError, "intrinsics must be"),
    ],
    ids=str,
)
def test_an_invalid_intrinsic_matrix_is_refused(matrix, error, message):
    with pytest.raises(error, match=message):
        Camera(matrix, 3.0)


@pytest.mark.errors
def test_other_mistakes_are_named():
    with pytest.raises(ConfigError, match="multiple of step"):
        CameraViews(azimuth=40)
    with pytest.raises(ConfigError, match="'pixels' or 'metres'"):
        CameraViews(units="inches")
    with pytest.raises(ConfigError, match="height"):
        Camera(SQUARE, 3.0, math.nan)
    with pytest.raises(ShapeError, match="frame, joint, 3"):
        CameraViews()(torch.zeros(5, 3))
    with pytest.raises(ShapeError, match=r"z above 0\), got z = -1"):
        project(torch.tensor([[0.0, 0.0, -1.0]]), CAMERAS["kinect1"])
    with pytest.raises(ShapeError, match=r"points \[\.\.\., 3\]"):
        project(torch.zeros(4, 2), CAMERAS["kinect1"])
