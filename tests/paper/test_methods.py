"""Every compared system is a change of one recipe, learns, and is what its name says."""

import doctest
import functools
import json
from pathlib import Path

import pytest
import torch
from tiny_methods import BASE, small
from tiny_task import LAYOUT, dataset, split
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.cli.train import _build_settings as settings
from jeanie.compute.distributed import World
from jeanie.compute.processes import use_one_thread
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError
from jeanie.fewshot.episodes import Episodes
from jeanie.fewshot.model import FewShotModel
from jeanie.paper.methods import METHODS, get_method
from jeanie.skeleton.convert import convert
from jeanie.skeleton.layout import LAYOUTS
from jeanie.training.recipes import RECIPES
from jeanie.training.run import Run
from jeanie.training.step import Learner
from jeanie.training.train import train

ROOT = Path(__file__).resolve().parents[2]
ACTED = ("wave", "draw_tick", "swipe_left", "swipe_right", "salute", "drink")


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors this small gain nothing from threads, and lose much where others compute as well."""
    with use_one_thread():
        yield


@functools.cache
def open_actions():
    """Six actions of the synthetic set by five subjects, at eight frames a second."""
    data = open_synthetic(0, subjects=5, takes=1, cameras=1, actions=ACTED)
    return tuple(convert(motion.resample(8), LAYOUT) for motion in data.motions)


# methods with the networks of published systems, which have 11 and 24 million weights
PUBLISHED = [name for name in METHODS if f"{name}-small" in METHODS]
SLOW = {
    "prototype-va-cnn",
    "prototype-va-fusion",
    "va-soft-dtw",
    "skeleton-dml",
}  # sl-dml speaks for all of them


@pytest.mark.parametrize("name", [name for name in METHODS if name not in SLOW])
def test_every_method_learns(name):
    """Actions of the synthetic set: going through the same four episodes again and again, the loss falls."""
    recipe, motions = small(name), open_actions()
    torch.manual_seed(1)
    model = FewShotModel(recipe.model, LAYOUT)
    labels = [motion.label for motion in motions]
    pool = tuple(range(len(motions)))
    episodes = Episodes(labels, support=pool, query=pool, way=4, queries=2, count=4, seed=0)
    learner = Learner(model, recipe.train, episodes, model.store(motions), World())

    def run_pass():
        return sum(learner.step(number).loss for number in range(2))

    bound = 0.9 * run_pass()
    assert any(run_pass() < bound for _ in range(9))  # stops when the loss is low


@pytest.mark.parametrize("base", RECIPES)
def test_methods_differ_from_their_base_in_what_defines_them_alone(base):
    recipe = RECIPES[base]
    free = {"loss", "augment", "fuse"}
    for name, chosen in METHODS.items():
        train = chosen.recipe(recipe).train
        assert train.model_dump(exclude=free) == recipe.train.model_dump(exclude=free), name
        assert chosen.recipe(recipe).model.encoder.features == recipe.model.encoder.features, name
        assert len(chosen.recipe(recipe).model.components) == len(chosen.components), name


@pytest.mark.parametrize("name", METHODS)
def test_no_method_has_more_weights_than_the_papers_encoder_may(name):
    """0.5 million on 25 joints; both networks of a fusion together, 0.47 + 24 million in the original."""
    model = FewShotModel(METHODS[name].recipe(RECIPES["authors"]).model, LAYOUTS["ntu25"])
    weights = sum(weight.numel() for weight in model.parameters())
    if name in PUBLISHED:
        assert weights > 11_000_000
    else:
        assert 20_000 < weights < (600_000 if model.components else 500_000)


def test_tuned_ranges_are_those_of_the_base():
    tuned = BASE.with_values({"views": {"azimuth": 60, "altitude": 20, "step": 10}})
    for name in ("jeanie-2v-camvpc-tuned", "jeanie-2v-both", "jeanie-shift-3", "jeanie-loss-v1"):
        views = METHODS[name].recipe(tuned).model.views
        assert (views.kind, views.azimuth, views.altitude, views.step) == ("camera", 60, 20, 10)
    assert METHODS["jeanie-2v-camvpc"].recipe(tuned).model.views.azimuth == 45


@pytest.mark.parametrize("shift", [1, 2, 3, 4])
def test_a_shift_method_turns_both_sides_by_so_much(shift):
    model = METHODS[f"jeanie-shift-{shift}"].recipe(BASE).model
    assert (model.align.method, model.align.shift, model.views.sides) == ("jeanie", shift, "both")


def test_a_method_trains_saves_and_loads_like_any_model(tmp_path):
    recipe = small("udtw", episodes=4)
    place = tmp_path / "run"
    train(
        recipe.model,
        "synthetic",
        config=recipe.train,
        out=place,
        dataset=dataset(),
        split=split(),
        validation=0,
    )
    model = Run.load(place).model()
    assert model.config.align.method == "udtw"
    assert bool((model.comparison.uncertainty.weight != 0).any())


def test_the_command_takes_a_method_between_the_file_and_single_values(tmp_path):
    file = tmp_path / "tuned.toml"
    file.write_text('[views]\nkind = "euler"\nazimuth = 60\n')
    changed = settings("default", None, file, "jeanie-2v-camvpc-tuned", {}, ["align.gamma=0.3"], {"seed": 5})
    assert (changed.model.views.kind, changed.model.views.azimuth) == ("camera", 60)
    assert (changed.model.align.gamma, changed.train.seed) == (0.3, 5)


@pytest.mark.errors
def test_an_unknown_method_is_told_the_known_ones():
    with pytest.raises(ConfigError, match=r"no method 'dtw'; the known ones are pooled, .*soft-dtw"):
        get_method("dtw")


@pytest.mark.errors
def test_a_method_whose_library_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setattr("jeanie.paper.methods.catalogue.find_spec", lambda name: None)
    assert METHODS["skeleton-dml"].missing == ("metric",)
    assert METHODS["soft-dtw"].missing == ()
    with pytest.raises(ConfigError, match=r"needs the extra metric: pip install 'jeanie\[metric\]'"):
        get_method("skeleton-dml")


def test_the_page_tells_every_method_and_its_examples_hold():
    page = ROOT / "docs/methods.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 3
    assert found.failed == 0
    text = page.read_text()
    graphs = ("gcn", "sgc", "appnp", "s2gc")
    rows = {
        name for name in METHODS if name.split("-")[0] not in graphs and not name.endswith("-transformer")
    }
    rows -= {name for name in rows if name.endswith("-small")}  # one row for all of them
    undocumented = {name for name in rows - {f"jeanie-shift-{n}" for n in (2, 3)} if f"`{name}`" not in text}
    assert undocumented == {"jeanie-shift-4", "jeanie-loss-v2"}  # text as `-4` and `-v2`


DML = {"sl-dml", "skeleton-dml", "sl-dml-small", "skeleton-dml-small"}


def test_the_command_lists_every_method_and_what_it_lacks(monkeypatch):
    monkeypatch.setattr("jeanie.paper.methods.catalogue.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["methods", "--json"])
    rows = {row["name"]: row for row in json.loads(result.stdout)["methods"]}
    assert rows.keys() == METHODS.keys()
    assert rows["soft-dtw"]["summary"] == METHODS["soft-dtw"].summary
    assert {name for name, row in rows.items() if row["missing"]} == DML
    lines = CliRunner().invoke(app, ["methods", "DML"]).stdout.splitlines()
    assert {line.split()[0] for line in lines} == DML
    assert all(line.endswith("(pip install 'jeanie[metric]')") for line in lines)
    none = CliRunner().invoke(app, ["methods", "nothing like it"])
    assert none.exit_code == 2
    assert "jeanie methods lists all of them" in none.stderr
