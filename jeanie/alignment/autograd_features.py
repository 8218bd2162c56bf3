"""From features to distances in one autograd node: costs are freed or overwritten as soon as they are used.

``base_distance`` followed by ``autograd.align_table`` gives the same numbers. That composition runs where one node is
not enough: under torch.compile and torch.func, for plan ``preprint``, and for second derivatives.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jeanie.alignment.api import align
from jeanie.alignment.autograd import (
    Number,
    align_table,
    compute,
    is_last_pass,
    is_transformed,
)
from jeanie.alignment.backends import native, triton
from jeanie.alignment.backends.torch_recursion import softmin
from jeanie.alignment.base_distance import (
    METRICS,
    BaseDistance,
    apply_metric,
    compute_block_costs,
    compute_gradients,
    compute_squares,
    differentiate_metric,
)
from jeanie.alignment.selection import select_backend, select_for_features

__all__ = ["Options", "compute_pairs", "compute_table"]

Lengths = tuple[Tensor | None, Tensor | None]


class Options(NamedTuple):
    """The options of ``distances`` that every chunk needs."""

    matched: bool
    metric: str | BaseDistance
    sigma: float
    gamma: Number
    shift: int
    band: float | None
    plan: str
    backend: str
    fvm: bool
    view_gamma: Number


def _plan_layout(query: Tensor, support: Tensor, matched: bool) -> tuple[list[int], list[int]]:
    """Return the shape of the product in memory and the permutation to (query, support, t, s, *views).

    Support blocks are the outer axis and (query block, view) the inner ones: the kernel reads them in one run.
    """
    if matched:  # [n, 1, s, *support views, t, *query views]
        shape = [len(query), 1, *support.shape[1:-1], *query.shape[1:-1]]
        t = support.dim()
        return shape, [0, 1, t, 2, *range(t + 1, len(shape)), *range(3, t)]
    # [m, s, *support views, n, t, *query views]
    shape = [*support.shape[:-1], *query.shape[:-1]]
    n = support.dim() - 1
    return shape, [n, 0, n + 1, 1, *range(n + 2, len(shape)), *range(2, n)]


def _flatten_rows(x: Tensor, matched: bool) -> Tensor:
    """Return the features as the rows of one matrix, or of one matrix per pair."""
    return x.reshape(len(x) if matched else 1, -1, x.shape[-1])


def _arrange_cost(rows: Tensor, query: Tensor, support: Tensor, options: Options) -> Tensor:
    """Return cost[query, support, t, s, *query views, *support views]; matched pairs have one support each."""
    shape, order = _plan_layout(query, support, options.matched)
    return rows.view(shape).permute(order)


def _compute_rows(query: Tensor, support: Tensor, options: Options) -> Tensor:
    """Return the costs of all rows of supports and queries; a base distance from outside gets queries first."""
    left, right = _flatten_rows(support, options.matched), _flatten_rows(query, options.matched)
    if isinstance(options.metric, str):
        return compute_block_costs(left, right, options.metric, options.sigma)
    return compute_block_costs(right, left, options.metric, options.sigma).mT.contiguous()


def _get_metric_name(options: Options) -> str:
    """Return the name of the base distance; one from outside has none and only runs in ``_compose``."""
    assert isinstance(options.metric, str)
    return options.metric


def _compose(query: Tensor, support: Tensor, lengths: Lengths, options: Options) -> Tensor:
    cost = _arrange_cost(_compute_rows(query, support, options), query, support, options)
    if options.fvm and cost.dim() > 4:
        cost = softmin(cost.flatten(4), float(options.view_gamma), 4)
    if options.plan == "preprint":
        flat = [None if x is None else x.reshape(-1) for x in lengths]
        value = align(
            cost.flatten(0, 1), gamma=float(options.gamma), shift=options.shift, band=options.band, plan="preprint",
            backend=options.backend, query_lengths=flat[0], support_lengths=flat[1],
        )  # fmt: skip
        return value.view(cost.shape[:2])
    with_plan = cost.requires_grad and torch.is_grad_enabled()
    return align_table(
        cost, *lengths, options.gamma, options.shift, options.band, options.backend, with_plan
    )[0]


def _merge_views(cost: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Return the softmin of ``cost[query, support, t, s, *views]`` over the views and its gradient (like cost)."""
    flat = cost.flatten(4)
    if gamma == 0:
        least, index = flat.min(4, keepdim=True)
        return least.squeeze(4), torch.zeros_like(flat).scatter_(4, index, 1.0).view(cost.shape)
    least = flat.amin(4, keepdim=True)
    share = (least - flat).div_(gamma).exp_()
    total = share.sum(4, keepdim=True)
    return (least - gamma * total.log()).squeeze(4), share.div_(total).view(cost.shape)


def _compute_differentiable_gradients(
    query: Tensor, support: Tensor, lengths: Lengths, options: Options, grad: Tensor
) -> Iterator[Tensor | None]:
    """Yield gradients that can be differentiated again, for a second derivative."""
    inputs = [x for x in (query, support) if x.requires_grad]
    value = _compose(query, support, lengths, options)
    grads = iter(torch.autograd.grad(value, inputs, grad, create_graph=True))
    return (next(grads) if x.requires_grad else None for x in (query, support))


def _find_fused_shift(query: Tensor, support: Tensor, options: Options, with_plan: bool) -> int | None:
    """Return the shift for the Triton kernel that computes the costs itself, or None if it cannot.

    Free viewpoint matching with one temperature is a shift over the whole grid.
    """
    if select_for_features(query, support, options.backend) != "triton":
        return None
    if with_plan and not isinstance(options.gamma, Tensor) and options.gamma == 0:
        return None
    if not options.fvm:
        return options.shift
    is_same = options.view_gamma is options.gamma or (
        not isinstance(options.gamma, Tensor) and options.view_gamma == options.gamma
    )
    return max((*query.shape[2:-1], *support.shape[2:-1]), default=0) if is_same else None


def _run_fused(
    query: Tensor, support: Tensor, lengths: Lengths, options: Options, shift: int, with_plan: bool
) -> tuple[Tensor, Tensor | None, None, Tensor | None]:
    """Return the distances and, for their gradient, the plan times the slope of the metric, and an offset."""
    plan = middle = None
    if with_plan:
        shape, order = _plan_layout(query, support, options.matched)
        plan = torch.zeros(shape, dtype=query.dtype, device=query.device).permute(order)
        middle = _flatten_rows(query, options.matched).mean(1, keepdim=True)
    value = triton.align_features(
        query, support, lengths, _get_metric_name(options), options.sigma, options.gamma, shift, options.band, plan,
        options.matched,
    )  # fmt: skip
    return value, plan, None, middle


def _run_table(
    query: Tensor, support: Tensor, lengths: Lengths, options: Options, with_plan: bool
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Return the distances ``[query, support]`` and, for their gradient, plan, cost and subtracted offset."""
    shift = _find_fused_shift(query, support, options, with_plan)
    if shift is not None:
        return _run_fused(query, support, lengths, options, shift, with_plan)
    squared, middle = compute_squares(
        _flatten_rows(support, options.matched), _flatten_rows(query, options.matched)
    )
    rows = apply_metric(squared, _get_metric_name(options), options.sigma)
    cost = _arrange_cost(rows, query, support, options)
    single, share = cost, None
    if options.fvm and cost.dim() > 4:
        single, share = _merge_views(cost, float(options.view_gamma))
    is_plain = options.metric == "sqeuclidean"  # backward does not need the cost
    value, plan = compute(
        single, *lengths, options.gamma, options.shift, options.band, options.backend, with_plan,
        in_place=is_plain or single is not cost,
    )  # fmt: skip
    if share is not None and plan is not None:
        plan = share.mul_(plan.reshape(*plan.shape, *[1] * (share.dim() - 4)))
    return value, plan, None if is_plain else cost, middle


class _FeatureTable(torch.autograd.Function):
    """Distances ``[query, support]`` of features."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
    ) -> Tensor:
        value, *saved = _run_table(query, support, (tau, tau_), options, with_plan=True)
        ctx.options = options
        ctx.save_for_backward(query, support, tau, tau_, *saved)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, support, tau, tau_, plan, cost, middle = ctx.saved_tensors
        options: Options = ctx.options
        if torch.is_grad_enabled():
            grads = _compute_differentiable_gradients(query, support, (tau, tau_), options, grad)
            return (*grads, *[None] * 3)
        matched = options.matched
        weight = plan
        slope = None if cost is None else differentiate_metric(cost, _get_metric_name(options), options.sigma)
        if slope is not None:
            weight = slope.mul_(plan)
        if not matched:  # a matched pair's factor is cheaper on its features
            weight = weight * grad.reshape(*grad.shape, *[1] * (weight.dim() - 2))
        _, order = _plan_layout(query, support, matched)
        inverse = sorted(range(len(order)), key=order.__getitem__)
        rows = _flatten_rows(support.detach(), matched), _flatten_rows(query.detach(), matched)
        table = weight.permute(inverse).reshape(len(rows[0]), rows[0].shape[1], rows[1].shape[1])
        needs_gradient = ctx.needs_input_grad[1], ctx.needs_input_grad[0]
        grad_support, grad_query = compute_gradients(*rows, table, needs_gradient, middle)
        gradients = []
        for x, g in ((query, grad_query), (support, grad_support)):
            if g is not None and matched:
                g = g.mul_(grad.reshape(-1, 1, 1))
            gradients.append(None if g is None else g.view(x.shape))
        return (*gradients, *[None] * 3)


def _fill_lengths(x: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is not None:
        return lengths.contiguous()
    return torch.full((len(x),), x.shape[1], dtype=torch.int64, device=x.device)


def _run_pairs(
    query: Tensor, support: Tensor, lengths: Lengths, options: Options, needs_gradient: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the distances ``[pair]`` and the gradients by query and support that are needed."""
    tau, tau_ = lengths
    counts = None
    if tau is not None or tau_ is not None:
        counts = _fill_lengths(query, tau), _fill_lengths(support, tau_)
    metric = METRICS.index(_get_metric_name(options))
    return native.align_matched(
        query, support, counts, metric, options.sigma, float(options.gamma), options.band, needs_gradient
    )


class _FeaturePairs(torch.autograd.Function):
    """Matched pairs without views in one native call, which returns values and gradients together."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
    ) -> Tensor:
        value, *grads = _run_pairs(query, support, (tau, tau_), options, ctx.needs_input_grad[:2])
        ctx.options = options
        ctx.save_for_backward(query, support, tau, tau_, *grads)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, support, tau, tau_, *grads = ctx.saved_tensors
        if torch.is_grad_enabled():
            lengths = None if tau is None else tau[:, None], None if tau_ is None else tau_[:, None]
            grads = _compute_differentiable_gradients(query, support, lengths, ctx.options, grad[:, None])
        else:
            in_place = is_last_pass()
            grads = (None if g is None else native.scale_rows(g, grad, in_place) for g in grads)
        return (*grads, *[None] * 3)


def _needs_graph(query: Tensor, support: Tensor) -> bool:
    return torch.is_grad_enabled() and (query.requires_grad or support.requires_grad)


def compute_pairs(query: Tensor, support: Tensor, lengths: Lengths, options: Options) -> Tensor | None:
    """Return distances ``[pair]`` without storing their costs, or None if the kernel cannot compute them."""
    plain = query.dim() == support.dim() == 3 and options.plan == "smooth"
    plain = plain and isinstance(options.metric, str)
    if not plain or select_backend(query, options.backend) != "native" or is_transformed():
        return None
    if options.gamma == 0:
        return None
    if not _needs_graph(query, support):
        return _run_pairs(query, support, lengths, options, (False, False))[0]
    result: Tensor = _FeaturePairs.apply(query, support, *lengths, options)  # type: ignore[no-untyped-call]
    return result


def compute_table(query: Tensor, support: Tensor, lengths: Lengths, options: Options) -> Tensor:
    """Return distances ``[query, support]`` of features; ``lengths`` have the same shape."""
    if is_transformed() or options.plan == "preprint" or not isinstance(options.metric, str):
        return _compose(query, support, lengths, options)
    if not _needs_graph(query, support):
        return _run_table(query, support, lengths, options, with_plan=False)[0]
    result: Tensor = _FeatureTable.apply(query, support, *lengths, options)  # type: ignore[no-untyped-call]
    return result
