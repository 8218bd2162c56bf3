"""Fine-tuning: weights averaged over steps, a start that cannot be lost, and the command that goes on from a model."""

import copy

import pytest
import torch
from safetensors.torch import load_file
from tiny_task import dataset, model_config, split
from torch.testing import assert_close
from training_cases import SHORT, assert_same_run, interrupt_at, list_tensors, run_training

from jeanie.compute.distributed import World
from jeanie.errors import ConfigError
from jeanie.evaluation.predict import predict
from jeanie.evaluation.protocols.splits import add_distractors
from jeanie.evaluation.report.report import estimate_accuracy
from jeanie.fewshot.model import FewShotModel
from jeanie.training import member_selection as choosing
from jeanie.training.member_selection import list_member_shares, select_members
from jeanie.training.recipes import RECIPES
from jeanie.training.run import Run
from jeanie.training.step import Learner
from jeanie.training.train import train

TUNE = SHORT.with_values(margin=0.0, ema_decay=0.9)


def start(seed=3):
    torch.manual_seed(seed)
    return FewShotModel(model_config(dropout=0.0), dataset().layout).eval()


def validate(model):
    task = split()
    (rows,) = predict(model, model.store(dataset().motions), [task.validation], task.validation_classes)
    return estimate_accuracy(rows)[0].value


def same(one, other):
    left, right = one.state_dict(), other.state_dict()
    return all(torch.equal(left[name], right[name]) for name in left if "cost_scale" not in name)


def test_the_start_is_kept_to_the_bit_where_nothing_beats_it_by_the_margin(tmp_path):
    model = start()
    run = run_training(tmp_path / "run", TUNE.with_values(margin=1000.0), model)
    (row,) = run.summary()
    assert row["best_episode"] == 0
    assert row["episodes"] == 12
    assert row["validation"]["accuracy"] == validate(model)
    assert same(run.model(), model)


@pytest.mark.parametrize("rate", [1e-4, 1e-2, 1.0])
def test_validation_never_ends_below_that_of_the_start_however_wild_the_steps(rate, tmp_path):
    model = start()
    run = run_training(tmp_path / "run", TUNE.with_values(rate=rate, schedule="constant"), model)
    (row,) = run.summary()
    assert validate(run.model()) >= validate(model)
    assert row["validation"]["accuracy"] == validate(run.model())
    lines = [line["validation"] for line in run.metrics() if "validation" in line]
    assert row["validation"]["accuracy"] == max([validate(model), *lines])


def test_a_gain_below_the_margin_does_not_count_and_one_above_it_does(tmp_path):
    model = start()
    config = TUNE.with_values(rate=1e-2, ema_decay=0.0, episodes=24)
    free = run_training(tmp_path / "free", config, model).summary()[0]
    gain = free["validation"]["accuracy"] - validate(model)
    assert gain > 0, "the task must be one where training helps"
    small, large = (
        run_training(tmp_path / name, config.with_values(margin=gain + step), model).summary()[0][
            "best_episode"
        ]
        for name, step in (("small", -1e-6), ("large", 1e-6))
    )
    assert small == free["best_episode"] > 0
    assert large == 0


def test_without_a_margin_the_start_does_not_count(tmp_path):
    run = run_training(tmp_path / "run", SHORT.with_values(rate=1.0, schedule="constant"), start())
    assert run.summary()[0]["best_episode"] > 0


def test_kept_weights_are_the_running_mean_that_a_loop_makes():
    model, task, data = start(), split(), dataset()
    config = SHORT.with_values(ema_decay=0.8, mirror=False, rate=1e-2)
    episodes = task.training_episodes(data, way=3, queries=2, count=8, seed=0)
    learner = Learner(copy.deepcopy(model), config, episodes, model.store(data.motions), World())
    mean = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for number in range(4):
        learner.step(number)
        for name, weight in learner.model.named_parameters():
            mean[name] = 0.8 * mean[name] + 0.2 * weight.detach()
    assert not same(learner.averaged, learner.model)
    for name, weight in learner.averaged.named_parameters():
        assert_close(weight.detach(), mean[name])


def test_what_is_kept_at_the_end_are_the_means_and_not_the_last_weights(tmp_path):
    run = run_training(
        tmp_path / "run", SHORT.with_values(ema_decay=0.9), start(), split=split(validation=())
    )
    kept = {
        name.removeprefix("best."): value
        for name, value in list_tensors(run).items()
        if name.startswith("best.")
    }
    (last,) = (run.folder() / "last").glob("*.safetensors")
    stored = load_file(last)
    assert all(torch.equal(value, stored[f"averaged.{name}"]) for name, value in kept.items())
    assert not all(torch.equal(value, stored[f"model.{name}"]) for name, value in kept.items())


@pytest.mark.parametrize("hubness", [0.0, 0.5])
def test_a_stopped_fine_tuning_goes_on_to_the_same_bits(tmp_path, hubness):
    config, begin = (TUNE.with_values(hubness=hubness), make_start_run())
    whole = run_training(tmp_path / "whole", config, begin)
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path / "parts", config, begin, progress=interrupt_at(6))
    assert_same_run(whole, run_training(tmp_path / "parts", config, begin, resume=True))
    assert whole.summary()[0]["best_episode"] == Run.load(tmp_path / "parts").summary()[0]["best_episode"]


def make_start_run():
    """A start whose motions have one length, as a usual course needs."""
    torch.manual_seed(3)
    return FewShotModel(
        model_config(dropout=0.0).with_values({"inputs.prepare.frames": 12}), dataset().layout
    ).eval()


def choose_members(model, **options):
    """The choice by the classes that are not tested: those of training and of validation."""
    clips = [clip for clip, label in enumerate(dataset().labels) if label < 6]
    labels = [dataset().labels[clip] for clip in clips]
    return select_members(model, model.store(dataset().motions), clips, labels, seed=TUNE.seed, **options)


def test_the_kind_of_networks_that_suits_the_training_classes_is_taken_alone(tmp_path):
    """Of two networks one has weights so large that its features are little more than noise."""
    config = model_config(dropout=0.0).with_values(
        {
            "inputs.prepare.frames": 12,
            "encoder.kind": "temporal",
            "encoder.strides": (1, 2),
            "encoder.scales": ((1, 2), (2, 1)),
            "encoder.members": 2,
            "encoder.features": 8,
        }
    )
    torch.manual_seed(3)
    model = FewShotModel(config, dataset().layout).eval()
    with torch.no_grad():
        noisy = model.state_dict()["encoder.net.1.members.1.enter.weight"]
        noisy.mul_(200.0)
    assert list_member_shares(model) == [(), (1.0, 0.0), (0.0, 1.0)]
    found = choose_members(model, shares=list_member_shares(model), hubness=[0.0], margin=0.5)
    run = run_training(tmp_path / "run", TUNE.with_values(select_members=True, margin=0.5, rate=1e-9), model)
    assert run.model().config.encoder.shares == found.shares
    free = [
        choose_members(model, shares=[own], hubness=[0.0], margin=0.0).accuracy
        for own in list_member_shares(model)
    ]
    best = max(range(3), key=free.__getitem__)
    assert found.shares == (list_member_shares(model)[best] if free[best] >= free[0] + 0.5 else ())
    plain = run_training(tmp_path / "plain", TUNE.with_values(margin=0.5, rate=1e-9), model)
    assert plain.model().config.encoder.shares == ()


def test_the_choice_is_the_accuracy_that_a_loop_counts(monkeypatch):
    """An oracle of plain loops: halves, draws, hubs and nearest supports, one query at a time."""
    model = make_start_run()
    clips = [clip for clip, label in enumerate(dataset().labels) if label < 6]
    tasks = []
    honest = choosing._draw_tasks

    def note_tasks(*given):
        tasks.extend(honest(*given))
        return tasks

    monkeypatch.setattr(choosing, "_draw_tasks", note_tasks)
    found = choose_members(model, shares=[()], hubness=[0.0, 0.5], margin=-100.0)
    order, classes = choosing._sample_clips(
        [dataset().labels[clip] for clip in clips], choosing.np.random.default_rng(TUNE.seed)
    )
    motions = [dataset()[clips[row]] for row in order]
    label = {row: number for number, rows in enumerate(classes) for row in rows}
    shares = []
    for task in tasks[:6]:
        heard = [clips[order[row]] for row in task.background.tolist()]
        used = correct_hubness(model, found.hubness, heard) if found.hubness else model
        table = used.distances(motions, motions)
        for supports in task.supports.T.unbind(1):
            right = [
                label[min(supports.tolist(), key=lambda column, row=row: float(table[row, column]))]
                == label[row]
                for row in task.queries.tolist()
                if row not in supports.tolist()
            ]
            shares.append(right)
    results = [one for right in shares for one in right]
    support = model.features(model.collate(motions), "support")
    by_module = [
        choosing._measure_accuracy(model.distances(motions, motions), support, task, found.hubness)
        for task in tasks[:6]
    ]
    counts = [len(task.queries) - task.supports.shape[1] for task in tasks[:6]]
    expected = sum(share * count for share, count in zip(by_module, counts, strict=True)) / sum(counts)
    assert sum(results) / len(results) == pytest.approx(expected, abs=1e-6)
    assert not {label[row] for row in tasks[0].background.tolist()} & {
        label[row] for row in tasks[0].queries.tolist()
    }


def test_of_many_classes_and_clips_some_are_drawn():
    labels = [label for label in range(50) for _ in range(20 if label else 1)]
    rows, classes = choosing._sample_clips(labels, choosing.np.random.default_rng(0))
    assert len(classes) == 30
    assert {len(one) for one in classes} == {12}
    assert [row for one in classes for row in one] == list(range(len(rows))) == list(range(360))
    for one in classes:
        assert len({labels[rows[row]] for row in one}) == 1
    assert 0 not in {labels[row] for row in rows}, "a class of one clip has nothing to ask"


def test_too_few_classes_choose_nothing():
    model = make_start_run()
    clips = [0, 1, 5, 6, 10, 11]
    labels = [0, 0, 1, 1, 2, 2]
    options = {"shares": [()], "hubness": [0.0, 0.5], "margin": 0.0, "seed": 0}
    assert select_members(model, model.store(dataset().motions), clips, labels, **options) is None


def correct_hubness(model, power, clips):
    return model.with_hubness_correction([dataset()[clip] for clip in clips], power)


def test_hubs_are_held_back_by_what_training_motions_tell_of_the_kept_weights(tmp_path):
    config = TUNE.with_values(hubness=0.5, rate=1e-2, margin=None)
    made = run_training(tmp_path / "run", config, make_start_run(), split=split(validation=())).model()
    assert made.config.hubness == 0.5
    again = correct_hubness(made.with_config(hubness=0.0), 0.5, split().train)
    for name in ("hubness_correction.course", "hubness_correction.spread"):
        assert_close(made.state_dict()[name], again.state_dict()[name])
    assert not same(made.with_config(hubness=0.0), make_start_run())


@pytest.mark.parametrize("power", [0.5, 40.0])
def test_hubs_stay_only_where_training_classes_are_told_apart_better_with_them(tmp_path, power):
    model = make_start_run()
    kept = run_training(
        tmp_path / "run", TUNE.with_values(hubness=power, margin=5.0, rate=1e-9), model
    ).model()
    found = choose_members(model, shares=[()], hubness=[0.0, power], margin=5.0)
    assert kept.config.hubness == found.hubness
    if power == 40:
        assert found.hubness == 0, "so large a power leaves nothing of the distances"


def test_a_start_that_knows_motions_learns_anew_which(tmp_path):
    model = correct_hubness(make_start_run(), 0.5, range(40))
    run = run_training(tmp_path / "run", TUNE.with_values(margin=1000.0), model)
    assert run.model().config.hubness == 0
    assert same(run.model(), make_start_run())


@pytest.mark.errors
def test_a_start_that_nothing_can_judge_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="holds out no class, so training cannot be compared"):
        run_training(tmp_path / "run", TUNE, start(), split=split(validation=()))
    assert not (tmp_path / "run").exists()


def test_a_model_with_other_settings_has_the_same_weights(tmp_path):
    model = start()
    before = torch.get_rng_state()
    plain = model.with_config({"views.kind": "none"})
    assert torch.equal(torch.get_rng_state(), before)
    assert same(model, plain)
    clips = [dataset()[i] for i in (0, 7, 13)]
    batch = model.collate(clips)
    assert_close(model.features(batch, "support").values, plain.features(batch, "support").values)
    fused = model.with_config(components=(model.config.with_values({"encoder.kind": "raw"}),))
    assert len(fused.components) == 1
    assert same(model, fused) or model.state_dict().keys() < fused.state_dict().keys()
    with pytest.raises(ConfigError, match="weights"):
        model.with_config({"encoder.width": 5})
    with pytest.raises(ConfigError, match="another network"):
        model.with_config({"encoder.kind": "raw"})


def test_the_recipe_takes_small_steps_averages_and_guards_its_start():
    config, usual = RECIPES["finetune"].train, RECIPES["default"].train
    assert config.rate < usual.rate
    assert config.episodes < usual.episodes
    assert config.ema_decay > 0
    assert config.margin is not None
    assert config.augment.is_active
    assert RECIPES["finetune"].model == FewShotModel.load().config


def test_train_takes_a_model_and_leaves_it_as_it_was(tmp_path):
    model = start()
    before = copy.deepcopy(model)
    options = {
        "dataset": dataset(),
        "split": split(),
        "config": TUNE.with_values(rate=1e-2),
        "out": tmp_path / "run",
    }
    train(model, "synthetic", **options)
    assert same(model, before)


def test_validation_queries_meet_a_support_of_every_training_class():
    task = split()
    plain, hard = list(task.validation), add_distractors(task)
    assert len(hard) == len(plain)
    labels = task.columns.labels
    for before, after in zip(plain, hard, strict=True):
        assert torch.equal(before.query, after.query)
        assert torch.equal(before.query_labels, after.query_labels)
        assert torch.equal(before.support, after.support[: len(before.support)])
        assert after.classes == (*before.classes, *task.train_classes)
        assert set(after.support[len(before.support) :].tolist()) <= set(task.train)
        for clip, number in zip(after.support.tolist(), after.support_labels.tolist(), strict=True):
            assert labels[clip] == after.classes[number]
    drawn = {tuple(episode.support[2:].tolist()) for episode in hard}
    assert len(drawn) > 1, "other episodes, other supports"


def test_rivals_can_only_take_answers_away(tmp_path):
    model = start()
    rows = []
    for config in (TUNE.with_values(margin=1000.0), TUNE.with_values(margin=1000.0, distractors=True)):
        (row,) = run_training(tmp_path / str(config.distractors), config, model).summary()
        rows.append(row["validation"]["accuracy"])
    assert rows[1] < rows[0] == validate(model)
