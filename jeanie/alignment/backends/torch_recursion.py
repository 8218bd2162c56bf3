"""The recursions in plain torch operations: the hard minimum, second derivatives, and plan ``preprint``.

They are slower than ``torch_wavefront`` and the kernel, but autograd can differentiate them any number of times.
"""

from collections.abc import Callable
from itertools import product

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

__all__ = ["align_preprint", "align_smooth", "multiply_by_hessian", "order_path", "softmin"]


def softmin(x: Tensor, gamma: float, axis: int = 0) -> Tensor:
    """Return -gamma log sum exp(-x / gamma) along ``axis``; gamma 0 is the minimum, with the gradient at one argument.

    A row of infinities gives infinity and no gradient, where torch.logsumexp gives NaN.
    """
    if gamma == 0:
        return x.min(axis).values
    least = x.detach().amin(axis, keepdim=True)
    least = torch.where(least.isinf(), 0.0, least)
    total = torch.exp((least - x) / gamma).sum(axis)
    empty = total == 0
    return torch.where(empty, torch.inf, least.squeeze(axis) - gamma * torch.where(empty, 1.0, total).log())


def _slide_window(x: Tensor, gamma: float, shift: int, first_axis: int) -> Tensor:
    for axis in range(first_axis, x.dim()):
        reach = min(shift, x.shape[axis] - 1)
        if reach:
            pad = [0, 0] * (x.dim() - 1 - axis) + [reach, reach]
            x = softmin(functional.pad(x, pad, value=torch.inf).unfold(axis, 2 * reach + 1, 1), gamma, -1)
    return x


def _sweep(
    cost: Tensor,
    cells: Tensor,
    query_lengths: Tensor,
    support_lengths: Tensor,
    advance: Callable[[list[Tensor] | None, Tensor], Tensor],
) -> Tensor:
    """Return the values of every pair's last cell.

    ``advance`` maps the three temporal predecessors (None on the first diagonal) and the costs of a diagonal to its
    values; forbidden cells are infinite.
    """
    queries, supports = cost.shape[1:3]
    rows = torch.arange(queries, device=cost.device)
    alive = cells.reshape(*cells.shape, *[1] * (cost.dim() - 3))
    previous = before_previous = edge = torch.full_like(cost[:, :, 0], torch.inf)
    diagonals: list[Tensor] = []
    for d in range(queries + supports - 1):
        column = (d - rows).clamp(0, supports - 1)
        inside = ((d - rows >= 0) & (d - rows < supports)).reshape(-1, *[1] * (cost.dim() - 3))
        usable = alive[:, rows, column] & inside
        cell_cost = torch.where(usable, cost[:, rows, column], 0.0)
        up, corner = (torch.cat([edge[:, :1], x[:, :-1]], 1) for x in (previous, before_previous))
        value = advance([corner, previous, up] if d else None, cell_cost)  # a tie prefers the diagonal
        previous, before_previous = torch.where(usable, value, torch.inf), previous
        diagonals.append(previous)
    batch = torch.arange(len(cost), device=cost.device)
    return torch.stack(diagonals, 1)[batch, query_lengths + support_lengths - 2, query_lengths - 1]


def align_smooth(
    cost: Float[Tensor, "pair query support *views"],
    cells: Bool[Tensor, "pair query support"],
    query_lengths: Int[Tensor, " pair"],
    support_lengths: Int[Tensor, " pair"],
    gamma: float,
    shift: int,
) -> Float[Tensor, " pair"]:
    """Return the value of R[t, s, v] = cost[t, s, v] + softmin over moves of R[t-dt, s-ds, v-dv]."""

    def advance(before: list[Tensor] | None, cell_cost: Tensor) -> Tensor:
        if before is None:
            return cell_cost
        return cell_cost + _slide_window(softmin(torch.stack(before), gamma), gamma, shift, 2)

    ends = _sweep(cost, cells, query_lengths, support_lengths, advance)
    return softmin(ends.reshape(len(ends), -1), gamma, 1)


def _select_by_origin(cost: Tensor) -> Tensor:
    """Return cost[..., view n - D] for every origin D in {-eta..eta} and n in {0..eta}; infinite outside the grid.

    Views only move forward from n = 0, so negative n are never reached. The new axes are (*origins, *ns).
    """
    axes = cost.dim() - 3
    for _ in range(axes):
        size = cost.shape[3]
        eta = size // 2
        origin = torch.arange(-eta, eta + 1, device=cost.device)[:, None]
        view = torch.arange(eta + 1, device=cost.device) - origin + eta
        inside = (view >= 0) & (view < size)
        origins = cost.movedim(3, -1)[..., view.clamp(0, size - 1)]
        origins = torch.where(inside, origins, torch.inf)
        cost = origins.movedim(-2, 2 + axes)
    return cost


def align_preprint(
    cost: Float[Tensor, "pair query support *views"],
    cells: Bool[Tensor, "pair query support"],
    query_lengths: Int[Tensor, " pair"],
    support_lengths: Int[Tensor, " pair"],
    gamma: float,
    shift: int,
) -> Float[Tensor, " pair"]:
    """Return the value of the preprint's printed Algorithm 1, where all origins compete as its text requires.

    R[D, n, t, s] = cost[view n-D, t, s] + softmin of R[D, n-i, t-j, s-k] over (i, j, k) in {0..shift} x {0,1} x {0,1}
    without (0, 0, 0); R[D, 0, 0, 0] = 0; the value is the softmin over D and n at the last blocks. Each view axis has
    an odd size 2 eta + 1 and its own D and n.
    """
    axes = cost.dim() - 3
    spans = [n // 2 + 1 for n in cost.shape[3:]]
    # one axis for all origins: [pair, query, support, origin, *ns]
    table = _select_by_origin(cost).flatten(3, 2 + axes) if axes else cost[..., None]
    steps = list(product(range(shift + 1), repeat=axes))

    def select(x: Tensor, n: tuple[int, ...]) -> Tensor:
        for index in reversed(n):
            x = x[..., index]
        return x

    def advance(before: list[Tensor] | None, cell_cost: Tensor) -> Tensor:
        values: dict[tuple[int, ...], Tensor] = {}
        for n in product(*map(range, spans)):
            back = [tuple(a - b for a, b in zip(n, i, strict=True)) for i in steps]
            back = [m for m in back if min(m, default=0) >= 0]
            terms = [select(x, m) for x in before or [] for m in back] + [values[m] for m in back if m != n]
            if before is None:  # the virtual cell before the first blocks holds 0 at n = 0 of every origin
                terms += [torch.zeros_like(select(cell_cost, n))] if (0,) * axes in back else []
            infinite = torch.full_like(select(cell_cost, n), torch.inf)
            values[n] = select(cell_cost, n) + softmin(torch.stack([infinite, *terms]), gamma)
        return torch.stack(list(values.values()), -1).reshape(cell_cost.shape)

    ends = _sweep(table, cells, query_lengths, support_lengths, advance)
    return softmin(ends.reshape(len(ends), -1), gamma, 1)


def order_path(plan: Float[Tensor, "query support *views"]) -> Int[Tensor, "step axes"]:
    """Return the cells of a hard plan in the order of the path.

    Every move advances some index and none goes back in time. Within one (t, s) only views move (plan ``preprint``),
    and only forward.
    """
    cells = plan.nonzero()
    return cells[torch.argsort(cells.sum(1) if cells.shape[1] == 2 else _rank_cells(cells), stable=True)]


def _rank_cells(cells: Tensor) -> Tensor:
    """Return a number per cell that grows along the path: time first, then the sum of the views."""
    return (cells[:, 0] + cells[:, 1]) * (cells[:, 2:].max() * cells.shape[1] + 1) + cells[:, 2:].sum(1)


def multiply_by_hessian(value: Callable[[Tensor], Tensor], cost: Tensor, direction: Tensor) -> Tensor:
    """Return the second derivative of ``value(cost).sum()`` times ``direction``, for a double backward."""
    with torch.enable_grad():
        wide = cost.double()
        wide = wide if wide.requires_grad else wide.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(value(wide).sum(), wide, create_graph=True)
        (result,) = torch.autograd.grad(gradient, wide, direction.double(), create_graph=cost.requires_grad)
    return result.to(cost.dtype)
