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
from typer.testing import CliRunner

import jeanie
from jeanie.cli.app import app
from jeanie.datasets.archive.reader import open_archive
from jeanie.datasets.archive.writer import ArchiveWriter, write_archive
from jeanie.datasets.formats.cmu import open_cmu
from jeanie.datasets.formats.kinetics import open_kinetics
from jeanie.datasets.lifter_training import measure_lifter
from jeanie.datasets.lifting import Lifter, lift_dataset, provide_lifted_archive, train_lifter
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


def assert_lifts(lifter, motions, *, share=0.9):
    """Depth nearer to the truth than no depth, and much nearer than to the truth turned inside out."""
    found, flat, turned = [], [], []
    for motion in motions:
        for azimuth in (-150, -60, 0, 45, 120):
            truth, image = project_motion(motion[::7], azimuth)
            lifted = lifter.lift(image)
            assert torch.equal(lifted.joints[..., :2], image.joints[..., :2])  # x and y stay
            depth = lifted.joints[:, 0, :, 2] * 4.0 / 500.0  # pixels to metres at the torso
            found.append((depth - truth[..., 2]).abs().mean().item())
            flat.append(truth[..., 2].abs().mean().item())
            turned.append((depth + truth[..., 2]).abs().mean().item())
    assert np.mean(found) < share * np.mean(flat)
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


@pytest.mark.skipif(not CMU.is_dir(), reason="needs the recordings cmu in $JEANIE_DATA")
def test_the_shipped_lifter_has_the_published_error_on_held_out_subjects():
    """Subjects 5, 10, 15, ...: 63 mm of depth, 162 mm without a lifter (docs/results/lifting.md)."""
    data = open_cmu(CMU)
    chosen = [data[at][::60] for at in range(0, len(data), 8) if int(data.subjects[at]) % 5 == 0]
    error = measure_lifter(Lifter.load(), chosen, generator=generator(), count=3000)
    assert 0.05 < error.depth < 0.075
    assert 0.06 < error.joints < 0.095
    assert 0.14 < error.flat < 0.19
    assert_lifts(Lifter.load(), [motion for motion in chosen if len(motion) > 8][:6], share=0.5)
    assert Path(jeanie.__file__).parent.joinpath("models/lifter/lifter.safetensors").stat().st_size < 5e6


def test_the_default_network_is_that_of_martinez():
    """Two residual blocks of two layers, 1024 wide, batch norm after each hidden layer, dropout 0.5, max norm 1."""
    lifter = Lifter(generator=generator())
    assert lifter.config == {"width": 1024, "blocks": 2, "dropout": 0.5, "max_norm": 1.0}
    assert [(layer.in_features, layer.out_features) for layer in lifter.layers] == [(45, 1024)] + [
        (1024, 1024)
    ] * 4
    assert len(lifter.norms) == 5
    points, seen = torch.randn(8, 15, 2, generator=generator()), torch.ones(8, 15, dtype=torch.bool)
    before = lifter.eval()(points, seen)
    with torch.no_grad():
        for layer in (*lifter.layers, lifter.last):
            layer.weight *= 100 / layer.weight.norm()
    first = lifter(points, seen)
    with torch.no_grad():
        lifter.last.weight *= 7  # beyond the largest norm, only the direction counts
    assert_close(lifter(points, seen), first)
    assert (first - before).abs().max() > 0
    free = Lifter(width=16, max_norm=None, generator=generator()).eval()
    small_output = free(points, seen)
    with torch.no_grad():
        free.last.weight *= 7
    assert_close(free(points, seen), 7 * small_output)


# --- laws of the network, trained or not


def make_small_network(seed=0, dropout=0.25):
    return Lifter(width=32, dropout=dropout, generator=generator(seed)).eval()


def image(frames=6, seed=1):
    points = torch.randn(frames, 2, 15, 3, generator=generator(seed)) * 50
    points[..., 2] = 0
    return Motion(points, FLAT, label="wave", subject=3, rate=25.0, name="clip")


def test_depth_scales_with_the_image_and_does_not_depend_on_the_place():
    motion, lifter = image(), make_small_network()
    moved = motion.replace(joints=motion.joints * 3 + torch.tensor([70.0, -20.0, 0.0]))
    assert_close(
        lifter.lift(moved).joints[..., 2], 3 * lifter.lift(motion).joints[..., 2], rtol=1e-4, atol=1e-3
    )


def test_a_lifted_motion_keeps_its_key_points_layout_and_tags():
    given = image()
    motion = make_small_network().lift(given)
    assert motion.layout == replace(FLAT, dims=3)
    assert (motion.label, motion.subject, motion.rate, motion.name) == ("wave", 3, 25.0, "clip")
    assert torch.equal(motion.joints[..., :2], given.joints[..., :2])
    assert motion.joints[:, :, CORE.torso, 2].abs().max() == 0
    assert motion.joints[..., 2].abs().max() > 0
    assert motion.valid.all()


def test_missing_joints_stay_missing_and_bodies_with_few_joints_are_missing():
    motion, valid = image(), torch.ones(6, 2, 15, dtype=torch.bool)
    valid[0, 0, 6:] = False  # six joints are enough
    valid[1, 0, 5:] = False  # five are not
    lifter = make_small_network()
    some = lifter.lift(motion.replace(valid=valid))
    expected = valid.clone()
    expected[1, 0] = False
    assert torch.equal(some.valid, expected)
    assert_close(some.joints[2:], lifter.lift(motion).joints[2:])
    other = motion.joints.clone()
    other[0, 0, 6:] = 1e6  # what is not seen has no influence
    again = lifter.lift(motion.replace(joints=other, valid=valid))
    assert_close(again.joints[0, 0, :6], some.joints[0, 0, :6])


def test_all_18_joints_of_openpose_stay_and_the_face_has_the_depth_of_the_head():
    joints = torch.randn(4, 1, 18, 3, generator=generator(2)) * torch.tensor([60.0, 60.0, 0.0])
    layout, lifter = LAYOUTS["openpose18"], make_small_network()
    given = Motion(joints, layout)
    motion = lifter.lift(given)
    assert (motion.layout, motion.joints.shape) == (replace(layout, dims=3), (4, 1, 18, 3))
    assert torch.equal(motion.joints[..., :2], given.joints[..., :2])
    core = convert(given, CORE)
    depth = lifter.estimate_depth(core.joints[:, 0, :, :2], core.valid[:, 0])
    for name in ("left_wrist", "right_knee", "neck"):
        own = "left_hand" if name == "left_wrist" else name
        own = own if own in CORE.joints else name
        assert_close(motion.joints[:, 0, layout.index(name), 2], depth[:, CORE.index(own)])
    for name in ("nose", "left_eye", "right_eye", "left_ear", "right_ear"):
        assert_close(motion.joints[:, 0, layout.index(name), 2], depth[:, CORE.index("head")])


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
    lifter = make_small_network().train()
    lifter.lift(image())
    assert lifter.training


# --- files


def test_saved_weights_are_restored_bit_for_bit(tmp_path):
    lifter = Lifter(width=24, blocks=1, dropout=0.1, generator=generator())
    lifter.save(tmp_path / "lifter.safetensors")
    again = Lifter.load(tmp_path / "lifter.safetensors")
    assert again.config == {"width": 24, "blocks": 1, "dropout": 0.1, "max_norm": 1.0}
    assert not again.training
    assert torch.equal(again.lift(image()).joints, lifter.lift(image()).joints)
    assert [path.name for path in tmp_path.iterdir()] == ["lifter.safetensors"]


@pytest.mark.errors
def test_files_that_are_not_lifters_are_refused(tmp_path):
    path = tmp_path / "lifter.safetensors"
    with pytest.raises(DataError, match=r"lifter\.safetensors: not the weights of a lifter"):
        Lifter.load(path)
    make_small_network().save(path)
    good = path.read_bytes()
    wrong = {
        "cut": good[:-10],
        "empty": b"",
        "text": b"hello world, this is no header",
        "another format": good.replace(b"jeanie-lifter-2", b"jeanie-lifter-9"),
        "another width": good.replace(rb"\"width\": 32", rb"\"width\": 33"),
        "a huge width": good.replace(rb"\"width\": 32", rb"\"width\":9e9"),
        "a claim": (2**40).to_bytes(8, "little") + good[8:],
    }
    for what, data in wrong.items():
        assert data != good, what
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"lifter\.safetensors: "):
            Lifter.load(path)


def write_kinetics(folder):
    """Two clips with a body, and one with a single key point."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for name, score in (("abc", [0.9] * 18), ("def", [0.9] * 18), ("face", [0.9] + [0.0] * 17)):
        people = [{"pose": rng.uniform(0.2, 0.8, 36).tolist(), "score": score}]
        frames = [{"frame_index": at, "skeleton": people} for at in range(3)]
        (folder / f"{name}.json").write_text(json.dumps({"data": frames, "label": "juggling"}))
    return folder


def test_a_data_set_of_key_points_becomes_one_of_joints(tmp_path):
    flat = open_kinetics(write_kinetics(tmp_path / "kinetics"))
    data = lift_dataset(flat, make_small_network())
    layout = replace(LAYOUTS["openpose18"], dims=3)
    assert (data.name, data.layout, data.labels) == ("kinetics-3d", layout, ("juggling",) * 3)
    assert data[0].joints[..., 2].abs().max() > 0
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 -- our own object, on its way to a worker
    assert_close(again[0].joints, data[0].joints)


def test_an_archive_of_key_points_is_lifted_too(tmp_path):
    flat = open_kinetics(write_kinetics(tmp_path / "kinetics"))
    write_archive(flat.motions, tmp_path / "archive", name="kinetics")
    data = lift_dataset(open_archive(tmp_path / "archive"), make_small_network())
    assert (data.name, data.names, len(data)) == ("kinetics-3d", flat.names, 3)
    assert data.layout == data[0].layout == replace(LAYOUTS["openpose18"], dims=3)
    assert_close(data.motions[1].joints, make_small_network().lift(flat[1]).joints)
    assert list(data.labels) == list(flat.labels)


def test_the_lifted_archive_is_found_or_made(tmp_path):
    root = write_kinetics(tmp_path / "kinetics")
    place = provide_lifted_archive(root)
    assert place == tmp_path / "kinetics-3d"
    made = open_archive(place)
    assert [made.get_name(at) for at in range(len(made))] == ["abc", "def"]
    assert [row["name"] for row in made.report["dropped"]] == ["face"]
    assert torch.equal(made[0].joints, Lifter.load().lift(open_kinetics(root)[0]).joints)
    before = (place / "archive.json").stat().st_mtime_ns
    assert provide_lifted_archive(root) == place
    assert (place / "archive.json").stat().st_mtime_ns == before


def test_a_process_waits_for_another_that_makes_the_archive(tmp_path, monkeypatch):
    root, waits = write_kinetics(tmp_path / "kinetics"), []
    other = ArchiveWriter(tmp_path / "kinetics-3d", "kinetics-3d")
    other.__enter__()

    def finish(seconds):
        waits.append(seconds)
        other.__exit__(None, None, None)

    monkeypatch.setattr("jeanie.datasets.lifting.time.sleep", finish)
    assert len(open_archive(provide_lifted_archive(root))) == 2
    assert len(waits) == 1


def run(*arguments):
    said = CliRunner().invoke(app, ["lift", *map(str, arguments), "--json"])
    return said.exit_code, json.loads(said.stdout)


def test_the_commands_train_a_lifter_and_apply_it(tmp_path):
    known = open_synthetic(subjects=5, takes=1, cameras=1)
    clips = [at for at, label in enumerate(known.labels) if label in ("wave", "kick")]
    write_archive([known[at] for at in clips], tmp_path / "motions", name="synthetic")
    out = tmp_path / "lifter.safetensors"
    options = ("--width", 16, "--dropout", 0.1, "--steps", 20, "--batch", 16, "--held-out", 2, "--half")
    code, facts = run("train", tmp_path / "motions", out, *options)
    assert code == 0
    assert (facts["width"], facts["dropout"], facts["blocks"], facts["max_norm"]) == (16, 0.1, 2, 1.0)
    assert 0 < facts["depth_error_m"] < 10
    root = write_kinetics(tmp_path / "kinetics")
    code, facts = run("apply", "kinetics", tmp_path / "named", "--root", root, "--lifter", out, "--skip-bad")
    assert (code, facts["kept"]) == (0, 2)
    assert list(open_archive(tmp_path / "named").labels) == ["juggling"] * 2
    write_archive(open_kinetics(root).motions, tmp_path / "flat", name="kinetics")
    code, facts = run("apply", tmp_path / "flat", tmp_path / "out", "--lifter", out)
    assert code == 2
    assert "--skip-bad" in facts["error"]
    code, facts = run("apply", tmp_path / "flat", tmp_path / "out", "--lifter", out, "--skip-bad")
    assert (code, facts["kept"], len(facts["skipped"])) == (0, 2, 1)
    assert torch.equal(
        open_archive(tmp_path / "out")[0].joints, Lifter.load(out).lift(open_kinetics(root)[0]).joints
    )
    code, facts = run("apply", tmp_path / "out", tmp_path / "twice")
    assert (code, "already has 3-D joints" in facts["error"]) == (2, True)
    write_archive([known[at] for at in clips if known.subjects[at] == 3], tmp_path / "one", name="synthetic")
    code, facts = run("train", tmp_path / "one", out)
    assert (code, "no subjects" in facts["error"]) == (2, True)


@pytest.mark.errors
def test_motions_that_cannot_be_lifted_or_learnt_from_are_refused():
    flat, deep = image(), make_small_network().lift(image())
    with pytest.raises(ShapeError, match="already has 3-D joints"):
        make_small_network().lift(deep)
    hidden = flat.replace(valid=torch.zeros(6, 2, 15, dtype=torch.bool).index_fill(2, torch.arange(5), True))
    with pytest.raises(DataError, match="fewer than 6 key points in every frame"):
        make_small_network().lift(hidden)
    with pytest.raises(ShapeError, match="learns from 3-D joints in metres"):
        train_lifter([flat], generator=generator(), steps=1)
    with pytest.raises(DataError, match="found none"):
        train_lifter([], generator=generator(), steps=1)
    with pytest.raises(ConfigError, match="width of 1 to 8192"):
        Lifter(width=0)
