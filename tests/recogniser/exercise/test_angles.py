"""Joint angles against bodies of known angles, and their independence of size, place and side."""

import numpy as np
import torch
from exercises import CORE, raise_arms, stand_upright
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from jeanie.recogniser.exercise.angles import ANGLES, compute_angles, list_known_angles, measure_ranges
from jeanie.recogniser.exercise.deviations import JOINTS, compute_deviations, compute_directions

ALL = torch.ones(15, dtype=torch.bool)


def angle(body, name):
    return float(compute_angles(torch.tensor(body))[ANGLES.index(name)])


def test_who_stands_upright_has_no_angles():
    assert float(compute_angles(torch.tensor(stand_upright())).max()) < 1e-5


@settings(max_examples=20)
@given(st.floats(0, 179), st.floats(0, 179))
def test_arms_have_the_angles_that_they_were_given(shoulder, elbow):
    body = raise_arms(shoulder, elbow=elbow)
    assert abs(angle(body, "left_shoulder") - shoulder) < 1e-4
    assert abs(angle(body, "right_elbow") - elbow) < 1e-4


def test_a_seated_person_who_leans_has_right_angles():
    body = stand_upright()
    for side in ("left", "right"):
        hip = body[CORE.index(f"{side}_hip")]
        body[CORE.index(f"{side}_knee")] = hip + np.array([0, 0, -0.45])
        body[CORE.index(f"{side}_foot")] = hip + np.array([0, -0.45, -0.45])
    assert abs(angle(body, "left_hip") - 90) < 1e-4
    assert abs(angle(body, "right_knee") - 90) < 1e-4
    lean = np.deg2rad(30)
    hips = np.array([0, 0.95, 0])
    turn = np.array([[1, 0, 0], [0, np.cos(lean), np.sin(lean)], [0, -np.sin(lean), np.cos(lean)]])
    assert abs(angle((stand_upright() - hips) @ turn.T + hips, "trunk") - 30) < 1e-4


@settings(max_examples=20)
@given(st.floats(0.2, 5), st.floats(-180, 180), st.floats(-3, 3))
def test_angles_do_not_depend_on_size_side_and_place(size, turn, place):
    yaw = np.deg2rad(turn)
    axes = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
    body = raise_arms(70, elbow=40)
    moved = compute_angles(torch.tensor(size * body @ axes.T + place))
    assert_close(moved, compute_angles(torch.tensor(body)), atol=1e-4, rtol=0)


def test_angles_of_missing_joints_are_left_out():
    present = ALL.clone()
    present[CORE.index("left_hand")] = False
    ranges = measure_ranges(compute_angles(torch.tensor(np.stack([raise_arms(10), raise_arms(80)]))), present)
    assert "left_elbow" not in ranges
    low, high = ranges["left_shoulder"]
    assert abs(low - 10) < 1e-3
    assert abs(high - 80) < 1e-3
    assert int(list_known_angles(present).sum()) == 8


def test_a_joint_is_not_blamed_for_the_joint_above_it():
    plain, off = (compute_directions(torch.tensor(raise_arms(degrees, "left", 50))) for degrees in (60, 85))
    found = dict(zip(JOINTS, compute_deviations(off, plain).tolist(), strict=True))
    assert abs(found.pop("left_shoulder") - 25) < 1e-3
    assert max(found.values()) < 1e-3
