"""Base distances between block features; they stay precise if all features share a large offset."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.alignment.backends import native
from jeanie.alignment.validation import BAD_FEATURES, HALF, reject
from jeanie.errors import ShapeError

__all__ = [
    "METRICS",
    "BaseDistance",
    "apply_metric",
    "compute_block_costs",
    "compute_gradients",
    "compute_squared_distances",
    "compute_squares",
    "differentiate_metric",
]

METRICS = ("euclidean", "sqeuclidean", "rbf")  # in the order of JeanieMetric, kernel/abi.h

BaseDistance = Callable[[Tensor, Tensor], Tensor]
"""A base distance from outside: blocks [batch, m, feature] and [batch, n, feature] to costs [batch, m, n]."""

_REPAIR = 2**22  # numbers gathered at once


def _disable_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Return a context in which matrix products keep the dtype of ``x``."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def _repair(out: Tensor, x: Tensor, y: Tensor, limit: Tensor) -> None:
    """Recompute entries of ``out[batch, i, j]`` below ``limit[batch, i]`` as the plain sum of squared differences."""
    rows = (out.amin(2) < limit).nonzero()
    for indices in rows.split(max(1, _REPAIR // out.shape[2])):
        b, i = indices.unbind(1)
        entries = (out[b, i] < limit[b, i, None]).nonzero()
        for part in entries.split(max(1, _REPAIR // x.shape[2])):
            row, j = part.unbind(1)
            out[b[row], i[row], j] = (x[b[row], i[row]] - y[b[row], j]).square_().sum(-1)


def compute_squares(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return |x|^2 + |y|^2 - 2 x y (the plain sum where that cancels) and the offset subtracted first, if any."""
    if not x.shape[1] or not y.shape[1] or not len(x):
        return x.new_empty(len(x), x.shape[1], y.shape[1]), None
    with _disable_autocast(x):
        if x.is_cpu and native.is_available():
            out = native.compute_squares(x, y, may_refuse=True)
            if out is not None:
                return out, None
            middle = y.mean(1, keepdim=True)
            out = native.compute_squares(x - middle, y - middle, may_refuse=False)
            assert out is not None
            return out, middle
        middle = y.mean(1, keepdim=True)
        return _compute_squares_in_torch(x - middle, y - middle), middle


def _compute_squares_in_torch(x: Tensor, y: Tensor) -> Tensor:
    size_x, size_y = x.square().sum(-1), y.square().sum(-1)
    if not bool(size_x.sum().isfinite()) or not bool(size_y.sum().isfinite()):
        reject(BAD_FEATURES)
    out = (size_x[:, :, None] + size_y[:, None]).baddbmm_(x, y.mT, alpha=-2)
    _repair(out, x, y, native.REPAIR_BELOW * (size_x + size_y.amax(1, keepdim=True)))
    return out


def _compute_squared_distance(x: Tensor, y: Tensor) -> Tensor:
    return compute_squares(x, y)[0]


_operator = torch.library.custom_op(
    "jeanie::squared_distances",
    _compute_squared_distance,
    mutates_args=(),
    schema="(Tensor x, Tensor y) -> Tensor",
)


@_operator.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], y.shape[1])


def _save_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    if grad is None:
        return None, None
    x, y = ctx.saved_tensors
    return compute_gradients(x, y, grad, ctx.needs_input_grad, y.mean(1, keepdim=True))


def compute_gradients(
    x: Tensor, y: Tensor, weight: Tensor, needs_gradient: tuple[bool, bool], middle: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of sum_ij w_ij |x_i - y_j|^2 by x and y, with ``middle`` subtracted from both first.

    The gradient by x_i is 2 (x_i sum_j w_ij - sum_j w_ij y_j).
    """
    if middle is not None:
        x, y = x - middle, y - middle

    def differentiate(left: Tensor, right: Tensor, w: Tensor) -> Tensor:
        return (left * w.sum(-1, keepdim=True)).baddbmm_(w, right, beta=2, alpha=-2)

    with _disable_autocast(x):
        return (
            differentiate(x, y, weight) if needs_gradient[0] else None,
            differentiate(y, x, weight.mT) if needs_gradient[1] else None,
        )


def _vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, y: Tensor) -> tuple[Any, Any]:
    fold = [
        (t.expand(info.batch_size, *t.shape) if axis is None else t.movedim(axis, 0)).flatten(0, 1)
        for t, axis in zip((x, y), in_dims, strict=True)
    ]
    return compute_squared_distances(*fold).unflatten(0, (info.batch_size, -1)), 0


class _Squared(torch.autograd.Function):
    """The operator and its derivative for torch.func."""

    forward = staticmethod(_compute_squared_distance)
    setup_context = staticmethod(_save_context)
    backward = staticmethod(_backward)
    vmap = staticmethod(_vmap)


_operator.register_autograd(_backward, setup_context=_save_context)


def compute_squared_distances(
    x: Float[Tensor, "batch left feature"], y: Float[Tensor, "batch right feature"]
) -> Float[Tensor, "batch left right"]:
    """Return |x_i - y_j|^2 by a matrix product; never negative, and 0 for equal features with any common offset.

    Half precision is computed and returned in float32.
    """
    x, y = (t.float() if t.dtype in HALF else t for t in (x, y))
    run: Any = _operator if torch.compiler.is_compiling() else _Squared.apply
    out: Tensor = run(x, y)
    return out


def apply_metric(squared: Float[Tensor, "*any"], metric: str, sigma: float) -> Float[Tensor, "*any"]:
    """Return the distance ``metric`` of a squared one: |x-y|, |x-y|^2 or 2 - 2 exp(-|x-y|^2 / (2 sigma^2))."""
    if metric == "sqeuclidean":
        return squared
    if metric == "rbf":
        return -2 * torch.expm1(squared / (-2 * sigma**2))
    # the root has no slope at 0; the subgradient 0 leaves equal blocks where they are
    zero = squared == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())


def differentiate_metric(
    cost: Float[Tensor, "*any"], metric: str, sigma: float
) -> Float[Tensor, "*any"] | None:
    """Return the derivative of ``metric`` by the squared distance, from the distance itself; None if it is always 1."""
    if metric == "sqeuclidean":
        return None
    if metric == "rbf":
        return (2 - cost) / (2 * sigma**2)
    return torch.where(cost == 0, 0.0, 0.5 / cost)


def compute_block_costs(
    x: Float[Tensor, "batch left feature"],
    y: Float[Tensor, "batch right feature"],
    metric: str | BaseDistance,
    sigma: float,
) -> Float[Tensor, "batch left right"]:
    """Return the base distance of every block of ``x`` and every block of ``y``.

    Raises:
        ShapeError: A base distance from outside returns another shape.
    """
    if isinstance(metric, str):
        return apply_metric(compute_squared_distances(x, y), metric, sigma)
    costs, expected = metric(x, y), (*x.shape[:2], y.shape[1])
    if not isinstance(costs, Tensor) or costs.shape != expected:
        actual = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
        raise ShapeError(
            f"metric got blocks of shape {tuple(x.shape)} and {tuple(y.shape)} and needs to return costs of shape "
            f"{expected}, like torch.cdist, got {actual}"
        )
    return costs
