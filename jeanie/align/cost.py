"""Base distances between block features (METHOD section 5), precise also where features share a large offset."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.errors import ShapeError

__all__ = ["METRICS", "base_distance", "squared_distances"]

METRICS = ("euclidean", "sqeuclidean", "rbf")

# A matrix product leaves an error of about 1e-7 of |x|^2 + |y|^2; what is smaller than this share of it is recomputed.
_SMALL = 4e-3
_REPAIR = 2**22  # numbers gathered at once for that


def _repair(out: Tensor, x: Tensor, y: Tensor, limit: Tensor) -> None:
    """Recompute entries of ``out[batch, i, j]`` below ``limit[batch, i]`` as the plain sum of squared differences."""
    where = (out < limit[..., None]).nonzero()
    for part in where.split(max(1, _REPAIR // max(1, x.shape[-1]))):
        b, i, j = part.unbind(1)
        out[b, i, j] = (x[b, i] - y[b, j]).square_().sum(-1)


@torch.library.custom_op(
    "jeanie::squared_distances", mutates_args=(), schema="(Tensor x, Tensor y) -> (Tensor, Tensor, Tensor)"
)
def _squared(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Squared distances, and both inputs without their common offset (for the gradient)."""
    if not bool(x.isfinite().all()) or not bool(y.isfinite().all()):
        raise ShapeError(
            "features need finite numbers, got NaN or infinity; "
            "mask missing blocks by query_lengths and support_lengths, or repair the features"
        )
    offset = y.mean(1, keepdim=True) if y.shape[1] else 0.0
    x, y = x - offset, y - offset
    size_x, size_y = x.square().sum(-1), y.square().sum(-1)
    # |x|^2 + |y|^2 - 2 x y in one product: [x, |x|^2, 1] [-2 y, 1, |y|^2]
    left = torch.cat([x, size_x[..., None], torch.ones_like(size_x)[..., None]], -1)
    right = torch.cat([-2 * y, torch.ones_like(size_y)[..., None], size_y[..., None]], -1)
    out = left @ right.mT
    if out.numel():
        _repair(out, x, y, _SMALL * (size_x + size_y.amax(1, keepdim=True)))
    return out, x, y


@_squared.register_fake
def _(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape[0], x.shape[1], y.shape[1]), torch.empty_like(x), torch.empty_like(y)


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """d/dx of sum_j g |x - y_j|^2 = 2 (x sum_j g - sum_j g y_j), about the common offset."""
    if grad is None:
        return None, None
    x, y = ctx.saved_tensors
    offset = y.detach().mean(1, keepdim=True)
    x, y = x - offset, y - offset
    return (
        2 * (x * grad.sum(2)[..., None] - grad @ y),
        2 * (y * grad.sum(1)[..., None] - grad.mT @ x),
    )


def _vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, y: Tensor) -> tuple[Any, Any]:
    fold = [
        (t.expand(info.batch_size, *t.shape) if axis is None else t.movedim(axis, 0)).flatten(0, 1)
        for t, axis in zip((x, y), in_dims, strict=True)
    ]
    return tuple(t.unflatten(0, (info.batch_size, -1)) for t in _squared(*fold)), (0, 0, 0)


_squared.register_autograd(_backward, setup_context=_setup)
_squared.register_vmap(_vmap)


def squared_distances(
    x: Float[Tensor, "batch left feature"], y: Float[Tensor, "batch right feature"]
) -> Float[Tensor, "batch left right"]:
    """|x_i - y_j|^2 by a matrix product; never negative, and 0 for equal features whatever offset they share."""
    out: Tensor = _squared(x, y)[0]
    return out


def base_distance(squared: Float[Tensor, "*any"], metric: str, sigma: float) -> Float[Tensor, "*any"]:
    """The named distance from a squared one: |x-y|, |x-y|^2 or 2 - 2 exp(-|x-y|^2 / (2 sigma^2))."""
    if metric == "sqeuclidean":
        return squared
    if metric == "rbf":
        return -2 * torch.expm1(squared / (-2 * sigma**2))
    zero = squared == 0  # the root has no slope there; 0 is the subgradient that leaves equal blocks where they are
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())
