"""Every compared system is a change of one recipe, learns, and is what its name says."""

import doctest
import functools
import itertools
import json
import math
from pathlib import Path

import pytest
import torch
from tiny_task import LAYOUT, dataset, motion_of, split
from torch.testing import assert_close
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.cli.train import _settings as settings
from jeanie.compute.distributed import World
from jeanie.compute.processes import use_one_thread
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.encoders import GraphEncoderConfig
from jeanie.errors import ConfigError
from jeanie.evaluation.predict import predict
from jeanie.fewshot.episodes import Episodes
from jeanie.fewshot.model import FewShotModel
from jeanie.paper.methods import METHODS, get_method
from jeanie.skeleton.convert import convert
from jeanie.skeleton.layout import LAYOUTS
from jeanie.training.augment import AugmentConfig
from jeanie.training.recipes import RECIPES
from jeanie.training.run import Run
from jeanie.training.step import Learner
from jeanie.training.train import train

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "inputs": {"block": 4, "stride": 0.5, "streams": ("joints", "motion"), "prepare.frames": None},
    "encoder": GraphEncoderConfig(
        width=8, features=8, layers=3, dropout=0.0, hidden=8, heads=2, head_size=4, depth=1
    ),
    "align.sigma": 1.0,
    "episodes": 24,
    "rate": 1e-2,
    "schedule": "constant",
    "mirror": False,
    "augment": AugmentConfig(),
}
BASE = RECIPES["default"].with_values(TINY)
ACTED = ("wave", "draw_tick", "swipe_left", "swipe_right", "salute", "drink")


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors this small gain nothing from threads, and lose much where others compute as well."""
    with use_one_thread():
        yield


def small(name, **changes):
    """A method on the tiny base, with as few views, frames and channels as show what it does."""
    recipe = METHODS[name].recipe(BASE)
    components = [part.with_values(cut(part)).model_dump() for part in recipe.model.components]
    return recipe.with_values({**cut(recipe.model), "components": components, **changes})


def cut(model):
    whole = {"inputs.prepare.frames": 12, "inputs.block": 12}
    angles = {
        f"views.{angle}": min(getattr(model.views, angle), 15)
        for angle in ("azimuth", "altitude")
        if hasattr(model.views, angle)
    }
    image = {"encoder.image_size": 32} if getattr(model.encoder, "network", "small") != "small" else {}
    return {
        **angles,
        **image,
        "encoder.width": 8,
        **(whole if model.inputs.prepare.frames else {"inputs.block": 4, "inputs.stride": 0.5}),
    }


def distances(name, queries, supports, **changes):
    """Distances of a method with drawn weights, which are the same for methods that share an encoder."""
    torch.manual_seed(0)
    model = FewShotModel(small(name, **changes).model, LAYOUT).double().eval()
    return model.distances(queries, supports)


def clips(count=6):
    return [motion_of(clip) for clip in dataset().clips[:: 40 // count]][:count]


def rotate_yaw(motion, degrees):
    """The motion from a camera that has gone round the vertical, and walks as before."""
    angle = math.radians(degrees)
    turn = torch.tensor(
        [[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]]
    )
    return motion.replace(joints=motion.joints @ turn.T)


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


def test_more_freedom_never_costs_more():
    """With the hard minimum, any view anywhere <= a path through views <= one row of views <= no views."""
    motions = clips()
    hard = {"align.gamma": 0.0, "views.azimuth": 30, "views.altitude": 30}
    azimuths = {**hard, "views.altitude": 0}
    chains = [
        [("fvm", hard), ("jeanie-2v-euler", {**hard, "align.shift": 2}), ("jeanie-2v-euler", hard),
         ("jeanie-2v-euler-simple", hard), ("jeanie-v", azimuths), ("soft-dtw", {"align.gamma": 0.0})],
        [("fvm-both", azimuths), ("jeanie-2v-euler-both", azimuths), ("jeanie-v", azimuths)],
    ]  # fmt: skip
    for chain in chains:
        tables = [distances(name, motions[:3], motions[3:], **changes) for name, changes in chain]
        for less, more in itertools.pairwise(tables):
            assert bool((less <= more + 1e-9).all())
        assert bool((tables[0] < tables[-1]).any())


def test_pooled_distances_know_no_order_of_blocks_and_aligned_ones_do():
    motions = clips(4)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    first = motions[0].replace(joints=motions[0].joints[:10], valid=motions[0].valid[:10])
    mixed = first.replace(joints=first.joints[order], valid=first.valid[order])
    single = {"inputs.block": 1, "inputs.stride": 1.0, "inputs.streams": ("joints",)}
    for name, alike in (("pooled", True), ("prototype", True), ("matching", True), ("soft-dtw", False)):
        here, there = (distances(name, [one], motions[1:], **single) for one in (first, mixed))
        assert torch.allclose(here, there) == alike, name


@pytest.mark.parametrize("scaled", ["none", "body", "axis"])
@pytest.mark.parametrize("name", ["frontal-frame", "frontal-block", "trajectory-video", "trajectory-block"])
def test_bodies_that_are_turned_by_themselves_do_not_show_the_camera(name, scaled):
    motions = clips()
    queries = [rotate_yaw(one, 70) for one in motions[:2]]
    plain = distances("soft-dtw", motions[:2], motions[2:], **{"inputs.scale": scaled})
    assert not torch.allclose(plain, distances("soft-dtw", queries, motions[2:], **{"inputs.scale": scaled}))
    assert_close(
        distances(name, queries, motions[2:], **{"inputs.scale": scaled}),
        distances(name, motions[:2], motions[2:], **{"inputs.scale": scaled}),
        atol=1e-4, rtol=1e-4,
    )  # fmt: skip


def test_flat_methods_do_not_see_depth():
    motions = clips(4)
    deep = [one.replace(joints=one.joints * torch.tensor([1.0, 1.0, 3.0])) for one in motions]
    plain = {"inputs.prepare.size": "none"}
    for name in ("2d-pooled", "2d-soft-dtw"):
        assert_close(distances(name, deep, deep, **plain), distances(name, motions, motions, **plain))
    assert not torch.allclose(
        distances("soft-dtw", deep, deep, **plain), distances("soft-dtw", motions, motions, **plain)
    )


def test_a_fusion_is_the_sum_of_its_two_networks_and_both_learn():
    recipe, motions = small("prototype-va-fusion"), clips(4)
    torch.manual_seed(0)
    model = FewShotModel(recipe.model, LAYOUT).eval()
    assert [part.config.encoder.kind for part in (model, *model.components)] == ["va-rnn", "va-cnn"]
    batch = model.collate(motions)
    features = model.features(batch)
    own = (features.values[:, 0, None] - features.values[:, 0]).square().sum(-1)
    other = features.components[0].values[:, 0]
    both = own + (other[:, None] - other).square().sum(-1)
    assert_close(model.distances(motions, motions), both, atol=1e-5, rtol=1e-5)
    before = [weight.clone() for weight in model.parameters()]
    data = dataset()
    episodes = split().training_episodes(data, way=3, shot=1, queries=2, count=2, seed=0)
    Learner(model, recipe.train, episodes, model.store(data.motions), World()).step(0)
    heads = [name for name, _ in model.named_parameters() if name.endswith("head.weight")]
    moved = {
        name
        for (name, weight), old in zip(model.named_parameters(), before, strict=True)
        if not torch.equal(weight, old)
    }
    assert len(heads) == 2  # of the LSTM, and of the pose of the CNN
    assert set(heads) <= moved


def several_shots(shot=3):
    labels = [clip.tags.label for clip in dataset().clips]
    pool = tuple(range(20))
    return Episodes(labels, support=pool, query=pool, way=3, shot=shot, queries=2, count=3, seed=2)


@pytest.mark.parametrize("name", ["prototype", "prototype-2v", "image-prototype", "matching"])
@torch.no_grad()
def test_classes_of_several_supports_are_judged_as_the_method_says(name):
    torch.manual_seed(0)
    model = FewShotModel(small(name, **{"align.relative": False}).model, LAYOUT).double().eval()
    motions, episodes = dataset().motions, several_shots()
    (rows,) = predict(model, model.store(motions), [episodes], [0, 1, 2, 3])
    at = 0
    for episode in episodes:
        queries = model.features(model.collate([motions[i] for i in episode.query.tolist()]), "query")
        supports = model.features(model.collate([motions[i] for i in episode.support.tolist()]), "support")
        for q, label in enumerate(episode.query_labels.tolist()):
            scores = [
                class_distance(model, queries[q : q + 1], supports[episode.support_labels == k])
                for k in range(3)
            ]
            if name == "matching":
                total = math.log(sum(math.exp(-score) for score in scores))
                scores = [score + total for score in scores]
            assert rows.predicted[at] == episode.classes[min(range(3), key=scores.__getitem__)]
            assert_close(rows.own[at].item(), scores[label], atol=1e-6, rtol=1e-5)
            at += 1
    assert at == len(rows)


def class_distance(model, query, members):
    """From one query to one class, from the definition."""
    counts = [int(count) for count in members.counts]
    means = [values[:count].mean(0) for values, count in zip(members.values, counts, strict=True)]
    views = query.values[0, : int(query.counts)].mean(0).reshape(-1, query.values.shape[-1])
    if model.config.align.classes == "attention":
        cosines = [float(view @ mean / view.norm() / mean.norm()) for view in views for mean in means]
        return -math.log(sum(math.exp(cosine) for cosine in cosines))
    centre = sum(means) / len(means)
    costs = [float((view - centre).square().sum()) for view in views]
    if len(costs) == 1:
        return costs[0]
    gamma = model.config.align.gamma
    soft = -gamma * math.log(sum(math.exp(-(cost - min(costs)) / gamma) for cost in costs)) + min(costs)
    return soft / 2  # by length, one block and one block


def test_training_on_prototypes_compares_with_class_means():
    recipe, data = small("prototype", shot=3), dataset()
    torch.manual_seed(0)
    model = FewShotModel(recipe.model, LAYOUT)
    episodes = list(several_shots())[:2]
    store = model.store(data.motions)
    expected = []
    for episode in episodes:
        query, support = (
            model.features(store[at]).average_blocks().values[:, 0] for at in (episode.query, episode.support)
        )
        means = torch.stack([support[episode.support_labels == k].mean(0) for k in range(3)])
        expected.append((query[:, None] - means).square().sum(-1))
    spread = torch.stack(expected).double().std(correction=0)
    logits = -torch.cat(expected) / spread
    wanted = torch.nn.functional.cross_entropy(logits, torch.cat([one.query_labels for one in episodes]))
    step = Learner(model, recipe.train, episodes, store, World()).step(0)
    assert_close(step.loss, wanted.item(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["jeanie-loss-v1", "jeanie-loss-v2"])
def test_loss_methods_use_their_formula(kind):
    recipe, data = small(kind), dataset()
    torch.manual_seed(0)
    model = FewShotModel(recipe.model, LAYOUT)
    episodes = [split().training_episodes(data, way=3, shot=1, queries=2, count=1, seed=0)[0]]
    store = model.store(data.motions)
    found = model(store[episodes[0].query], store[episodes[0].support])
    same = episodes[0].query_labels[:, None] == episodes[0].support_labels
    near, far = found[same].mean().item(), found[~same].mean().item() - recipe.train.loss.target
    wanted = near**2 + far**2 if kind.endswith("v1") else abs(near) + abs(far)
    step = Learner(model, recipe.train.with_values(batch=1), episodes, store, World()).step(0)
    assert_close(step.loss, wanted, atol=1e-4, rtol=1e-4)


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
