"""Base distances between block features (METHOD section 5), precise also where features share a large offset."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.align import native
from jeanie.align.cells import BAD_FEATURES, reject

__all__ = ["METRICS", "base_distance", "base_slope", "slopes", "squared_about", "squared_distances"]

METRICS = ("euclidean", "sqeuclidean", "rbf")  # in the order of JeanieMetric, kernel/job.h

_REPAIR = 2**22  # numbers gathered at once


def _repair(out: Tensor, x: Tensor, y: Tensor, limit: Tensor) -> None:
    """Recompute entries of ``out[batch, i, j]`` below ``limit[batch, i]`` as the plain sum of squared differences."""
    rows = (out.amin(2) < limit).nonzero()
    for some in rows.split(max(1, _REPAIR // out.shape[2])):
        b, i = some.unbind(1)
        where = (out[b, i] < limit[b, i, None]).nonzero()
        for part in where.split(max(1, _REPAIR // x.shape[2])):
            row, j = part.unbind(1)
            out[b[row], i[row], j] = (x[b[row], i[row]] - y[b[row], j]).square_().sum(-1)


def squared_about(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor | None]:
    """|x|^2 + |y|^2 - 2 x y, the plain sum where that cancels, and the offset that was taken off for it, if any."""
    if not x.shape[1] or not y.shape[1] or not len(x):
        return x.new_empty(len(x), x.shape[1], y.shape[1]), None
    if x.device.type == "cpu" and native.available():
        out = native.squares(x, y, native.SMALL, may_refuse=True)
        if out is not None:
            return out, None
        middle = y.mean(1, keepdim=True)
        out = native.squares(x - middle, y - middle, native.SMALL, may_refuse=False)
        assert out is not None
        return out, middle
    middle = y.mean(1, keepdim=True)
    x, y = x - middle, y - middle
    size_x, size_y = x.square().sum(-1), y.square().sum(-1)
    if not bool(size_x.sum().isfinite()) or not bool(size_y.sum().isfinite()):
        reject(BAD_FEATURES)
    out = (size_x[:, :, None] + size_y[:, None]).baddbmm_(x, y.mT, alpha=-2)
    _repair(out, x, y, native.SMALL * (size_x + size_y.amax(1, keepdim=True)))
    return out, middle


def _squared(x: Tensor, y: Tensor) -> Tensor:
    return squared_about(x, y)[0]


_operator = torch.library.custom_op(
    "jeanie::squared_distances", _squared, mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor"
)


@_operator.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], y.shape[1])


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    if grad is None:
        return None, None
    x, y = ctx.saved_tensors
    return slopes(x, y, grad, ctx.needs_input_grad, y.mean(1, keepdim=True))


def slopes(
    x: Tensor, y: Tensor, weight: Tensor, needed: tuple[bool, bool], middle: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of sum_ij w_ij |x_i - y_j|^2: 2 (x_i sum_j w - sum_j w y_j), and the same for y, about ``middle``."""
    if middle is not None:
        x, y = x - middle, y - middle

    def slope(left: Tensor, right: Tensor, w: Tensor) -> Tensor:
        return (left * w.sum(-1, keepdim=True)).baddbmm_(w, right, beta=2, alpha=-2)

    return slope(x, y, weight) if needed[0] else None, slope(y, x, weight.mT) if needed[1] else None


def _vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, y: Tensor) -> tuple[Any, Any]:
    fold = [
        (t.expand(info.batch_size, *t.shape) if axis is None else t.movedim(axis, 0)).flatten(0, 1)
        for t, axis in zip((x, y), in_dims, strict=True)
    ]
    return squared_distances(*fold).unflatten(0, (info.batch_size, -1)), 0


class _Squared(torch.autograd.Function):
    """The operator with its derivative as torch.func sees it."""

    forward = staticmethod(_squared)
    setup_context = staticmethod(_setup)
    backward = staticmethod(_backward)
    vmap = staticmethod(_vmap)


_operator.register_autograd(_backward, setup_context=_setup)


def squared_distances(
    x: Float[Tensor, "batch left feature"], y: Float[Tensor, "batch right feature"]
) -> Float[Tensor, "batch left right"]:
    """|x_i - y_j|^2 by a matrix product; never negative, and 0 for equal features whatever offset they share."""
    run: Any = _operator if torch.compiler.is_compiling() else _Squared.apply
    out: Tensor = run(x, y)
    return out


def base_distance(squared: Float[Tensor, "*any"], metric: str, sigma: float) -> Float[Tensor, "*any"]:
    """The named distance from a squared one: |x-y|, |x-y|^2 or 2 - 2 exp(-|x-y|^2 / (2 sigma^2))."""
    if metric == "sqeuclidean":
        return squared
    if metric == "rbf":
        return -2 * torch.expm1(squared / (-2 * sigma**2))
    zero = (
        squared == 0
    )  # the root has no slope there; 0 is the subgradient that leaves equal blocks where they are
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())


def base_slope(cost: Float[Tensor, "*any"], metric: str, sigma: float) -> Float[Tensor, "*any"] | None:
    """Derivative of the named distance by the squared one, from the distance itself; None where it is 1 throughout."""
    if metric == "sqeuclidean":
        return None
    if metric == "rbf":
        return (2 - cost) / (2 * sigma**2)
    return torch.where(cost == 0, 0.0, 0.5 / cost)
