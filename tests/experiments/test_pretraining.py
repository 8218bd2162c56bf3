"""Pretraining: gestures are bodies, changes keep what they promise, and training repeats itself to the bit."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import jeanie
from jeanie.errors import ConfigError, DataError
from jeanie.experiments.pretraining.augment import Manner, augment, dropped, mirrored, retimed
from jeanie.experiments.pretraining.gestures import draw, near_misses, perform
from jeanie.experiments.pretraining.pairs import Windows, gesture_pairs, words
from jeanie.experiments.pretraining.training import (
    PRETRAINED,
    SHIPPED_RECIPE,
    PretrainConfig,
    batches,
    motion_capture,
    pair_loss,
    pretrain,
    pretrain_member,
)
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.inputs import arrange
from jeanie.skeleton import LAYOUTS

CORE = LAYOUTS["core15"]
SMALL = PretrainConfig(steps=3, members=2, windows=3, gestures=3, positions=0.3)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def windows() -> Windows:
    clips = list(perform(draw(6, seeded()), seeded(), 90))
    return Windows.of(clips, ["walk", "walk", "jump 2", "Jump", "", ""])


def lengths(joints: torch.Tensor) -> torch.Tensor:
    parents, children = (list(ends) for ends in zip(*CORE.bones, strict=True))
    return (joints[..., children, :] - joints[..., parents, :]).norm(dim=-1)


def test_arms_and_legs_of_a_performance_keep_their_lengths():
    bones = lengths(perform(draw(40, seeded()), seeded(1), 48))
    outer = ("elbow", "hand", "knee", "foot")  # the trunk bends, arms and legs do not stretch
    limbs = [at for at, (_, child) in enumerate(CORE.bones) if CORE.joints[child].endswith(outer)]
    assert len(limbs) == 8
    spread = (bones.amax(1) - bones.amin(1))[:, limbs] / bones.mean(1)[:, limbs]
    assert float(spread.max()) < 0.02
    assert float(bones.min()) > 0.03


def test_gestures_are_drawn_by_their_seed_and_performed_in_many_ways():
    assert torch.equal(perform(draw(5, seeded(3)), seeded(4), 48), perform(draw(5, seeded(3)), seeded(4), 48))
    one = perform(draw(5, seeded(3)), seeded(4), 48)
    other = perform(draw(5, seeded(3)), seeded(5), 48)
    assert bool((one - other).flatten(1).norm(dim=1).gt(0.1).all())


def test_performances_of_one_gesture_are_nearer_than_those_of_others():
    pairs = gesture_pairs(24, seeded(), misses=0.0)
    left, right = (side - side[:, :, CORE.torso : CORE.torso + 1] for side in pairs.unbind(1))
    table = jeanie.distances(left.flatten(2), right.flatten(2), metric="sqeuclidean", gamma=0.0)
    found = (table.argmin(1) == torch.arange(24)).float().mean()
    assert found > 0.5, "one in 24 would be chance"


def test_a_near_miss_is_another_movement_close_to_its_model():
    gestures = draw(500, seeded())
    close = near_misses(gestures, seeded(1))
    same, missed = perform(gestures, seeded(2), 48), perform(close, seeded(2), 48)
    differs = (same - missed).flatten(1).norm(dim=1) > 0
    assert differs.float().mean() > 0.99, "a way point may be drawn where it was, on the own body"


def test_a_mirror_held_twice_changes_nothing():
    joints = perform(draw(4, seeded()), seeded(), 20)
    chosen = torch.tensor([True, False, True, True])
    assert_close(mirrored(mirrored(joints, chosen), chosen), joints)
    assert torch.equal(mirrored(joints, chosen)[1], joints[1])
    left, right = CORE.index("left_hand"), CORE.index("right_hand")
    assert_close(mirrored(joints, chosen)[0, :, left, 0], -joints[0, :, right, 0])


def test_no_manner_changes_no_body():
    joints = perform(draw(4, seeded()), seeded(), 32)
    nothing = Manner(**dict.fromkeys(Manner.model_fields, 0.0))
    assert_close(augment(joints, nothing, seeded()), joints, atol=1e-5, rtol=0)
    assert_close(retimed(joints, nothing, seeded(), 32), joints, atol=1e-5, rtol=0)
    assert bool(dropped(50, nothing, seeded()).all())


def test_the_motions_of_a_pair_miss_joints_together_or_each_its_own():
    always = Manner(drop=1.0, apart=0.0)
    together = dropped(400, always, seeded())
    assert torch.equal(together[:, 0], together[:, 1])
    own = dropped(400, always.but(apart=1.0), seeded())
    assert float((own[:, 0] != own[:, 1]).any(-1).float().mean()) > 0.5
    for side in (0, 1):  # either side misses as much as where they miss the same
        missing, before = 1 - own[:, side].float().mean(0), 1 - together[:, 0].float().mean(0)
        assert_close(missing, before, atol=0.1, rtol=0)


def test_bones_change_as_much_left_as_right():
    joints = perform(draw(8, seeded()), seeded(), 32)
    only = Manner(**{**dict.fromkeys(Manner.model_fields, 0.0), "lengths": 0.3})
    factor = lengths(augment(joints, only, seeded())).mean(1) / lengths(joints).mean(1)
    names = [CORE.joints[child] for _, child in CORE.bones]
    for at, name in enumerate(names):
        if name.startswith("left_"):
            other = names.index(name.replace("left_", "right_"))
            assert_close(factor[:, at], factor[:, other], atol=1e-3, rtol=0)
    assert float((factor - 1).abs().max()) > 0.1


def test_limbs_are_taken_for_each_other_for_a_while():
    joints = perform(draw(40, seeded()), seeded(), 32)
    only = Manner(**{**dict.fromkeys(Manner.model_fields, 0.0), "swap": 1.0})
    seen, true = augment(joints, only, seeded()), augment(joints, only.but(swap=0.0), seeded())
    for names in (("elbow", "hand"), ("knee", "foot")):
        left, right = ([CORE.index(f"{side}_{name}") for name in names] for side in ("left", "right"))
        wrong = (seen[:, :, left] == true[:, :, right]).flatten(2).all(-1)
        assert torch.equal(wrong, (seen[:, :, right] == true[:, :, left]).flatten(2).all(-1))
        right_still = (seen[:, :, left + right] == true[:, :, left + right]).flatten(2).all(-1)
        assert bool((wrong ^ right_still).all())
        assert bool((wrong.diff(dim=1).sum(1) <= 2).all()), "for one while"
        assert 1 <= int(wrong.sum(1).min()) < int(wrong.sum(1).max()) <= 2 + 0.4 * 32
    rest = [at for at, name in enumerate(CORE.joints) if not name.endswith(("elbow", "hand", "knee", "foot"))]
    assert torch.equal(seen[:, :, rest], true[:, :, rest])


def test_windows_of_a_pair_come_from_one_group(windows):
    assert len(windows.members) == 4, "walk, jump, and two clips without words"
    assert words("Walk  Forward (2)") == "walk forward"
    pairs = windows.pairs(4, seeded())
    assert pairs.shape == (4, 2, 48, 15, 3)
    assert bool(pairs.isfinite().all())


def test_the_loss_is_the_cross_entropy_of_finding_the_partner():
    table = torch.rand(4, 4, generator=seeded(), dtype=torch.float64)
    loss, found = pair_loss(table, torch.tensor(math.log(7.0), dtype=torch.float64))
    total = 0.0
    for i in range(4):
        row = sum(math.exp(-7 * float(table[i, j])) for j in range(4))
        column = sum(math.exp(-7 * float(table[j, i])) for j in range(4))
        total += (math.log(row) + math.log(column)) / 2 + 7 * float(table[i, i])
    assert float(loss) == pytest.approx(total / 4)
    assert found == (table.argmin(1) == torch.arange(4)).float().mean()


def test_what_is_learnt_from_is_what_the_model_sees_of_motions(windows):
    """A batch without any change has the channels that the model makes of the same joints."""
    nothing = Manner(**dict.fromkeys(Manner.model_fields, 0.0))
    config = PretrainConfig(windows=0, gestures=3, misses=0, yaw_rad=0, still=0, manner=nothing)
    left, right = next(batches(windows, config, seeded()))
    assert left.joints.shape == right.joints.shape == (3, 1, 32, 16, 3)
    assert bool((left.joints != right.joints).any())
    seen = arrange(left, PRETRAINED.inputs, None)[0].squeeze(3)
    assert seen.shape == (3, 1, 32, 16, 9)
    position, deviation = seen[..., :3], seen[..., 3:6]
    assert_close(position, left.joints)
    assert_close(deviation, position - position.mean(2, keepdim=True), atol=1e-5, rtol=0)
    velocity = (position[:, :, 2:] - position[:, :, :-2]) / 2 * 4
    assert_close(seen[:, :, 1:-1, :, 6:], velocity, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["graph", "temporal"])
def test_any_encoder_learns_through_jeanie(windows, kind):
    """Views of one side, a path through them: gradients reach the weights and the loss falls."""
    model = PRETRAINED.but(
        {
            "encoder.kind": kind,
            "align.relative": True,
            "views": {"kind": "euler", "azimuth": 30, "altitude": 0, "step": 30},
        }
    )
    seen: list[float] = []
    config = SMALL.but(model=model, steps=12, members=1, sharpness=None, rate=5e-4)
    trained = pretrain_member(windows, config, 5, lambda now: seen.append(now.loss), every=3)
    assert seen[-1] < seen[0]
    assert trained.config == model, "gamma is that of use again"


def test_a_file_changes_a_part_and_keeps_the_rest():
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "encoders"
    config = PretrainConfig().changed_by(folder / "s2gc_transformer.json")
    assert config.model.encoder.transformer
    assert config.sharpness is None
    assert config.model.inputs.streams == PRETRAINED.inputs.streams
    assert config.manner == PretrainConfig().manner
    assert config.reflection == SHIPPED_RECIPE.reflection is not None


@pytest.mark.errors
def test_pretraining_says_what_it_cannot_do():
    with pytest.raises(ConfigError, match="set members to 1"):
        PretrainConfig(model=PRETRAINED.but({"encoder.kind": "graph"}))
    with pytest.raises(ConfigError, match="to 'normal'"):
        PretrainConfig(model=PRETRAINED.but({"inputs.prepare.body": "recorded"}))


def test_training_repeats_itself_to_the_bit_and_lowers_the_loss(windows):
    one, two = (pretrain_member(windows, SMALL, 5).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    seen: list[float] = []
    pretrain_member(windows, SMALL.but(steps=12), 5, lambda now: seen.append(now.loss), every=3)
    assert seen[-1] < seen[0]


def test_others_are_trained_with_their_own_settings_and_seeds(windows, tmp_path):
    changes = {"model.encoder.strides": (2, 1), "steps": 2, "manner.limb_rad": 0.5}
    config = SMALL.but({"model.encoder.strides": (1, 2), "members": 1, "others": 2, "other": changes})
    made = pretrain(windows, config, tmp_path)
    assert made.config.encoder.scales == ((1, 2), (2, 1), (2, 1))
    assert [seed for _, seed in config.networks] == [1, 1, 2]
    weights = made.state_dict()
    for number, (settings, seed) in enumerate(config.networks):
        assert settings.steps == (3 if number == 0 else 2)
        alone = pretrain_member(windows, settings, seed).state_dict()
        for name, tensor in alone.items():
            found = weights[name.replace("members.0.", f"members.{number}.")]
            assert_close(found, tensor.half().to(found), rtol=0, atol=0)


def test_a_stopped_run_goes_on_with_the_members_it_has(windows, tmp_path):
    whole = pretrain(windows, SMALL, tmp_path / "whole")
    pretrain(windows, SMALL.but(members=1), tmp_path / "parts")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts" / "members").iterdir()}
    parts = pretrain(windows, SMALL, tmp_path / "parts", jobs=2)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list((tmp_path / "parts" / "members").glob("*.safetensors"))) == 2, "none is trained twice"
    assert all(torch.equal(x, y) for x, y in zip(whole.parameters(), parts.parameters(), strict=True))
    loaded = FewShotModel.load(tmp_path / "parts")
    assert loaded.config.encoder.members == 2
    assert loaded.config.encoder.positions == SMALL.positions > 0
    curves = sorted((tmp_path / "parts" / "members").glob("*.jsonl"))
    assert [json.loads(line)["step"] for path in curves for line in path.read_text().splitlines()] == [3, 3]


@pytest.mark.errors
def test_nothing_to_learn_from_is_said():
    class Empty:
        motions = ()

    with pytest.raises(DataError, match="no motion capture"):
        motion_capture(Empty())


def test_processes_end_with_the_command_that_started_them(tmp_path):
    """Killed outright, the command leaves no training behind."""
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\n"
        "from jeanie.datasets.synthetic import open_synthetic\n"
        "from jeanie.experiments.pretraining import PretrainConfig, motion_capture, pretrain\n"
        "def tell(now): print(now.network, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    windows = motion_capture(open_synthetic(0, subjects=1, takes=1, cameras=1))\n"
        "    config = PretrainConfig(steps=100_000, members=2, windows=3, gestures=3)\n"
        "    pretrain(windows, config, sys.argv[1], jobs=2, report=tell)\n"
    )
    command = [sys.executable, str(script), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.readline().strip()
        process.kill()
        rest = process.stdout.read()  # ends when nobody can write any more
    assert told in ("1", "2")
    assert len(rest.splitlines()) < 10
