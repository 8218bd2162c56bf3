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
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.inputs import arrange
from jeanie.pretraining import SHIPPED_RECIPE, PretrainConfig, pretrain
from jeanie.pretraining.augment import (
    AugmentationStrength,
    augment,
    draw_present_joints,
    mirror_motions,
    retime,
)
from jeanie.pretraining.config import configure_ensemble
from jeanie.pretraining.gestures import draw_gestures, draw_near_misses, perform
from jeanie.pretraining.member import draw_batches, pair_loss, pretrain_member
from jeanie.pretraining.pairs import Windows, draw_gesture_pairs, normalise_description
from jeanie.skeleton import LAYOUTS
from jeanie.training.recipes import PRETRAINED_MODEL, RECIPES

CORE = LAYOUTS["core15"]
SMALL = PretrainConfig(steps=3, members=2, windows=3, gestures=3, positions=0.3)


def make_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def windows() -> Windows:
    clips = list(perform(draw_gestures(6, make_generator()), make_generator(), 90))
    return Windows.from_clips(clips, ["walk", "walk", "jump 2", "Jump", "", ""])


def lengths(joints: torch.Tensor) -> torch.Tensor:
    parents, children = (list(ends) for ends in zip(*CORE.bones, strict=True))
    return (joints[..., children, :] - joints[..., parents, :]).norm(dim=-1)


def test_arms_and_legs_of_a_performance_keep_their_lengths():
    bones = lengths(perform(draw_gestures(40, make_generator()), make_generator(1), 48))
    outer = ("elbow", "hand", "knee", "foot")  # the trunk bends, arms and legs do not stretch
    limbs = [at for at, (_, child) in enumerate(CORE.bones) if CORE.joints[child].endswith(outer)]
    assert len(limbs) == 8
    spread = (bones.amax(1) - bones.amin(1))[:, limbs] / bones.mean(1)[:, limbs]
    assert float(spread.max()) < 0.02
    assert float(bones.min()) > 0.03


def test_gestures_are_drawn_by_their_seed_and_performed_in_many_ways():
    assert torch.equal(
        perform(draw_gestures(5, make_generator(3)), make_generator(4), 48),
        perform(draw_gestures(5, make_generator(3)), make_generator(4), 48),
    )
    one = perform(draw_gestures(5, make_generator(3)), make_generator(4), 48)
    other = perform(draw_gestures(5, make_generator(3)), make_generator(5), 48)
    assert bool((one - other).flatten(1).norm(dim=1).gt(0.1).all())


def test_performances_of_one_gesture_are_nearer_than_those_of_others():
    pairs = draw_gesture_pairs(24, make_generator(), near_misses=0.0)
    left, right = (side - side[:, :, CORE.torso : CORE.torso + 1] for side in pairs.unbind(1))
    table = jeanie.distances(left.flatten(2), right.flatten(2), metric="sqeuclidean", gamma=0.0)
    found = (table.argmin(1) == torch.arange(24)).float().mean()
    assert found > 0.5, "one in 24 would be chance"


def test_a_near_miss_is_another_movement_close_to_its_model():
    gestures = draw_gestures(500, make_generator())
    close = draw_near_misses(gestures, make_generator(1))
    same, missed = perform(gestures, make_generator(2), 48), perform(close, make_generator(2), 48)
    differs = (same - missed).flatten(1).norm(dim=1) > 0
    assert differs.float().mean() > 0.99, "a way point may be drawn where it was, on the own body"


def test_a_mirror_held_twice_changes_nothing():
    joints = perform(draw_gestures(4, make_generator()), make_generator(), 20)
    chosen = torch.tensor([True, False, True, True])
    assert_close(mirror_motions(mirror_motions(joints, chosen), chosen), joints)
    assert torch.equal(mirror_motions(joints, chosen)[1], joints[1])
    left, right = CORE.index("left_hand"), CORE.index("right_hand")
    assert_close(mirror_motions(joints, chosen)[0, :, left, 0], -joints[0, :, right, 0])


def test_no_manner_changes_no_body():
    joints = perform(draw_gestures(4, make_generator()), make_generator(), 32)
    nothing = AugmentationStrength(**dict.fromkeys(AugmentationStrength.model_fields, 0.0))
    assert_close(augment(joints, nothing, make_generator()), joints, atol=1e-5, rtol=0)
    assert_close(retime(joints, nothing, make_generator(), 32), joints, atol=1e-5, rtol=0)
    assert bool(draw_present_joints(50, nothing, make_generator()).all())


def test_the_motions_of_a_pair_miss_joints_together_or_each_its_own():
    always = AugmentationStrength(drop=1.0, independent_drop=0.0)
    together = draw_present_joints(400, always, make_generator())
    assert torch.equal(together[:, 0], together[:, 1])
    own = draw_present_joints(400, always.with_values(independent_drop=1.0), make_generator())
    assert float((own[:, 0] != own[:, 1]).any(-1).float().mean()) > 0.5
    for side in (0, 1):  # either side misses as much as where they miss the same
        missing, before = 1 - own[:, side].float().mean(0), 1 - together[:, 0].float().mean(0)
        assert_close(missing, before, atol=0.1, rtol=0)


def test_bones_change_as_much_left_as_right():
    joints = perform(draw_gestures(8, make_generator()), make_generator(), 32)
    only = AugmentationStrength(**{**dict.fromkeys(AugmentationStrength.model_fields, 0.0), "lengths": 0.3})
    factor = lengths(augment(joints, only, make_generator())).mean(1) / lengths(joints).mean(1)
    names = [CORE.joints[child] for _, child in CORE.bones]
    for at, name in enumerate(names):
        if name.startswith("left_"):
            other = names.index(name.replace("left_", "right_"))
            assert_close(factor[:, at], factor[:, other], atol=1e-3, rtol=0)
    assert float((factor - 1).abs().max()) > 0.1


def test_limbs_are_taken_for_each_other_for_a_while():
    joints = perform(draw_gestures(40, make_generator()), make_generator(), 32)
    only = AugmentationStrength(**{**dict.fromkeys(AugmentationStrength.model_fields, 0.0), "swap": 1.0})
    seen, true = (
        augment(joints, only, make_generator()),
        augment(joints, only.with_values(swap=0.0), make_generator()),
    )
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
    assert len(windows.groups) == 4, "walk, jump, and two clips without words"
    assert normalise_description("Walk  Forward (2)") == "walk forward"
    pairs = windows.draw_pairs(4, make_generator())
    assert pairs.shape == (4, 2, 48, 15, 3)
    assert bool(pairs.isfinite().all())


def test_the_loss_is_the_cross_entropy_of_finding_the_partner():
    table = torch.rand(4, 4, generator=make_generator(), dtype=torch.float64)
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
    nothing = AugmentationStrength(**dict.fromkeys(AugmentationStrength.model_fields, 0.0))
    config = PretrainConfig(
        windows=0, gestures=3, near_misses=0, yaw_rad=0, hidden_path=0, augmentation=nothing
    )
    left, right = next(draw_batches(windows, config, make_generator()))
    assert left.joints.shape == right.joints.shape == (3, 1, 32, 16, 3)
    assert bool((left.joints != right.joints).any())
    seen = arrange(left, PRETRAINED_MODEL.inputs, None)[0].squeeze(3)
    assert seen.shape == (3, 1, 32, 16, 9)
    position, deviation = seen[..., :3], seen[..., 3:6]
    assert_close(position, left.joints)
    assert_close(deviation, position - position.mean(2, keepdim=True), atol=1e-5, rtol=0)
    velocity = (position[:, :, 2:] - position[:, :, :-2]) / 2 * 4
    assert_close(seen[:, :, 1:-1, :, 6:], velocity, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["graph", "temporal"])
def test_any_encoder_learns_through_jeanie(windows, kind):
    """Views of one side, a path through them: gradients reach the weights and the loss falls."""
    model = PRETRAINED_MODEL.with_values(
        {
            "encoder.kind": kind,
            "align.relative": True,
            "views": {"kind": "euler", "azimuth": 30, "altitude": 0, "step": 30},
        }
    )
    seen: list[float] = []
    config = SMALL.with_values(model=model, steps=12, members=1, sharpness=None, rate=5e-4)
    trained = pretrain_member(windows, config, 5, lambda now: seen.append(now.loss), every=3)
    assert seen[-1] < seen[0]
    assert trained.config == model, "gamma is that of use again"


def test_a_file_changes_a_part_and_keeps_the_rest():
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "encoders"
    config = PretrainConfig().with_file(folder / "s2gc_transformer.json")
    assert config.model.encoder.transformer
    assert config.sharpness is None
    assert config.model.inputs.streams == PRETRAINED_MODEL.inputs.streams
    assert config.augmentation == PretrainConfig().augmentation
    assert config.mirror_penalty == SHIPPED_RECIPE.mirror_penalty is not None


@pytest.mark.errors
def test_pretraining_says_what_it_cannot_do():
    with pytest.raises(ConfigError, match="set members to 1"):
        PretrainConfig(model=PRETRAINED_MODEL.with_values({"encoder.kind": "graph"}))
    with pytest.raises(ConfigError, match="to 'canonical'"):
        PretrainConfig(model=PRETRAINED_MODEL.with_values({"inputs.prepare.body": "recorded"}))


def test_training_repeats_itself_to_the_bit_and_lowers_the_loss(windows):
    one, two = (pretrain_member(windows, SMALL, 5).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    seen: list[float] = []
    pretrain_member(windows, SMALL.with_values(steps=12), 5, lambda now: seen.append(now.loss), every=3)
    assert seen[-1] < seen[0]


def test_the_recipe_finetune_has_the_configuration_of_the_shipped_ensemble():
    assert RECIPES["finetune"].model == configure_ensemble(SHIPPED_RECIPE)


def test_others_are_trained_with_their_own_settings_and_seeds(windows, tmp_path):
    changes = {"model.encoder.strides": (2, 1), "steps": 2, "augmentation.limb_rad": 0.5}
    config = SMALL.with_values(
        {"model.encoder.strides": (1, 2), "members": 1, "other_members": 2, "other_settings": changes}
    )
    made = pretrain(windows, config, tmp_path)
    assert made.config.encoder.scales == ((1, 2), (2, 1), (2, 1))
    assert [seed for _, seed in config.member_settings] == [1, 1, 2]
    weights = made.state_dict()
    for number, (settings, seed) in enumerate(config.member_settings):
        assert settings.steps == (3 if number == 0 else 2)
        alone = pretrain_member(windows, settings, seed).state_dict()
        for name, tensor in alone.items():
            found = weights[name.replace("members.0.", f"members.{number}.")]
            assert_close(found, tensor.half().to(found), rtol=0, atol=0)


@pytest.mark.processes
def test_a_stopped_run_goes_on_with_the_members_it_has(windows, tmp_path):
    whole = pretrain(windows, SMALL, tmp_path / "whole")
    pretrain(windows, SMALL.with_values(members=1), tmp_path / "parts")
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
        Windows.from_dataset(Empty())


@pytest.mark.processes
def test_processes_end_with_the_command_that_started_them(tmp_path):
    """Killed outright, the command leaves no training behind."""
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\n"
        "from jeanie.datasets.synthetic import open_synthetic\n"
        "from jeanie.pretraining import PretrainConfig, Windows, pretrain\n"
        "def tell(now): print(now.member, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    windows = Windows.from_dataset(open_synthetic(0, subjects=1, takes=1, cameras=1))\n"
        "    config = PretrainConfig(steps=100_000, members=2, windows=3, gestures=3)\n"
        "    pretrain(windows, config, sys.argv[1], jobs=2, progress=tell)\n"
    )
    command = [sys.executable, str(script), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        process.kill()
        rest = process.stdout.read()  # ends when nobody can write any more
    assert line in ("1", "2")
    assert len(rest.splitlines()) < 10
