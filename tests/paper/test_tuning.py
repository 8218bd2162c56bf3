"""Searches: validation alone judges, trials are neither lost nor doubled, and what is found can be trained."""

import doctest
import json
import re
import sys
from pathlib import Path

import pytest
from tiny_sbu import TINY, write_sbu
from tiny_task import dataset
from tuning_cases import (
    USELESS,
    run_search,
    tiny_protocol,
    tiny_tuning,
    trial_states,
)
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.errors import ConfigError, DataError
from jeanie.paper.tuning import SPACE, Dimension, find_outcome, open_study, read_space, select_space
from jeanie.paper.tuning.outcome import format_toml
from jeanie.paper.tuning.space import apply_changes, initial_values
from jeanie.paper.tuning.worker import select_splits
from jeanie.training.recipes import RECIPES
from jeanie.training.run import Run

pytest.importorskip("optuna", reason="no Optuna: pip install 'jeanie[tune]'")


# -- what is searched ---------------------------------------------------------------------------------------------


def test_every_dimension_changes_a_recipe_that_can_be_built():
    recipes = [*RECIPES.values(), RECIPES["paper"].with_values({"loss.kind": "squared"})]
    assert {name for recipe in recipes for name in select_space(recipe)} == set(SPACE)
    for recipe in recipes:
        for name, one in select_space(recipe).items():
            for value in one.choices or (one.low, one.high):
                changes = {name: int(value) if one.whole else value}
                assert (
                    apply_changes(recipe, changes) != recipe or initial_values(recipe, {name: one}) == changes
                )


def test_a_recipe_is_searched_only_where_it_makes_a_difference():
    default = set(select_space(RECIPES["default"]))
    assert {"views.azimuth", "align.gamma", "align.shift", "encoder.layers", "rate"} <= default
    assert default.isdisjoint({"align.sigma", "loss.beta", "loss.target"})
    assert {"align.sigma", "loss.beta"} <= set(select_space(RECIPES["paper"]))
    plain = RECIPES["default"].with_values({"views.kind": "none", "align.method": "pool"})
    assert set(select_space(plain)).isdisjoint({"views.azimuth", "views.step", "align.shift", "align.gamma"})
    assert set(select_space(RECIPES["paper"], ["align.sigma", "rate"])) == {"align.sigma", "rate"}


def test_angles_come_in_whole_steps():
    recipe = apply_changes(
        RECIPES["default"], {"views.azimuth": 45.0, "views.altitude": 15.0, "views.step": 30.0}
    )
    views = recipe.model.views
    assert (views.azimuth % 30, views.altitude % 30, views.step) == (0, 0, 30)
    assert abs(views.azimuth - 45) <= 15
    assert apply_changes(RECIPES["default"], {"views.azimuth": 60.0}).model.views.azimuth == 60
    assert views.build().shape


def test_a_file_gives_other_dimensions(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(
        'rate = { low = 1e-4, high = 1e-2, log = true }\nalign.metric = { choices = ["rbf", "euclidean"] }\n'
    )
    space = read_space(path)
    assert space == {
        "rate": Dimension(low=1e-4, high=1e-2, log=True),
        "align.metric": Dimension(choices=("rbf", "euclidean")),
    }
    assert initial_values(RECIPES["paper"], space) == {"rate": 1e-3, "align.metric": "rbf"}


# -- searching ----------------------------------------------------------------------------------------------------


def test_a_search_leaves_a_bad_start_behind_and_never_looks_at_a_test(tmp_path):
    tuning = tiny_tuning(str(tmp_path / "study.db"))
    calls = []
    study = run_search(tuning, progress=lambda done, total: calls.append((done, total)))
    found = find_outcome(study, tuning)
    assert found.start == 50  # two ways, and every distance the same
    assert found.accuracy > 60
    assert found.recipe.model.align.sigma == found.changes["align.sigma"] > 10 * USELESS
    assert found.accuracy == max(one["validation"] for one in found.trials if one["state"] == "complete")
    assert (calls[0], calls[-1]) == ((0, 8), (8, 8))
    for split in select_splits(tuning, tiny_protocol(), dataset()):
        assert (split.test, split.test_variants) == ((), {})


def test_the_first_trial_is_the_recipe_as_it_is(tmp_path):
    tuning = tiny_tuning(str(tmp_path / "study.db"), trials=1)
    study = run_search(tuning)
    assert [one.params for one in study.trials] == [{"align.sigma": USELESS}]


def test_a_search_goes_on_where_it_stopped_and_draws_nothing_twice(tmp_path):
    storage = str(tmp_path / "study.db")
    first = run_search(tiny_tuning(storage, trials=3))
    before = [(one.number, one.params, one.value) for one in first.trials]
    study = run_search(tiny_tuning(storage, trials=6))
    after = [(one.number, one.params, one.value) for one in study.trials]
    assert after[:3] == before
    assert len(after) == 6
    assert len({params["align.sigma"] for _, params, _ in after}) == 6
    assert len(run_search(tiny_tuning(storage, trials=6)).trials) == 6


def test_the_value_is_the_mean_over_splits_of_their_best_validations(tmp_path, monkeypatch):
    """By an oracle that trains the same recipe on each split by hand."""
    from jeanie.training.train import train

    tuning = tiny_tuning(str(tmp_path / "study.db"), trials=1, splits=2)
    study = run_search(tuning, count=3)
    protocol, best = tiny_protocol(3), []
    for number in (0, 1):  # of three, two are taken, spread evenly: the first and the second
        out = tmp_path / f"run{number}"
        run = train(
            tuning.recipe.model, protocol, config=tuning.recipe.train, out=out, dataset=dataset(),
            split=protocol.splits(None)[number],
        )  # fmt: skip
        best.append(run.summary()[0]["validation"]["accuracy"])
    assert study.trials[0].value == pytest.approx(sum(best) / 2)


def test_a_trial_that_does_worse_than_most_is_ended_early(tmp_path):
    storage = str(tmp_path / "study.db")
    tuning = tiny_tuning(storage, trials=6)
    study = open_study(tuning)
    for sigma in (2.0, 2.0, 2.0, 2.0, USELESS):
        study.enqueue_trial({"align.sigma": sigma})
    study = run_search(tuning)
    last = study.trials[5]
    assert last.params == {"align.sigma": USELESS}
    assert last.state.name == "PRUNED"
    assert len(last.intermediate_values) < 2
    assert [one.state.name for one in study.trials[1:5]] == ["COMPLETE"] * 4
    found = find_outcome(study, tuning)
    assert found.json()["states"] == {"complete": 5, "pruned": 1}


def test_a_trial_that_cannot_be_trained_is_kept_with_its_error_and_counts(tmp_path):
    space = {"align.metric": Dimension(choices=("rbf", "nonsense"))}
    tuning = tiny_tuning(str(tmp_path / "study.db"), space=space, trials=6, seed=3)
    study = run_search(tuning)
    assert len(study.trials) == 6
    failed = [one for one in study.trials if one.state.name == "FAIL"]
    assert failed
    assert all(one.params == {"align.metric": "nonsense"} for one in failed)
    assert all("'nonsense'" in one.user_attrs["error"] for one in failed)
    assert find_outcome(study, tuning).recipe.model.align.metric == "rbf"


def test_a_stopped_trial_is_tried_again(tmp_path):
    tuning = tiny_tuning(str(tmp_path / "study.db"), trials=2)

    def stop(done, total):
        if done == 0 and not calls:
            calls.append(1)
            raise KeyboardInterrupt

    calls = []
    with pytest.raises(KeyboardInterrupt):
        run_search(tuning, progress=stop)
    study = run_search(tuning)
    assert trial_states(study) == ["COMPLETE", "COMPLETE"]


# -- what is found ------------------------------------------------------------------------------------------------


def test_a_recipe_goes_through_toml_and_back(tmp_path):
    recipe = RECIPES["default"].with_values(
        {
            "align.gamma": 0.25,
            "views.azimuth": 60,
            "loss.kind": "similarity",
            "inputs.streams": ["joints"],
            "rate": 1e-3,
        }
    )
    path = tmp_path / "best.toml"
    path.write_text(format_toml(recipe, RECIPES["default"]))
    assert RECIPES["default"].with_file(path) == recipe
    path.write_text(format_toml(RECIPES["authors"], RECIPES["paper"]))
    assert RECIPES["paper"].with_file(path) == RECIPES["authors"]
    assert "# --set train.clip=null" in format_toml(RECIPES["paper"], RECIPES["default"])


@pytest.mark.processes
def test_the_command_searches_in_processes_and_training_takes_what_it_found(tmp_path):
    write_sbu(tmp_path)
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(TINY))
    root = ["--root", str(tmp_path / "sbu"), "--train-classes", "5", "--json"]
    search = [
        "tune", "sbu", "--config", str(config), "--trials", "4", "--jobs", "2",
        "--only", "align.gamma", "--only", "rate", "--out", str(tmp_path / "found"), *root,
    ]  # fmt: skip
    result = CliRunner().invoke(app, search)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["states"].get("complete", 0) + facts["states"].get("pruned", 0) == 4
    assert set(facts["best"]["values"]) == {"align.gamma", "rate"}
    page = (tmp_path / "found" / "tuning.html").read_text()
    assert "Importance of each option" in page
    assert "http" not in page.replace("http-equiv", "")
    train = [
        "train", "sbu", "--config", facts["files"]["toml"], "--episodes", "2", "--split", "0",
        "--out", str(tmp_path / "run"), *root,
    ]  # fmt: skip
    result = CliRunner().invoke(app, train)
    assert result.exit_code == 0, result.output
    recipe = Run.load(tmp_path / "run").recipe
    assert recipe.train.rate == facts["best"]["values"]["rate"]
    assert recipe.model.align.gamma == facts["best"]["values"]["align.gamma"]
    assert recipe.model.encoder.width == TINY["encoder.width"]
    assert recipe == RECIPES["default"].with_file(facts["files"]["json"]).with_values({"episodes": 2})


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.errors
def test_another_search_under_the_same_name_is_refused(tmp_path):
    storage = str(tmp_path / "study.db")
    open_study(tiny_tuning(storage, name="mine"))
    open_study(tiny_tuning(storage, name="mine", trials=99, seed=7))
    with pytest.raises(ConfigError, match=r"study 'mine' of .* has other settings"):
        open_study(tiny_tuning(storage, name="mine", splits=2))


@pytest.mark.errors
def test_a_database_that_cannot_be_used_is_named_without_its_password(tmp_path):
    with pytest.raises(DataError, match="cannot store a study there"):
        open_study(tiny_tuning(str(tmp_path)))
    with pytest.raises(DataError) as caught:
        open_study(tiny_tuning("nonsense://me:secret@host/place"))
    assert "secret" not in str(caught.value)
    assert "nonsense://host/place" in str(caught.value)


@pytest.mark.errors
def test_without_optuna_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    result = CliRunner().invoke(app, ["tune", "synthetic", "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"] == "a search needs Optuna; pip install 'jeanie[tune]'"


@pytest.mark.errors
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "a dimension has low and high, or choices"),
        ({"low": 1.0}, "a dimension has low and high, or choices"),
        ({"low": 1.0, "high": 2.0, "choices": (1, 2)}, "a dimension has low and high, or choices"),
        ({"low": 2.0, "high": 1.0}, "low is below high"),
        ({"low": 0.0, "high": 1.0, "log": True}, "a logarithmic range must be above 0"),
    ],
)
def test_a_dimension_that_is_none_is_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        Dimension(**values)


@pytest.mark.errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["synthetic", "--only", "align.sigma"], "'align.sigma' is not searched for this recipe"),
        (["synthetic", "--recipe", "best"], "no recipe 'best'"),
        (["synthetic", "--pruner", "gardener"], "pruner: "),
        (["nosuch", "--trials", "1"], "no protocol 'nosuch'"),
    ],
)
def test_wrong_use_ends_with_exit_code_2(arguments, message, tmp_path):
    result = CliRunner().invoke(app, ["tune", *arguments, "--out", str(tmp_path), "--json"])
    assert result.exit_code == 2
    assert message in json.loads(result.stdout)["error"]


@pytest.mark.errors
def test_a_protocol_without_validation_cannot_judge(tmp_path):
    from dataclasses import replace

    class Blind(type(tiny_protocol())):
        def splits(self, dataset, **options):
            return tuple(replace(one, validation=()) for one in super().splits(dataset))

    base = tiny_protocol()
    blind = Blind(**{name: getattr(base, name) for name in base.__dataclass_fields__})
    with pytest.raises(ConfigError, match="has no validation episodes"):
        select_splits(tiny_tuning(str(tmp_path / "study.db")), blind, dataset())


def test_the_examples_of_the_page_are_true():
    page = Path(__file__).resolve().parents[2] / "docs" / "tuning.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 2
    assert found.failed == 0


def test_the_ranges_of_the_page_are_read(tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs" / "tuning.md").read_text()
    (tmp_path / "space.toml").write_text(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    assert set(read_space(tmp_path / "space.toml")) == {
        "rate",
        "align.shift",
        "views.azimuth",
        "align.metric",
    }
