"""Numbers of floating-point operations of our operators, for torch's ``FlopCounterMode``."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

__all__ = ["register_operation_counts"]


@cache
def register_operation_counts() -> None:
    """Tell torch's ``FlopCounterMode`` the operations of our operators, and of oneDNN's. Call it before counting.

    Importing jeanie does not do this: torch's counters import Triton, which takes 75 MB of memory.
    """
    from torch.utils.flop_counter import register_flop_formula  # noqa: PLC0415

    register_flop_formula(torch.ops.jeanie.joint_mlp)(_count_forward)
    register_flop_formula(torch.ops.jeanie.joint_mlp_backward)(_count_backward)
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        register_flop_formula(torch.ops.mkldnn._linear_pointwise)(_count_linear)


def _count_products(blocks: Sequence[int], parameters: Sequence[Sequence[int]]) -> list[int]:
    """Return the floating-point operations of the matrix product of each layer."""
    rows = torch.Size(blocks).numel() // (blocks[-3] * blocks[-1])
    return [2 * rows * torch.Size(weight).numel() for weight in parameters[::4]]


def _count_forward(blocks: Any, noise: Any, epsilon: float, parameters: Any, **_: Any) -> int:
    return sum(_count_products(blocks, parameters))


def _count_backward(
    grad: Any, blocks: Any, noise: Any, epsilon: float, parameters: Any, needs_input: bool, **_: Any
) -> int:
    """Count two products per layer, but not those that compute the activations again."""
    counts = _count_products(blocks, parameters)
    return 2 * sum(counts) - (0 if needs_input else counts[0])


def _count_linear(x: Sequence[int], weight: Sequence[int], *_: Any, **__: Any) -> int:
    return 2 * torch.Size(x).numel() * weight[0]
