"""Random calls: the kernel gives what the torch backend gives, or both refuse with the same error.

``JEANIE_RANDOM_CASES`` sets the number of calls per test; ``sanitized.py`` runs thousands of them.
"""

import os
import random

import pytest
import torch
from torch.testing import assert_close

from jeanie import JeanieError, align, distances, fvm, trace

COUNT = int(os.environ.get("JEANIE_RANDOM_CASES", "60"))
VIEWS = [(), (), (1,), (3,), (5,), (2, 3), (7, 7), (1, 4), (2, 1, 3), (2, 2, 1, 3)]
GAMMAS = [0.0, 1e-4, 0.01, 0.01, 0.3, 10.0]
BANDS = [None, None, 0.0, 0.05, 0.2, 0.34, 0.5, 1.0, 3.0]


def numbers(draw, shape, dtype):
    """Return random numbers in memory of random layout: dense, transposed, expanded, or part of a larger tensor."""
    generator = torch.Generator().manual_seed(draw.randrange(10**6))
    scale = draw.choice([1e-3, 1.0, 1.0, 30.0])

    def draw_tensor(*sizes):
        return torch.rand(*sizes, generator=generator, dtype=torch.float64).mul(scale).to(dtype)

    layout = draw.choice(["dense", "permuted", "expanded", "sliced", "strided", "negative"])
    if layout == "permuted":
        order = draw.sample(range(len(shape)), len(shape))
        inverse = [order.index(i) for i in range(len(shape))]
        return draw_tensor(*[shape[i] for i in order]).permute(inverse)
    if layout == "expanded":
        axis = draw.randrange(len(shape))
        return draw_tensor(*[1 if i == axis else n for i, n in enumerate(shape)]).expand(shape)
    if layout == "sliced":
        return draw_tensor(*[n + draw.randrange(3) for n in shape])[tuple(slice(n) for n in shape)]
    if layout == "strided":  # overlapping windows of a short run of numbers
        strides = [draw.randrange(3) for _ in shape]
        size = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        return draw_tensor(size + 2).as_strided(shape, strides, 2)
    if layout == "negative":  # a lazy negative, whose memory holds the other sign
        complex_ = torch.complex(draw_tensor(*shape), -draw_tensor(*shape))
        return complex_.conj().imag
    return draw_tensor(*shape)


def lengths(draw, count, longest):
    if draw.random() < 0.4:
        return None
    values = [draw.randint(1, longest) for _ in range(count)]
    return draw.choice([values, torch.tensor(values), torch.tensor(values * 2)[:count]])


def run(function, tensors, options, backend, with_gradient):
    """Return value and gradients, or the class and message of the error."""
    leaves = [x.detach().requires_grad_(with_gradient) for x in tensors]
    try:
        value = function(*leaves, backend=backend, **options)
        if not with_gradient:
            return value, ()
        weight = torch.linspace(-1, 2, value.numel(), dtype=value.dtype).view(value.shape)
        return value.detach(), torch.autograd.grad(value, leaves, weight)
    except JeanieError as error:
        return type(error), str(error)


def assert_backends_agree(function, tensors, options, with_gradient, scale):
    """``scale`` bounds the gradient: its error is a share of it, over gamma."""
    found = run(function, tensors, options, "native", with_gradient)
    expected = run(function, tensors, options, "reference", with_gradient)
    if isinstance(expected[0], type):
        assert found == expected
        return
    assert not isinstance(found[0], type), found
    wide = tensors[0].dtype == torch.float64
    assert_close(found[0], expected[0], rtol=1e-9 if wide else 1e-4, atol=(1e-9 if wide else 1e-4) * scale)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        assert ours.isfinite().all()
        if options["gamma"] > 0:  # a hard plan may choose another of two equal paths
            limit = (1e-8 if wide else 1e-3) * scale / min(1.0, options["gamma"] * 100)
            assert_close(ours, theirs, rtol=0, atol=limit)


@pytest.mark.parametrize("seed", range(4))
def test_random_costs(seed):
    draw = random.Random(seed)
    for _ in range(COUNT):
        pairs, rows, columns = draw.choice([1, 2, 7, 9, 17]), draw.randint(1, 11), draw.randint(1, 11)
        shape = (pairs, rows, columns, *draw.choice(VIEWS))
        cost = numbers(draw, shape, draw.choice([torch.float32, torch.float64]))
        options = {
            "gamma": draw.choice(GAMMAS),
            "band": draw.choice(BANDS),
            "query_lengths": lengths(draw, pairs, rows),
            "support_lengths": lengths(draw, pairs, columns),
        }
        function = draw.choice([align, align, fvm])
        if function is align:
            options["shift"] = draw.choice([0, 1, 2, 3, 100])
        else:
            options["view_gamma"] = draw.choice([None, 0.0, 0.2])
        assert_backends_agree(function, [cost], options, draw.random() < 0.6, 1 + cost.abs().max().item())


@pytest.mark.parametrize("seed", range(4))
def test_random_features(seed):
    draw = random.Random(seed)
    for _ in range(COUNT):
        pairs, others = draw.choice([1, 2, 9, 17]), draw.choice([1, 3, 8])
        rows, columns, width = draw.randint(1, 11), draw.randint(1, 11), draw.choice([1, 3, 8, 19])
        views, dtype = draw.choice([(), (), (3,), (2, 2)]), draw.choice([torch.float32, torch.float64])
        own = draw.choice([(), tuple(reversed(views))])
        matched = draw.random() < 0.6
        others = pairs if matched else others
        query = numbers(draw, (pairs, rows, *views, width), dtype)
        support = numbers(draw, (others, columns, *own, width), dtype)
        options = {
            "metric": draw.choice(["euclidean", "sqeuclidean", "rbf"]),
            "gamma": draw.choice([g for g in GAMMAS if g != 1e-4]),
            "shift": draw.choice([0, 1, 2, 100]),
            "band": draw.choice(BANDS),
            "normalise": draw.choice([None, "length", "area", "divergence"]),
            "pairs": "matched" if matched else "all",
            "matching": draw.choice(["jeanie", "jeanie", "fvm"]),
            "query_lengths": lengths(draw, pairs, rows),
            "support_lengths": lengths(draw, others, columns),
        }
        size = max(query.abs().max().item(), support.abs().max().item())
        # the root of a rounding error is far from 0, and its slope is unbounded
        with_gradient = draw.random() < 0.6 and options["metric"] != "euclidean"
        scale = (1 + size) * (1 + size) * width * (rows + columns)
        assert_backends_agree(distances, [query, support], options, with_gradient, scale)


def trace_costs(cost, options, backend):
    """Return the cost of every best path, or the error message."""
    try:
        return [x.steps.sum() for x in trace(cost, backend=backend, **options)]
    except JeanieError as error:
        return str(error)


def test_random_paths():
    draw = random.Random(0)
    for _ in range(COUNT):
        pairs, rows, columns = draw.choice([1, 2, 9]), draw.randint(1, 9), draw.randint(1, 9)
        cost = numbers(draw, (pairs, rows, columns, *draw.choice(VIEWS[:8])), torch.float64)
        options = {
            "shift": draw.choice([0, 1, 2]),
            "band": draw.choice(BANDS),
            "query_lengths": lengths(draw, pairs, rows),
            "support_lengths": lengths(draw, pairs, columns),
        }
        found, expected = (trace_costs(cost, options, backend) for backend in ("native", "reference"))
        if isinstance(expected, str):
            assert found == expected
        else:
            assert_close(found, expected)
