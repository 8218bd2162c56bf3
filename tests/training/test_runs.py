"""The folder of a run, its command line, and what training does to clips and settings."""

import json
import math
import os
import platform
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import typer
from tiny_task import LAYOUT, TAKES, dataset, model_config, split
from torch.testing import assert_close
from typer.testing import CliRunner
from waiting import PATIENCE, wait_for

from jeanie._internal.seeds import derive_seed, draw_uniform, use_seed
from jeanie.cli.train import train as train_command
from jeanie.compute.distributed import World
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.inputs import Batch
from jeanie.fewshot.model import FewShotModel
from jeanie.training.augment import (
    DRAWS_PER_CLIP,
    AugmentConfig,
    DatasetWithMirrors,
    add_mirrored_classes,
    augment_batch,
)
from jeanie.training.config import TrainConfig
from jeanie.training.recipes import RECIPES, Recipe
from jeanie.training.run import Metrics, Run
from jeanie.training.train import train

ROOT = Path(__file__).parents[2]
QUICK = TrainConfig(episodes=4, batch=2, validate_every=2, checkpoint_every=2, seed=7)
FLAGS = ("--set", "batch=2", "--set", "validate_every=1000", "--set", "way=3", "--set", "views.kind=none")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "quick"
    tasks = [split("first"), split("a/b: third", train=(2, 3, 6, 7), test=(0, 1))]
    return train(model_config(), "synthetic", config=QUICK, out=place, dataset=dataset(), split=tasks)


def command(*arguments):
    app = typer.Typer()
    app.command()(train_command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_run_tells_what_was_trained_on_what_and_with_what(run):
    facts = json.loads((run.path / "run.json").read_text())
    assert (facts["protocol"], facts["seed"]) == ("synthetic", 7)
    first = facts["splits"][0]
    assert (first["train_classes"], first["validation_classes"], first["test_classes"]) == (
        [0, 1, 2, 3],
        [4, 5],
        [6, 7],
    )
    (session,) = facts["sessions"]
    assert session["versions"]["torch"] == version("torch")
    assert session["versions"]["python"] == platform.python_version()
    assert session["platform"] == platform.platform()
    assert session["device"] == "cpu"
    assert (
        Recipe.from_file(run.path / "config.json") == run.recipe == Recipe(model=model_config(), train=QUICK)
    )


def test_each_split_has_a_folder_of_its_own_inside_the_run(run):
    loaded = Run.load(run.path)
    assert loaded.splits == ("first", "a/b: third")
    folders = [loaded.folder(name) for name in loaded.splits]
    assert len(set(folders)) == 2
    for folder in folders:
        assert folder.parent == run.path
        assert sorted(path.name for path in folder.iterdir()) == ["events", "last", "metrics.jsonl", "model"]
        assert [path.name for path in (folder / "events").iterdir()]
    model = loaded.model("first")
    assert isinstance(model, FewShotModel)
    assert not model.training
    assert [line["episode"] for line in loaded.metrics("first")] == [2, 4]
    assert loaded.metrics("first")[1].keys() >= {"loss", "accuracy", "rate", "validation", "validation_ci95"}


def test_scalars_are_there_for_tensorboard(run):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(run.folder("first") / "events"))
    events.Reload()
    written = [(event.step, event.value) for event in events.Scalars("loss")]
    assert [step for step, _ in written] == [2, 4]
    assert_close([value for _, value in written], [line["loss"] for line in run.metrics("first")])


def test_metrics_after_the_checkpoint_are_dropped_and_a_torn_line_too(tmp_path):
    with Metrics(tmp_path, 0, World()) as metrics:
        for episode in (2, 4, 6):
            metrics.write({"episode": episode, "loss": 1.0})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"episode": 8, "lo')
    with Metrics(tmp_path, 4, World()) as metrics:
        metrics.write({"episode": 6, "loss": 2.0})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"episode": n, "loss": v} for n, v in ((2, 1.0), (4, 1.0), (6, 2.0))]


@pytest.mark.errors
def test_a_run_says_what_it_does_not_have(run, tmp_path):
    with pytest.raises(ConfigError, match="no split 'second'; it has 'first', 'a/b: third'"):
        run.model("second")
    with pytest.raises(ConfigError, match="no split None"):
        run.model()
    with pytest.raises(DataError, match="no training run"):
        Run.load(tmp_path)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(DataError, match="not the description of a run"):
        Run.load(tmp_path)


def test_recipes_change_by_names_tables_and_files(tmp_path):
    recipe = RECIPES["default"]
    changed = recipe.with_values({"align.gamma": 0.5, "episodes": 3, "loss": {"kind": "squared"}})
    assert (changed.model.align.gamma, changed.train.episodes, changed.train.loss.kind) == (0.5, 3, "squared")
    assert changed.model.encoder == recipe.model.encoder
    path = tmp_path / "mine.toml"
    path.write_text('rate = 0.25\n[align]\nmetric = "euclidean"\n[model.views]\nkind = "none"\n')
    changed = recipe.with_file(path)
    assert (changed.train.rate, changed.model.align.metric, changed.model.views.kind) == (
        0.25,
        "euclidean",
        "none",
    )
    (tmp_path / "all.json").write_text(changed.model_dump_json())
    assert RECIPES["paper"].with_file(tmp_path / "all.json") == changed


@pytest.mark.errors
def test_a_recipe_refuses_names_it_does_not_know(tmp_path):
    with pytest.raises(
        ConfigError, match="no option 'gamma'; options start with one of accumulate, align"
    ) as caught:
        RECIPES["default"].with_values({"gamma": 1})
    names = str(caught.value).partition("one of ")[2].split(", ")
    assert len(set(names)) == len(names)  # hubness is an option of the model and of the training
    (tmp_path / "bad.toml").write_text("[align]\ngama = 1\n")
    with pytest.raises(ConfigError, match=r"bad.toml: .*gama: no such option"):
        RECIPES["default"].with_file(tmp_path / "bad.toml")
    with pytest.raises(ConfigError, match=r"nowhere.toml: cannot be read"):
        RECIPES["default"].with_file(tmp_path / "nowhere.toml")


def test_the_papers_recipe_is_the_papers():
    model, train = RECIPES["paper"].model, RECIPES["paper"].train
    assert (train.optimiser, train.rate, train.weight_decay, train.momentum) == ("sgd", 1e-3, 1e-6, 0)
    assert (train.loss.kind, train.episodes, train.clip, train.mirror) == ("similarity", 10_000, None, False)
    assert not train.augment.is_active
    assert (model.encoder.init, model.encoder.dropout, model.encoder.graph) == ("normal", 0.5, "s2gc")
    assert (model.inputs.block, model.inputs.stride, model.inputs.scale) == (8, 0.6, "axis")
    assert (model.align.metric, model.align.sigma, model.align.gamma) == ("rbf", 2.0, 0.01)
    assert model.views.build().shape == (7, 7)


def test_the_command_trains_and_prints_one_object(tmp_path):
    arguments = ("synthetic", "--episodes", 4, "--seed", 3, "--out", tmp_path / "run", "--json", *FLAGS)
    done = command(*arguments, "--validation", 0)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["run"] == str(tmp_path / "run")
    assert [row["episodes"] for row in facts["splits"]] == [4] * len(facts["splits"])
    recipe = Run.load(tmp_path / "run").recipe
    assert (recipe.train.episodes, recipe.train.seed, recipe.train.way) == (4, 3, 3)
    assert recipe.model.views.kind == "none"
    again = command(*arguments, "--validation", 0)
    assert again.exit_code == 2
    assert "contains a run" in json.loads(again.stdout)["error"]
    assert json.loads(command(*arguments, "--validation", 0, "--resume").stdout)["splits"] == facts["splits"]


@pytest.mark.errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "no protocol 'nothing'"),
        (("synthetic", "--recipe", "cake"), "no recipe 'cake'; the known ones are"),
        (("synthetic", "--set", "align.gamma"), "--set takes NAME=VALUE"),
        (("synthetic", "--set", "align.gamma=-1"), "gamma: input should be greater than or equal to 0"),
        (("synthetic", "--set", "rate=fast"), "rate: input should be a valid number"),
        (("synthetic", "--split", "99"), "has no split '99'"),
        (("synthetic", "--device", "abacus"), "no device 'abacus'"),
        (("ntu60-oneshot", "--root", "nowhere"), "Get it:"),
    ],
)
def test_wrong_input_ends_the_command_with_2_and_writes_nothing(arguments, message, tmp_path):
    done = command(*arguments, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.processes
def test_ctrl_c_keeps_what_was_done_and_the_same_command_goes_on(tmp_path):
    place = tmp_path / "run"
    code = "import typer; from jeanie.cli.train import train; a = typer.Typer(); a.command()(train); a()"
    base = [sys.executable, "-c", code, "synthetic", "--out", str(place), "--split", "0", *FLAGS]
    options = {
        "cwd": ROOT,
        "text": True,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "env": {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    }
    with subprocess.Popen([*base, "--episodes", "5000"], **options) as process:
        wait_for(lambda: any(path.stat().st_size for path in place.glob("*/metrics.jsonl")))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, errors
    assert "continue with the same command and --resume" in " ".join(errors.split())
    assert f"writing to {place}" in " ".join(errors.split())
    run = Run.load(place)
    done = run.summary()[0]["episodes"]
    assert 0 < done < 5000
    assert [line["episode"] for line in run.metrics()] == list(range(2, done + 1, 2))


def batch_of(clips=(0, 7)):
    model = FewShotModel(model_config(), LAYOUT)
    return model.store(dataset().motions)[torch.tensor(clips)]


def test_augmentation_turns_and_scales_bodies_without_bending_them():
    batch = batch_of()
    draws = draw_uniform([(0, clip) for clip in range(2)], DRAWS_PER_CLIP)
    config = AugmentConfig(yaw=40, tilt=20, scale=0.2)
    turned = augment_batch(batch, config, draws)
    parents, children = map(list, zip(*LAYOUT.bones, strict=True))

    def bones(joints):
        return (joints[..., children, :] - joints[..., parents, :]).norm(dim=-1)

    expected = bones(batch.joints) * (1 + 0.2 * draws[:, 2])[:, None, None, None]
    assert_close(bones(turned.joints), expected)
    assert (turned.joints - batch.joints).abs().max() > 0.05
    angle = torch.deg2rad(40 * draws[0, 0])
    level = augment_batch(batch, AugmentConfig(yaw=40), draws)
    x, y, z = batch.joints[0, 0, 3, 5]
    wanted = [angle.cos() * x - angle.sin() * z, y, angle.sin() * x + angle.cos() * z]
    assert_close(level.joints[0, 0, 3, 5], torch.stack(wanted))


def test_time_is_warped_forward_only_and_keeps_both_ends():
    """A joint that moves by 1 a frame shows the warped time itself."""
    frames = torch.tensor([12, 7])
    time = torch.arange(12.0)[None, None, :, None, None].expand(2, 1, 12, len(LAYOUT), 3)
    inside = (torch.arange(12) < frames[:, None])[:, None, :, None].expand(2, 1, 12, len(LAYOUT))
    batch = Batch(torch.where(inside[..., None], time, 0.0).clone(), inside.clone(), frames, LAYOUT)
    warped = augment_batch(
        batch, AugmentConfig(warp=0.5), torch.tensor([[0, 0, 0, 1.0, 1.0], [0, 0, 0, -1.0, 0.4]])
    )
    for clip, count in enumerate(frames.tolist()):
        positions = warped.joints[clip, 0, :count, 0, 0]
        assert_close(positions[[0, -1]], torch.tensor([0.0, count - 1.0]))
        speed = positions.diff()
        assert speed.min() >= 0.5 - 1e-5
        assert speed.max() <= 1.5 + 1e-5
        assert (positions - torch.arange(float(count))).abs().max() > 0.1
        assert (warped.joints[clip, 0, count:] == 0).all()
        assert torch.equal(warped.valid[clip], batch.valid[clip])


def test_a_missing_frame_makes_what_is_between_it_missing():
    batch = batch_of((0,))
    valid = batch.valid.clone()
    valid[0, 0, 4, 2] = False
    hidden = Batch(torch.where(valid[..., None], batch.joints, 0.0), valid, batch.frames, LAYOUT)
    warped = augment_batch(hidden, AugmentConfig(warp=0.4), torch.tensor([[0, 0, 0, 1.0, 0.0]]))
    last = int(batch.frames[0]) - 1
    for t in range(last + 1):
        place = last * (t / last + 0.4 * math.sin(math.pi * t / last) / (2 * math.pi))
        ends = {round(place)} if abs(place - round(place)) < 1e-6 else {math.floor(place), math.ceil(place)}
        assert bool(warped.valid[0, 0, t, 2]) == (4 not in ends), t
    assert warped.valid[0, 0, :, [0, 1, 3]].all()
    assert (warped.joints[0, 0, ~warped.valid[0, 0, :, 2], 2] == 0).all()


def test_no_augmentation_is_no_change_and_a_draw_depends_on_its_key_alone():
    batch = batch_of()
    assert augment_batch(batch, AugmentConfig(), torch.zeros(2, DRAWS_PER_CLIP)) is batch
    together, alone = draw_uniform([(1, 2), (3, 4)], DRAWS_PER_CLIP), draw_uniform([(3, 4)], DRAWS_PER_CLIP)
    assert torch.equal(together[1], alone[0])
    many = draw_uniform([(0, i) for i in range(400)], DRAWS_PER_CLIP)
    assert many.min() >= -1
    assert many.max() <= 1
    assert many.mean(0).abs().max() < 0.15
    assert len({derive_seed(*key) for key in ((0,), (0, 0), (1,), (0, 1), (1, 0))}) == 5


def test_seeding_is_undone():
    before = torch.get_rng_state()
    with use_seed(1, 2):
        first = torch.rand(3)
    assert torch.equal(before, torch.get_rng_state())
    with use_seed(1, 2):
        assert torch.equal(torch.rand(3), first)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory")
def test_memory_that_was_freed_is_used_again():
    """In a process of its own: 256 MB that come and go touch no new page once they have been there.

    The least of several rounds: a small block that happens to settle behind a large one moves the next one on.
    """
    code = """
import resource, torch
from jeanie._internal.memory import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        torch.ones(2**26)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
before = faults()
assert keep_freed_memory()
print(before, min(faults() for _ in range(8)))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    before, after = map(int, result.stdout.split())
    assert after < before / 20


def test_mirrored_clips_are_further_classes_behind_the_recorded_ones():
    data, task = dataset(), split()
    twice, doubled = DatasetWithMirrors(data), add_mirrored_classes(task)
    clips = len(data)
    assert len(twice) == len(twice.motions) == 2 * clips
    assert len(twice.labels) == len(twice.subjects) == len(twice.views) == 2 * clips
    index = 2 * TAKES + 1
    motion, mirror = twice[index], twice[clips + index]
    left, right = LAYOUT.pairs[0]
    assert_close(mirror.joints[:, :, left, 0], -motion.joints[:, :, right, 0])
    assert_close(mirror.joints[:, :, left, 1:], motion.joints[:, :, right, 1:])
    assert doubled.train == (*task.train, *(clip + clips for clip in task.train))
    assert doubled.train_classes == (0, 1, 2, 3, *(f"{label}, mirrored" for label in range(4)))
    assert doubled.validation is task.validation
    seen = set()
    for episode in doubled.training_episodes(twice, way=8, count=20, seed=0):
        for clips_of, labels in (
            (episode.support, episode.support_labels),
            (episode.query, episode.query_labels),
        ):
            for clip, number in zip(clips_of.tolist(), labels.tolist(), strict=True):
                assert twice.labels[clip] == episode.classes[number]
                seen.add(clip)
    assert seen <= set(doubled.train)
    assert max(seen) >= clips
