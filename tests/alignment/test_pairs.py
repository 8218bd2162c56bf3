"""Matched pairs straight from features in the kernel: base distances, values and gradients against scalar float64."""

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from torch.testing import assert_close

from jeanie import distances
from jeanie.alignment.backends import native

METRICS = ["euclidean", "sqeuclidean", "rbf"]
SIGMA = 2.0


def features(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def base(squared, metric):
    """The named distance and its derivative by the squared one."""
    if metric == "sqeuclidean":
        return squared, np.ones_like(squared)
    if metric == "rbf":
        return -2 * np.expm1(-squared / (2 * SIGMA**2)), np.exp(-squared / (2 * SIGMA**2)) / SIGMA**2
    root = np.sqrt(squared)
    return root, np.divide(0.5, root, out=np.zeros_like(root), where=root > 0)


def oracle(x, y, metric, gamma, band=None):
    """Distance of one pair and its gradients: plain differences, the scalar recursion, the chain rule.

    With each gradient comes the largest sum of absolute terms in it: terms may cancel.
    """
    x, y = x.double().numpy(), y.double().numpy()
    cost, slope = base(cdist(x, y, "sqeuclidean"), metric)
    value, plan = oracles.recursion(cost, gamma, 0, band)
    weight = 2 * plan * slope
    terms = weight[..., None] * (x[:, None] - y[None])
    return value, *(
        (sign * terms.sum(axis), np.abs(terms).sum(axis).max()) for sign, axis in ((1, 1), (-1, 0))
    )


def assert_equals_the_recursion(query, support, tau, tau_, metric, gamma, band=None):
    """Value and both gradients of every pair, weighed differently, in the tolerances of METHOD section 6."""
    wide = query.dtype == torch.float64
    q, s = query.clone().requires_grad_(), support.clone().requires_grad_()
    found = distances(
        q, s, metric=metric, sigma=SIGMA, gamma=gamma, pairs="matched", band=band, query_lengths=tau,
        support_lengths=tau_, backend="native",
    )  # fmt: skip
    weight = torch.arange(1, len(q) + 1, dtype=query.dtype)
    (found * weight).sum().backward()
    for p in range(len(query)):
        n = query.shape[1] if tau is None else tau[p]
        m = support.shape[1] if tau_ is None else tau_[p]
        value, *slopes = oracle(query[p, :n], support[p, :m], metric, gamma, band)
        assert found[p].item() == pytest.approx(value, rel=1e-9 if wide else 1e-4, abs=1e-9 if wide else 1e-5)
        for got, (expected, scale), length in zip((q.grad[p], s.grad[p]), slopes, (n, m), strict=True):
            error = np.abs(got[:length].double().numpy() - (p + 1) * expected).max()
            # a plan can be no better than the rounding of its costs, or of the oracle's sums, over gamma
            limit = 1e-9 + 1e-14 * abs(value) / gamma if wide else 1e-3 + 1e-6 * abs(value) / gamma
            assert error <= limit * (p + 1) * scale
            assert got[length:].abs().sum() == 0


@settings(max_examples=60)
@given(
    pairs=st.sampled_from([1, 3, 17]),
    shape=st.tuples(st.integers(1, 11), st.integers(1, 11), st.sampled_from([1, 3, 8, 16, 19, 40])),
    gamma=st.sampled_from([1e-4, 0.01, 0.3, 10.0]),
    metric=st.sampled_from(METRICS),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    offset=st.sampled_from([0.0, 3.0, 1e3, 1e5]),
    lengths=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_equal_the_scalar_recursion(
    pairs, shape, gamma, metric, dtype, offset, lengths, seed
):
    rows, columns, width = shape
    query = (features(pairs, rows, width, seed=seed) / width**0.5 + offset).to(dtype)
    support = (features(pairs, columns, width, seed=seed + 1) / width**0.5 + offset).to(dtype)
    numbers = np.random.default_rng(seed)
    tau = numbers.integers(1, rows + 1, pairs).tolist() if lengths else None
    tau_ = numbers.integers(1, columns + 1, pairs).tolist() if lengths else None
    assert_equals_the_recursion(query, support, tau, tau_, metric, gamma)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", METRICS)
def test_tables_of_several_tiles_equal_the_scalar_recursion(metric, dtype):
    query, support = (features(3, n, 19, seed=n).to(dtype) / 4 for n in (31, 45))
    assert_equals_the_recursion(query, support, [31, 17, 6], [2, 45, 33], metric, 0.1)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("band", [0.2, 0.5])
def test_a_band_limits_values_and_gradients(metric, band):
    assert_equals_the_recursion(
        features(20, 12, 5), features(20, 14, 5, seed=1), None, None, metric, 0.1, band
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_one_block_against_many_sums_exact_base_distances(metric, dtype, offset, scale):
    """A query of one block has one path, over all support blocks: near misses, equal blocks and far ones."""
    query = (scale * features(40, 1, 24) + offset).to(dtype)
    support = (scale * features(40, 30, 24, seed=1) + offset).to(dtype)
    support[:, ::3] = query + 1e-3 * (support[:, ::3] - offset)
    support[::2, 1] = query[::2, 0]
    found = distances(query, support, metric=metric, sigma=SIGMA, pairs="matched", backend="native")
    for q, s, value in zip(query.double().numpy(), support.double().numpy(), found, strict=True):
        expected = base(cdist(q, s, "sqeuclidean"), metric)[0].sum()
        assert value.item() == pytest.approx(expected, rel=1e-4 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", METRICS)
def test_one_block_against_one_is_its_base_distance_at_every_size(metric, dtype):
    """rbf needs exp(x) - 1 from 1e-16 to far beyond its saturation."""
    for apart in 10.0 ** np.arange(-8, 5, 0.25):
        query, support = torch.zeros(1, 1, 1, dtype=dtype), torch.full((1, 1, 1), apart, dtype=dtype)
        expected = float(base(support.double().numpy() ** 2, metric)[0].item())
        options = {"metric": metric, "sigma": SIGMA, "gamma": expected / 10, "pairs": "matched"}
        found = distances(query, support, backend="native", **options).item()
        assert found == pytest.approx(expected, rel=1e-6 if dtype == torch.float32 else 1e-14, abs=0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_equal_motions_are_at_distance_zero_and_pull_nowhere(metric, offset):
    x = (features(20, 15, 12) + offset).float()
    q = x.clone().requires_grad_()
    value = distances(q, x, metric=metric, gamma=1e-4, pairs="matched", backend="native")
    assert_close(value, torch.zeros(20), rtol=0, atol=1e-6)
    value.sum().backward()
    assert_close(q.grad, torch.zeros_like(x), rtol=0, atol=1e-5)


def test_the_kernel_leaves_no_gradient_in_the_padding():
    lengths = torch.tensor([[3, 1, 5, 2], [4, 6, 1, 2]])
    _, *grads = native.align_matched(
        features(4, 5, 3), features(4, 6, 3, seed=1), tuple(lengths), 1, SIGMA, 0.1, None, (True, True)
    )
    for grad, n in zip(grads, lengths, strict=True):
        inside = torch.arange(grad.shape[1]) < n[:, None]
        assert (grad[~inside] == 0).all()
        assert (grad[inside] != 0).all()


def test_threads_and_strides_do_not_show():
    wide = features(50, 9, 2, 11)
    query, support = wide[:, :, 0].requires_grad_(), features(50, 7, 11, seed=1)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            value = distances(query, support, pairs="matched", backend="native")
            results.append((value.detach(), *torch.autograd.grad(value.sum(), query)))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert_close(other, results[0], rtol=0, atol=0)
    value = distances(query.detach().contiguous(), support, pairs="matched", backend="native")
    assert_close(value, results[0][0], rtol=0, atol=0)


def test_a_large_batch_needs_no_costs():
    """4,000 pairs of 60 x 60 blocks would hold 58 MB of costs and as much of plans; the call may add a quarter."""
    import subprocess
    import sys

    code = """
import resource, torch, jeanie
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
x, y = (torch.rand(4000, 60, 4) for _ in range(2))
leaf = x[:32].clone().requires_grad_()
jeanie.distances(leaf, y[:32], pairs="matched").sum().backward()
x.requires_grad_(); start = peak()
jeanie.distances(x, y, pairs="matched").sum().backward()
print(peak() - start)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(result.stdout) < 30
