"""The MLP per joint: the compiled kernel gives the values and gradients of torch's operations."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from jeanie.encoders import PRESETS, BlockEncoder, joint_mlp
from jeanie.encoders.joint_mlp import JointMlp
from jeanie.encoders.operation_counts import register_operation_counts
from jeanie.kernel import library
from jeanie.skeleton import LAYOUTS

pytestmark = pytest.mark.skipif(not library.is_available(), reason="needs the compiled kernel")
# frames, channels, width, and shapes of the batch: sizes below, at and above whole registers and whole tiles
SIZES = {
    "paper": (8, 3, 32, (5, 2)),
    "odd": (5, 3, 7, (13,)),
    "streams": (4, 6, 64, (2, 3)),
    "one": (1, 1, 1, (1,)),
    "tiles": (2, 3, 16, (200,)),
}
SIZE = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
DTYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def make_mlp(size, dtype=torch.float64, dropout=0.0, seed=0):
    torch.manual_seed(seed)
    frames, channels, width, _ = size
    mlp = JointMlp(frames * channels, width, dropout).to(dtype)
    with torch.no_grad():
        for weight in mlp.parameters():  # also LayerNorm and biases
            weight += 0.2 * torch.randn_like(weight)
    return mlp


def make_blocks(size, dtype=torch.float64, joints=7, seed=1):
    frames, channels, _, batch = size
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, frames, joints, channels, generator=generator, dtype=torch.float64).to(dtype)


@contextmanager
def use_torch(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(JointMlp, "_can_use_kernel", lambda *_: False)
        yield


def compute(mlp, blocks, seed=3):
    """Return the output and all gradients."""
    blocks = blocks.detach().requires_grad_()
    torch.manual_seed(seed)
    out = mlp(blocks)
    grad = torch.randn(out.shape, dtype=torch.float64).to(out.dtype)
    return [out, *torch.autograd.grad(out, [blocks, *mlp.parameters()], grad)]


def assert_same(found, expected):
    for x, y in zip(found, expected, strict=True):
        scale = y.abs().max().clamp_min(1).item()
        assert_close(x, y, rtol=0, atol=scale * (5e-5 if y.dtype == torch.float32 else 1e-12))


@SIZE
@DTYPE
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_values_and_gradients_are_those_of_torch(size, dtype, dropout, monkeypatch):
    """With dropout, too: the same seed drops the same numbers."""
    mlp, blocks = make_mlp(size, dtype, dropout), make_blocks(size, dtype)
    found = compute(mlp, blocks)
    with use_torch(monkeypatch):
        expected = compute(mlp, blocks)
    assert found[0].grad_fn.name() == "_MlpBackward"
    assert_same(found, expected)


@SIZE
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_gradient_is_the_derivative(size, dropout):
    mlp, blocks = make_mlp(size, dropout=dropout), make_blocks(size, joints=2)[:2].requires_grad_()

    def run(blocks, *_):
        torch.manual_seed(0)
        return mlp(blocks)

    assert torch.autograd.gradcheck(run, (blocks, *mlp.parameters()))


def test_the_gradient_can_be_differentiated():
    size = (2, 1, 3, (2,))
    mlp, blocks = make_mlp(size), make_blocks(size, joints=2).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda blocks, *_: mlp(blocks), (blocks, *mlp.parameters()))


def test_only_the_gradients_that_are_needed_are_returned(monkeypatch):
    size = SIZES["paper"]
    mlp, blocks = make_mlp(size), make_blocks(size)
    mlp[0].weight.requires_grad_(False)
    mlp(blocks).sum().backward()
    found = [weight.grad for weight in mlp.parameters()]
    mlp.zero_grad()
    with use_torch(monkeypatch):
        mlp(blocks).sum().backward()
    assert found[0] is None
    assert blocks.grad is None
    assert_same(found[1:], [weight.grad for weight in mlp.parameters()][1:])


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 3, 1, 2), (0, 2, 3, 1)], ids=str)
def test_blocks_may_have_any_strides(order):
    size = (5, 3, 7, (4,))
    mlp, blocks = make_mlp(size), make_blocks(size)
    inverse = sorted(range(4), key=order.__getitem__)
    strided = blocks.permute(order).contiguous().permute(inverse)
    assert_close(mlp(strided), mlp(blocks), rtol=0, atol=0)
    assert_close(mlp(blocks[:1].expand(3, -1, -1, -1)), mlp(blocks[:1].repeat(3, 1, 1, 1)), rtol=0, atol=0)


def test_results_do_not_depend_on_threads_or_on_the_batch():
    """Sums over rows have an order of their own."""
    size = (4, 3, 8, (1500,))
    mlp, blocks = make_mlp(size, torch.float32), make_blocks(size, torch.float32)
    expected = compute(mlp, blocks)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        found = compute(mlp, blocks)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
    assert torch.equal(mlp(blocks[7:8]), expected[0][7:8])


def test_nan_reaches_the_output_of_its_own_joint_only():
    size = (2, 3, 4, (3,))
    mlp, blocks = make_mlp(size), make_blocks(size)
    blocks[1, 0, 2, 1] = torch.nan
    is_nan = mlp(blocks).isnan()
    assert is_nan[1, 2].all()
    assert is_nan.sum() == 4


def test_the_torch_formula_runs_where_the_kernel_cannot(monkeypatch):
    size = SIZES["odd"]
    mlp, blocks = make_mlp(size), make_blocks(size)
    expected = mlp(blocks)

    def refuse(*_):
        raise AssertionError("the kernel ran")

    monkeypatch.setattr(joint_mlp, "run", refuse)
    with pytest.raises(AssertionError, match="the kernel ran"):
        mlp(blocks)
    with torch.autocast("cpu", torch.bfloat16):
        assert mlp(blocks).dtype == torch.float64
    assert_close(torch.func.vmap(mlp)(blocks[None])[0], expected)
    hook = mlp[3].register_forward_hook(lambda *_: None)
    assert_close(mlp(blocks), expected)
    hook.remove()
    assert mlp(blocks[:0]).shape == (0, 7, 7)
    assert mlp.half()(blocks.half()).dtype == torch.float16


@pytest.mark.plain
def test_the_compiler_sees_the_torch_formula():
    size = SIZES["paper"]
    mlp, blocks = make_mlp(size, torch.float32), make_blocks(size, torch.float32)
    compiled = torch.compile(mlp, fullgraph=True, backend="aot_eager")
    assert_same(compute(compiled, blocks), compute(mlp, blocks))


def test_counters_see_the_matrix_products(monkeypatch):
    """The kernel's backward pass computes activations again; this does not count."""
    encoder = BlockEncoder(LAYOUTS["ntu25"], config=PRESETS["small"])
    blocks = torch.randn(40, 8, 25, 3)

    register_operation_counts()

    def count():
        with FlopCounterMode(display=False) as counter:
            encoder(blocks).sum().backward()
        return counter.get_total_flops()

    found = count()
    with use_torch(monkeypatch):
        assert found == count()


def test_the_state_dict_is_that_of_a_sequence():
    mlp = JointMlp(6, 4, 0.1)
    sequence = nn.Sequential(*mlp)
    assert list(mlp.state_dict()) == list(sequence.state_dict())


PROGRAM = """
import sys, torch
from jeanie.encoders.joint_mlp import JointMlp
torch.manual_seed(0)
out = []
for dtype in (torch.float32, torch.float64):
    mlp, blocks = JointMlp(15, 9, 0.3).to(dtype), torch.randn(40, 5, 3, 3).to(dtype).requires_grad_()
    y = mlp(blocks)
    out += [y.detach(), *torch.autograd.grad(y.square().sum(), [blocks, *mlp.parameters()])]
torch.save(out, sys.argv[1])
"""


def test_all_builds_agree(tmp_path):
    results = []
    for name in ("baseline", "avx2", "avx512"):
        file = tmp_path / f"{name}.pt"
        environment = {**os.environ, "JEANIE_ISA": name}
        subprocess.run([sys.executable, "-c", PROGRAM, str(file)], check=True, env=environment)
        results.append(torch.load(file))
    for other in results[1:]:
        assert_same(other, results[0])
