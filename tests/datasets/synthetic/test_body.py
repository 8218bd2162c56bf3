"""The kinematic body and the action programs: geometry against scipy, laws, what makes them human."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.interpolate import PchipInterpolator
from scipy.spatial.transform import Rotation

from jeanie.datasets.synthetic.action_table import ACTIONS
from jeanie.datasets.synthetic.actions import REST, Action, compile_action, interpolate, parse_pose
from jeanie.datasets.synthetic.body import (
    CHANNELS,
    LIMITS,
    PARENTS,
    forward_kinematics,
    get_channel,
    make_body,
    mirror_poses,
)
from jeanie.errors import ConfigError
from jeanie.skeleton.layout import LAYOUTS

NTU = LAYOUTS["ntu25"]
LEFT_RIGHT = [(4, 8), (5, 9), (6, 10), (7, 11), (12, 16), (13, 17), (14, 18), (15, 19), (21, 23), (22, 24)]
BODY = make_body(1.8, arms=1.05, legs=0.97, trunk=1.02, width=0.95)


def random_poses(seed: int, frames: int = 6) -> np.ndarray:
    low, high = np.maximum(LIMITS[0], -120), np.minimum(LIMITS[1], 150)
    return np.random.default_rng(seed).uniform(low, high, (frames, len(CHANNELS)))


def repeat_pose(pose: np.ndarray) -> np.ndarray:
    """Joints of one pose that is held."""
    return forward_kinematics(np.stack([pose, pose]), BODY)[0]


def pose(text: str) -> np.ndarray:
    return parse_pose(text, REST)[0]


def chain_by_scipy(values: np.ndarray) -> np.ndarray:
    """One frame, joint after joint, with scipy's rotations (intrinsic sequences); root at the origin."""
    v = dict(zip(CHANNELS, np.deg2rad(values), strict=True))
    heading = Rotation.from_euler("y", v["turn"])
    pelvis = heading * Rotation.from_euler("XZ", [v["pitch"], -v["roll"]])
    half = Rotation.from_euler("YXZ", [v["twist"] / 2, v["bend"] / 2, -v["lean"] / 2])
    spine = pelvis * half
    chest = spine * half
    frame = {
        1: pelvis,
        20: spine,
        2: chest,
        3: chest * Rotation.from_euler("YXZ", [v["look"], v["nod"], -v["tilt"]]),
    }
    for side, sign, arm, leg, tips in (("left", 1, 4, 12, (21, 22)), ("right", -1, 8, 16, (23, 24))):
        a = {name: v[f"{side}_{name}"] for name in ("raise", "plane", "rotate", "elbow", "wrist")}
        # the shortest way from hanging to the direction of raising
        direction = (sign * np.cos(a["plane"]), 0, np.sin(a["plane"]))
        swing = Rotation.from_rotvec(np.cross([0, -1, 0], direction) * a["raise"])
        upper = chest * swing * Rotation.from_euler("y", sign * a["rotate"])
        fore = upper * Rotation.from_euler("x", -a["elbow"])
        hand = fore * Rotation.from_euler("x", -a["wrist"])
        frame |= {arm: chest, arm + 1: upper, arm + 2: fore, arm + 3: hand} | dict.fromkeys(tips, hand)
        t = {name: v[f"{side}_{name}"] for name in ("flex", "spread", "point", "knee", "toe")}
        thigh = heading * Rotation.from_euler("YXZ", [sign * t["point"], -t["flex"], sign * t["spread"]])
        shank = thigh * Rotation.from_euler("x", t["knee"])
        ankle = np.clip(t["flex"] - t["knee"] + t["toe"], np.deg2rad(-30), np.deg2rad(55))
        frame |= {
            leg: pelvis,
            leg + 1: thigh,
            leg + 2: shank,
            leg + 3: shank * Rotation.from_euler("x", ankle),
        }
    joints = np.zeros((25, 3))
    for joint in (1, 20, 2, 3, 4, 5, 6, 7, 21, 22, 8, 9, 10, 11, 23, 24, *range(12, 20)):
        joints[joint] = joints[PARENTS[joint]] + frame[joint].apply(BODY.offsets[joint])
    return joints


@pytest.mark.parametrize("seed", range(8))
def test_joints_are_where_a_chain_of_scipy_rotations_puts_them(seed):
    poses = random_poses(seed, 3)
    joints = forward_kinematics(poses, BODY)
    for frame, values in zip(joints, poses, strict=True):
        expected = chain_by_scipy(values)
        assert_allclose(frame - frame[0], expected - expected[0], atol=1e-12)


def test_parents_agree_with_the_layout():
    assert {(PARENTS[joint], joint) for joint in range(25) if PARENTS[joint] >= 0} == set(NTU.bones)
    assert {tuple(sorted(pair)) for pair in NTU.pairs} == set(LEFT_RIGHT)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_no_pose_changes_bone_lengths(seed):
    joints = forward_kinematics(random_poses(seed), BODY)
    children = [joint for joint, parent in enumerate(PARENTS) if parent >= 0]
    bones = joints[:, children] - joints[:, [PARENTS[joint] for joint in children]]
    expected = np.linalg.norm(BODY.offsets[children], axis=-1)
    assert_allclose(np.linalg.norm(bones, axis=-1), np.tile(expected, (len(joints), 1)), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_a_mirrored_pose_makes_a_mirrored_body(seed):
    poses = random_poses(seed)
    swap = np.arange(25)
    for left, right in LEFT_RIGHT:
        swap[[left, right]] = right, left
    expected = forward_kinematics(poses, BODY)[:, swap] * (-1, 1, 1)
    assert_allclose(forward_kinematics(mirror_poses(poses), BODY), expected, atol=1e-12)
    assert_allclose(mirror_poses(mirror_poses(poses)), poses)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_the_lowest_joint_is_on_the_floor(seed):
    poses = random_poses(seed)
    poses[:, get_channel("hop")] = np.linspace(0, 0.5, len(poses))
    lowest = forward_kinematics(poses, BODY)[..., 1].min(1)
    assert_allclose(lowest - lowest[0], poses[:, get_channel("hop")], atol=1e-12)
    assert 0 <= lowest[0] < 0.05


def test_channels_move_limbs_in_the_direction_of_their_names():
    joints = {
        text: repeat_pose(pose(text))
        for text in ("L raise 90 plane 0 elbow 0", "L raise 90 plane 90 elbow 0")
    }
    side, front = (frame[7] - frame[4] for frame in joints.values())
    assert side[0] > 0.55
    assert front[2] > 0.55
    bent = repeat_pose(pose("B raise 0 elbow 90 rotate 0 knee 90"))
    assert bent[7, 2] - bent[5, 2] > 0.3  # forearms fold forward,
    assert bent[14, 2] - bent[13, 2] < -0.3  # shanks backward
    assert repeat_pose(pose("bend 60"))[3, 2] > 0.3
    assert repeat_pose(pose("lean 30"))[3, 0] > 0.1
    looking = repeat_pose(pose("turn 90"))
    assert looking[15, 0] - looking[14, 0] > 0.1  # toes point to where was the left
    assert repeat_pose(pose("R flex 60"))[17, 2] > 0.3


def test_knees_and_elbows_do_not_bend_the_wrong_way():
    wild = repeat_pose(pose("B knee -60 elbow -60"))
    straight = repeat_pose(pose("B knee 0 elbow 0"))
    assert_allclose(wild, straight)


def test_a_standing_foot_does_not_slide_while_the_body_sinks():
    steps = interpolate(
        np.array([0.0, 1.0]), np.stack([pose(""), pose("B flex 90 knee 110 pitch 30")]), np.linspace(0, 1, 30)
    )
    joints = forward_kinematics(steps, BODY)
    assert np.ptp(joints[:, [15, 19]], axis=0).max() < 0.03
    assert joints[-1, 0, 1] < joints[0, 0, 1] - 0.35


@pytest.mark.parametrize(
    ("name", "axis", "least"),
    [
        ("walk", 2, 1.6),
        ("jog", 2, 2.5),
        ("walk_backward", 2, -1.6),
        ("sidestep_left", 0, 0.3),
        ("crawl", 2, 0.25),
    ],
)
def test_the_planted_foot_moves_the_body_in_locomotion(name, axis, least):
    """Two loops; while on the floor, the lowest joint moves far less than the body does."""
    plan = compile_action(ACTIONS[name])
    times = np.cumsum(np.tile(plan.seconds, 2))
    steps = interpolate(times, np.tile(plan.keys[0], (2, 1)), np.arange(times[0], times[-1], 1 / 30))
    joints = forward_kinematics(steps, BODY)
    assert (joints[-1, 0, axis] - joints[0, 0, axis]) * np.sign(least) > abs(least)
    frames = np.flatnonzero(steps[:-1, get_channel("hop")] < 0.005)
    lowest = joints[frames, :, 1].argmin(1)
    slide = np.linalg.norm((joints[frames + 1, lowest] - joints[frames, lowest])[:, ::2], axis=1)
    way = np.linalg.norm(np.diff(joints[:, 0, ::2], axis=0), axis=1)
    assert np.median(slide) < 0.5 * np.median(way)


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_keeps_within_the_range_of_motion(name):
    keys = compile_action(ACTIONS[name]).keys
    assert (keys >= LIMITS[0]).all()
    assert (keys <= LIMITS[1]).all()


def test_interpolation_is_monotone_cubic():
    """Between inner keys at equal steps the slopes are those of scipy's PCHIP; ends are flat and held."""
    rng = np.random.default_rng(1)
    times, values = np.arange(9.0), rng.normal(size=(9, 4))
    inner = np.linspace(1, 7, 50)
    assert_allclose(interpolate(times, values, inner), PchipInterpolator(times, values)(inner), atol=1e-12)
    assert_allclose(interpolate(times, values, np.array([-3.0, 99.0])), values[[0, -1]])
    dense = interpolate(times, values, np.linspace(0, 8, 801))
    steps = np.searchsorted(times, np.linspace(0, 8, 801), side="right").clip(1, 8)
    low, high = np.minimum(values[:-1], values[1:]), np.maximum(values[:-1], values[1:])
    assert (dense >= low[steps - 1] - 1e-12).all()
    assert (dense <= high[steps - 1] + 1e-12).all()


def test_the_table_has_the_documented_actions():
    kinds = {
        kind: [a for a in ACTIONS.values() if a.kind == kind]
        for kind in ("arms", "legs", "whole", "locomotion")
    }
    assert len(ACTIONS) == 75
    assert min(map(len, kinds.values())) >= 8
    together = [action for action in ACTIONS.values() if action.partner is not None]
    assert len(together) == 10
    assert all(len(compile_action(action).keys) == 2 for action in together)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sit_down", "stand_up"),
        ("pick_up", "put_down"),
        ("push_forward", "pull_back"),
        ("swipe_left", "swipe_right"),
    ],
)
def test_some_pairs_differ_only_in_direction_of_time(one, other):
    assert_allclose(compile_action(ACTIONS[one]).keys[:, ::-1], compile_action(ACTIONS[other]).keys)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("turn_left", "turn_right"),
        ("sidestep_left", "sidestep_right"),
        ("walk_in_circle_left", "walk_in_circle_right"),
    ],
)
def test_some_pairs_are_mirror_images(one, other):
    left, right = compile_action(ACTIONS[one]), compile_action(ACTIONS[other])
    assert_allclose(mirror_poses(left.keys), right.keys)
    assert_allclose(mirror_poses(left.drift), right.drift)
    assert not ACTIONS[one].handed


@pytest.mark.parametrize(
    ("one", "other"), [("wave", "wave_slowly"), ("clap", "clap_slowly"), ("walk", "walk_slowly")]
)
def test_some_pairs_differ_only_in_speed(one, other):
    fast, slow = compile_action(ACTIONS[one]), compile_action(ACTIONS[other])
    assert_allclose(fast.keys, slow.keys)
    assert (slow.seconds > 1.7 * fast.seconds).all()


def test_a_key_pose_is_parsed():
    action = Action("x", "arms", "@0.3 R elbow 90 B knee 10; = bend 5; L elbow 40", base="nod 7", beat=0.6)
    plan = compile_action(action)
    assert plan.seconds.tolist() == [0.3, 0.6, 0.6]
    value = {
        name: plan.keys[0, :, get_channel(name)].tolist()
        for name in ("right_elbow", "left_knee", "bend", "nod")
    }
    assert value == {
        "right_elbow": [90, 90, REST[get_channel("right_elbow")]],
        "left_knee": [10, 10, REST[get_channel("left_knee")]],
        "bend": [0, 5, 0],
        "nod": [7, 7, 7],
    }


@pytest.mark.errors
def test_the_error_for_a_wrong_row_names_the_problem():
    with pytest.raises(ConfigError, match=r"expected a channel name, R, L or B, got 'elbwo'.*CHANNELS"):
        parse_pose("R elbwo 90", REST)
    with pytest.raises(ConfigError, match=r"'duel': the partner has 1 keys, the actor 2"):
        compile_action(Action("duel", "together", "bend 3; bend 5", partner="bend 9"))
