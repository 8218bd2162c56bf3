"""The Triton kernel in its interpreter: the same oracles and tolerances as for the other backends.

The interpreter takes about as long for a hundred pairs as for one, so every test packs its cases into few calls.
"""

import os

import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from jeanie import align, distances, fvm, trace
from jeanie.alignment.backends import triton

# METHOD section 6: relative error of the value, absolute error of the plan (whose entries are at most 1)
TOLERANCE = {torch.float32: (1e-4, 1e-3), torch.float64: (1e-9, 1e-9)}
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def table(*shape, seed=0, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


def run(function, *tensors, weight=None, **options):
    """Return the value and the gradients of its weighted sum."""
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    value = function(*leaves, **options)
    weight = (
        torch.linspace(-1, 2, value.numel(), dtype=value.dtype).view(value.shape)
        if weight is None
        else weight
    )
    return value.detach(), torch.autograd.grad(value, leaves, weight)


SMALL = st.sampled_from([(3, 3, ()), (4, 2, ()), (2, 3, (3,)), (3, 2, (4,)), (2, 3, (2, 2)), (2, 2, (2, 1, 2)),
                         (2, 2, (2, 2, 1, 2)), (2, 1, (3, 3, 1, 2))])  # fmt: skip


@settings(max_examples=12)
@given(
    shape=SMALL,
    shift=st.integers(0, 3),
    gamma=st.sampled_from([0.0, 1e-4, 0.01, 0.3, 10.0]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    band=st.sampled_from([None, None, 0.5, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_equals_the_sum_over_all_paths(shape, shift, gamma, scale, band, dtype, seed):
    """One call with every pair of lengths that has a path; what lies beyond the lengths is NaN."""
    *blocks, views = shape
    lengths = [(t, s) for t in range(1, blocks[0] + 1) for s in range(1, blocks[1] + 1)]
    paths = {(t, s): list(oracles.smooth_paths((t, s, *views), shift, band)) for t, s in lengths}
    lengths = [x for x in lengths if paths[x]]
    cost = table(len(lengths), *blocks, *views, seed=seed, dtype=dtype, scale=scale)
    for i, (t, s) in enumerate(lengths):
        cost[i, t:] = torch.nan
        cost[i, :, s:] = torch.nan
    tau, tau_ = zip(*lengths, strict=True)
    value, (plan,) = run(
        align, cost, weight=torch.ones(len(lengths), dtype=dtype), gamma=gamma, shift=shift, band=band,
        query_lengths=tau, support_lengths=tau_, backend="triton",
    )  # fmt: skip
    rtol, atol = TOLERANCE[dtype]
    for i, (t, s) in enumerate(lengths):
        expected, expected_plan = oracles.sum_over_paths(
            cost[i, :t, :s].double().numpy(), iter(paths[t, s]), gamma
        )
        assert_close(float(value[i]), expected, rtol=rtol, atol=rtol * gamma)
        if gamma > 0 or len(paths[t, s]) == 1:
            bound = max(atol, 1e-15 * scale / max(gamma, 1e-9))
            assert_close(plan[i, :t, :s].double().numpy(), expected_plan, rtol=0, atol=bound)
        assert plan[i, t:].abs().sum() == plan[i, :, s:].abs().sum() == 0


@TYPES
@pytest.mark.parametrize(
    ("shape", "shift", "gamma"),
    [((8, 6, 3, 3), 1, 1e-4), ((5, 6, 7, 7), 2, 1e-2), ((12, 9), 1, 1.0), ((3, 4, 3, 2, 3, 2), 1, 1e-4)],
    ids=["jeanie", "7x7", "soft-dtw", "six-d"],
)
def test_equals_the_native_kernel_and_an_independent_recursion(shape, shift, gamma, dtype):
    cost = table(3, *shape, seed=1, dtype=dtype)
    value, (plan,) = run(
        align, cost, gamma=gamma, shift=shift, backend="triton", weight=torch.ones(3, dtype=dtype)
    )
    wide, (wide_plan,) = run(
        align,
        cost.double(),
        gamma=gamma,
        shift=shift,
        backend="native",
        weight=torch.ones(3, dtype=torch.float64),
    )
    expected, _ = oracles.recursion(cost[0].double().numpy(), gamma, shift)
    assert_close(float(value[0]), expected, rtol=TOLERANCE[dtype][0], atol=0)
    assert_close(value.double(), wide, rtol=1e-6 if dtype == torch.float32 else 1e-12, atol=0)
    assert_close(plan.double(), wide_plan, rtol=0, atol=2e-6 if dtype == torch.float32 else 1e-11)


@pytest.mark.parametrize("spread", [50.0, 5000.0, 1e6], ids=["near", "far", "beyond float32 exponents"])
def test_views_may_lie_any_distance_apart(spread):
    """A view that is hopeless at first wins in the end: nothing that matters may be flushed."""
    cost = torch.full((1, 6, 6, 3), spread)
    cost[:, :3, :, 0] = cost[:, 3:, :, 2] = 0.0
    expected, _ = oracles.recursion(cost[0].numpy(), 1.0, 1)
    assert_close(float(align(cost, gamma=1.0, shift=1, backend="triton")), expected, rtol=1e-4, atol=1e-4)


def test_the_hard_minimum_follows_one_best_path():
    cost = table(4, 7, 5, 3, 2)
    options = {"gamma": 0.0, "band": 0.4, "query_lengths": [7, 5, 6, 1], "support_lengths": [5, 5, 4, 1]}
    value, (plan,) = run(align, cost, weight=torch.ones(4, dtype=torch.float64), backend="triton", **options)
    expected, (expected_plan,) = run(
        align, cost, weight=torch.ones(4, dtype=torch.float64), backend="native", **options
    )
    assert_close(value, expected)
    assert_close(plan, expected_plan, rtol=0, atol=0)
    ties, (ones,) = run(align, torch.ones(2, 4, 4, 3), gamma=0.0, weight=torch.ones(2), backend="triton")
    assert ties.tolist() == ones.flatten(1).sum(1).tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    ("metric", "views", "options"),
    [
        ("rbf", ((3,), ()), {"gamma": 0.05, "sigma": 0.7}),
        ("rbf", ((2, 3), ()), {"gamma": 1e-4, "normalise": "divergence"}),
        ("euclidean", ((), ()), {"gamma": 0.1, "band": 0.8, "normalise": "length"}),
        ("sqeuclidean", ((2,), (3,)), {"gamma": 0.3, "shift": 2}),
        ("cosine", ((3,), ()), {"gamma": 0.1, "normalise": "area"}),
        ("rbf", ((3,), ()), {"gamma": 0.1, "matching": "fvm"}),
        ("rbf", ((2,), ()), {"gamma": 0.1, "matching": "fvm", "view_gamma": 0.3}),
    ],
)
@pytest.mark.parametrize("pairs", ["all", "matched"])
def test_distances_of_features_equal_the_native_ones(metric, views, options, pairs):
    query = table(3, 4, *views[0], 6, seed=2) + 100  # an offset that a matrix product would suffer from
    support = table(3, 5, *views[1], 6, seed=3) + 100
    support[2, 1] = query[1, 2].reshape(-1, 6)[0]  # cost 0, where the root has no slope
    if pairs == "all":
        support = support[:2]
    options |= {"metric": metric, "pairs": pairs, "query_lengths": [4, 1, 3]}
    if "band" not in options:
        options["support_lengths"] = [5, 3, 4][: len(support)]
    value, grads = run(distances, query, support, backend="triton", **options)
    expected, expected_grads = run(distances, query, support, backend="native", **options)
    assert_close(value, expected, rtol=1e-9, atol=1e-10)
    assert_close(grads, expected_grads, rtol=1e-7, atol=1e-8)
    assert_close(distances(query, support, backend="triton", **options), value)


def test_distances_in_float32_use_short_exponents_and_stay_precise():
    query, support = table(2, 6, 3, 3, 8, dtype=torch.float32), table(3, 7, 8, seed=1, dtype=torch.float32)
    for gamma in (1e-4, 0.01):
        value, grads = run(distances, query, support, gamma=gamma, backend="triton")
        wide = run(distances, query.double(), support.double(), gamma=gamma, backend="native")
        assert_close(value.double(), wide[0], rtol=1e-4, atol=0)
        assert_close([g.double() for g in grads], list(wide[1]), rtol=0, atol=1e-3)


def test_the_hard_minimum_of_features():
    query, support = table(2, 3, 2, 4), table(2, 4, 4, seed=1)
    value, grads = run(distances, query, support, gamma=0.0, backend="triton")
    expected = run(distances, query, support, gamma=0.0, backend="native")
    assert_close((value, grads), expected)
    assert_close(distances(query, support, gamma=0.0, backend="triton"), value)


def test_first_and_second_derivatives_are_those_of_differences():
    cost = table(2, 2, 3, 2).requires_grad_()
    lengths = {"query_lengths": [2, 1], "support_lengths": [3, 2], "gamma": 0.3, "backend": "triton"}
    assert torch.autograd.gradcheck(lambda c: align(c, **lengths), (cost,), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda c: align(c, **lengths), (cost,), fast_mode=True)
    query, support = table(2, 2, 2, 3).requires_grad_(), table(1, 3, 3, seed=1).requires_grad_()
    inputs = (query, support)
    assert torch.autograd.gradcheck(
        lambda *x: distances(*x, gamma=0.3, backend="triton"), inputs, fast_mode=True
    )


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(low):
    cost = table(2, 3, 3, 2, dtype=torch.float32).to(low)
    value, (gradient,) = run(align, cost, gamma=0.1, backend="triton", weight=torch.ones(2))
    expected, (expected_gradient,) = run(
        align, cost.float(), gamma=0.1, backend="triton", weight=torch.ones(2)
    )
    assert (value.dtype, gradient.dtype) == (torch.float32, low)
    assert_close((value, gradient), (expected, expected_gradient.to(low)), rtol=0, atol=0)


def test_any_strides_and_an_empty_batch():
    cost = table(3, 5, 4, 3, 2)
    weight = torch.ones(3, dtype=torch.float64)
    plain, plan = run(align, cost, backend="triton", weight=weight)
    for strided in (
        cost.permute(4, 3, 2, 1, 0).contiguous().permute(4, 3, 2, 1, 0),
        torch.cat([cost, cost], 2)[:, :, :4],
        torch.complex(cost, -cost).conj().imag,
    ):
        leaf = strided.detach().requires_grad_()
        value = align(leaf, backend="triton")
        assert_close((value, torch.autograd.grad(value.sum(), leaf)), (plain, plan))
    assert align(cost[:0].requires_grad_(), backend="triton").shape == (0,)
    assert distances(cost[:0, :, :, 0, 0], cost[:, :, :, 0, 0], backend="triton").shape == (0, 3)


def test_trace_and_fvm_run_on_it():
    cost = table(2, 4, 5, 3)
    found = trace(cost, gamma=0.1, query_lengths=[4, 2], backend="triton")
    expected = trace(cost, gamma=0.1, query_lengths=[4, 2], backend="native")
    assert [x.backend for x in found] == ["triton"] * 2
    for x, y in zip(found, expected, strict=True):
        assert x.path.tolist() == y.path.tolist()
        assert_close((x.distance, x.steps, x.plan), (y.distance, y.steps, y.plan))
    assert_close(fvm(cost, gamma=0.1, backend="triton"), fvm(cost, gamma=0.1, backend="native"))


def test_gamma_may_be_a_tensor():
    cost = table(2, 3, 4, 2)
    expected = align(cost, gamma=0.37, backend="triton")
    gamma = torch.tensor(0.37, dtype=torch.float64)
    assert_close(align(cost, gamma=gamma, backend="triton"), expected)
    assert_close(align(cost, gamma=gamma, backend="native"), expected)
    parts = triton.describe_gamma(gamma)  # as on a GPU, where the number is not read
    assert_close(
        parts, torch.tensor(triton.describe_gamma(0.37), dtype=torch.float64), rtol=1e-15, atol=1e-16
    )
    found, _ = triton.align_costs(cost[:, None], None, None, gamma, 1, None, with_plan=False)
    assert_close(found[:, 0], expected)


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore")  # the compiler has warnings of its own
def test_compiled_functions_give_the_same():
    cost, query, support = (x.requires_grad_() for x in (table(2, 2, 3, 2), table(2, 2, 3), table(1, 3, 3)))

    def plain(c, q, s):
        return align(2 * c, backend="triton").sum() + 3 * distances(q, s, backend="triton").sum()

    inputs = (cost, query, support)
    expected = torch.autograd.grad(plain(*inputs), inputs)
    compiled = torch.compile(plain, fullgraph=True, backend="aot_eager")
    assert_close(torch.autograd.grad(compiled(*inputs), inputs), expected)


class LargestTensor(TorchDispatchMode):
    """Records the largest tensor that an operation returns."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else (result,):
            if isinstance(x, torch.Tensor):
                self.numbers = max(self.numbers, x.untyped_storage().nbytes() // x.element_size())
        return result


def test_distances_never_write_the_costs():
    query, support = table(4, 6, 3, 2, seed=1), table(5, 6, 2)
    costs = 4 * 5 * 6 * 6 * 3
    for backend, is_stored in (("triton", False), ("reference", True)):
        with LargestTensor() as record:
            distances(query, support, backend=backend)
        assert (record.numbers >= costs) == is_stored, backend
    assert record.numbers > 0


def test_the_interpreter_leaves_the_environment_alone():
    before = dict(os.environ)
    align(table(1, 2, 2), backend="triton")
    assert dict(os.environ) == before
    compiled, interpreted = (triton.load_kernel("align_soft", x) for x in (False, True))
    assert type(compiled).__name__ == "JITFunction"
    assert type(interpreted).__name__ == "InterpretedFunction"
