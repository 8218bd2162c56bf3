"""The camera's place from skeletons: stands known by construction, thirds by hand, real data sets."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion
from jeanie.views import CAMERAS, estimate_camera_positions, estimate_positions_by
from jeanie.views.camera_position import (
    NTU_SETUPS,
    compute_mean_pose,
    group_setups_by_height,
    read_setups,
    split_into_thirds,
)

DATA = os.environ.get("JEANIE_DATA")

# a standing person on the floor, metres, in the order of core15; symmetric in z, so that the long axis is y
STANDING = np.array(
    [
        (0.0, 1.7, 0.0), (0.0, 1.5, 0.0), (0.0, 1.2, 0.0),
        (-0.2, 1.4, 0.0), (-0.25, 1.1, 0.0), (-0.25, 0.9, 0.0),
        (0.2, 1.4, 0.0), (0.25, 1.1, 0.0), (0.25, 0.9, 0.0),
        (-0.1, 0.9, 0.0), (-0.1, 0.5, 0.0), (-0.1, 0.0, 0.0),
        (0.1, 0.9, 0.0), (0.1, 0.5, 0.0), (0.1, 0.0, 0.0),
    ]
)  # fmt: skip
TORSO = STANDING[2]


def record_person(at, height, tilt=0.0, frames=4, **known):
    """The standing person at floor (x, z), seen by a camera ``height`` up that looks down by ``tilt``."""
    world = STANDING + np.array((at[0], -height, at[1]))
    c, s = math.cos(math.radians(tilt)), math.sin(math.radians(tilt))
    x, y, z = world.T
    seen = np.stack((x, c * y + s * z, -s * y + c * z), -1)
    return Motion(np.repeat(seen[None], frames, 0).astype(np.float32), LAYOUTS["core15"], **known)


def test_a_known_camera_position_is_recovered():
    motions = [record_person((x, z), height=1.4, tilt=20) for x in (-1, 0, 1) for z in (2.5, 3.0, 3.5)]
    found = estimate_camera_positions(motions).overall
    distances = [math.dist((x, 1.2, z), (0, 1.4, 0)) for x in (-1, 0, 1) for z in (2.5, 3.0, 3.5)]
    assert found.clips == 9
    assert_close(found.distance, sum(distances) / 9, atol=1e-5, rtol=0)
    assert_close(found.height, 1.4, atol=1e-5, rtol=0)
    assert_close(found.tilt, 20.0, atol=1e-3, rtol=0)


@given(st.floats(0.3, 3), st.floats(-40, 60))
def test_height_and_tilt_are_separated(height, tilt):
    found = estimate_camera_positions([record_person((0.2, 4.0), height, tilt)]).overall
    assert_close((found.height, found.tilt), (height, tilt), atol=1e-3, rtol=0)


def test_clips_fall_into_three_equal_ranges_of_x_and_of_y():
    places = [-1.5, -0.6, -0.4, 0.0, 0.4, 0.6, 1.5]  # range 3, so borders at -0.5 and 0.5
    heights = [1.0, 1.0, 1.9, 1.6, 1.1, 2.2, 1.45]  # torso y = 1.2 - height, range 1.2: borders 1.4 and 1.8
    motions = [record_person((x, 3.0), h) for x, h in zip(places, heights, strict=True)]
    found = estimate_camera_positions(motions)
    assert found.column_of == ("left", "left", "centre", "centre", "centre", "right", "right")
    assert found.row_of == ("top", "top", "bottom", "centre", "top", "bottom", "centre")
    assert list(found.columns) == ["left", "centre", "right"]
    assert list(found.rows) == ["bottom", "centre", "top"]
    assert {name: place.clips for name, place in found.columns.items()} == {
        "left": 2,
        "centre": 3,
        "right": 2,
    }
    assert_close(found.rows["bottom"].height, (1.9 + 2.2) / 2, atol=1e-5, rtol=0)
    assert_close(found.columns["left"].height, 1.0, atol=1e-5, rtol=0)
    expected = (math.dist((-1.5, 1.2, 3), (0, 1, 0)) + math.dist((-0.6, 1.2, 3), (0, 1, 0))) / 2
    assert_close(found.columns["left"].distance, expected, atol=1e-5, rtol=0)


def test_one_clip_is_in_the_centre():
    found = estimate_camera_positions([record_person((0.3, 3.0), 1.2)])
    assert (found.column_of, found.row_of) == (("centre",), ("centre",))


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=20, unique=True))
def test_thirds_split_the_range_not_the_count(values):
    low, high = min(values), max(values)
    found = split_into_thirds(torch.tensor(values, dtype=torch.float64)).tolist()
    for value, third in zip(values, found, strict=True):
        part = (value - low) / (high - low)
        assert third / 3 - 1e-12 <= part <= (third + 1) / 3 + 1e-12


def test_named_cameras_need_no_ranges():
    motions = [
        record_person((0, 3.0), 1.0, setup=1, view=1),
        record_person((0, 3.4), 1.0, setup=1, view=1),
        record_person((0, 4.0), 2.0, 30, setup=2, view=1),
    ]
    found = estimate_positions_by(motions, lambda motion: (motion.setup, motion.view))
    assert list(found) == [(1, 1), (2, 1)]
    assert_close(found[2, 1].height, 2.0, atol=1e-5, rtol=0)
    assert found[1, 1].clips == 2
    camera = found[2, 1].camera(CAMERAS["kinect2"].intrinsics)
    assert (camera.distance, camera.height) == (found[2, 1].distance, found[2, 1].height)


def test_data_sets_are_read_one_clip_at_a_time():
    alive = []

    def yield_motions():
        for x in (-1.0, 0.0, 1.0):
            alive.append(x)
            yield record_person((x, 3.0), 1.0)

    assert estimate_camera_positions(yield_motions()).overall.clips == len(alive) == 3


def test_missing_joints_do_not_move_the_camera():
    joints = record_person((0.4, 3.0), 1.3, tilt=10).joints[:, 0].clone()
    joints[1:, 4] = math.nan  # seen once
    joints[:, 7] = 0  # never seen
    motion = Motion(joints, LAYOUTS["core15"])
    pose = compute_mean_pose(motion)
    assert_close(pose[4], joints[0, 4].double())
    assert pose[7].isnan().all()
    found = estimate_camera_positions([motion]).overall
    assert_close(found.height, 1.3, atol=0.05, rtol=0)
    assert_close(found.distance, math.dist((0.4, 1.2, 3.0), (0, 1.3, 0)), atol=1e-5, rtol=0)


def test_a_missing_torso_is_replaced_by_the_mean_of_the_other_joints():
    joints = record_person((0.0, 3.0), 1.0).joints[:, 0].clone()
    joints[:, 2] = math.nan
    found = estimate_camera_positions([Motion(joints, LAYOUTS["core15"])]).overall
    middle = np.delete(STANDING, 2, 0).mean(0) + np.array((0, -1.0, 3.0))
    assert_close(found.distance, float(np.linalg.norm(middle)), atol=1e-5, rtol=0)


def test_a_table_of_setups_becomes_cameras(tmp_path):
    table = tmp_path / "setups.csv"
    table.write_text("setup, height, distance\n1, 1.0, 3.5\n2, 2.0, 2.5\n3, 2.4, 3\n4, 1.5, 3\n")
    cameras = read_setups(table)
    assert list(cameras) == [1, 2, 3, 4]
    assert (cameras[2].height, cameras[2].distance) == (2.0, 2.5)
    assert cameras[2].intrinsics == CAMERAS["kinect2"].intrinsics
    # heights 1.0 to 2.4: borders at 1.467 and 1.933
    assert group_setups_by_height(cameras) == {"bottom": (1,), "centre": (4,), "top": (2, 3)}


def test_the_setups_of_ntu_are_those_of_its_table():
    assert list(NTU_SETUPS) == list(range(1, 18))
    spots = {
        1: (1.7, 3.5),
        2: (1.7, 2.5),
        5: (1.2, 3.0),
        7: (0.5, 4.5),
        9: (0.8, 2.0),
        16: (2.7, 3.5),
        17: (2.5, 3.0),
    }
    assert {setup: (NTU_SETUPS[setup].height, NTU_SETUPS[setup].distance) for setup in spots} == spots
    assert {camera.intrinsics for camera in NTU_SETUPS.values()} == {CAMERAS["kinect2"].intrinsics}
    # heights 0.5 to 2.7: borders at 1.233 and 1.967
    assert group_setups_by_height(NTU_SETUPS) == {
        "bottom": (4, 5, 6, 7, 9),
        "centre": (1, 2, 3, 8, 10, 11),
        "top": (12, 13, 14, 15, 16, 17),
    }


@pytest.mark.skipif(DATA is None, reason="JEANIE_DATA is not set: needs MSRAction3D")
def test_kinect1_stands_where_msraction3d_puts_it():
    files = sorted(Path(DATA, "msraction3d", "real3d_txt").glob("*.txt"))
    arrays = (np.array(file.read_text().split(), np.float32).reshape(-1, 20, 4)[..., :3] for file in files)
    motions = (Motion(array, LAYOUTS["msr20"]) for array in arrays if array.any())
    found = estimate_camera_positions(motions).overall
    assert found.clips == 566
    assert_close(CAMERAS["kinect1"].distance, found.distance, atol=0.01, rtol=0)
    assert_close(CAMERAS["kinect1"].height, found.height, atol=0.01, rtol=0)


@pytest.mark.skipif(DATA is None, reason="JEANIE_DATA is not set: needs the NTU samples")
def test_kinect2_stands_where_the_ntu_samples_put_it():
    motions = []
    for file in sorted(Path(DATA, "ntu-samples").glob("*.skeleton")):
        rows = [line.split() for line in file.read_text().splitlines()]
        joints = np.array([[float(word) for word in row[:3]] for row in rows if len(row) == 12], np.float32)
        motions.append(Motion(joints.reshape(-1, 25, 3), LAYOUTS["ntu25"], name=file.stem))
    found = estimate_camera_positions(motions).overall
    assert_close(CAMERAS["kinect2"].distance, found.distance, atol=0.01, rtol=0)
    assert_close(CAMERAS["kinect2"].height, found.height, atol=0.01, rtol=0)
    assert 10 < found.tilt < 25  # it looks down
    # all are of setup 1: the table of the data set says about the same
    assert_close(NTU_SETUPS[1].distance, found.distance, atol=0.25, rtol=0)
    assert_close(NTU_SETUPS[1].height, found.height, atol=0.1, rtol=0)


@pytest.mark.errors
def test_motions_in_pixels_or_in_different_layouts_are_refused():
    with pytest.raises(DataError, match="at least one motion"):
        estimate_camera_positions([])
    flat = Motion(np.ones((3, 17, 3), np.float32), LAYOUTS["coco17"], name="flat.json")
    with pytest.raises(DataError, match=r"flat\.json: .*3-D joints in metres"):
        estimate_camera_positions([flat])
    other = Motion(np.ones((3, 25, 3), np.float32), LAYOUTS["ntu25"], name="b")
    with pytest.raises(DataError, match=r"b: expected layout core15.*convert"):
        estimate_camera_positions([record_person((0, 3), 1), other])


@pytest.mark.errors
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no setups"),
        ("setup,height\n1,1.5\n", "line 2: expected setup, height, distance"),
        ("setup,height,distance\n1,1.5,3\n2,tall,3\n", "line 3"),
        ("setup,height,distance\n1,1.5,-3\n", "line 2.*in front of the camera"),
        ("setup,height,distance\n1,1.5\n", "line 2"),
    ],
)
def test_a_bad_table_names_its_line(tmp_path, text, message):
    table = tmp_path / "setups.csv"
    table.write_text(text)
    with pytest.raises(DataError, match=message):
        read_setups(table)


@pytest.mark.errors
def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.csv"):
        read_setups(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="heights"):
        group_setups_by_height({})
