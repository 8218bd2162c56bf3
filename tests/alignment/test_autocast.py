"""Half precision and autocast: every operator computes in float32 and returns gradients in the dtype of its input."""

import pytest
import torch
from torch.testing import assert_close

from jeanie import align, distances, fvm, trace
from jeanie.alignment.base_distance import compute_squared_distances

EVERY = pytest.mark.parametrize("backend", ["native", "reference"])
HALVES = [torch.float16, torch.bfloat16]


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def run_align(cost, _, backend):
    return align(cost, gamma=0.1, backend=backend)


def run_preprint(cost, _, backend):
    return align(cost, gamma=0.1, plan="preprint", backend="auto" if backend == "native" else backend)


def run_fvm(cost, _, backend):
    return fvm(cost, gamma=0.1, view_gamma=0.2, query_lengths=[4, 5, 2], backend=backend)


def run_trace(cost, _, backend):
    found = trace(cost, gamma=0.1, backend=backend)
    assert all(x.plan.dtype == x.steps.dtype == torch.float32 for x in found)
    return torch.stack([x.distance + 0 * x.steps.sum() for x in found])


def run_all_pairs(query, support, backend):
    return distances(query, support, gamma=0.1, backend=backend)


def run_offset(query, support, backend):
    return distances(query + 1000, support + 1000, metric="euclidean", gamma=0.1, backend=backend)


def run_free_views(query, support, backend):
    return distances(query, support, gamma=0.1, matching="fvm", normalise="divergence", backend=backend)


def run_pairs_of_views(query, support, backend):
    return distances(query, support, metric="sqeuclidean", gamma=0.1, pairs="matched", backend=backend)


def run_pairs(query, support, backend):
    return distances(query[:, :, 0], support, gamma=0.1, pairs="matched", normalise="length", backend=backend)


OPERATORS = [
    run_align, run_preprint, run_fvm, run_trace, run_all_pairs, run_offset, run_free_views, run_pairs_of_views,
    run_pairs,
]  # fmt: skip


def inputs(operator, dtype=torch.float32):
    """Return a cost or query features, and support features."""
    of_costs = operator in (run_align, run_preprint, run_fvm, run_trace)
    first = numbers(3, 5, 4, 3, dtype=dtype) if of_costs else numbers(3, 5, 3, 8, dtype=dtype)
    return first.requires_grad_(), numbers(3, 4, 8, seed=1, dtype=dtype)


def run_with_gradient(operator, first, support, backend):
    value = operator(first, support, backend)
    if not value.requires_grad:
        return value, None
    (gradient,) = torch.autograd.grad(value.sum(), first)
    return value.detach(), gradient


@EVERY
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("low", HALVES)
def test_autocast_changes_neither_values_nor_gradients(operator, low, backend):
    first, support = inputs(operator)
    expected = run_with_gradient(operator, first, support, backend)
    with torch.autocast("cpu", dtype=low):
        found = run_with_gradient(operator, first, support, backend)
    assert_close(found, expected, rtol=0, atol=0)
    assert found[0].dtype == torch.float32


@pytest.mark.parametrize("operator", [run_align, run_all_pairs, run_pairs_of_views, run_pairs])
def test_autocast_leaves_float64_alone(operator):
    first, support = inputs(operator, torch.float64)
    expected = run_with_gradient(operator, first, support, "native")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(run_with_gradient(operator, first, support, "native"), expected, rtol=0, atol=0)


@EVERY
@pytest.mark.parametrize("operator", [x for x in OPERATORS if x is not run_offset])
@pytest.mark.parametrize("low", HALVES)
def test_half_precision_is_computed_in_float32(operator, low, backend):
    first, support = inputs(operator, low)
    value, gradient = run_with_gradient(operator, first, support, backend)
    wide = first.detach().float().requires_grad_()
    expected, expected_gradient = run_with_gradient(operator, wide, support.float(), backend)
    assert value.dtype == torch.float32
    assert_close(value, expected, rtol=0, atol=0)
    if gradient is not None:
        assert gradient.dtype == low
        assert_close(gradient, expected_gradient.to(low), rtol=0, atol=0)


@EVERY
def test_half_precision_and_float32_may_meet(backend):
    """Under autocast an encoder returns bfloat16 while stored features are float32."""
    query, support = numbers(2, 4, 6, dtype=torch.bfloat16), numbers(3, 5, 6, seed=1)
    assert_close(
        distances(query, support, backend=backend), distances(query.float(), support, backend=backend)
    )


@pytest.mark.parametrize("operator", [run_align, run_all_pairs, run_pairs_of_views, run_pairs])
def test_second_derivatives_under_autocast_stay_finite(operator):
    first, support = inputs(operator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (gradient,) = torch.autograd.grad(operator(first, support, "native").sum(), first, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), first)
    assert second.dtype == torch.float32
    assert second.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_squared_distances_under_autocast_are_those_without(dtype):
    x, y = numbers(1, 5, 8, dtype=dtype).requires_grad_(), numbers(1, 6, 8, seed=1, dtype=dtype)
    expected = compute_squared_distances(x, y)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = compute_squared_distances(x, y)
        (gradient,) = torch.autograd.grad(found.sum(), x)
    assert found.dtype == torch.float32
    assert_close((found, gradient), (expected, expected_gradient), rtol=0, atol=0)


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore")  # the compiler has warnings of its own
def test_compiled_functions_work_under_autocast():
    query, support = numbers(2, 5, 3, 6).requires_grad_(), numbers(3, 4, 6, seed=1)

    def total(q):
        return distances(q, support).sum()

    (expected,) = torch.autograd.grad(total(query), query)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
        (found,) = torch.autograd.grad(compiled(query), query)
    assert_close(found, expected)
