"""The embedded data set: reproducible, honest geometry, human bodies, and hard enough to be worth it."""

import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from jeanie.datasets.dataset import Dataset
from jeanie.datasets.synthetic.action_table import ACTIONS
from jeanie.datasets.synthetic.cameras import CAMERAS, StageCamera, record_joints
from jeanie.datasets.synthetic.dataset import RATE, Studio, open_synthetic
from jeanie.errors import ConfigError
from jeanie.skeleton.layout import LAYOUTS

ROOT = Path(__file__).resolve().parents[3]
NTU = LAYOUTS["ntu25"]
FEW = ["wave", "walk", "sit_down", "jump_up", "shake_hands"]


def digest(motion) -> str:
    return hashlib.sha256(motion.joints.numpy().tobytes() + motion.valid.numpy().tobytes()).hexdigest()


def clip_of(data, **tags) -> int:
    """First clip with these tags."""
    return next(
        i for i, clip in enumerate(data.clips) if all(getattr(clip.tags, k) == v for k, v in tags.items())
    )


def test_every_action_subject_take_and_camera_has_one_clip():
    data = open_synthetic()
    assert isinstance(data, Dataset)
    assert len(data) == len(ACTIONS) * 10 * 2 * 4 == len(set(data.names))
    assert set(data.labels) == set(ACTIONS)
    assert set(data.subjects) == set(range(10))
    assert set(data.views) == {"left", "centre", "right", "top"}
    motion = data[4321]
    assert (motion.label, motion.subject, motion.view) == (
        data.labels[4321],
        data.subjects[4321],
        data.views[4321],
    )
    assert (motion.name, motion.take, motion.rate) == (data.names[4321], data.takes[4321], RATE)
    assert motion.layout is NTU


def test_a_clip_does_not_depend_on_order_or_process():
    data = open_synthetic(3)
    index = [5999, 17, 2048]
    first = [digest(data[i]) for i in index]
    other = open_synthetic(3)
    assert [digest(other[i]) for i in reversed(index)] == first[::-1]
    some = open_synthetic(3, takes=1, actions=["depart", data.labels[17]])
    again = some.names.index(data.names[17])
    assert digest(some[again]) == first[1]
    code = (
        "import hashlib; from jeanie.datasets.synthetic import open_synthetic; m = open_synthetic(3)[2048];"
        "print(hashlib.sha256(m.joints.numpy().tobytes() + m.valid.numpy().tobytes()).hexdigest())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == first[2]


def test_takes_of_a_subject_differ():
    """The performances themselves differ, not only what the sensors add."""
    data = open_synthetic(0, subjects=3, cameras=1, actions=["throw", "walk"], noise=0, missing=0)
    assert len({digest(data[i]) for i in range(len(data))}) == len(data) == 12


def test_seeds_takes_and_subjects_differ_and_global_generators_are_not_used():
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    data = open_synthetic(0, actions=["throw"])
    made = [digest(data[i]) for i in range(len(data))]
    made.append(digest(open_synthetic(1, actions=["throw"])[0]))
    assert len(set(made)) == len(made)
    assert (np.random.get_state()[1] == before[0]).all()
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("action", FEW)
def test_all_cameras_record_the_same_performance(action):
    """Without noise, two views differ by one rotation and shift: Kabsch leaves nothing over."""
    data = open_synthetic(actions=[action], noise=0, missing=0)
    joints = [data[i].joints.double().numpy().reshape(-1, 3) for i in range(4)]
    for seen in joints[1:]:
        a, b = joints[0] - joints[0].mean(0), seen - seen.mean(0)
        u, _, vt = np.linalg.svd(a.T @ b)
        flip = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
        assert_allclose(a @ u @ flip @ vt, b, atol=1e-5)
        assert flip[2, 2] == 1  # no mirror image


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda camera: camera.name)
def test_a_camera_looks_at_the_stage_in_right_handed_axes(camera):
    position, rotation = camera.pose
    assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1)
    seen = rotation @ (np.array([0, camera.aim, 0]) - position)
    assert_allclose(seen[:2], 0, atol=1e-12)
    assert seen[2] == pytest.approx(np.hypot(camera.distance, camera.height - camera.aim))
    assert rotation[1] @ (0, 1, 0) > 0.7  # up is up, at most tilted
    assert (rotation @ (0, 1, 0))[0] == pytest.approx(0)  # and never leans sideways


def test_cameras_stand_at_their_sides_heights_and_distances():
    where = {camera.name: camera.pose[0] for camera in CAMERAS}
    assert where["left"][0] > 1 > -1 > where["right"][0]  # +x is the left of the centre camera
    assert where["top"][1] > max(where[name][1] for name in ("left", "centre", "right")) + 1
    assert len({round(float(np.linalg.norm(place[::2])), 2) for place in where.values()}) == 4


def test_a_person_facing_the_camera_has_the_right_hand_at_larger_x():
    data = open_synthetic(actions=["bow"], noise=0, missing=0)
    joints = data[clip_of(data, view="centre")].joints[0, 0]
    assert joints[NTU.index("right_shoulder"), 0] > joints[NTU.index("left_shoulder"), 0] + 0.2
    assert joints[NTU.index("head"), 1] > joints[NTU.index("left_foot"), 1] + 1
    toe = joints[NTU.index("left_foot"), 2] - joints[NTU.index("left_ankle"), 2]
    assert toe < -0.05  # towards the camera


def test_a_rotated_camera_agrees_with_pinhole_geometry():
    camera = StageCamera("side", 90.0, 1.0, 2.0, aim=1.0)  # on the left, level, looking along -x
    stage = np.zeros((1, 1, 25, 3)) + np.array([0.5, 1.2, 0.3])
    joints, valid = record_joints(stage, camera, np.random.default_rng(0), noise=0.0, missing=0.0)
    assert_allclose(joints[0, 0, 0], [0.3, 0.2, 1.5], atol=1e-12)
    assert valid.all()


def test_bodies_keep_bone_lengths_and_stay_in_front_of_the_camera():
    data = open_synthetic(subjects=4, takes=1, noise=0, missing=0)
    parents, children = np.array(NTU.bones).T
    heights = set()
    for action in ACTIONS:
        motion = data[clip_of(data, label=action, subject=len(action) % 4, view="right")]
        joints = motion.joints.double().numpy()
        length = np.linalg.norm(joints[:, :, parents] - joints[:, :, children], axis=-1)
        assert np.ptp(length, axis=0).max() < 1e-4, action
        assert joints[..., 2].min() > 0.5, action
        assert motion.persons == (2 if ACTIONS[action].partner else 1)
        assert 20 <= len(motion) <= 400
        heights.add(round(float(length[0, 0].sum()), 3))
    assert len(heights) == 4  # as many bodies as subjects


@pytest.mark.parametrize("action", ACTIONS)
def test_performances_look_human(action):
    """On the stage: nothing below the floor, no flight but jumps, knees fold backward, no limb is a whip."""
    joints = Studio(7).perform(ACTIONS[action], subject=2, take=1)
    assert joints[..., 1].min() >= 0.0
    assert joints[..., 1].min(2).max() < (0.6 if action == "jump_up" else 0.25)
    leftward = joints[:, :, 12] - joints[:, :, 16]
    for hip, knee, ankle in ((12, 13, 14), (16, 17, 18)):
        fold = np.cross(joints[:, :, knee] - joints[:, :, hip], joints[:, :, ankle] - joints[:, :, knee])
        assert (fold * leftward).sum(-1).min() > -1e-9
    speed = np.linalg.norm(np.diff(joints, axis=0), axis=-1).max() * RATE
    assert speed < 16  # metres a second, of a fingertip


def test_two_persons_meet_and_do_not_overlap():
    studio = Studio(0)
    for name in ("shake_hands", "high_five", "hand_over"):
        joints = studio.perform(ACTIONS[name], subject=1, take=0)
        apart = np.linalg.norm(joints[:, 0, 11] - joints[:, 1, 11], axis=-1)
        assert apart.min() < 0.35, name
        assert apart.max() > 0.4, name
    for action in ACTIONS.values():
        if action.partner is not None:
            joints = studio.perform(action, subject=3, take=1)
            trunks = np.linalg.norm(joints[:, 0, 1] - joints[:, 1, 1], axis=-1)
            assert trunks.min() > 0.2, action.name


def test_sensors_are_noisy_and_lose_joints():
    exact = open_synthetic(subjects=3, takes=1, noise=0, missing=0)
    real = open_synthetic(subjects=3, takes=1)
    lost, errors = [], []
    for i in range(0, len(real), 9):
        motion, truth = real[i], exact[i]
        assert truth.valid.all()
        assert (motion.joints[~motion.valid] == 0).all()
        assert motion.valid.flatten(1).any(1).all()
        lost.append(1 - motion.valid.double().mean().item())
        errors.append((motion.joints - truth.joints)[motion.valid].norm(dim=-1).mean().item())
    assert 0.01 < np.mean(lost) < 0.04
    assert 0.01 < np.mean(errors) < 0.04
    assert sum(share > 0 for share in lost) > 0.8 * len(lost)


def test_left_handed_subjects_use_the_other_hand_and_keep_directions():
    studio = Studio(0)

    def travel(action: str, subject: int, joint: int) -> float:
        joints = studio.perform(ACTIONS[action], subject, 0)[:, 0]
        return float(np.ptp(joints[:, joint] - joints[:, 0], axis=0).sum())

    right, left = NTU.index("right_hand"), NTU.index("left_hand")
    assert travel("throw", 0, right) > 2 * travel("throw", 0, left)
    assert travel("throw", 5, left) > 2 * travel("throw", 5, right)
    assert travel("swipe_left", 5, right) > 2 * travel("swipe_left", 5, left)


def test_the_dtw_of_the_benchmark_equals_an_oracle(measurement):
    cost = torch.rand(2, 5, 4, generator=torch.Generator().manual_seed(0))
    for pair in range(2):
        table = np.full((6, 5), np.inf)
        table[0, 0] = 0
        for t in range(5):
            for s in range(4):
                before = min(table[t, s], table[t, s + 1], table[t + 1, s])
                table[t + 1, s + 1] = cost[pair, t, s].item() + before
        assert measurement.dtw(cost)[pair].item() == pytest.approx(table[5, 4], rel=1e-6)


def test_one_shot_across_cameras_is_hard_and_simulated_views_help(measurement):
    outcome = measurement.measure(seed=0, subjects=6, exemplar_subjects=1, per_action=4)
    assert len(outcome.plain) == 300
    assert 0.25 < outcome.plain.mean() < 0.75
    gain, low, _ = outcome.interval(outcome.with_views.astype(float) - outcome.plain)
    assert gain >= 8
    assert low > 4


@pytest.fixture(scope="module")
def measurement():
    """benchmarks/synthetic.py, which measures what docs/synthetic.md publishes."""
    spec = importlib.util.spec_from_file_location("measure_synthetic", ROOT / "benchmarks" / "synthetic.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.errors
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be 0 or more, got -1"),
        ({"cameras": 5}, "1 to 4 cameras, got subjects=10, takes=2, cameras=5"),
        ({"subjects": 0}, "subjects and takes of at least 1"),
        ({"noise": -0.5}, "must be 0 or more, got noise=-0.5"),
        ({"actions": ["wave", "wiggle"]}, "no action 'wiggle'; the actions are wave, wave_slowly"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        open_synthetic(**options)
