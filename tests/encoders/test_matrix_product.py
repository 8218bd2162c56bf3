"""Linear maps by oneDNN: the values and gradients of torch's own, wherever they run."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from jeanie.encoders import matrix_product
from jeanie.encoders.matrix_product import apply_linear
from jeanie.encoders.operation_counts import register_operation_counts


def make_layer(*shape, outputs=50, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(*size, generator=generator).to(dtype).requires_grad_()
        for size in (shape, (outputs, shape[-1]), (outputs,))
    )
    return x, weight, bias


def compute(function, layer):
    out = function(*layer)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    return [out, *torch.autograd.grad(out, layer, grad)]


@pytest.mark.parametrize("shape", [(3, 4), (700, 5, 64), (2000, 64), (1, 64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_those_of_torch(shape, dtype):
    layer = make_layer(*shape, dtype=dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for found, expected in zip(compute(apply_linear, layer), compute(functional.linear, layer), strict=True):
        assert_close(found, expected, rtol=0, atol=tolerance * max(1, float(expected.detach().abs().max())))


def test_the_gradient_can_be_differentiated():
    layer = make_layer(600, 64)
    results = []
    for function in (apply_linear, functional.linear):
        first = torch.autograd.grad(function(*layer).square().sum(), layer, create_graph=True)
        results.append(torch.autograd.grad(sum(x.square().sum() for x in first), layer))
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_autocast_and_torch_func_use_torch():
    x, weight, bias = (tensor.detach() for tensor in make_layer(4, 6))
    with torch.autocast("cpu", torch.bfloat16):
        assert apply_linear(x, weight, bias).dtype == torch.bfloat16
    found = torch.func.vmap(apply_linear, in_dims=(0, None, None))(x[:, None], weight, bias)
    assert_close(found[:, 0], functional.linear(x, weight, bias))


def test_counters_see_the_products(monkeypatch):
    layer = make_layer(600, 64)

    register_operation_counts()

    def count():
        with FlopCounterMode(display=False) as counter:
            apply_linear(*layer).sum().backward()
        return counter.get_total_flops()

    found = count()
    monkeypatch.setattr(matrix_product, "_has_fast_onednn", lambda: False)
    assert found == count() == 3 * 2 * 600 * 64 * 50


def test_jeanie_does_not_import_what_only_counters_need():
    """Triton takes 75 MB of memory in every process."""
    names = {"triton", "torch.utils.flop_counter"}
    command = f"import sys, jeanie.recogniser.search.find; print({names} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
