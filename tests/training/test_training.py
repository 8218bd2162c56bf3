"""Training: a step is the gradient it claims to be, a resumed run is the run, and only validation chooses."""

from dataclasses import replace

import pytest
import torch
from tiny_task import dataset, model_config, split
from torch.testing import assert_close
from training_cases import PLAIN, SHORT, assert_same_run, interrupt_at, list_tensors, run_training

from jeanie.compute.distributed import World
from jeanie.errors import ConfigError
from jeanie.evaluation.predict import predict
from jeanie.evaluation.report.report import estimate_accuracy
from jeanie.fewshot.losses import LossConfig
from jeanie.fewshot.model import FewShotModel
from jeanie.training.config import learning_rate
from jeanie.training.run import Run
from jeanie.training.step import Learner


@pytest.mark.parametrize(
    "config",
    [
        SHORT,
        SHORT.with_values(optimiser="sgd", momentum=0.9, rate=1e-2, mirror=False),
        SHORT.with_values(optimiser="adam", schedule="constant", **{"loss.kind": "similarity"}),
    ],
    ids=["adamw", "sgd", "adam"],
)
def test_a_run_that_was_stopped_and_resumed_is_bitwise_the_run_that_was_not(config, tmp_path):
    whole = run_training(tmp_path / "whole", config)
    with pytest.raises(KeyboardInterrupt, match=r"episode 6 of 12 .*same command and --resume"):
        run_training(tmp_path / "parts", config, progress=interrupt_at(4))
    assert Run.load(tmp_path / "parts").summary()[0]["episodes"] == 6
    parts = run_training(tmp_path / "parts", config, resume=True)
    assert parts.summary()[0]["finished"] == "all episodes"
    assert len(parts.facts["sessions"]) == 2
    assert_same_run(whole, parts)


def test_a_run_that_died_goes_on_from_its_last_checkpoint_to_the_same_bits(tmp_path):
    whole = run_training(tmp_path / "whole")

    def die(moment):
        if moment.episode == 10:
            raise MemoryError("as if the machine had gone")

    with pytest.raises(MemoryError):
        run_training(tmp_path / "parts", progress=die)
    assert len(Run.load(tmp_path / "parts").metrics()) == 5
    assert Run.load(tmp_path / "parts").summary()[0]["episodes"] == 8
    assert_same_run(whole, run_training(tmp_path / "parts", resume=True))


def test_the_seed_decides_and_nothing_else(tmp_path):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = run_training(tmp_path / "one")
    assert torch.equal(before, torch.get_rng_state())  # nothing seeds or draws globally
    torch.manual_seed(2)
    assert_same_run(one, run_training(tmp_path / "two"))
    other = run_training(tmp_path / "other", SHORT.with_values(seed=1))
    assert not torch.equal(
        list_tensors(one)["model.encoder.net.head.weight"],
        list_tensors(other)["model.encoder.net.head.weight"],
    )


@pytest.mark.parametrize("kind", ["cross-entropy", "similarity"])
def test_a_step_goes_down_the_gradient_of_its_mini_batch(kind):
    """SGD without clipping: the change of the weights is the rate times a gradient found episode by episode."""
    config = PLAIN.with_values(
        episodes=3, batch=3, queries=2, optimiser="sgd", rate=0.1, schedule="constant", weight_decay=0, clip=None,
        loss=LossConfig(kind=kind, temperature=2.0, beta=2),
    )  # fmt: skip
    torch.manual_seed(0)
    model = FewShotModel(model_config(dropout=0.0, relative=False), dataset().layout).double()
    episodes = split().training_episodes(dataset(), queries=2, count=3, seed=0)
    store = model.store(dataset().motions)
    found, near, far = [], [], []
    for episode in episodes:
        distances = model(store[episode.query], store[episode.support])
        same = episode.query_labels[:, None] == episode.support_labels
        near.append(distances[same])
        far.append(distances[~same])
        found.append(
            torch.nn.functional.cross_entropy(-distances / 2.0, episode.query_labels)
            if kind == "cross-entropy"
            else 0
        )
    if kind == "cross-entropy":
        loss = sum(found) / 3
    else:  # pooled over the mini-batch, not averaged over episodes
        near, far = torch.cat(near), torch.cat(far)
        low, high = near.detach().sort().values[:2].mean(), far.detach().sort().values[-6:].mean()
        loss = (near.mean() - low) ** 2 + (far.mean() - high) ** 2
    weights = list(model.parameters())
    expected = [
        weight - 0.1 * grad for weight, grad in zip(weights, torch.autograd.grad(loss, weights), strict=True)
    ]
    learner = Learner(model, config, episodes, store, World())
    step = learner.step(0)
    assert_close(step.loss, loss.item())
    for weight, wanted in zip(weights, expected, strict=True):
        assert_close(weight, wanted)


def test_a_running_scale_moves_once_a_step_by_the_mean_of_its_episodes():
    config = PLAIN.with_values(episodes=4, batch=2, optimiser="sgd", rate=1e-9, schedule="constant")
    torch.manual_seed(0)
    model = FewShotModel(model_config(dropout=0.0), dataset().layout).double()
    episodes = split().training_episodes(dataset(), count=4, seed=0)
    store = model.store(dataset().motions)
    costs = []
    for episode in episodes:
        query, support = (
            model.features(store[episode.query], "query").values,
            model.features(store[episode.support], "support").values,
        )
        counts = [
            model.features(store[clips], "support").counts for clips in (episode.query, episode.support)
        ]
        left = torch.cat([x[:n].flatten(0, -2) for x, n in zip(query, counts[0], strict=True)])
        right = torch.cat([x[:n] for x, n in zip(support, counts[1], strict=True)])
        costs.append((left[:, None] - right).square().sum(-1).mean().item())
    learner = Learner(model, config, episodes, store, World())
    learner.step(0)
    first = (costs[0] + costs[1]) / 2
    assert_close(model.comparison.cost_scale.item(), first)
    learner.step(1)
    assert_close(
        model.comparison.cost_scale.item(),
        first + 0.05 * ((costs[2] + costs[3]) / 2 - first),
        rtol=1e-6,
        atol=0,
    )


@pytest.mark.parametrize("steps", [2, 7, 100])
def test_the_one_cycle_rate_is_torchs(steps):
    config = PLAIN.with_values(episodes=3 * steps - 1, batch=3, rate=0.02)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 0.02, total_steps=steps, cycle_momentum=False, anneal_strategy="cos"
    )
    for step in range(steps):
        assert_close(learning_rate(step, config), schedule.get_last_lr()[0], rtol=1e-12, atol=0)
        optimiser.step()
        if step < steps - 1:
            schedule.step()


def test_training_learns_the_task(tmp_path):
    config = PLAIN.with_values(
        episodes=120, batch=4, queries=2, rate=1e-2, validate_every=40, checkpoint_every=1000
    )
    run = run_training(tmp_path / "run", config, model_config(dropout=0.0))
    losses = [line["loss"] for line in run.metrics()]
    assert sum(losses[-5:]) / 5 < 0.5 * sum(losses[:5]) / 5
    untrained = []
    for seed in range(8):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            untrained.append(accuracy(FewShotModel(model_config(dropout=0.0), dataset().layout)))
    assert run.summary()[0]["validation"]["accuracy"] >= sum(untrained) / len(untrained)


def accuracy(model):
    task = split()
    (rows,) = predict(model, model.store(dataset().motions), [task.validation], task.validation_classes)
    return estimate_accuracy(rows)[0].value


def test_the_kept_model_is_the_best_by_validation_and_not_the_last(tmp_path):
    config = PLAIN.with_values(
        episodes=24, batch=2, optimiser="sgd", schedule="constant", rate=0.3, clip=None, validate_every=2
    )
    run = run_training(tmp_path / "run", config, model_config(dropout=0.0))
    (row,) = run.summary()
    seen = {line["episode"]: line["validation"] for line in run.metrics()}
    assert len(seen) == 12
    assert row["validation"]["accuracy"] == max(seen.values())
    assert row["best_episode"] == min(
        episode for episode, value in seen.items() if value == max(seen.values())
    )
    assert seen[24] < max(seen.values()), "the task of this test must end below its best"
    assert_close(accuracy(run.model()), max(seen.values()))


def test_training_stops_when_nothing_gets_better(tmp_path):
    config = PLAIN.with_values(episodes=100, batch=2, rate=1e-12, validate_every=2, patience=3)
    run = run_training(tmp_path / "run", config, model_config(dropout=0.0, relative=False))
    (row,) = run.summary()
    assert (row["episodes"], row["best_episode"], row["finished"]) == (8, 2, "no better")
    again = run_training(tmp_path / "run", config, model_config(dropout=0.0, relative=False), resume=True)
    assert again.summary() == run.summary()


def test_without_validation_classes_the_last_weights_are_kept(tmp_path):
    run = run_training(tmp_path / "run", split=split(train=(0, 1, 2, 3, 4, 5), validation=()))
    kept = list_tensors(run)
    assert run.summary()[0]["validation"] is None
    for name in [name for name in kept if name.startswith("best.")]:
        assert torch.equal(kept[name], kept["model." + name.removeprefix("best.")])


class Watched:
    """A data set that notes which clips are read."""

    def __init__(self, data):
        self._data, self.read = data, set()

    def __getattr__(self, name):
        return getattr(self._data, name)

    @property
    def motions(self):
        return self

    def __len__(self):
        return len(self._data)

    def __getitem__(self, index):
        self.read.add(index)
        return self._data[index]


class Forbidden:
    """Test episodes that must not be looked at."""

    def __len__(self):
        raise AssertionError("training looked at the test episodes")

    __getitem__ = __iter__ = __len__


@pytest.mark.plain  # the hook itself looks into the test episodes
def test_training_reads_training_and_validation_clips_and_nothing_else(tmp_path):
    data, task = Watched(dataset()), split()
    run_training(
        tmp_path / "run", SHORT.with_values(mirror=False), dataset=data, split=replace(task, test=Forbidden())
    )
    held = {int(clip) for episode in task.validation for clip in (*episode.query, *episode.support)}
    assert data.read <= set(task.train) | held
    assert data.read & set(task.train)
    assert data.read & held


def test_a_model_that_is_given_is_the_start_of_every_split_and_stays_as_it_is(tmp_path):
    torch.manual_seed(3)
    model = FewShotModel(model_config(dropout=0.0), dataset().layout)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tasks = [split("first"), split("second", train=(2, 3, 6, 7), test=(0, 1))]
    run = run_training(tmp_path / "run", SHORT.with_values(rate=1e-12, weight_decay=0), model, split=tasks)
    assert run.splits == ("first", "second")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    for name in run.splits:
        for key, tensor in run.model(name).state_dict().items():
            if "cost_scale" not in key:
                assert_close(tensor, before[key], rtol=0, atol=1e-9)
    with pytest.raises(ConfigError, match="start: "):
        run_training(
            tmp_path / "run",
            SHORT.with_values(rate=1e-12, weight_decay=0),
            run.model("first"),
            split=tasks,
            resume=True,
        )


def test_a_float64_model_trains_in_float64(tmp_path):
    model = FewShotModel(model_config(), dataset().layout).double()
    run = run_training(tmp_path / "run", model=model)
    assert {tensor.dtype for name, tensor in list_tensors(run).items() if "weight" in name} == {torch.float64}


def fused_config():
    raw = model_config(relative=False, gamma=0.0).with_values({"encoder.kind": "raw", "weight": 0.5})
    return model_config(dropout=0.0).with_values(components=(raw,))


@pytest.mark.parametrize("config", [SHORT, SHORT.with_values(fuse="together")], ids=["after", "together"])
def test_a_model_with_another_beside_it_is_resumed_to_the_same_bits(config, tmp_path):
    whole = run_training(tmp_path / "whole", config, fused_config())
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path / "parts", config, fused_config(), progress=interrupt_at(4))
    parts = run_training(tmp_path / "parts", config, fused_config(), resume=True)
    assert_same_run(whole, parts)
    assert whole.model().config == parts.model().config


def test_fused_after_training_the_branch_learns_alone_and_both_count_in_their_medians(tmp_path):
    config = SHORT.with_values(mirror=False)
    alone = run_training(tmp_path / "alone", config, model_config(dropout=0.0), split=split(validation=()))
    fused = run_training(tmp_path / "fused", config, fused_config(), split=split(validation=()))
    model, branch = fused.model(), alone.model()
    for name, weight in branch.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name])
    raw = FewShotModel(fused_config().components[0].with_values(weight=1.0), dataset().layout)
    episodes = split(validation=()).training_episodes(dataset(), queries=2, count=12, seed=0)
    tables = []
    for one in (branch, raw):
        store = one.store(dataset().motions)
        with torch.no_grad():
            tables.append([one(store[e.query], store[e.support]) for e in episodes])
    units = [torch.cat([table.flatten() for table in of]).median() for of in tables]
    assert_close(torch.tensor([model.config.unit, model.config.components[0].unit]), torch.stack(units))
    store = model.store(dataset().motions)
    with torch.no_grad():
        found = model(store[episodes[0].query], store[episodes[0].support])
    assert_close(found, tables[0][0] / units[0] + 0.5 * tables[1][0] / units[1])
