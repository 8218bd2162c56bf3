"""From features to distances in one autograd node: costs are dropped or overwritten as soon as they are used.

The composition of ``cost`` and ``operator`` gives the same numbers; it is taken where one node is not enough: under
torch.compile, torch.func, plan ``preprint``, and for second derivatives.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jeanie.align import native
from jeanie.align.alignment import align
from jeanie.align.cost import METRICS, base_distance, base_slope, slopes, squared_about, squared_distances
from jeanie.align.operator import align_table, backend_for, compute, last_pass, transformed
from jeanie.align.recursion import softmin

__all__ = ["Options", "kernel_pairs", "table"]

Lengths = tuple[Tensor | None, Tensor | None]


class Options(NamedTuple):
    """How a table of distances is computed; see ``distances``."""

    matched: bool
    metric: str
    sigma: float
    gamma: float
    shift: int
    band: float | None
    plan: str
    backend: str
    fvm: bool
    view_gamma: float


def _order(query: Tensor, support: Tensor, matched: bool) -> tuple[list[int], list[int]]:
    """Shape of the product as it lies in memory, and the permutation to (query, support, t, s, *views).

    Support blocks are outside and (query block, view) inside, which is what the kernel reads in one run.
    """
    if matched:  # [n, 1, s, *support views, t, *query views]
        shape = [len(query), 1, *support.shape[1:-1], *query.shape[1:-1]]
        t = support.dim()
        return shape, [0, 1, t, 2, *range(t + 1, len(shape)), *range(3, t)]
    # [m, s, *support views, n, t, *query views]
    shape = [*support.shape[:-1], *query.shape[:-1]]
    n = support.dim() - 1
    return shape, [n, 0, n + 1, 1, *range(n + 2, len(shape)), *range(2, n)]


def _rows(x: Tensor, matched: bool) -> Tensor:
    """Features as the rows of one matrix, or of one a pair."""
    return x.reshape(len(x) if matched else 1, -1, x.shape[-1])


def _costs(query: Tensor, support: Tensor, options: Options) -> Tensor:
    """cost[query, support, t, s, *query views, *support views]; matched pairs have a support axis of 1."""
    squared = squared_distances(_rows(support, options.matched), _rows(query, options.matched))
    return _as_cost(squared, query, support, options)


def _as_cost(squared: Tensor, query: Tensor, support: Tensor, options: Options) -> Tensor:
    shape, order = _order(query, support, options.matched)
    return base_distance(squared, options.metric, options.sigma).view(shape).permute(order)


def _composed(query: Tensor, support: Tensor, lengths: Lengths, options: Options) -> Tensor:
    cost = _costs(query, support, options)
    if options.fvm and cost.dim() > 4:
        cost = softmin(cost.flatten(4), options.view_gamma, 4)
    if options.plan == "preprint":
        flat = [None if x is None else x.reshape(-1) for x in lengths]
        value = align(
            cost.flatten(0, 1), gamma=options.gamma, shift=options.shift, band=options.band, plan="preprint",
            backend=options.backend, query_lengths=flat[0], support_lengths=flat[1],
        )  # fmt: skip
        return value.view(cost.shape[:2])
    with_plan = cost.requires_grad and torch.is_grad_enabled()
    return align_table(
        cost, *lengths, options.gamma, options.shift, options.band, options.backend, with_plan
    )[0]


def _best_views(cost: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Softmin of ``cost[query, support, t, s, *views]`` over the views, and its gradient (like cost)."""
    flat = cost.flatten(4)
    if gamma == 0:
        least, at = flat.min(4, keepdim=True)
        return least.squeeze(4), torch.zeros_like(flat).scatter_(4, at, 1.0).view(cost.shape)
    least = flat.amin(4, keepdim=True)
    share = (least - flat).div_(gamma).exp_()
    total = share.sum(4, keepdim=True)
    return (least - gamma * total.log()).squeeze(4), share.div_(total).view(cost.shape)


def _slopes_again(
    query: Tensor, support: Tensor, lengths: Lengths, options: Options, grad: Tensor
) -> Iterator[Tensor | None]:
    """Gradients that can be differentiated again: a second derivative will be asked for."""
    inputs = [x for x in (query, support) if x.requires_grad]
    value = _composed(query, support, lengths, options)
    found = iter(torch.autograd.grad(value, inputs, grad, create_graph=True))
    return (next(found) if x.requires_grad else None for x in (query, support))


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
    ) -> Tensor:
        squared, middle = squared_about(_rows(support, options.matched), _rows(query, options.matched))
        cost = _as_cost(squared, query, support, options)
        need = any(ctx.needs_input_grad)
        simple = options.metric == "sqeuclidean"
        single, share = (
            _best_views(cost, options.view_gamma) if options.fvm and cost.dim() > 4 else (cost, None)
        )
        value, plan = compute(
            single, tau, tau_, options.gamma, options.shift, options.band, options.backend, need,
            in_place=simple or single is not cost,
        )  # fmt: skip
        if share is not None and need:
            plan = share.mul_(plan.reshape(*plan.shape, *[1] * (share.dim() - 4)))
        ctx.options = options
        if need:
            ctx.save_for_backward(query, support, tau, tau_, plan, None if simple else cost, middle)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, support, tau, tau_, plan, cost, middle = ctx.saved_tensors
        options: Options = ctx.options
        if torch.is_grad_enabled():
            return (*_slopes_again(query, support, (tau, tau_), options, grad), None, None, None)
        matched = options.matched
        weight = plan
        slope = None if cost is None else base_slope(cost, options.metric, options.sigma)
        if slope is not None:
            weight = slope.mul_(plan)
        if not matched:  # a matched pair's factor is cheaper on its features
            weight = weight * grad.reshape(*grad.shape, *[1] * (weight.dim() - 2))
        _, order = _order(query, support, matched)
        inverse = sorted(range(len(order)), key=order.__getitem__)
        rows = _rows(support.detach(), matched), _rows(query.detach(), matched)
        table_ = weight.permute(inverse).reshape(len(rows[0]), rows[0].shape[1], rows[1].shape[1])
        at_support, at_query = slopes(
            *rows, table_, (ctx.needs_input_grad[1], ctx.needs_input_grad[0]), middle
        )
        both = []
        for x, g in ((query, at_query), (support, at_support)):
            if g is not None and matched:
                g = g.mul_(grad.reshape(-1, 1, 1))
            both.append(None if g is None else g.view(x.shape))
        return (*both, None, None, None)


def _full(x: Tensor, lengths: Tensor | None) -> Tensor:
    return torch.full((len(x),), x.shape[1]) if lengths is None else lengths.contiguous()


class _Pairs(torch.autograd.Function):
    """Matched pairs without views in one native call, which gives the gradients of the values along with them."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
    ) -> Tensor:
        lengths = None
        if tau is not None or tau_ is not None:
            lengths = _full(query, tau), _full(support, tau_)
        value, *grads = native.matched(
            query, support, lengths, METRICS.index(options.metric), options.sigma, options.gamma, options.band,
            ctx.needs_input_grad[:2],
        )  # fmt: skip
        ctx.options = options
        ctx.save_for_backward(query, support, tau, tau_, *grads)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, support, tau, tau_, *grads = ctx.saved_tensors
        if torch.is_grad_enabled():
            lengths = None if tau is None else tau[:, None], None if tau_ is None else tau_[:, None]
            again = _slopes_again(query, support, lengths, ctx.options, grad[:, None])
            return (*again, None, None, None)
        in_place = last_pass()
        return (*(None if g is None else native.scaled(g, grad, in_place) for g in grads), None, None, None)


def kernel_pairs(
    query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
) -> Tensor | None:
    """Distances ``[pair]`` without ever holding their costs, a few pairs at a time; None where the kernel cannot."""
    plain = query.dim() == support.dim() == 3 and options.gamma > 0 and options.plan == "smooth"
    if not plain or backend_for(query, options.backend) != "native" or transformed():
        return None
    result: Tensor = _Pairs.apply(query, support, tau, tau_, options)  # type: ignore[no-untyped-call]
    return result


def table(query: Tensor, support: Tensor, lengths: Lengths, options: Options) -> Tensor:
    """Distances ``[query, support]`` of features; ``lengths`` are tables of the same shape."""
    if transformed() or options.plan == "preprint":
        return _composed(query, support, lengths, options)
    result: Tensor = _Fused.apply(query, support, *lengths, options)  # type: ignore[no-untyped-call]
    return result
