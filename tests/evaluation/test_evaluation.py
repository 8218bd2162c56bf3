"""Evaluation against distances computed one by one, in one process and in two, from Python and from a terminal."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError
from jeanie.evaluation.evaluate import evaluate, method_name
from jeanie.evaluation.predict import predict
from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.evaluation.protocols.splits import Columns, Split
from jeanie.fewshot import batching
from jeanie.fewshot.config import ModelConfig
from jeanie.fewshot.episodes import Episodes, Exemplars
from jeanie.fewshot.model import FewShotModel

ACTIONS = ["wave", "walk", "drink", "squat", "clap", "bow"]
SYNTHETIC = PROTOCOLS["synthetic"]
RAW = FewShotModel.raw("dtw").config.with_values({"inputs.prepare.frames": 8})
VIEWED = RAW.with_values({"views.kind": "euler", "views.azimuth": 30, "views.altitude": 0})


@pytest.fixture(scope="module")
def dataset():
    clips = open_synthetic(subjects=3, takes=1, cameras=2, actions=ACTIONS)
    return replace(clips, read=cache(clips.read))


@pytest.fixture(scope="module")
def motions(dataset):
    return list(dataset.motions)


def split_of(dataset, seed=0, shot=1, count=6, variants=None):
    columns = Columns(dataset.labels, dataset.subjects, dataset.views, tuple(range(len(dataset))))
    test = Episodes(dataset.labels, way=4, shot=shot, queries=2, count=count, seed=seed)
    classes = tuple(sorted(ACTIONS))
    return Split(
        f"draw {seed}", (), (), test, (), (), classes, 4, shot, (), columns, test_variants=variants or {}
    )


@pytest.fixture(scope="module")
def splits(dataset):
    return [split_of(dataset, seed) for seed in (0, 1)]


class Counting(FewShotModel):
    """A model that writes down which clips it encodes and how many pairs it compares."""

    def __init__(self, config):
        super().__init__(config)
        self.encoded = {"query": [], "support": []}
        self.pairs = 0

    def features(self, batch, side="query"):
        self.encoded[side] += [float(clip.sum()) for clip in batch.joints]
        return super().features(batch, side)

    def compare(self, query, support):
        self.pairs += len(query) * len(support)
        return super().compare(query, support)


def predict_one_by_one(model, motions, episode, rule):
    """(predicted, own, other) of every query, each distance computed by itself."""
    rows = []
    for query, label in zip(episode.query.tolist(), episode.query_labels.tolist(), strict=True):
        by_class = [[] for _ in episode.classes]
        for support, number in zip(episode.support.tolist(), episode.support_labels.tolist(), strict=True):
            by_class[number].append(float(model.distances([motions[query]], [motions[support]])))
        far = [min(some) if rule == "nearest" else sum(some) / len(some) for some in by_class]
        own = far.pop(label)
        predicted = min(range(len(by_class)), key=lambda k: [*far[:label], own, *far[label:]][k])
        rows.append((episode.classes[predicted], own, min(far)))
    return rows


@pytest.mark.parametrize("rule", ["nearest", "mean"])
@pytest.mark.parametrize("config", [RAW, VIEWED], ids=["plain", "views"])
def test_every_prediction_is_that_of_distances_computed_one_by_one(dataset, motions, config, rule):
    model = FewShotModel(config)
    split = split_of(dataset, shot=2, count=2)
    report = evaluate(model, SYNTHETIC, dataset=dataset, splits=[split], rule=rule)
    expected = [row for episode in split.test for row in predict_one_by_one(model, motions, episode, rule)]
    rows = report.predictions
    assert [report.classes[k] for k in rows.predicted.tolist()] == [predicted for predicted, _, _ in expected]
    assert_close(
        rows.own, torch.tensor([own for _, own, _ in expected], dtype=torch.float64), rtol=1e-4, atol=1e-5
    )
    assert_close(
        rows.other, torch.tensor([far for *_, far in expected], dtype=torch.float64), rtol=1e-4, atol=1e-5
    )
    assert rows.query.tolist() == [clip for episode in split.test for clip in episode.query.tolist()]
    truths = [episode.classes[k] for episode in split.test for k in episode.query_labels.tolist()]
    assert [report.classes[k] for k in rows.truth.tolist()] == truths
    assert rows.episode.tolist() == [0] * 8 + [1] * 8


def distinct_pairs(splits):
    return {
        (query, support)
        for split in splits
        for episode in split.test
        for query in episode.query.tolist()
        for support in episode.support.tolist()
    }


def test_a_clip_is_encoded_once_a_side_and_a_pair_compared_once(dataset, splits):
    model = Counting(RAW)
    evaluate(model, SYNTHETIC, dataset=dataset, splits=splits)
    wanted = distinct_pairs(splits)
    assert len(wanted) < sum(8 * 4 for split in splits for _ in split.test)  # some recur
    for at, side in enumerate(("query", "support")):
        assert len(model.encoded[side]) == len(set(model.encoded[side])) == len({pair[at] for pair in wanted})
    assert len(wanted) <= model.pairs <= 2 * len(wanted)


def test_where_few_pairs_are_wanted_no_table_of_all_is_computed(dataset):
    """Six disjoint episodes: the table over all queries and supports would be six times as large."""
    by_class = {
        action: [k for k, label in enumerate(dataset.labels) if label == action] for action in ACTIONS
    }
    tasks = [
        Exemplars(
            [by_class[a][k] for a in ACTIONS[:2]], [by_class[a][k - 1] for a in ACTIONS[:2]], dataset.labels
        )[0]
        for k in range(6)
    ]
    split = replace(split_of(dataset), test=tasks)
    model = Counting(RAW)
    evaluate(model, SYNTHETIC, dataset=dataset, splits=[split])
    assert model.pairs == 6 * 2 * 2


def test_memory_that_is_short_changes_nothing(dataset, splits, monkeypatch):
    whole = evaluate(FewShotModel(VIEWED), SYNTHETIC, dataset=dataset, splits=splits)
    monkeypatch.setattr(batching, "MAX_NUMBERS", 8000)  # less than the features of three clips
    monkeypatch.setattr(batching, "FIRST_BATCH", 2)
    pieces = evaluate(FewShotModel(VIEWED), SYNTHETIC, dataset=dataset, splits=splits)
    assert_close(pieces.predictions.own, whole.predictions.own, rtol=1e-5, atol=1e-6)
    assert_close(pieces.predictions.other, whole.predictions.other, rtol=1e-5, atol=1e-6)


def test_each_split_is_met_by_its_own_model(dataset, splits):
    models = {"draw 0": FewShotModel(RAW), "draw 1": FewShotModel(VIEWED)}
    single = [
        evaluate(models[split.name], SYNTHETIC, dataset=dataset, splits=[split]).predictions
        for split in splits
    ]
    for form in (models, lambda split: models[split.name]):
        both = evaluate(form, SYNTHETIC, dataset=dataset, splits=splits, method="both").predictions
        assert both.split.tolist() == [0] * 48 + [1] * 48
        assert_close(both.own, torch.cat([rows.own for rows in single]))


def test_models_that_are_added_are_evaluated_as_their_sum(dataset, splits):
    fused = FewShotModel(RAW.with_values(components=(VIEWED,), weight=2.0))
    found, first, second = (
        evaluate(model, SYNTHETIC, dataset=dataset, splits=splits[:1], rule="mean").predictions.own
        for model in (fused, FewShotModel(RAW), FewShotModel(VIEWED))
    )
    assert_close(found, 2 * first + second, rtol=1e-5, atol=1e-6)


def test_a_model_leaves_as_it_came(dataset, splits):
    """A relative gamma that was never trained is measured on the first episode, and forgotten after."""
    model = FewShotModel(RAW.with_values({"align.relative": True, "align.gamma": 0.1}))
    model.train()
    first = evaluate(model, SYNTHETIC, dataset=dataset, splits=splits)
    assert model.training
    assert float(model.comparison.get_buffer("cost_scale")) == 0
    again = evaluate(model, SYNTHETIC, dataset=dataset, splits=splits)
    assert torch.equal(first.predictions.own, again.predictions.own)


def test_variants_are_told_beside_the_main_test(dataset):
    clips = {action: dataset.labels.index(action) for action in ACTIONS[:3]}
    rest = [k for k, label in enumerate(dataset.labels) if label in clips and k not in clips.values()]
    exemplars = list(clips.values())
    with_them = Exemplars(exemplars, exemplars + rest, dataset.labels, repeated=True)
    split = replace(
        split_of(dataset),
        test=Exemplars(exemplars, rest, dataset.labels),
        test_variants={"with them": with_them},
    )
    report = evaluate(FewShotModel(RAW), SYNTHETIC, dataset=dataset, splits=[split])
    facts = report.json()["variants"]["with them"]
    hits = int(report.predictions.is_correct.sum())
    assert (report.queries, facts["queries"]) == (15, 18)
    assert facts["accuracy"] == pytest.approx(100 * (hits + 3) / 18)
    assert report.over == facts["over"] == "queries"


def test_a_limit_takes_the_first_episodes_of_each_split(dataset, splits):
    whole = evaluate(FewShotModel(RAW), SYNTHETIC, dataset=dataset, splits=splits)
    some = evaluate(FewShotModel(RAW), SYNTHETIC, dataset=dataset, splits=splits, limit=2)
    rows = whole.predictions
    assert torch.equal(some.predictions.query, rows.query[rows.episode < 2])
    assert some.queries == 2 * 2 * 8


def test_progress_counts_every_pair_once(dataset, splits):
    calls = []
    evaluate(
        FewShotModel(RAW), SYNTHETIC, dataset=dataset, splits=splits, progress=lambda *two: calls.append(two)
    )
    assert calls[-1] == (len(distinct_pairs(splits)),) * 2
    assert calls == sorted(calls)


def test_a_method_without_a_name_is_named_by_what_it_does():
    assert method_name(RAW) == "raw DTW"
    assert method_name(FewShotModel.raw().config) == "raw reference"
    assert method_name(RAW.with_values({"align.gamma": 0.1})) == "raw soft-DTW"
    assert method_name(VIEWED.with_values({"align.method": "fvm"})) == "raw FVM"
    assert method_name(ModelConfig()) == "JEANIE"


@pytest.mark.errors
def test_what_cannot_be_evaluated_is_said(dataset, splits):
    model = FewShotModel(RAW)
    with pytest.raises(ConfigError, match="no protocol 'nothing'"):
        evaluate(model, "nothing")
    with pytest.raises(ConfigError, match="no split to evaluate on"):
        evaluate(model, SYNTHETIC, dataset=dataset, splits=[])
    with pytest.raises(ConfigError, match="no model for split 'draw 1', only for draw 0"):
        evaluate({"draw 0": model}, SYNTHETIC, dataset=dataset, splits=splits)
    with pytest.raises(ConfigError, match="limit is 1 or more episodes, got 0"):
        evaluate(model, SYNTHETIC, dataset=dataset, splits=splits, limit=0)
    with pytest.raises(ConfigError, match="rule is 'nearest' or 'mean', got 'last'"):
        evaluate(model, SYNTHETIC, dataset=dataset, splits=splits, rule="last")
    with pytest.raises(ConfigError, match="no episode to predict"):
        predict(model, model.store(dataset.motions), [[]], ACTIONS)


PROCESS = """
import json, sys
import torch
from torch import distributed
sys.path.insert(0, sys.argv[4])
from test_evaluation import ACTIONS, RAW, SYNTHETIC, FewShotModel, evaluate, open_synthetic, split_of
torch.set_num_threads(1)
rank, size, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
distributed.init_process_group("gloo", init_method=f"file://{place}/meet", rank=rank, world_size=size)
dataset = open_synthetic(subjects=3, takes=1, cameras=2, actions=ACTIONS)
model = FewShotModel(RAW.with_values({"align.relative": True, "align.gamma": 0.1}))
report = evaluate(model, SYNTHETIC, dataset=dataset, splits=[split_of(dataset, seed) for seed in (0, 1)])
facts = {"json": report.json(), "own": report.predictions.own.tolist(), "other": report.predictions.other.tolist()}
open(f"{place}/{rank}.json", "w").write(json.dumps(facts))
distributed.destroy_process_group()
"""


@pytest.mark.processes
def test_two_processes_give_the_report_of_one(dataset, splits, tmp_path):
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}
    command = [sys.executable, "-W", "ignore", "-c", PROCESS]
    processes = [
        subprocess.Popen(
            [*command, str(rank), "2", str(tmp_path), str(Path(__file__).parent)], env=environment
        )
        for rank in (0, 1)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    model = FewShotModel(RAW.with_values({"align.relative": True, "align.gamma": 0.1}))
    single = evaluate(model, SYNTHETIC, dataset=dataset, splits=splits)
    when = {"commit", "date"}  # may change while the processes run
    facts = [
        {key: report[key] for key in report.keys() - when}
        for report in (first["json"], second["json"], single.json())
    ]
    assert facts[0] == facts[1] == facts[2]
    assert (first["own"], first["other"]) == (second["own"], second["other"])
    assert first["own"] == pytest.approx(single.predictions.own.tolist(), rel=1e-5)
    assert first["other"] == pytest.approx(single.predictions.other.tolist(), rel=1e-5)


DATA = os.environ.get("JEANIE_DATA")


@pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")
def test_the_exemplar_split_of_msraction3d_is_told_with_and_without_its_exemplars():
    report = evaluate(FewShotModel.raw("dtw"), "msraction3d-exemplars")
    assert (report.queries, report.json()["variants"]["with exemplars"]["queries"]) == (279, 289)
    assert report.over == "queries"
    hits = int(report.predictions.is_correct.sum())
    assert (
        report.variants["with exemplars"].is_correct.sum() == hits + 10
    )  # each is at distance 0 from itself
    assert 65 < report.accuracy < 85
