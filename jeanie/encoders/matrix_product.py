"""Matrix products in float32 on the CPU, by the fastest library that torch has."""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

__all__ = ["apply_linear", "is_plain_call", "multiply"]

_SMALL = 2**21  # operations; below, calling oneDNN costs more than it saves


def multiply(
    x: Float[Tensor, "*row number"],
    weight: Float[Tensor, "output number"],
    bias: Float[Tensor, " output"] | None = None,
) -> Float[Tensor, "*row output"]:
    """Return ``functional.linear(x, weight, bias)`` up to rounding, without gradients.

    On processors with AVX-512, oneDNN multiplies the matrices: MKL, which torch uses, reaches half its speed on AMD.
    """
    if x.dtype != torch.float32 or not x.is_cpu or not _has_fast_onednn():
        return functional.linear(x, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")
    return product


def apply_linear(
    x: Float[Tensor, "*row number"],
    weight: Float[Tensor, "output number"],
    bias: Float[Tensor, " output"],
) -> Float[Tensor, "*row output"]:
    """Return ``functional.linear(x, weight, bias)`` up to rounding; it and its gradients use ``multiply``."""
    if x.dtype != torch.float32 or not is_plain_call(x) or not _has_fast_onednn():
        return functional.linear(x, weight, bias)
    result = _multiply(x.flatten(0, -2), weight) + bias
    return result.view(*x.shape[:-1], -1)


def is_plain_call(x: Tensor) -> bool:
    """Return whether ``x`` is on the CPU, and nothing but autograd watches: no compiler, torch.func or autocast."""
    return (
        x.is_cpu
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and torch._C._get_tracing_state() is None
        and torch._C._functorch.maybe_current_level() is None
    )


def _multiply(x: Tensor, weight: Tensor) -> Tensor:
    product: Any = _Product
    result: Tensor = product.apply(x, weight)
    return result


class _Product(torch.autograd.Function):
    """x @ weight.T; its derivatives are products of the same kind, so they can be differentiated, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        is_small = 2 * x.numel() * len(weight) < _SMALL
        return functional.linear(x, weight) if is_small else multiply(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        return (
            _multiply(grad, weight.T) if needs_x else None,
            _multiply(grad.T, x.T) if needs_weight else None,
        )


@cache
def _has_fast_onednn() -> bool:
    """Return whether this processor has AVX-512, and torch has the operator that compiled models use for oneDNN."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
