"""Alignment as one torch operator: autograd, second derivatives, vmap and torch.compile see a single node.

``jeanie::align`` maps cost ``[query, support, t, s, *views]`` to its value ``[query, support]`` and its plan (like
cost; empty when not asked for). The plan is the gradient of the value, so backward is one product; a second backward
goes through the plan and is answered by ``recursion.hessian_product``.
"""

from typing import Any

import torch
from torch import Tensor

from jeanie.align import native, recursion, reference
from jeanie.align.cells import NO_PATH, NOT_FINITE, allowed, check_lengths, reject
from jeanie.errors import ConfigError

__all__ = ["align_table", "align_values", "backend_for", "compute", "last_pass", "transformed"]

_SCHEMA = (
    "(Tensor cost, Tensor? query_lengths, Tensor? support_lengths, float gamma, int shift, float? band, "
    "str backend, bool with_plan) -> (Tensor, Tensor)"
)


def backend_for(cost: Tensor, wanted: str) -> str:
    """The backend that will run: ``auto`` takes the kernel where there is one for the device."""
    if wanted == "native" and cost.device.type != "cpu":
        raise ConfigError(
            f"backend 'native' runs on the CPU, got cost on {cost.device}; use 'auto' or 'reference'"
        )
    if wanted == "auto":
        return "native" if cost.device.type == "cpu" and native.available() else "reference"
    return wanted


def _full(lengths: Tensor | None, size: int, cost: Tensor) -> Tensor:
    if lengths is not None:
        return lengths.reshape(-1)
    return torch.full((cost.shape[0] * cost.shape[1],), size, device=cost.device)


def _cells(
    cost: Tensor, query_lengths: Tensor | None, support_lengths: Tensor | None, band: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Allowed cells and both lengths of every pair, for the torch recursions."""
    lengths = _full(query_lengths, cost.shape[2], cost), _full(support_lengths, cost.shape[3], cost)
    return allowed((cost.shape[2], cost.shape[3]), *lengths, band), *lengths


def _reference(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: float,
    shift: int,
    band: float | None,
    with_plan: bool,
) -> tuple[Tensor, Tensor | None]:
    cells, tau, tau_ = _cells(cost, query_lengths, support_lengths, band)
    flat = cost.flatten(0, 1)
    where = cells.reshape(*cells.shape, *[1] * (flat.dim() - 3))
    if not bool(torch.where(where, flat, 0.0).isfinite().all()):
        reject(NOT_FINITE)
    if gamma > 0:
        value, plan = reference.soft(flat, cells, tau, tau_, gamma, shift, with_plan)
    else:
        with torch.enable_grad():
            leaf = flat.detach().double().requires_grad_()
            value = recursion.smooth(leaf, cells, tau, tau_, 0.0, shift)
            if bool(value.isinf().any()):
                reject(NO_PATH)
            plan = torch.autograd.grad(value.sum(), leaf)[0].to(cost.dtype) if with_plan else None
            value = value.detach().to(cost.dtype)
    return value.view(cost.shape[:2]), None if plan is None else plan.view(cost.shape)


def compute(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: float,
    shift: int,
    band: float | None,
    backend: str,
    with_plan: bool,
    in_place: bool = False,
) -> tuple[Tensor, Tensor]:
    """Value and plan from the chosen backend, without autograd; ``in_place`` lets the plan overwrite the cost."""
    for lengths, axis, name in ((query_lengths, 2, "query_lengths"), (support_lengths, 3, "support_lengths")):
        if lengths is not None:
            check_lengths(lengths, cost.shape[axis], name)
    if 0 in cost.shape[:2]:
        return cost.new_empty(cost.shape[:2]), torch.empty_like(cost) if with_plan else cost.new_empty(0)
    if backend_for(cost, backend) == "native":
        both = None
        if query_lengths is not None or support_lengths is not None:
            both = (
                _full(query_lengths, cost.shape[2], cost).to(torch.int64).contiguous(),
                _full(support_lengths, cost.shape[3], cost).to(torch.int64).contiguous(),
            )
        value, plan = native.soft_or_hard(cost.detach(), both, gamma, shift, band, with_plan, in_place)
    else:
        value, plan = _reference(cost, query_lengths, support_lengths, gamma, shift, band, with_plan)
    return value, cost.new_empty(0) if plan is None else plan


def _forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    return compute(*inputs)


def _compiled(cost: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    """``compute`` with the strides that were promised to the compiler."""
    value, plan = compute(cost, *options)
    promised = torch.empty_like(cost)
    if plan.shape == cost.shape and plan.stride() != promised.stride():
        plan = promised.copy_(plan)
    return value, plan


# torch.compile sees one opaque operator; eager calls go straight to compute, without loading the compiler
_operator = torch.library.custom_op("jeanie::align", _compiled, mutates_args=(), schema=_SCHEMA)


@_operator.register_fake
def _(cost: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    return cost.new_empty(cost.shape[:2]), torch.empty_like(cost) if options[-1] else cost.new_empty(0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    cost, query_lengths, support_lengths, *ctx.options = inputs
    ctx.save_for_backward(cost, query_lengths, support_lengths, output[1])
    ctx.set_materialize_grads(False)


def _over_cells(grad: Tensor, plan: Tensor) -> Tensor:
    return grad.reshape(*grad.shape, *[1] * (plan.dim() - 2))


def _backward(ctx: Any, grad_value: Tensor | None, grad_plan: Tensor | None) -> tuple[Tensor | None, ...]:
    cost, query_lengths, support_lengths, plan = ctx.saved_tensors
    gamma, shift, band, backend, with_plan = ctx.options
    grad: Tensor | None = None
    if grad_value is not None:
        if not with_plan:
            _, plan = align_table(cost, query_lengths, support_lengths, gamma, shift, band, backend, True)
        grad = _scaled(plan, _over_cells(grad_value, plan))
    if grad_plan is not None and with_plan and gamma > 0:  # a hard plan is piecewise constant
        cells, tau, tau_ = _cells(cost, query_lengths, support_lengths, band)

        def value(wide: Tensor) -> Tensor:
            return recursion.smooth(wide.flatten(0, 1), cells, tau, tau_, gamma, shift)

        second = recursion.hessian_product(value, cost, grad_plan)
        grad = second if grad is None else grad + second
    return (grad, *[None] * 7)


def transformed() -> bool:
    """Whether torch.compile or torch.func is looking on, which see no further than torch's own operators."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None


def last_pass() -> bool:
    """Whether the backward pass that runs frees its graph: what only it has kept may then be overwritten."""
    keeps_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return keeps_graph is not None and not keeps_graph()


def _scaled(plan: Tensor, by: Tensor) -> Tensor:
    """Their product, which is as large as all costs, for a backward pass."""
    if torch.is_grad_enabled() or transformed():
        return plan * by
    return torch.mul(plan, by, out=native.fresh_like(plan))


def _vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, tuple[int, int]]:
    """The vmapped axis joins the queries."""

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
    """The operator with its derivative as torch.func sees it (vmap, grad, jacrev compose)."""

    forward = staticmethod(_forward)
    setup_context = staticmethod(_setup)
    backward = staticmethod(_backward)
    vmap = staticmethod(_vmap)


_operator.register_autograd(_backward, setup_context=_setup)


def align_table(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: float,
    shift: int,
    band: float | None,
    backend: str,
    with_plan: bool,
) -> tuple[Tensor, Tensor]:
    """Value ``[query, support]`` and plan of ``cost[query, support, t, s, *views]``; lengths are tables as well."""
    run: Any = _operator if torch.compiler.is_compiling() else _Align.apply
    result: tuple[Tensor, Tensor] = run(
        cost, query_lengths, support_lengths, gamma, shift, band, backend, with_plan
    )
    return result


class _Values(torch.autograd.Function):
    """The values alone. Nobody else sees the plan then, so that the gradient may take its place in memory."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, *options: Any) -> Tensor:
        options = (*options, True)
        value, plan = compute(cost, *options)
        ctx.save_for_backward(cost, *options[:2], plan)
        ctx.options = options[2:]
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        cost, query_lengths, support_lengths, plan = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative will be asked for
            value, _ = align_table(cost, query_lengths, support_lengths, *ctx.options)
            slope = torch.autograd.grad(value, cost, grad, create_graph=True)[0]
        else:
            by = _over_cells(grad, plan)
            slope = plan.mul_(by) if last_pass() else _scaled(plan, by)
        return slope, *[None] * 6


def align_values(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: float,
    shift: int,
    band: float | None,
    backend: str,
) -> Tensor:
    """The values of ``align_table`` with less memory for their gradient."""
    with_plan = cost.requires_grad and torch.is_grad_enabled()
    options = (query_lengths, support_lengths, gamma, shift, band, backend)
    if transformed():
        return align_table(cost, *options, with_plan)[0]
    if not with_plan:
        return compute(cost, *options, False)[0]
    value: Tensor = _Values.apply(cost, *options)  # type: ignore[no-untyped-call]
    return value
