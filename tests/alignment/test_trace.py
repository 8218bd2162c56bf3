"""The explanation of a match: exact path, costs of its steps, expected plan."""

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from jeanie import align, trace

EVERY = pytest.mark.parametrize("backend", ["native", "reference"])


@EVERY
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5), st.lists(st.integers(1, 3), max_size=2).map(tuple)),
    shift=st.integers(0, 2),
    seed=st.integers(0, 10**6),
)
def test_the_path_is_the_best_one(backend, shape, shift, seed):
    tau, tau_, views = shape
    cost = torch.rand(2, tau, tau_, *views, generator=torch.Generator().manual_seed(seed))
    found = trace(cost, gamma=0.1, shift=shift, backend=backend)[1]
    best, _ = oracles.recursion(cost[1].double().numpy(), 0.0, shift)
    assert_close(float(found.steps.double().sum()), best, rtol=1e-5, atol=1e-6)
    moves = found.path.diff(dim=0)
    assert found.path[0, :2].tolist() == [0, 0]
    assert found.path[-1, :2].tolist() == [tau - 1, tau_ - 1]
    assert ((moves[:, :2] >= 0) & (moves[:, :2] <= 1)).all()
    assert (moves[:, :2].sum(1) >= 1).all()
    assert (moves[:, 2:].abs() <= shift).all()
    assert_close(found.steps, cost[1][tuple(found.path.T)], rtol=0, atol=0)
    assert found.backend == backend
    assert found.plan.shape == cost.shape[1:]


@EVERY
def test_the_path_is_not_a_greedy_walk(backend):
    """At a large gamma soft values point elsewhere; the path must not follow them."""
    generator = torch.Generator().manual_seed(5)
    for _ in range(20):
        cost = torch.rand(1, 6, 6, generator=generator)
        found = trace(cost, gamma=10.0, backend=backend)[0]
        assert_close(found.steps.sum(), align(cost, gamma=0)[0])


@EVERY
def test_distance_and_plan_are_those_of_align(backend):
    cost = torch.rand(3, 4, 5, 3, 3, requires_grad=True)
    value = align(cost, gamma=0.05, backend=backend)
    (plan,) = torch.autograd.grad(value.sum(), cost)
    found = trace(cost, gamma=0.05, backend=backend)
    assert_close(torch.stack([a.distance for a in found]), value.detach())
    assert_close(torch.stack([a.plan for a in found]), plan)
    assert not found[0].distance.requires_grad


@EVERY
def test_lengths_and_bands_hold_for_the_path(backend):
    cost = torch.rand(2, 9, 8, 2)
    found = trace(cost, query_lengths=[4, 9], support_lengths=[8, 3], backend=backend)
    assert [a.path[-1, :2].tolist() for a in found] == [[3, 7], [8, 2]]
    banded = trace(torch.rand(1, 10, 10), band=0.1, backend=backend)[0]
    assert (banded.path[:, 0] - banded.path[:, 1]).abs().max() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_the_preprints_path(seed):
    cost = torch.rand(1, 3, 2, 3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = trace(cost, plan="preprint")[0]
    best, _ = oracles.sum_over_paths(cost[0].numpy(), oracles.preprint_paths((3, 2, 3, 3), 1), 0.0)
    assert_close(float(found.steps.sum()), best)
    assert (found.path.diff(dim=0)[:, 2:] >= 0).all()
    assert found.backend == "reference"


def test_an_empty_batch_has_no_alignments():
    assert trace(torch.rand(0, 3, 4)) == []
