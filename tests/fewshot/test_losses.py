"""Losses against scalar loops that follow the printed formulas, and their gradients."""

import math

import pytest
import torch
from torch.testing import assert_close

from jeanie.errors import ConfigError, ShapeError
from jeanie.fewshot.losses import (
    Loss,
    LossConfig,
    absolute_loss,
    cross_entropy,
    similarity_loss,
    squared_loss,
)


def episodes(count=3, way=4, shot=2, queries=2, seed=0):
    """Distances [episode, query, support] in float64, and the labels of both sides."""
    generator = torch.Generator().manual_seed(seed)
    distances = torch.rand(count, way * queries, way * shot, generator=generator, dtype=torch.float64) * 5
    support = torch.arange(way).repeat_interleave(shot).expand(count, -1)
    order = torch.stack([torch.randperm(way * queries, generator=generator) for _ in range(count)])
    query = torch.arange(way).repeat_interleave(queries)[order]
    return distances, support, query


def near_and_far(distances, support, query):
    """d+ and d- as two lists of numbers."""
    near, far = [], []
    for b in range(len(distances)):
        for q in range(distances.shape[1]):
            for s in range(distances.shape[2]):
                same = int(query[b, q]) == int(support[b, s])
                (near if same else far).append(float(distances[b, q, s]))
    return near, far


def mean(numbers):
    return sum(numbers) / len(numbers)


def same_of(support, query):
    return query[..., :, None] == support[..., None, :]


@pytest.mark.parametrize("beta", [1, 2, 5])
def test_the_similarity_loss_is_the_papers_over_a_whole_mini_batch(beta):
    distances, support, query = episodes()
    near, far = near_and_far(distances, support, query)
    count = 4 * 2 * beta
    smallest, largest = mean(sorted(near)[:beta]), mean(sorted(far)[-count:])
    expected = (mean(near) - smallest) ** 2 + (mean(far) - largest) ** 2
    found = similarity_loss(distances, same_of(support, query), beta=beta, far=count)
    assert_close(found.item(), expected)
    assert_close(Loss(LossConfig(kind="similarity", beta=beta))(distances, same_of(support, query)), found)


def test_targets_of_the_similarity_loss_are_cut_to_what_there_is():
    distances, support, query = episodes(count=1, way=2, shot=1, queries=1)
    same = same_of(support, query)
    assert similarity_loss(distances, same, beta=100, far=100).item() == 0  # every mean is its own target
    near, far = near_and_far(distances, support, query)
    expected = (mean(near) - min(near)) ** 2
    assert_close(similarity_loss(distances, same, beta=1, far=100).item(), expected)
    assert len(far) == 2


def test_no_gradient_passes_through_the_targets_of_the_similarity_loss():
    distances, support, query = episodes()
    same = same_of(support, query)
    leaf = distances.clone().requires_grad_()
    similarity_loss(leaf, same, beta=1, far=8).backward()
    near, far = near_and_far(distances, support, query)
    own = 2 * (mean(near) - min(near)) / len(near)
    other = 2 * (mean(far) - mean(sorted(far)[-8:])) / len(far)
    assert_close(leaf.grad, same * own + ~same * torch.tensor(other, dtype=torch.float64))


def test_the_variants_are_their_formulas():
    distances, support, query = episodes(seed=1)
    same = same_of(support, query)
    near, far = near_and_far(distances, support, query)
    squared = mean(near) ** 2 + (mean(far) - 4.0) ** 2
    absolute = abs(mean(near)) + abs(mean(far) - 4.0)
    assert_close(squared_loss(distances, same, target=4.0).item(), squared)
    assert_close(absolute_loss(distances, same, target=4.0).item(), absolute)
    assert_close(Loss(LossConfig(kind="squared", target=4.0))(distances, same).item(), squared)
    assert_close(Loss(LossConfig(kind="absolute", target=4.0))(distances, same).item(), absolute)


@pytest.mark.parametrize("shot", [1, 3])
def test_cross_entropy_is_the_softmax_over_soft_nearest_supports(shot):
    distances, support, query = episodes(shot=shot)
    terms = []
    for b in range(len(distances)):
        for q in range(distances.shape[1]):
            weights = [0.0] * 4
            for s in range(distances.shape[2]):
                weights[int(support[b, s])] += math.exp(-float(distances[b, q, s]) / 0.7)
            terms.append(-math.log(weights[int(query[b, q])] / sum(weights)))
    assert_close(cross_entropy(distances, support, query, 0.7).item(), mean(terms))
    found = Loss(LossConfig(temperature=0.7))(distances, same_of(support, query))
    assert_close(found.item(), mean(terms))


def test_cross_entropy_with_one_shot_is_torchs_over_negative_distances():
    distances, support, query = episodes(shot=1, queries=3)
    expected = torch.nn.functional.cross_entropy(-distances.flatten(0, 1) / 2, query.flatten())
    assert_close(cross_entropy(distances, support, query, 2.0), expected)


@pytest.mark.parametrize("scale", [1e-4, 1e6])
def test_cross_entropy_neither_overflows_nor_vanishes(scale):
    distances, support, query = episodes()
    distances = (scale * distances).float().requires_grad_()
    found = cross_entropy(distances, support, query)
    found.backward()
    assert found.isfinite()
    assert distances.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["cross-entropy", "similarity", "squared", "absolute"])
def test_gradients_are_those_of_finite_differences(kind):
    distances, support, query = episodes(count=2, way=3)
    loss = Loss(LossConfig(kind=kind, temperature=1.5, target=9.0))
    same = same_of(support, query)
    if (
        kind == "similarity"
    ):  # the derivative keeps the targets where they are, so differences may not move them
        near, far = distances[same], distances[~same]
        fixed = near.min(), far.topk(6).values.mean()
        leaf = distances.clone().requires_grad_()
        loss(leaf, same).backward()
        held = distances.clone().requires_grad_()
        ((held[same].mean() - fixed[0]) ** 2 + (held[~same].mean() - fixed[1]) ** 2).backward()
        assert_close(leaf.grad, held.grad)
    else:
        assert torch.autograd.gradcheck(lambda d: loss(d, same), distances.clone().requires_grad_())


def test_a_temperature_that_is_not_given_is_the_spread_of_the_first_distances():
    distances, support, query = episodes()
    loss = Loss(LossConfig())
    loss(distances, same_of(support, query))
    first = distances.std(correction=0).item()
    assert_close(loss.temperature, first)
    loss(10 * distances, same_of(support, query))
    assert_close(loss.temperature, first)  # measured once
    again = Loss(LossConfig())
    again.load_state_dict(loss.state_dict())
    again(10 * distances, same_of(support, query))
    assert_close(again.temperature, first)


def test_equal_distances_leave_the_temperature_at_one():
    loss = Loss(LossConfig())
    loss(torch.zeros(2, 2), torch.eye(2, dtype=torch.bool))
    assert loss.temperature == 1


def test_the_temperature_is_learnt_only_where_asked_for():
    distances, support, query = episodes()
    for kind, learnt in (("cross-entropy", True), ("cross-entropy", False), ("similarity", True)):
        loss = Loss(LossConfig(kind=kind, learnt=learnt, temperature=1.0))
        loss(distances.clone().requires_grad_(), same_of(support, query)).backward()
        grad = loss.log_temperature.grad
        if (kind, learnt) == ("cross-entropy", True):
            step = 1e-6
            values = [cross_entropy(distances, support, query, math.exp(t)).item() for t in (-step, step)]
            assert_close(grad.item(), (values[1] - values[0]) / (2 * step), rtol=1e-6, atol=1e-8)
        else:
            assert grad is None


@pytest.mark.errors
def test_losses_say_what_they_need():
    with pytest.raises(ShapeError, match=r"shape of distances \(2, 3\), got \(2, 2\)"):
        squared_loss(torch.zeros(2, 3), torch.eye(2, dtype=torch.bool))
    with pytest.raises(ShapeError, match="got 4 and 0; episodes need 2 classes"):
        absolute_loss(torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(ShapeError, match="support of the class of every query"):
        cross_entropy(torch.zeros(1, 2), torch.tensor([0, 1]), torch.tensor([2]))
    with pytest.raises(
        ConfigError, match="beta is 1 or more, got 0; the paper allows 0, but the mean of no distance"
    ):
        LossConfig(beta=0)


def test_one_query_per_episode_pools_the_largest_n_z_beta_of_b_n_minus_1_z():
    """The paper's mini-batch: B queries, each with N classes of Z supports (Eq. 10 and 11)."""
    batch, way, shot, beta = 6, 3, 2, 2
    generator = torch.Generator().manual_seed(3)
    distances = torch.rand(batch, 1, way * shot, generator=generator, dtype=torch.float64)
    same = torch.zeros(batch, 1, way * shot, dtype=torch.bool)
    same[..., :shot] = True
    near = sorted(distances[b, 0, z].item() for b in range(batch) for z in range(shot))
    far = sorted(distances[b, 0, k].item() for b in range(batch) for k in range(shot, way * shot))
    assert len(far) == batch * (way - 1) * shot
    count = way * shot * beta
    goal = (sum(near) / len(near) - sum(near[:beta]) / beta) ** 2
    goal += (sum(far) / len(far) - sum(far[-count:]) / count) ** 2
    assert_close(Loss(LossConfig(kind="similarity", beta=beta))(distances, same).item(), goal)


def test_the_classifier_adds_its_weighted_cross_entropy():
    loss = Loss(LossConfig(classifier=0.5), features=3, classes=4).double()
    x, labels = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 3, 1, 1, 2])
    logits = (x @ loss.classifier.weight.T + loss.classifier.bias).tolist()
    expected = sum(
        -math.log(math.exp(row[k]) / sum(map(math.exp, row))) for row, k in zip(logits, labels, strict=True)
    )
    assert_close(loss.classify(x, labels, 10).item(), 0.5 * expected / 10)
    assert Loss(LossConfig()).classifier is None
    with pytest.raises(ConfigError, match=r"set loss.classifier above 0"):
        Loss(LossConfig()).classify(x, labels, 10)
