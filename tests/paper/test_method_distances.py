"""The distances and losses of the compared systems are those of their definitions."""

import itertools
import math

import pytest
import torch
from tiny_methods import small
from tiny_task import LAYOUT, dataset, motion_of, split
from torch.testing import assert_close

from jeanie.compute.distributed import World
from jeanie.compute.processes import use_one_thread
from jeanie.evaluation.predict import predict
from jeanie.fewshot.episodes import Episodes
from jeanie.fewshot.model import FewShotModel
from jeanie.training.step import Learner


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors this small gain nothing from threads, and lose much where others compute as well."""
    with use_one_thread():
        yield


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
