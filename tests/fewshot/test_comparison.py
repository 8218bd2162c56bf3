"""Class means, attention, pooled views, uncertain alignment and mined pairs, each against its definition in loops."""

import builtins
import math

import numpy as np
import oracles
import pytest
import torch
from torch.testing import assert_close

import jeanie
from jeanie.encoders import GraphEncoderConfig
from jeanie.errors import ConfigError, ShapeError
from jeanie.fewshot.classes import average_classes, compute_attention_distances
from jeanie.fewshot.comparison import uncertain as uncertain_module
from jeanie.fewshot.config import EulerViewsConfig, JeanieConfig, ModelConfig, NoViewsConfig
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import InputConfig, PrepareConfig
from jeanie.fewshot.losses import Loss, LossConfig, cross_entropy
from jeanie.fewshot.mining import multi_similarity_loss, number_classes
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton import LAYOUTS, Motion

LAYOUT = LAYOUTS["core15"]
SMALL = ModelConfig(
    inputs=InputConfig(block=4, stride=0.5),
    views=NoViewsConfig(),
    encoder=GraphEncoderConfig(width=4, features=6, dropout=0.0),
    align=JeanieConfig(metric="sqeuclidean", gamma=0.1),
)


def motions(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        Motion(0.3 * torch.randn(6 + 2 * i, 1, len(LAYOUT), 3, generator=generator), LAYOUT)
        for i in range(count)
    ]


def model(**changes):
    torch.manual_seed(0)
    return FewShotModel(SMALL.with_values(changes), LAYOUT).double().eval().requires_grad_(False)


def features(clips, blocks, *views, seed=0, counts=None, size=3):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(clips, blocks, *views, size, generator=generator, dtype=torch.float64)
    return Features(values, torch.full((clips,), blocks) if counts is None else torch.tensor(counts))


def means(found, clip):
    """Mean over real blocks by a loop, one row a view."""
    count = int(found.counts[clip])
    return sum(found.values[clip, t] for t in range(count)) / count


def soft_dtw(cost, gamma=0.1):
    """By all paths."""
    return oracles.sum_over_paths(cost.numpy(), oracles.smooth_paths(tuple(cost.shape), 0), gamma)[0]


# -- prototypes ----------------------------------------------------------------------------------------------------


def test_a_prototype_is_the_mean_of_its_class():
    support, labels = features(5, 2), [1, 0, 1, 1, 0]
    found = average_classes(support, torch.tensor(labels), 2)
    for k in range(2):
        own = [support.values[s] for s in range(5) if labels[s] == k]
        assert_close(found.values[k], sum(own) / len(own))
    assert found.counts.tolist() == [2, 2]


def test_with_one_shot_prototypes_are_the_supports():
    support = features(3, 4, counts=[4, 2, 3])
    found = average_classes(support, torch.tensor([0, 1, 2]), 3)
    assert_close(found.values, support.values)
    assert torch.equal(found.counts, support.counts)


def test_prototypical_distances_are_squared_distances_of_means():
    net = model(**{"align.method": "pool", "align.classes": "prototype"})
    clips, labels = motions(6), torch.tensor([0, 1, 0, 1])
    query, support = (net.features(net.collate(some)) for some in (clips[:2], clips[2:]))
    found = net.compare(query, net.prototypes(support, labels, 2))
    for q in range(2):
        for k in range(2):
            centre = (means(support, k) + means(support, k + 2)) / 2
            assert_close(found[q, k], (means(query, q) - centre).square().sum())


def test_prototypes_reach_the_models_beside():
    part = SMALL.with_values({"align.method": "pool", "encoder.features": 4})
    net = model(**{"align.method": "pool", "components": [part.model_dump()]})
    support = net.features(net.collate(motions(4)))
    found = net.prototypes(support, torch.tensor([0, 0, 1, 1]), 2)
    assert_close(
        found.components[0].values[1, 0],
        (means(support.components[0], 2) + means(support.components[0], 3)) / 2,
    )


@pytest.mark.errors
def test_a_class_without_supports_has_no_prototype():
    with pytest.raises(ShapeError, match=r"each of the 3 classes needs a support, got \[1, 0, 1\]"):
        average_classes(features(2, 4), torch.tensor([0, 2]), 3)


def test_the_mean_of_unequal_lengths_is_that_of_interpolated_sequences():
    support = features(3, 6, counts=[3, 5, 2])
    found = average_classes(support, torch.tensor([0, 0, 1]), 2)
    assert found.counts.tolist() == [4, 2]
    expected = torch.zeros(4, support.values.shape[-1], dtype=support.values.dtype)
    for clip, count in ((0, 3), (1, 5)):
        for step in range(4):  # numpy's own interpolation, one feature at a time
            for f in range(expected.shape[1]):
                own = support.values[clip, :count, f].numpy()
                expected[step, f] += float(np.interp(step * (count - 1) / 3, range(count), own)) / 2
    assert_close(found.values[0, :4], expected)
    assert_close(found.values[1, :2], support.values[2, :2])


@pytest.mark.errors
def test_settings_that_exclude_each_other_are_told():
    with pytest.raises(ConfigError, match=r"set align.persons to 'mean' for prototypes"):
        model(**{"align.persons": "matched", "align.classes": "prototype"})
    with pytest.raises(ConfigError, match=r"attention needs cosine distances: set align.metric to 'cosine'"):
        model(**{"align.classes": "attention"})
    with pytest.raises(ConfigError, match=r"uDTW has no divergence"):
        model(**{"align.method": "udtw", "align.normalise": "divergence"})
    with pytest.raises(ConfigError, match=r"block_travel needs the path of the torso: set prepare.centre"):
        InputConfig(block_travel=True)


# -- attention and cosines ------------------------------------------------------------------------------------------


def test_the_cosine_distance_is_two_minus_twice_the_cosine():
    net = model(**{"align.method": "pool", "align.metric": "cosine"})
    clips = motions(4)
    found = net.distances(clips[:2], clips[2:])
    query, support = (net.features(net.collate(some)) for some in (clips[:2], clips[2:]))
    for q in range(2):
        for s in range(2):
            x, y = means(query, q).tolist(), means(support, s).tolist()
            inner = sum(a * b for a, b in zip(x, y, strict=True))
            cosine = inner / math.hypot(*x) / math.hypot(*y)
            assert_close(found[q, s].item(), 2 - 2 * cosine)


def test_attention_on_a_class_is_the_sum_over_its_supports():
    cosines, labels = [[0.9, -0.2, 0.1, 0.4, -0.7], [0.0, 0.3, 0.2, -0.9, 0.8]], [0, 1, 1, 2, 0]
    distances = 2 - 2 * torch.tensor(cosines, dtype=torch.float64)
    found = compute_attention_distances(distances, torch.tensor(labels), 3)
    for q, row in enumerate(cosines):
        total = sum(math.exp(cosine) for cosine in row)
        for k in range(3):
            own = sum(math.exp(cosine) for cosine, label in zip(row, labels, strict=True) if label == k)
            assert_close(found[q, k].item(), -math.log(own / total))


@pytest.mark.parametrize("shot", [1, 2])
def test_cross_entropy_over_cosine_distances_is_the_loss_of_matching_nets(shot):
    """-log sum over supports of the query's class of softmax(cos), at the temperature 2 of d = 2 - 2 cos."""
    cosines = 2 * torch.rand(3, 3 * shot, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1
    supports, queries = torch.arange(3).repeat(shot), torch.tensor([0, 2, 1])
    attention = compute_attention_distances(2 - 2 * cosines, supports, 3)
    expected = sum(float(attention[q, label]) for q, label in enumerate(queries.tolist())) / 3
    assert_close(cross_entropy(2 - 2 * cosines, supports, queries, 2.0).item(), expected)


def test_with_one_shot_attention_chooses_the_nearest_support():
    distances = torch.rand(20, 5, generator=torch.Generator().manual_seed(0)) * 4
    found = compute_attention_distances(distances, torch.arange(5), 5)
    assert torch.equal(found.argmin(1), distances.argmin(1))


# -- pooled over time or views alone ----------------------------------------------------------------------------------


def model_with_views(**changes):
    return model(**{"views": EulerViewsConfig(azimuth=15, altitude=15), **changes})


def test_pool_time_takes_the_soft_best_view_of_the_mean():
    net, clips = model_with_views(**{"align.method": "pool-time"}), motions(4)
    found = net.distances(clips[:2], clips[2:])
    query = net.features(net.collate(clips[:2]), "query")
    support = net.features(net.collate(clips[2:]), "support")
    for q in range(2):
        views = means(query, q).reshape(9, -1)
        for s in range(2):
            costs = [(view - means(support, s)).square().sum().item() for view in views]
            assert_close(found[q, s].item(), -0.1 * math.log(sum(math.exp(-cost / 0.1) for cost in costs)))


def test_pool_views_aligns_the_mean_over_views():
    net, clips = model_with_views(**{"align.method": "pool-views"}), motions(4)
    found = net.distances(clips[:2], clips[2:])
    query = net.features(net.collate(clips[:2]), "query")
    support = net.features(net.collate(clips[2:]), "support")
    for q in range(2):
        for s in range(2):
            x = query.values[q, : int(query.counts[q])].mean((1, 2))
            y = support.values[s, : int(support.counts[s])]
            cost = (x[:, None] - y).square().sum(-1)
            assert_close(found[q, s].item(), soft_dtw(cost))


@pytest.mark.parametrize("method", ["pool", "pool-time", "pool-views"])
def test_a_method_that_takes_means_shows_the_path_of_free_viewpoint_matching(method):
    clips = motions(2)
    trace, free = (model_with_views(**{"align.method": name}).trace(*clips) for name in (method, "fvm"))
    assert torch.equal(trace.path, free.path)
    assert trace.path.shape[1] == 4


def test_costs_are_base_distances_of_blocks_and_views():
    net, clips = model_with_views(**{"align.metric": "cosine"}), motions(4)
    query = net.features(net.collate(clips[:2]), "query")
    support = net.features(net.collate(clips[2:]), "support")
    x, y = query.values[1, 2, 0, 2], support.values[0, 3]
    cosine = (x @ y / x.norm() / y.norm()).item()
    assert_close(net.costs(query, support)[2, 2, 3, 0, 2].item(), 2 - 2 * cosine)


# -- uncertainty -------------------------------------------------------------------------------------------------------


def uncertain(**changes):
    net = model(**{"align.method": "udtw", **changes})
    generator = torch.Generator().manual_seed(3)
    net.comparison.uncertainty.weight.copy_(torch.randn(6, generator=generator, dtype=torch.float64))
    return net


@pytest.mark.parametrize("normalise", [None, "length", "area"])
@pytest.mark.parametrize("kind", ["none", "euler"])
def test_at_the_start_uncertain_alignment_is_plain_alignment(kind, normalise):
    views = NoViewsConfig() if kind == "none" else EulerViewsConfig(azimuth=15, altitude=15)
    changes = {"views": views, "align.normalise": normalise}
    clips = motions(5)
    plain, weighted = (
        model(**changes, **{"align.method": method}).distances(clips[:2], clips[2:])
        for method in ("jeanie", "udtw")
    )
    assert_close(weighted, plain)


def test_uncertain_alignment_is_the_sum_over_paths_of_weighted_costs():
    net, clips = uncertain(**{"align.uncertainty": 0.7}), motions(5)
    found = net.distances(clips[:2], clips[2:])
    query, support = (net.features(net.collate(some)) for some in (clips[:2], clips[2:]))
    weight, bias = net.comparison.uncertainty.weight.tolist(), net.comparison.uncertainty.bias.item()

    def variance(feature):
        score = sum(w * x for w, x in zip(weight, feature, strict=True)) + bias
        return 0.1 + 1.8 / (1 + math.exp(-score))

    for q in range(2):
        for s in range(3):
            cost = torch.empty(int(query.counts[q]), int(support.counts[s]), dtype=torch.float64)
            for t in range(cost.shape[0]):
                for u in range(cost.shape[1]):
                    x, y = query.values[q, t].tolist(), support.values[s, u].tolist()
                    sigma = (variance(x) + variance(y)) / 2
                    cost[t, u] = math.dist(x, y) ** 2 / sigma + 0.7 * math.log(sigma)
            assert_close(found[q, s].item(), soft_dtw(cost))
    assert_close(float(net.trace(clips[0], clips[2]).distance), float(found[0, 0]))


def test_uncertain_costs_of_views_stand_where_the_alignment_wants_them():
    left, right = features(2, 3, 2, size=6), features(2, 4, 5, size=6, seed=1)
    model = uncertain()
    net, found = model.comparison.uncertainty, model.costs(left, right).detach()
    assert found.shape == (4, 3, 4, 2, 5)
    x, y = left.values[1, 2, 0], right.values[0, 3, 4]
    sigma = ((net(x) + net(y)) / 2).detach()
    assert_close(found[2, 2, 3, 0, 4], (x - y).square().sum() / sigma + sigma.log())


def test_uncertain_distances_do_not_depend_on_how_many_are_held_at_once(monkeypatch):
    net, clips = uncertain(), motions(6)
    whole = net.distances(clips[:4], clips[4:])
    monkeypatch.setattr(uncertain_module, "_CHUNK", 1)
    assert_close(net.distances(clips[:4], clips[4:]), whole)


def test_a_saved_uncertainty_comes_back(tmp_path):
    net, clips = uncertain(), motions(4)
    net.save(tmp_path)
    assert torch.equal(
        jeanie.FewShotModel.load(tmp_path).distances(clips, clips), net.distances(clips, clips)
    )


# -- mined pairs -------------------------------------------------------------------------------------------------------


def mined_loss(similarity, own, alpha=0.1, beta=40.0, base=0.5, margin=0.1):
    """Loss of one query by its definition: pairs that the miner keeps, then two soft counts."""
    positives = [s for s, same in zip(similarity, own, strict=True) if same]
    negatives = [s for s, same in zip(similarity, own, strict=True) if not same]
    kept_positives = [s for s in positives if s - margin < max(negatives)]
    kept_negatives = [s for s in negatives if s + margin > min(positives)]
    near = (
        math.log1p(sum(math.exp(-alpha * (s - base)) for s in kept_positives)) / alpha
        if kept_positives
        else 0
    )
    far = math.log1p(sum(math.exp(beta * (s - base)) for s in kept_negatives)) / beta if kept_negatives else 0
    return near + far


def test_multi_similarity_is_its_formula_on_mined_pairs():
    distances = 4 * torch.rand(2, 6, 9, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    supports, queries = torch.arange(3).repeat(3), torch.arange(3).repeat_interleave(2)
    same = (queries[:, None] == supports).expand(2, 6, 9)
    expected = [
        mined_loss([1 - d / 2 for d in distances[e, q].tolist()], same[e, q].tolist())
        for e in range(2)
        for q in range(6)
    ]
    assert_close(multi_similarity_loss(distances, same).item(), sum(expected) / 12)


def test_episodes_that_are_solved_by_far_cost_nothing_and_have_a_gradient():
    same = torch.eye(3, dtype=torch.bool)
    distances = torch.where(same, 0.0, 4.0).requires_grad_()
    loss = Loss(LossConfig(kind="multi-similarity"))(distances, same)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(distances.grad, torch.zeros(3, 3))


def test_classes_are_numbered_by_their_first_support():
    supports, queries = torch.tensor([4, 7, 4, 9, 7]), torch.tensor([7, 4])
    numbers = number_classes(queries[:, None] == supports)
    assert numbers[0].tolist() == [1, 0]
    assert numbers[1].tolist() == [0, 1, 0, 3, 1]


@pytest.mark.errors
def test_a_loss_whose_library_is_missing_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def raise_import_error(name, *rest):
        if name.startswith("pytorch_metric_learning"):
            raise ImportError("No module named 'pytorch_metric_learning'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", raise_import_error)
    with pytest.raises(ConfigError, match=r"needs pytorch-metric-learning .*pip install 'jeanie\[metric\]'"):
        multi_similarity_loss(torch.zeros(2, 2), torch.eye(2, dtype=torch.bool))


# -- inputs ------------------------------------------------------------------------------------------------------------


def test_flat_motions_have_no_depth():
    net = model(**{"inputs.prepare": PrepareConfig(flat=True), "inputs.block": 1, "encoder.kind": "raw"})
    batch = net.collate(motions(2))
    assert not batch.joints[..., 2].any()
    assert batch.joints[..., 1].any()
