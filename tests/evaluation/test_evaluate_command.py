"""``jeanie evaluate``: its report, its files, runs of several seeds, wrong usage."""

import json

import pytest
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.fewshot.model import FewShotModel
from jeanie.training.config import TrainConfig
from jeanie.training.train import train

SYNTHETIC = PROTOCOLS["synthetic"]
RAW = FewShotModel.raw("dtw").config.with_values({"inputs.prepare.frames": 8})
VIEWED = RAW.with_values({"views.kind": "euler", "views.azimuth": 30, "views.altitude": 0})


def run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *(str(argument) for argument in arguments)])


def test_the_command_prints_one_json_object_and_writes_its_files(tmp_path):
    page, tables = tmp_path / "deep" / "report.html", tmp_path / "report.md"
    done = run(
        "raw", "synthetic", "--way", "5", "--limit", "1", "--json", "--html", page, "--markdown", tables
    )
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    needed = {"protocol", "method", "accuracy", "ci95", "seeds", "queries", "per_class"}
    assert needed <= facts.keys()
    assert (facts["protocol"], facts["method"], facts["queries"], facts["way"]) == ("synthetic", "raw", 5, 5)
    assert facts["against"] == facts["comparisons"] == []  # raw is not compared with itself
    assert page.read_text().startswith("<!doctype html>")
    assert "| method | accuracy, %" in tables.read_text()
    assert done.stderr == ""


@pytest.fixture(scope="module")
def run_folders(tmp_path_factory):
    """Two short runs on fewer training classes, no validation, seeds 0 and 1."""
    config = RAW.with_values({"encoder.kind": "mlp", "encoder.mlp": (8,), "encoder.features": 4})
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        settings = TrainConfig(episodes=1, batch=1, way=3, seed=seed)
        train(
            config, "synthetic", config=settings, out=folder / f"seed{seed}", train_classes=65, validation=0
        )
    return folder


def test_models_that_need_no_folder_are_known_by_their_names():
    done = run("dtw", "synthetic", "--way", "5", "--limit", "1", "--against", "shipped", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["method"], [one["method"] for one in facts["against"]]) == ("dtw", ["shipped"])
    splits = SYNTHETIC.splits(SYNTHETIC.open(), way=5)
    for model, row in ((FewShotModel.raw("dtw"), facts), (FewShotModel.load(), facts["against"][0])):
        assert row["accuracy"] == pytest.approx(evaluate(model, SYNTHETIC, splits=splits, limit=1).accuracy)


def test_runs_are_pooled_over_seeds_and_compared_with_raw(run_folders, tmp_path):
    arguments = (
        run_folders / "seed0",
        "synthetic",
        "--with",
        run_folders / "seed1",
        "--train-classes",
        "65",
        "--limit",
        "2",
    )
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["method"], facts["seeds"], facts["over"]) == ("seed0", [0, 1], "seeds")
    assert [one["method"] for one in facts["against"]] == ["raw"]
    (pair,) = facts["comparisons"]
    assert pair["difference"] == pytest.approx(facts["accuracy"] - facts["against"][0]["accuracy"], abs=1e-5)
    assert pair["test"] == "paired t-test over the seeds"
    result = run(*arguments, "--alone")
    assert result.exit_code == 0, result.output
    assert f"{facts['accuracy']:.1f} ± {min(facts['ci95'], 100):.1f}" in result.stdout


def test_models_in_folders_of_one_name_are_told_apart(tmp_path):
    places = [tmp_path / one / "model" for one in ("first", "second")]
    for place, config in zip(places, (RAW, VIEWED), strict=True):
        FewShotModel(config).save(place)
    done = run(places[0], "synthetic", "--against", places[1], "--limit", "1", "--json")
    facts = json.loads(done.stdout)
    assert [facts["method"], facts["against"][0]["method"]] == [str(place) for place in places]


@pytest.mark.errors
def test_a_run_is_not_tested_on_classes_that_it_has_learnt(run_folders):
    done = run(run_folders / "seed0", "synthetic", "--limit", "1")
    assert done.exit_code == 2
    assert "was trained on classes that split" in done.stderr
    assert "--train-classes" in done.stderr


@pytest.mark.errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("raw", "nothing"), "no protocol 'nothing'"),
        (("not there", "synthetic"), "neither one of raw, dtw, shipped, nor the folder of a training run"),
        (("raw", "synthetic", "--rule", "last"), "rule is 'nearest' or 'mean'"),
        (("raw", "synthetic", "--alone", "--against", "raw"), "--alone and --against exclude each other"),
        (("raw", "synthetic", "--with", "raw"), "--with joins training runs"),
        (("raw", "synthetic", "--way", "1"), "way"),
        (("raw",), "missing argument 'protocol'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_and_bad_input_end_with_2(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 2
    assert (
        message.lower() in done.stderr.lower()
    )  # versions of typer write the names of arguments in different case
    assert done.stdout == ""


@pytest.mark.errors
def test_missing_data_says_where_to_get_it(tmp_path):
    done = run("raw", "ntu60-oneshot", "--root", tmp_path / "none", "--json")
    assert done.exit_code == 2
    assert "Get it" in json.loads(done.stdout)["error"]
