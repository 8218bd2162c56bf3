"""The 2-D to 3-D network: it learns a little in seconds, from synthetic and from real motions."""

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.formats.cmu import open_cmu
from jeanie.datasets.formats.kinetics import open_kinetics
from jeanie.datasets.lifting import Lifter, lift_dataset, train_lifter
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.skeleton.convert import convert
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

CMU = Path(os.environ.get("JEANIE_DATA", "/nonexistent")) / "cmu"
CORE = LAYOUTS["core15"]
FLAT = replace(CORE, name="flat15", unit="px", dims=2)


@pytest.fixture(autouse=True)
def one_thread():
    """Matrices this small are slower on several threads that other tests keep busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def project_motion(motion, azimuth_deg, distance=4.0, focal_px=500.0):
    """Core joints relative to the torso, and as pixels of a camera at an azimuth; one joint at a time."""
    turn = np.radians(azimuth_deg)
    rotation = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    core = convert(motion, CORE)
    space, image = [], []
    for frame in core.joints[core.valid.all(-1)[:, 0], 0].double().numpy():
        turned = [rotation @ (joint - frame[CORE.torso]) for joint in frame]
        space.append(turned)
        image.append(
            [[focal_px * x / (z + distance), focal_px * y / (z + distance), 0] for x, y, z in turned]
        )
    truth = torch.tensor(np.array(space), dtype=torch.float32)
    return truth, Motion(np.array(image), FLAT, valid=np.ones((len(image), 15), bool), name="photographs")


def error(joints, truth):
    """Mean distance in metres."""
    return (joints - truth).norm(dim=-1).mean().item()


def assert_lifts(lifter, motions):
    """Nearer to the truth than the true x and y without depth, and than to the truth turned inside out."""
    found, flat, turned = [], [], []
    for motion in motions:
        for azimuth in (-150, -60, 0, 45, 120):
            truth, image = project_motion(motion[::7], azimuth)
            joints = lifter.lift(image).joints[:, 0]
            found.append(error(joints, truth))
            flat.append(error(truth * torch.tensor([1.0, 1.0, 0.0]), truth))
            turned.append(error(joints, truth * torch.tensor([1.0, 1.0, -1.0])))
    assert np.mean(found) < 0.9 * np.mean(flat)
    assert np.mean(found) < 0.7 * np.mean(turned)


def test_a_lifter_learns_depth_from_projected_synthetic_poses():
    actions = ["wave", "walk", "kick", "squat"]
    known = open_synthetic(subjects=4, takes=1, cameras=1, noise=0.0, missing=0.0)
    chosen = [at for at, label in enumerate(known.labels) if label in actions]
    training = [known[at] for at in chosen if known.subjects[at] < 3]
    held_out = [known[at] for at in chosen if known.subjects[at] == 3]
    assert held_out
    lifter = train_lifter(
        training, generator=generator(), steps=400, batch=128, rate=3e-3, width=96, dropout=0.0
    )
    assert_lifts(lifter, held_out)


@pytest.mark.skipif(not CMU.is_dir(), reason="needs the recordings cmu in $JEANIE_DATA")
def test_a_lifter_learns_depth_from_real_motions_of_other_subjects():
    data = open_cmu(CMU)
    chosen = range(0, len(data), 60)
    training = [data[at] for at in chosen if int(data.subjects[at]) % 5]
    held_out = [data[at] for at in chosen if not int(data.subjects[at]) % 5]
    lifter = train_lifter(
        training, generator=generator(), steps=400, batch=128, rate=3e-3, width=96, dropout=0.0
    )
    assert_lifts(lifter, [motion[:140] for motion in held_out])


# --- laws of the network, trained or not


def small(seed=0, dropout=0.25):
    return Lifter(width=32, dropout=dropout, generator=generator(seed)).eval()


def image(frames=6, seed=1):
    points = torch.randn(frames, 2, 15, 3, generator=generator(seed)) * 50
    points[..., 2] = 0
    return Motion(points, FLAT, label="wave", subject=3, rate=25.0, name="clip")


def test_position_and_size_in_the_image_have_no_influence():
    motion, lifter = image(), small()
    moved = motion.replace(joints=motion.joints * 3 + torch.tensor([70.0, -20.0, 0.0]))
    assert_close(lifter.lift(moved).joints, lifter.lift(motion).joints, rtol=1e-4, atol=1e-5)


def test_a_lifted_motion_keeps_its_tags_and_has_its_torso_at_the_origin():
    motion = small().lift(image())
    assert (motion.layout, motion.label, motion.subject, motion.rate, motion.name) == (
        CORE,
        "wave",
        3,
        25.0,
        "clip",
    )
    assert motion.joints.shape == (6, 2, 15, 3)
    assert motion.joints[:, :, CORE.torso].abs().max() == 0
    assert motion.valid.all()


def test_missing_joints_are_estimated_and_missing_bodies_stay_missing():
    motion, valid = image(), torch.ones(6, 2, 15, dtype=torch.bool)
    valid[0, 0, 6:] = False  # six joints are enough
    valid[1, 0, 5:] = False  # five are not
    lifter = small()
    some = lifter.lift(motion.replace(valid=valid))
    assert some.valid.all(-1).tolist() == [[True, True], [False, True]] + [[True, True]] * 4
    assert_close(some.joints[2:], lifter.lift(motion).joints[2:])
    other = motion.joints.clone()
    other[0, 0, 6:] = 1e6  # what is not seen has no influence
    assert_close(lifter.lift(motion.replace(joints=other, valid=valid)).joints, some.joints)


def test_key_points_of_other_layouts_are_converted_to_the_core():
    joints = torch.randn(4, 1, 18, 3, generator=generator(2)) * torch.tensor([60.0, 60.0, 0.0])
    motion = small().lift(Motion(joints, LAYOUTS["openpose18"]))
    assert motion.layout == CORE


def test_training_depends_only_on_the_given_generator():
    motions = [open_synthetic(subjects=1, takes=1, cameras=1)[0]]
    before = torch.get_rng_state()
    first, second, third = (
        train_lifter(motions, generator=generator(seed), steps=3, batch=16, width=16) for seed in (4, 4, 5)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(
        torch.equal(a, b)
        for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )
    assert not torch.equal(first.last.weight, third.last.weight)


def test_dropout_acts_in_training_only_and_keeps_the_mean():
    lifter = Lifter(width=64, blocks=0, dropout=0.5, generator=generator())
    points, seen = torch.randn(8, 15, 2, generator=generator()), torch.ones(8, 15, dtype=torch.bool)
    calm = lifter.eval()(points, seen)
    assert_close(lifter(points, seen), calm)
    lifter.train()
    lifter.norms.eval()
    draws = torch.stack([lifter(points, seen, generator(seed)) for seed in range(300)])
    assert draws.std(0).mean() > 0
    assert_close(draws.mean(0), calm, rtol=0, atol=4 * draws.std(0).max().item() / 300**0.5)


def test_lifting_does_not_change_the_mode_of_the_network():
    lifter = small().train()
    lifter.lift(image())
    assert lifter.training


# --- files


def test_saved_weights_are_restored_bit_for_bit(tmp_path):
    lifter = Lifter(width=24, blocks=1, dropout=0.1, generator=generator())
    lifter.save(tmp_path / "lifter.safetensors")
    again = Lifter.load(tmp_path / "lifter.safetensors")
    assert again.config == {"width": 24, "blocks": 1, "dropout": 0.1}
    assert not again.training
    assert torch.equal(again.lift(image()).joints, lifter.lift(image()).joints)
    assert [path.name for path in tmp_path.iterdir()] == ["lifter.safetensors"]


@pytest.mark.errors
def test_files_that_are_not_lifters_are_refused(tmp_path):
    path = tmp_path / "lifter.safetensors"
    with pytest.raises(DataError, match=r"lifter\.safetensors: not the weights of a lifter"):
        Lifter.load(path)
    small().save(path)
    good = path.read_bytes()
    wrong = {
        "cut": good[:-10],
        "empty": b"",
        "text": b"hello world, this is no header",
        "another format": good.replace(b"jeanie-lifter-1", b"jeanie-lifter-9"),
        "another width": good.replace(rb"\"width\": 32", rb"\"width\": 33"),
        "a huge width": good.replace(rb"\"width\": 32", rb"\"width\":9e9"),
        "a claim": (2**40).to_bytes(8, "little") + good[8:],
    }
    for what, data in wrong.items():
        assert data != good, what
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"lifter\.safetensors: "):
            Lifter.load(path)


def test_a_data_set_of_key_points_becomes_one_of_joints(tmp_path):
    rng = np.random.default_rng(0)
    people = [{"pose": rng.uniform(0.2, 0.8, 36).tolist(), "score": [0.9] * 18}]
    frames = [{"frame_index": at, "skeleton": people} for at in range(3)]
    (tmp_path / "abc.json").write_text(json.dumps({"data": frames, "label": "juggling"}))
    flat = open_kinetics(tmp_path)
    data = lift_dataset(flat, small())
    assert (data.name, data.layout, data.labels) == ("kinetics-3d", CORE, ("juggling",))
    assert data[0].joints[..., 2].abs().max() > 0
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 -- our own object, on its way to a worker
    assert_close(again[0].joints, data[0].joints)


@pytest.mark.errors
def test_motions_that_cannot_be_lifted_or_learnt_from_are_refused():
    flat, deep = image(), small().lift(image())
    with pytest.raises(ShapeError, match="already has 3-D joints"):
        small().lift(deep)
    hidden = flat.replace(valid=torch.zeros(6, 2, 15, dtype=torch.bool).index_fill(2, torch.arange(5), True))
    with pytest.raises(DataError, match="fewer than 6 key points in every frame"):
        small().lift(hidden)
    with pytest.raises(ShapeError, match="learns from 3-D joints in metres"):
        train_lifter([flat], generator=generator(), steps=1)
    with pytest.raises(DataError, match="found none"):
        train_lifter([], generator=generator(), steps=1)
    with pytest.raises(ConfigError, match="width of 1 to 8192"):
        Lifter(width=0)
