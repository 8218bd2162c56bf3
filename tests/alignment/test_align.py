"""The alignment equals the sum over all paths, and an independent recursion where paths cannot be counted."""

from functools import cache

import numpy as np
import oracles
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.testing import assert_close

from jeanie import align, fvm
from jeanie.alignment.backends import native
from jeanie.alignment.backends.torch_recursion import softmin

BACKENDS = ["native", "reference"]
# METHOD section 6: relative error of the value, absolute error of the plan (whose entries are at most 1)
TOLERANCE = {torch.float32: (1e-4, 1e-3), torch.float64: (1e-9, 1e-9)}
EVERY = pytest.mark.parametrize("backend", BACKENDS)


def table(*shape, seed=0, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


def value_and_plan(cost, **options):
    leaf = cost.detach().clone().requires_grad_()
    value = align(leaf, **options)
    value.sum().backward()
    return value.detach(), leaf.grad


def test_this_installation_has_the_kernel():
    """A build without it must be chosen on purpose; the tests of the native backend would then mean nothing."""
    assert native.is_available()
    assert native.get_instruction_set() in ("avx2", "baseline")


SMALL = st.tuples(
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([(), (1,), (2,), (3,), (4,), (2, 2), (1, 3), (4, 1)]),
) | st.sampled_from([(4, 3, ()), (3, 4, (2,)), (2, 2, (2, 1, 2)), (2, 2, (2, 2, 1, 2)), (2, 1, (3, 3, 1, 2))])


@EVERY
@given(
    shape=SMALL,
    shift=st.integers(0, 3),
    gamma=st.sampled_from([0.0, 1e-4, 0.01, 0.3, 10.0]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    band=st.sampled_from([None, 0.34, 0.5, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_equals_the_sum_over_all_paths(backend, shape, shift, gamma, scale, band, dtype, seed):
    tau, tau_, views = shape
    cost = table(1, tau, tau_, *views, seed=seed, dtype=dtype, scale=scale)
    paths = list(oracles.smooth_paths((tau, tau_, *views), shift, band))
    assume(paths)  # a band that leaves no path is refused: see test_align_errors.py
    expected, plan = oracles.sum_over_paths(cost[0].double().numpy(), iter(paths), gamma)
    value, found = value_and_plan(cost, gamma=gamma, shift=shift, band=band, backend=backend)
    rtol, atol = TOLERANCE[dtype]
    assert_close(value.double(), torch.tensor([expected], dtype=torch.float64), rtol=rtol, atol=rtol * gamma)
    if gamma > 0 or len(paths) == 1:
        assert_close(
            found[0].double().numpy(), plan, rtol=0, atol=max(atol, 1e-15 * scale / max(gamma, 1e-9))
        )


@cache
def solve_large_tables(shape, shift, gamma):
    """Values and plans of two tables by the oracle; once for both precisions and backends."""
    return [
        oracles.recursion(cost.double().numpy(), gamma, shift)
        for cost in table(2, *shape, seed=1, dtype=torch.float32)
    ]


@pytest.mark.parametrize("gamma", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize(
    ("shape", "shift"),
    [
        ((30, 30, 7, 7), 2),
        ((70, 45), 1),
        ((20, 25, 5, 5), 1),
        ((9, 8, 3, 3, 3, 3), 1),
        ((12, 14, 11), 4),
        ((9, 9, 4, 9), 9),
    ],
    ids=["jeanie", "soft-dtw", "5x5", "six-d", "long shift", "whole grid"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@EVERY
def test_equals_an_independent_recursion_on_large_tables(shape, shift, gamma, dtype, backend):
    cost = table(2, *shape, seed=1, dtype=torch.float32).to(dtype)
    value, plan = value_and_plan(cost, gamma=gamma, shift=shift, backend=backend)
    for i, (expected, expected_plan) in enumerate(solve_large_tables(shape, shift, gamma)):
        rtol, atol = TOLERANCE[dtype]
        assert_close(float(value[i]), expected, rtol=rtol, atol=0)
        # the log-domain oracle itself loses digits as gamma falls
        assert_close(plan[i].double().numpy(), expected_plan, rtol=0, atol=max(atol, 1e-13 / gamma))


@EVERY
def test_two_thousand_blocks_keep_their_precision(backend):
    cost = table(1, 2000, 150 if backend == "reference" else 2000, dtype=torch.float32)
    value, plan = value_and_plan(cost, gamma=0.01, backend=backend)
    wide, wide_plan = value_and_plan(cost.double(), gamma=0.01, backend="native")
    assert_close(value.double(), wide, rtol=1e-4, atol=0)
    assert_close(plan.double(), wide_plan, rtol=0, atol=1e-3)
    assert_close(plan[0, 0, 0], torch.tensor(1.0))


@EVERY
@pytest.mark.parametrize("spread", [50.0, 5000.0, 1e6], ids=["shared exponent", "own exponents", "float64"])
def test_views_may_lie_any_distance_apart(spread, backend):
    """A view that is hopeless at first wins in the end: nothing that matters may be flushed."""
    cost = torch.full((1, 12, 12, 3), spread)
    cost[:, :6, :, 0] = cost[:, 6:, :, 2] = 0.0
    expected, _ = oracles.recursion(cost[0].numpy(), 1.0, 1)
    frozen, _ = oracles.recursion(cost[0].numpy(), 1.0, 0)
    assert_close(float(align(cost, gamma=1.0, shift=1, backend=backend)), expected, rtol=1e-4, atol=1e-4)
    assert_close(float(align(cost, gamma=1.0, shift=0, backend=backend)), frozen, rtol=1e-4, atol=1e-4)


@EVERY
@given(
    lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 7)), min_size=1, max_size=40),
    views=st.sampled_from([(), (3,), (2, 3)]),
    gamma=st.sampled_from([0.0, 0.01, 1.0]),
    band=st.sampled_from([None, 1.0]),
    seed=st.integers(0, 10**6),
)
def test_padding_never_matters(backend, lengths, views, gamma, band, seed):
    """Whatever the padding holds, each pair gives the value and plan of its own table alone."""
    cost = table(len(lengths), 6, 7, *views, seed=seed)
    tau, tau_ = zip(*lengths, strict=True)
    dirty = cost.clone()
    for i, (t, s) in enumerate(lengths):
        dirty[i, t:] = torch.nan
        dirty[i, :, s:] = torch.inf
    options = {"gamma": gamma, "band": band, "backend": backend}
    value, plan = value_and_plan(dirty, query_lengths=tau, support_lengths=torch.tensor(tau_), **options)
    for i, (t, s) in enumerate(lengths):
        alone, alone_plan = value_and_plan(cost[i : i + 1, :t, :s], **options)
        assert_close(value[i : i + 1], alone, rtol=1e-9, atol=1e-12)
        assert_close(plan[i, :t, :s], alone_plan[0], rtol=1e-9, atol=1e-12)
        assert plan[i, t:].abs().sum() == 0
        assert plan[i, :, s:].abs().sum() == 0


@EVERY
@pytest.mark.parametrize("band", [0.0, 0.1, 0.25, 0.7])
@pytest.mark.parametrize("gamma", [0.0, 0.01])
def test_a_band_is_a_wall(band, gamma, backend):
    cost = table(3, 20, 20, 3)
    value, plan = value_and_plan(cost, gamma=gamma, band=band, backend=backend)
    expected, _ = oracles.recursion(cost[0].numpy(), gamma, 1, band)
    assert_close(float(value[0]), expected, rtol=1e-9, atol=1e-12)
    t, s = np.indices((20, 20))
    outside = torch.from_numpy(abs(t / 20 - s / 20) > band + 1e-9)
    assert plan[:, outside].abs().sum() == 0
    assert_close(plan[:, 0, 0].sum(-1), torch.ones(3, dtype=torch.float64))


@EVERY
@given(
    views=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    gamma=st.sampled_from([1e-3, 0.1, 2.0]),
)
def test_a_shift_over_the_whole_grid_is_fvm(backend, views, gamma):
    cost = table(4, 5, 6, *views)
    assert_close(
        align(cost, gamma=gamma, shift=4, backend=backend),
        fvm(cost, gamma=gamma, backend=backend),
        rtol=1e-9,
        atol=1e-12,
    )


@EVERY
@pytest.mark.parametrize("gamma", [0.0, 1e-3, 1.0])
def test_no_shift_is_the_softmin_of_single_views(gamma, backend):
    cost = table(4, 5, 6, 3, 2)
    single = torch.stack([align(c, gamma=gamma, backend=backend) for c in cost.flatten(3).unbind(3)])
    assert_close(
        align(cost, gamma=gamma, shift=0, backend=backend), softmin(single, gamma), rtol=1e-9, atol=1e-12
    )


@EVERY
@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # inside tslearn 0.6
def test_without_views_it_is_tslearns_soft_dtw(gamma, backend, monkeypatch):
    import numba

    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)  # compiling takes longer than the few steps
    from tslearn.metrics import soft_dtw

    x, y = np.random.default_rng(0).normal(size=(2, 25, 3))
    cost = torch.from_numpy(((x[:, None] - y[None]) ** 2).sum(-1))[None]
    assert_close(
        float(align(cost, gamma=gamma, backend=backend)),
        float(soft_dtw(x, y, gamma=gamma)),
        rtol=1e-9,
        atol=1e-9,
    )


@EVERY
@pytest.mark.parametrize("plan", ["smooth", "preprint"])
def test_a_falling_gamma_converges_to_the_hard_minimum(backend, plan):
    options = {"plan": plan} if plan == "smooth" else {"plan": plan, "backend": "reference"}
    options.setdefault("backend", backend)
    cost = table(3, 5, 6, 3)
    hard = align(cost, gamma=0, **options)
    errors = [(hard - align(cost, gamma=g, **options)).abs().max() for g in (1.0, 0.1, 0.01, 1e-3, 1e-4)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3


@EVERY
def test_the_plan_is_a_distribution_over_paths(backend):
    _, plan = value_and_plan(table(5, 8, 9, 3, 3), gamma=0.1, backend=backend)
    assert (plan >= 0).all()
    ones = torch.ones(5, dtype=torch.float64)
    assert_close(plan[:, 0, 0].flatten(1).sum(1), ones)
    assert_close(plan[:, -1, -1].flatten(1).sum(1), ones)
    length = plan.flatten(1).sum(1)
    assert ((length >= 9) & (length <= 16)).all()


@pytest.mark.parametrize("shape", [(2, 3), (3, 2, 3), (2, 2, 3, 3)], ids=str)
@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("gamma", [0.0, 0.05, 1.0])
def test_the_preprints_plan_equals_its_paths(shape, shift, gamma):
    cost = table(1, *shape, seed=3)
    expected, plan = oracles.sum_over_paths(cost[0].numpy(), oracles.preprint_paths(shape, shift), gamma)
    value, found = value_and_plan(cost, gamma=gamma, shift=shift, plan="preprint")
    assert_close(float(value), expected, rtol=1e-9, atol=1e-12)
    assert_close(found[0].numpy(), plan, rtol=0, atol=1e-9)


@EVERY
def test_the_released_codes_three_views_cost_what_the_best_one_costs(backend):
    """The authors' kernel forces a path through all views and returns 13 here (METHOD section 9)."""
    assert float(align(torch.tensor([[[[5.0, 1.0, 7.0]]]]), gamma=0, backend=backend)) == 1.0


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_strides_and_an_empty_batch(dtype, backend):
    cost = table(6, 5, 4, 3, 3, dtype=dtype)
    plain, plan = value_and_plan(cost, backend=backend)
    for strided in (
        cost.permute(4, 3, 2, 1, 0).contiguous().permute(4, 3, 2, 1, 0),
        cost.transpose(1, 2).contiguous().transpose(1, 2),
        torch.cat([cost, cost], 2)[:, :, :4],
        cost.repeat_interleave(2, 0)[::2],
    ):
        value, found = value_and_plan(strided, backend=backend)
        assert_close(value, plain, rtol=1e-6, atol=0)  # the sums may run in another order
        assert_close(found, plan, rtol=0, atol=1e-6)
    same = align(cost[:1].expand(4, -1, -1, -1, -1), backend=backend)
    assert_close(same, plain[:1].expand(4))
    none = align(cost[:0].requires_grad_(), backend=backend)
    assert none.shape == (0,)
    assert none.dtype == dtype


@EVERY
@pytest.mark.parametrize("pairs", [1, 7, 8, 9, 16, 17, 33])
@pytest.mark.parametrize("views", [(), (3, 3)])
def test_a_pair_does_not_know_its_neighbours(pairs, views, backend):
    cost = table(pairs, 6, 5, *views)
    value, plan = value_and_plan(cost, backend=backend)
    alone = [value_and_plan(c[None], backend=backend) for c in cost]
    assert_close(value, torch.cat([v for v, _ in alone]), rtol=1e-12, atol=1e-14)
    assert_close(plan, torch.cat([p for _, p in alone]), rtol=1e-9, atol=1e-12)


def test_threads_do_not_change_a_bit():
    cost = table(50, 12, 13, 3, 3, dtype=torch.float32)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = value_and_plan(cost)
        torch.set_num_threads(4)
        four = value_and_plan(cost)
    finally:
        torch.set_num_threads(threads)
    assert_close(one, four, rtol=0, atol=0)
