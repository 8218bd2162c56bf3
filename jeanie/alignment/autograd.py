"""Alignment of costs as one torch operator: autograd, second derivatives, vmap and torch.compile see a single node.

``jeanie::align`` maps cost ``[query, support, t, s, *views]`` to its value ``[query, support]`` and its plan (like
cost; empty if not requested). The plan is the gradient of the value, so backward is one product. A second backward goes
through the plan and uses ``torch_recursion.multiply_by_hessian``.
"""

import math
from typing import Any

import torch
from torch import Tensor

from jeanie.alignment.backends import native, torch_recursion, torch_wavefront, triton
from jeanie.alignment.backends.gamma import split_gamma
from jeanie.alignment.selection import select_for_costs
from jeanie.alignment.validation import (
    NO_PATH,
    NOT_FINITE,
    check_lengths,
    find_allowed_cells,
    reject,
    reject_large_costs,
)

__all__ = [
    "Number",
    "align_table",
    "align_values",
    "compute",
    "is_last_pass",
    "is_transformed",
]

Number = float | Tensor
"""A temperature: a number, or a tensor of one number, which the Triton kernel reads on its device."""

_SCHEMA = (
    "(Tensor cost, Tensor? query_lengths, Tensor? support_lengths, float gamma, int shift, float? band, "
    "str backend, bool with_plan) -> (Tensor, Tensor)"
)


def _flatten_lengths(lengths: Tensor | None, axis: int, cost: Tensor) -> Tensor:
    """Return one length per pair; None means the size of ``axis``."""
    if lengths is not None:
        return lengths.reshape(-1).to(torch.int64).contiguous()
    pairs = cost.shape[0] * cost.shape[1]
    return torch.full((pairs,), cost.shape[axis], dtype=torch.int64, device=cost.device)


def _find_cells(
    cost: Tensor, query_lengths: Tensor | None, support_lengths: Tensor | None, band: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the allowed cells and both lengths of every pair, for the torch recursions."""
    lengths = _flatten_lengths(query_lengths, 2, cost), _flatten_lengths(support_lengths, 3, cost)
    return find_allowed_cells((cost.shape[2], cost.shape[3]), *lengths, band), *lengths


def _compute_reference(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: float,
    shift: int,
    band: float | None,
    with_plan: bool,
) -> tuple[Tensor, Tensor | None]:
    cells, tau, tau_ = _find_cells(cost, query_lengths, support_lengths, band)
    flat = cost.flatten(0, 1)
    mask = cells.reshape(*cells.shape, *[1] * (flat.dim() - 3))
    largest = float(torch.where(mask, flat, 0.0).abs().max())  # NaN stays NaN
    if not math.isfinite(largest):
        reject(NOT_FINITE)
    if gamma > 0:
        exponent = largest * abs(split_gamma(gamma, torch.float64).scale_hi)
        if not (
            exponent < 2.0**34 and exponent * (cost.shape[2] + cost.shape[3]) < 2.0**50
        ):  # as in kernel/sweep.h
            reject_large_costs(gamma)
        value, plan = torch_wavefront.align_soft(flat, cells, tau, tau_, gamma, shift, with_plan)
    else:
        with torch.enable_grad():
            leaf = flat.detach().double().requires_grad_()
            value = torch_recursion.align_smooth(leaf, cells, tau, tau_, 0.0, shift)
            if bool(value.isinf().any()):
                reject(NO_PATH)
            plan = torch.autograd.grad(value.sum(), leaf)[0].to(cost.dtype) if with_plan else None
            value = value.detach().to(cost.dtype)
    return value.view(cost.shape[:2]), None if plan is None else plan.view(cost.shape)


def compute(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: Number,
    shift: int,
    band: float | None,
    backend: str,
    with_plan: bool,
    in_place: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return value and plan (None without ``with_plan``) from the selected backend, without autograd.

    ``in_place`` lets the plan overwrite the cost.
    """
    selected = select_for_costs(cost, backend)
    waits = selected != "triton" or cost.device.type == "cpu"
    for lengths, axis, name in ((query_lengths, 2, "query_lengths"), (support_lengths, 3, "support_lengths")):
        if lengths is not None and waits:
            check_lengths(lengths, cost.shape[axis], name)
    if not cost.shape[0] or not cost.shape[1]:
        return cost.new_empty(cost.shape[:2]), torch.empty_like(cost) if with_plan else None
    if selected == "triton":
        return triton.align_costs(
            cost.detach(), query_lengths, support_lengths, gamma, shift, band, with_plan
        )
    gamma = float(gamma)
    if selected == "reference":
        return _compute_reference(cost, query_lengths, support_lengths, gamma, shift, band, with_plan)
    pair_lengths = None
    if query_lengths is not None or support_lengths is not None:
        pair_lengths = _flatten_lengths(query_lengths, 2, cost), _flatten_lengths(support_lengths, 3, cost)
    return native.align_costs(cost.detach(), pair_lengths, gamma, shift, band, with_plan, in_place)


def _compute_both(cost: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    """Return ``compute`` with an empty tensor for a plan that is not requested: operators return tensors."""
    value, plan = compute(cost, *options)
    return value, cost.new_empty(0) if plan is None else plan


def _compute_for_compiler(cost: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    """Return ``_compute_both`` with the strides that the operator declares to the compiler."""
    value, plan = _compute_both(cost, *options)
    promised = torch.empty_like(cost)
    if plan.shape == cost.shape and plan.stride() != promised.stride():
        plan = promised.copy_(plan)
    return value, plan


# torch.compile sees one opaque operator; eager calls go straight to compute, without loading the compiler
_operator = torch.library.custom_op("jeanie::align", _compute_for_compiler, mutates_args=(), schema=_SCHEMA)


@_operator.register_fake
def _(cost: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    return cost.new_empty(cost.shape[:2]), torch.empty_like(cost) if options[-1] else cost.new_empty(0)


def _save_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    cost, query_lengths, support_lengths, *ctx.options = inputs
    ctx.save_for_backward(cost, query_lengths, support_lengths, output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_value: Tensor | None, grad_plan: Tensor | None) -> tuple[Tensor | None, ...]:
    cost, query_lengths, support_lengths, plan = ctx.saved_tensors
    gamma, shift, band, backend, with_plan = ctx.options
    grad: Tensor | None = None
    if grad_value is not None:
        if not with_plan:
            _, plan = align_table(cost, query_lengths, support_lengths, gamma, shift, band, backend, True)
        grad = _scale_plan(plan, grad_value)
    if grad_plan is not None and with_plan and gamma > 0:  # a hard plan is piecewise constant
        cells, tau, tau_ = _find_cells(cost, query_lengths, support_lengths, band)

        def value(wide: Tensor) -> Tensor:
            return torch_recursion.align_smooth(wide.flatten(0, 1), cells, tau, tau_, gamma, shift)

        second = torch_recursion.multiply_by_hessian(value, cost, grad_plan)
        grad = second if grad is None else grad + second
    return (grad, *[None] * 7)


def is_transformed() -> bool:
    """Return whether torch.compile or torch.func traces this call; they see only torch's own operators."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None


def is_last_pass() -> bool:
    """Return whether the running backward pass frees its graph, so that it may overwrite the tensors it saved."""
    keeps_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return keeps_graph is not None and not keeps_graph()


def _scale_plan(plan: Tensor, grad: Tensor, in_place: bool = False) -> Tensor:
    """Return the plan of every pair times its gradient; the product is as large as all costs."""
    grad = grad.reshape(*grad.shape, *[1] * (plan.dim() - 2))
    if in_place:
        return plan.mul_(grad)
    if torch.is_grad_enabled() or is_transformed():
        return plan * grad
    return torch.mul(plan, grad, out=native.allocate_like(plan))


def _vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, tuple[int, int]]:
    """Merge the vmapped axis with the queries."""

    def fold(x: Tensor | None, axis: int | None) -> Tensor | None:
        if x is None:
            return None
        x = x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
        return x.flatten(0, 1)

    tensors: list[Any] = [fold(x, axis) for x, axis in zip(inputs[:3], in_dims[:3], strict=True)]
    value, plan = align_table(*tensors, *inputs[3:])
    unfold = (info.batch_size, -1)
    plan = plan.unflatten(0, unfold) if inputs[-1] else plan.expand(info.batch_size, *plan.shape)
    return (value.unflatten(0, unfold), plan), (0, 0)


class _Align(torch.autograd.Function):
    """The operator and its derivative for torch.func: vmap, grad and jacrev compose."""

    forward = staticmethod(_compute_both)
    setup_context = staticmethod(_save_context)
    backward = staticmethod(_backward)
    vmap = staticmethod(_vmap)


_operator.register_autograd(_backward, setup_context=_save_context)


def align_table(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: Number,
    shift: int,
    band: float | None,
    backend: str,
    with_plan: bool,
) -> tuple[Tensor, Tensor]:
    """Return value and plan of ``cost[query, support, t, s, *views]``; value and lengths are ``[query, support]``."""
    gamma = float(gamma)  # second derivatives and the compiler need a number
    run: Any = _operator if torch.compiler.is_compiling() else _Align.apply
    result: tuple[Tensor, Tensor] = run(
        cost, query_lengths, support_lengths, gamma, shift, band, backend, with_plan
    )
    return result


class _Values(torch.autograd.Function):
    """The values without the plan. Nothing else reads the plan, so the gradient may replace it in memory."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, *options: Any) -> Tensor:
        value, plan = compute(cost, *options)
        ctx.save_for_backward(cost, *options[:2], plan)
        ctx.options = options[2:]
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        cost, query_lengths, support_lengths, plan = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative will follow
            value, _ = align_table(cost, query_lengths, support_lengths, *ctx.options)
            slope = torch.autograd.grad(value, cost, grad, create_graph=True)[0]
        else:
            slope = _scale_plan(plan, grad, in_place=is_last_pass())
        return slope, *[None] * 7


def align_values(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: Number,
    shift: int,
    band: float | None,
    backend: str,
) -> Tensor:
    """Return the values of ``align_table``; their gradient needs less memory."""
    with_plan = cost.requires_grad and torch.is_grad_enabled()
    options = (query_lengths, support_lengths, gamma, shift, band, backend)
    if is_transformed():
        return align_table(cost, *options, with_plan)[0]
    if not with_plan:
        return compute(cost, *options, False)[0]
    value: Tensor = _Values.apply(cost, *options, True)  # type: ignore[no-untyped-call]
    return value
