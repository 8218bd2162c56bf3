"""Derivatives of any order, and torch's transforms."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from jeanie import align, distances, fvm

EVERY = pytest.mark.parametrize("backend", ["native", "reference"])
LENGTHS = {"query_lengths": [2, 3], "support_lengths": [4, 2]}


def table(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, dtype=torch.float64, generator=generator).requires_grad_()


@EVERY
@pytest.mark.parametrize("views", [(), (3,), (2, 2), (2, 1, 2, 2)], ids=str)
@pytest.mark.parametrize("options", [{}, LENGTHS, {"band": 0.5}, {"shift": 0}, {"shift": 9}], ids=str)
def test_first_and_second_derivatives_of_align(views, options, backend):
    cost = table(2, 3, 4, *views)

    def run(c):
        return align(c, gamma=0.2, backend=backend, **options)

    assert gradcheck(run, cost, fast_mode=len(views) > 2)  # 192 costs are checked along random directions
    assert gradgradcheck(run, cost, fast_mode=True)


def test_derivatives_of_the_other_plans():
    assert gradcheck(lambda c: fvm(c, gamma=0.2, view_gamma=0.5, **LENGTHS), table(2, 3, 4, 2, 2))
    assert gradgradcheck(lambda c: align(c, gamma=0.2, plan="preprint", **LENGTHS), table(2, 3, 4, 3))


@EVERY
@pytest.mark.parametrize("pairs", ["all", "matched"])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "rbf"])
@pytest.mark.parametrize("normalise", [None, "length", "divergence"])
def test_derivatives_by_features(metric, pairs, normalise, backend):
    query, support = table(2, 3, 3, 4), table(2, 4, 4, seed=1)

    def run(q, s):
        return distances(
            q, s, gamma=0.2, metric=metric, pairs=pairs, normalise=normalise, backend=backend, **LENGTHS
        )

    assert gradcheck(run, (query, support), fast_mode=True)
    if normalise is None:
        assert gradgradcheck(run, (query, support), fast_mode=True)


@EVERY
@pytest.mark.parametrize("pairs", ["all", "matched"])
@pytest.mark.parametrize("view_gamma", [None, 0.5])
def test_derivatives_of_free_viewpoint_matching_by_features(pairs, view_gamma, backend):
    options = {"gamma": 0.2, "view_gamma": view_gamma, "pairs": pairs, "backend": backend, **LENGTHS}

    def run(q, s):
        return distances(q, s, matching="fvm", **options)

    inputs = table(2, 3, 3, 2, 4), table(2, 4, 4, seed=1)
    assert gradcheck(run, inputs, fast_mode=True)
    assert gradgradcheck(run, inputs, fast_mode=True)


def test_backward_may_run_twice():
    cost = table(2, 3, 4, 3)
    value = align(cost).sum()
    (first,) = torch.autograd.grad(value, cost, retain_graph=True)
    (again,) = torch.autograd.grad(value, cost)
    assert_close(first, again, rtol=0, atol=0)
    query = table(2, 5, 4)
    total = distances(query, query.detach() + 1, metric="sqeuclidean").sum()
    (first,) = torch.autograd.grad(total, query, retain_graph=True)
    (again,) = torch.autograd.grad(total, query)
    assert_close(first, again, rtol=0, atol=0)


def test_a_batch_too_large_for_malloc_to_keep_gives_what_its_halves_give():
    cost = torch.rand(200, 30, 30, 7, 7, generator=torch.Generator().manual_seed(0)).requires_grad_()  # 35 MB
    value = align(cost, shift=2)
    value.square().sum().backward()
    for some in (slice(0, 100), slice(100, 200)):
        half = cost[some].detach().requires_grad_()
        expected = align(half, shift=2)
        expected.square().sum().backward()
        assert_close(value[some], expected, rtol=0, atol=0)
        assert_close(cost.grad[some], half.grad, rtol=0, atol=0)


@EVERY
def test_vmap_and_func_grad_compose(backend):
    cost = table(5, 2, 3, 4, 3).detach()
    lengths = torch.tensor([[1, 2], [3, 1], [3, 3], [2, 2], [1, 1]])

    def run(c, n):
        return align(c, query_lengths=n, gamma=0.1, backend=backend)

    assert_close(
        torch.func.vmap(run)(cost, lengths),
        torch.stack([run(c, n) for c, n in zip(cost, lengths, strict=True)]),
    )
    leaf = cost.clone().requires_grad_()
    align(leaf.flatten(0, 1), gamma=0.1, query_lengths=lengths.flatten(), backend=backend).sum().backward()
    found = torch.func.vmap(torch.func.grad(lambda c, n: run(c, n).sum()))(cost, lengths)
    assert_close(found, leaf.grad)
    inner = torch.func.vmap(lambda c: align(c, gamma=0.1, backend=backend), in_dims=2, out_dims=1)
    assert_close(
        inner(cost.movedim(0, 2)), align(cost.flatten(0, 1), gamma=0.1, backend=backend).view(5, 2).T
    )


def test_vmap_over_features():
    query, support = table(3, 2, 4, 3, 5).detach(), table(2, 6, 5).detach()
    found = torch.func.vmap(lambda q: distances(q, support))(query)
    assert_close(found, torch.stack([distances(q, support) for q in query]))


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore")  # the compiler has warnings of its own
@EVERY
def test_compiled_functions_give_the_same(backend):
    cost, query, support = table(2, 3, 4, 3), table(2, 5, 3, 6), table(3, 4, 6)

    def compute_plainly(c, q, s):
        return align(2 * c, backend=backend).sum() + 3 * distances(q, s, backend=backend).sum()

    inputs = (cost, query, support)
    expected = torch.autograd.grad(compute_plainly(*inputs), inputs)
    compiled = torch.compile(compute_plainly, fullgraph=True, backend="aot_eager")
    assert_close(torch.autograd.grad(compiled(*inputs), inputs), expected)


@EVERY
def test_the_hard_minimum_follows_its_path(backend):
    cost = table(3, 5, 6, 3)
    (plan,) = torch.autograd.grad(align(cost, gamma=0, backend=backend).sum(), cost)
    assert set(plan.unique().tolist()) == {0.0, 1.0}
    assert_close((plan * cost).flatten(1).sum(1), align(cost, gamma=0, backend=backend))
