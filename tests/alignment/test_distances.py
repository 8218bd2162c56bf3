"""Distances between motions: precise base distances, every normalisation, all pairs or matched, in chunks."""

import sys

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from torch.testing import assert_close

from jeanie import align, distances, fvm
from jeanie.alignment.base_distance import apply_metric, compute_squared_distances

EVERY = pytest.mark.parametrize("backend", ["native", "reference"])
METRICS = ["euclidean", "sqeuclidean", "rbf"]


def features(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def compute_cost(query, support, metric, sigma=2.0):
    """cost[n, m, t, s, *views] by plain subtraction."""
    views = query.dim() - 3
    own = support.dim() - 3
    q = query.reshape(query.shape[0], 1, query.shape[1], 1, *query.shape[2:-1], *[1] * own, query.shape[-1])
    s = support.reshape(
        1, support.shape[0], 1, support.shape[1], *[1] * views, *support.shape[2:-1], support.shape[-1]
    )
    squared = (q - s).square().sum(-1)
    if metric == "rbf":
        return 2 - 2 * torch.exp(-squared / (2 * sigma**2))
    return squared if metric == "sqeuclidean" else squared.sqrt()


@EVERY
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("views", "own"), [((), ()), ((3,), ()), ((3, 2), ()), ((2,), (3,)), ((2, 3), (3, 2))], ids=str
)
def test_all_pairs_equal_their_costs_aligned(metric, views, own, backend):
    query, support = features(5, 6, *views, 4), features(3, 7, *own, 4, seed=1)
    cost = compute_cost(query, support, metric)
    expected = align(cost.flatten(0, 1), shift=1, backend=backend).view(5, 3)
    assert_close(distances(query, support, metric=metric, backend=backend), expected)
    matched = distances(query[:3], support, metric=metric, pairs="matched", backend=backend)
    assert_close(matched, expected[:3].diagonal())


@EVERY
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3])
def test_equal_blocks_are_at_distance_zero_whatever_they_share(metric, dtype, offset, backend):
    x = features(2, 30, 16, dtype=dtype) + offset
    x[1] = x[0]
    zero = distances(x, x, metric=metric, gamma=0, backend=backend)
    assert_close(zero, torch.zeros(2, 2, dtype=dtype), rtol=0, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_base_distances_keep_their_digits(offset, scale):
    x, y = (
        scale * features(1, 40, 24, dtype=torch.float32) + offset,
        scale * features(1, 50, 24, seed=1, dtype=torch.float32) + offset,
    )
    y[0, :20] = x[0, :20] + 1e-3 * scale * y[0, :20]  # near misses, where a matrix product cancels
    squared = compute_squared_distances(x, y)[0].double().numpy()
    exact = cdist(x[0].double().numpy(), y[0].double().numpy(), "sqeuclidean")
    assert (squared >= 0).all()
    assert_close(squared, exact, rtol=1e-4, atol=0)


@EVERY
@given(offset=st.floats(-1e3, 1e3), seed=st.integers(0, 1000), metric=st.sampled_from(METRICS))
def test_base_distances_are_never_negative(backend, offset, seed, metric):
    x = features(1, 8, 5, seed=seed, dtype=torch.float32) + offset
    y = torch.cat([x, x + 1e-4], 1)
    assert (apply_metric(compute_squared_distances(x, y), metric, 2.0) >= 0).all()
    assert distances(x, y, metric=metric, gamma=0, backend=backend).item() >= 0


@EVERY
@pytest.mark.parametrize("pairs", ["all", "matched"])
def test_normalisations(pairs, backend):
    query, support = features(3, 6, 4), features(3, 5, 4, seed=1)
    tau, tau_ = torch.tensor([6, 2, 4]), torch.tensor([1, 5, 3])
    options = {
        "query_lengths": tau,
        "support_lengths": tau_,
        "pairs": pairs,
        "gamma": 0.5,
        "backend": backend,
    }
    plain = distances(query, support, **options)
    total = tau + tau_ if pairs == "matched" else tau[:, None] + tau_
    area = tau * tau_ if pairs == "matched" else tau[:, None] * tau_
    assert_close(distances(query, support, normalise="length", **options), plain / total)
    assert_close(distances(query, support, normalise="area", **options), plain / area)
    own = [
        torch.stack(
            [
                align(compute_cost(x[i : i + 1, :n], x[i : i + 1, :n], "rbf")[0], gamma=0.5)[0]
                for i, n in enumerate(lengths)
            ]
        )
        for x, lengths in ((query, tau.tolist()), (support, tau_.tolist()))
    ]
    half = (own[0] + own[1] if pairs == "matched" else own[0][:, None] + own[1]) / 2
    assert_close(distances(query, support, normalise="divergence", **options), plain - half)


@EVERY
def test_a_motion_is_at_divergence_zero_from_itself(backend):
    x = features(4, 9, 5)
    found = distances(x, x, normalise="divergence", gamma=1.0, backend=backend)
    assert_close(found.diagonal(), torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-9)
    assert (found - torch.eye(4) * 9 > -1e-9)[~torch.eye(4, dtype=torch.bool)].all()


@EVERY
def test_padding_of_features_never_matters(backend):
    query, support = features(4, 6, 2, 3), features(3, 5, 3, seed=1)
    tau, tau_ = [6, 1, 3, 4], [5, 2, 1]
    expected = torch.stack(
        [torch.stack([distances(q[None, :t], s[None, :u])[0, 0] for s, u in zip(support, tau_, strict=True)])
         for q, t in zip(query, tau, strict=True)]
    )  # fmt: skip
    for x, lengths in ((query, tau), (support, tau_)):
        for row, n in zip(x, lengths, strict=True):
            row[n:] = torch.nan
    leaf = query.clone().requires_grad_()
    found = distances(leaf, support, query_lengths=tau, support_lengths=tau_, backend=backend)
    assert_close(found, expected)
    found.sum().backward()
    assert leaf.grad.isfinite().all()
    assert leaf.grad[1, 1:].abs().sum() == 0


@EVERY
def test_chunks_do_not_show(monkeypatch, backend):
    """Tiles of a few pairs, and costs computed again in backward, change neither values nor gradients."""
    module = sys.modules["jeanie.alignment.feature_distances"]
    query, support = features(70, 5, 2, 3).requires_grad_(), features(9, 4, 3, seed=1).requires_grad_()

    def run():
        value = distances(query, support, backend=backend)
        return value.detach(), *torch.autograd.grad(value.square().sum(), (query, support))

    whole = run()
    monkeypatch.setattr(module, "_CHUNK", 40)
    monkeypatch.setattr(module, "_KEEP", 1000)
    assert_close(run(), whole)


def test_the_preprints_plan_works_on_features_too():
    query, support = features(2, 3, 3, 4), features(2, 2, 4, seed=1)
    cost = compute_cost(query, support, "rbf")
    expected = [
        oracles.sum_over_paths(cost[0, m].numpy(), oracles.preprint_paths((3, 2, 3), 1), 0.01)[0]
        for m in range(2)
    ]
    assert_close(distances(query, support, plan="preprint")[0], torch.tensor(expected, dtype=torch.float64))


@EVERY
def test_empty_batches_give_empty_tables(backend):
    x = features(3, 4, 5)
    assert distances(x[:0], x, backend=backend).shape == (0, 3)
    assert distances(x, x[:0], backend=backend).shape == (3, 0)
    assert distances(x[:0], x[:0], pairs="matched", backend=backend).shape == (0,)


@pytest.mark.plain
def test_a_large_table_never_exists_as_a_whole():
    """200 x 50 motions of 7x7 views: the costs alone would take 1.7 GB; the call may add a tenth of that."""
    import subprocess

    code = """
import resource, torch, jeanie
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
q, s = torch.rand(200, 30, 7, 7, 16), torch.rand(50, 30, 16)
jeanie.distances(q[:2], s[:2]); start = peak()
jeanie.distances(q, s, shift=2)
print(peak() - start)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(result.stdout) < 170


@EVERY
def test_one_pair_beyond_float32_does_not_disturb_the_others(backend):
    """Exponents of the far pair need float64; the plans of the near ones must not have replaced their costs by then."""
    query, support = features(40, 6, 3, dtype=torch.float32), features(40, 5, 3, seed=1, dtype=torch.float32)
    query[-1] += 100
    leaf = query.clone().requires_grad_()
    options = {"metric": "sqeuclidean", "gamma": 1e-4, "pairs": "matched", "backend": backend}
    value = distances(leaf, support, **options)
    value.sum().backward()
    wide = query.double().requires_grad_()
    expected = distances(wide, support.double(), **options)
    expected.sum().backward()
    assert_close(value.double(), expected, rtol=1e-4, atol=1e-4)
    assert_close(leaf.grad[:-1].double(), wide.grad[:-1], rtol=1e-2, atol=1e-2)


@EVERY
@pytest.mark.parametrize("view_gamma", [None, 0.3, 0.0])
@pytest.mark.parametrize(("views", "own"), [((), ()), ((3, 2), ()), ((2, 3), (3, 2))], ids=str)
def test_free_viewpoint_matching_of_features_equals_that_of_their_costs(views, own, view_gamma, backend):
    query, support = features(5, 6, *views, 4), features(3, 7, *own, 4, seed=1)
    tau, tau_ = [6, 1, 3, 4, 2], [7, 2, 1]
    options = {"gamma": 0.1, "view_gamma": view_gamma, "backend": backend}
    expected = torch.stack(
        [fvm(compute_cost(query[:, :6], support[m : m + 1], "rbf")[:, 0], query_lengths=tau, support_lengths=[n] * 5,
             **options) for m, n in enumerate(tau_)], 1
    )  # fmt: skip
    lengths = {"query_lengths": tau, "support_lengths": tau_}
    assert_close(distances(query, support, matching="fvm", **lengths, **options), expected)
    lengths["query_lengths"] = tau[:3]
    found = distances(query[:3], support, matching="fvm", pairs="matched", **lengths, **options)
    assert_close(found, expected[:3].diagonal())


@EVERY
@pytest.mark.parametrize("metric", METRICS)
def test_gradients_of_free_viewpoint_matching_in_chunks_equal_those_through_costs(
    metric, monkeypatch, backend
):
    query, support = features(7, 5, 2, 3).requires_grad_(), features(4, 4, 3, seed=1).requires_grad_()
    cost = compute_cost(query, support, metric)
    straight = fvm(cost.flatten(0, 1), gamma=0.1, view_gamma=0.3, backend="reference").view(7, 4)
    expected = torch.autograd.grad(straight.square().sum(), (query, support))
    for chunk in (2**21, 40):
        monkeypatch.setattr(sys.modules["jeanie.alignment.feature_distances"], "_CHUNK", chunk)
        value = distances(
            query, support, metric=metric, matching="fvm", gamma=0.1, view_gamma=0.3, backend=backend
        )
        assert_close(value, straight)
        assert_close(torch.autograd.grad(value.square().sum(), (query, support)), expected)
