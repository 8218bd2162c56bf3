"""The soft recursion in torch, for every device: a wavefront over anti-diagonals with the kernel's numerics.

P = exp(-R / gamma) is stored as m 2^k with one exponent per view and cell, in float64: no logarithms, no overflow, and
no difference of large numbers. The cells of an anti-diagonal ``d = t + s`` depend only on the two before it.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from jeanie.alignment.backends.gamma import split_gamma
from jeanie.alignment.validation import NO_PATH, reject

__all__ = ["align_soft"]

_DEAD = -(2.0**60)  # exponent of a cell that no path reaches
_SHARED = -900.0  # views of a cell within 2^900 of each other may share an exponent
_LOWEST = -2000.0  # 2^-2000 is 0: a term so much smaller than the largest one does not count


class _Wide(NamedTuple):
    """Numbers m 2^k beyond the range of a float; k is integer-valued."""

    m: Tensor
    k: Tensor


def _add_up(m: Tensor, k: Tensor, axis: int) -> _Wide:
    top = k.amax(axis, keepdim=True)
    return _Wide((m * torch.exp2((k - top).clamp(min=_LOWEST))).sum(axis), top.squeeze(axis))


def _normalise(m: Tensor, k: Tensor) -> _Wide:
    mantissa, exponent = torch.frexp(m)
    return _Wide(mantissa, k + exponent)


def _compute_weights(cost: Tensor, gamma: float) -> _Wide:
    """Return exp(-cost / gamma); cost + n unit uses a unit of 18 bits and its rest, so that no digit is lost."""
    constants = split_gamma(gamma, torch.float64)
    n = torch.round(cost / -constants.unit)
    remainder = (cost + n * constants.unit_hi) + n * constants.unit_lo
    return _Wide(torch.exp2(remainder / -constants.unit), n)


def _slide_window(x: _Wide, shift: int, first_axis: int) -> _Wide:
    """Return the sum over neighbours within ``shift`` on every view axis, clipped at the edge of the grid."""
    m, k = x
    reach = {axis: min(shift, m.shape[axis] - 1) for axis in range(first_axis, m.dim())}
    if not any(reach.values()):
        return x
    top = k.amax(tuple(reach), keepdim=True)
    below = k - top
    if bool((below < _SHARED).any()):
        return _slide_window_by_view(x, reach)
    m = m * torch.exp2(below)
    for axis, r in reach.items():
        padded = functional.pad(m, [0, 0] * (m.dim() - 1 - axis) + [r, r])
        m = sum(
            (padded.narrow(axis, i, m.shape[axis]) for i in range(1, 2 * r + 1)),
            padded.narrow(axis, 0, m.shape[axis]),
        )
    return _Wide(m, top)  # one exponent for all views


def _slide_window_by_view(x: _Wide, reach: dict[int, int]) -> _Wide:
    """Return the same sum if the views of a cell are too far apart for one exponent."""
    m, k = x
    for axis, r in reach.items():
        if r:
            pad = [0, 0] * (m.dim() - 1 - axis) + [r, r]
            m = functional.pad(m, pad).unfold(axis, 2 * r + 1, 1)
            k = functional.pad(k, pad, value=_DEAD).unfold(axis, 2 * r + 1, 1)
            m, k = _add_up(m, k, -1)
    return _Wide(m, k)


def _move_rows(x: _Wide, step: int) -> _Wide:
    """Return ``x`` with its rows t moved by one (down for step 1, up for step -1); the new row is dead."""
    edge_m, edge_k = torch.zeros_like(x.m[:, :1]), torch.full_like(x.k[:, :1], _DEAD)
    if step > 0:
        return _Wide(torch.cat([edge_m, x.m[:, :-1]], 1), torch.cat([edge_k, x.k[:, :-1]], 1))
    return _Wide(torch.cat([x.m[:, 1:], edge_m], 1), torch.cat([x.k[:, 1:], edge_k], 1))


def _merge(adjacent: _Wide, beyond: _Wide, step: int) -> _Wide:
    """Return the sum over three temporal neighbours: two on the adjacent anti-diagonal, one beyond it."""
    terms = (adjacent, _move_rows(adjacent, step), _move_rows(beyond, step))
    return _add_up(torch.stack([x.m for x in terms]), torch.stack([x.k for x in terms]), 0)


def _index_skewed(queries: int, supports: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return (row t, column s, is inside) of every cell (d, t) of the skewed table."""
    t = torch.arange(queries, device=device).expand(queries + supports - 1, -1)
    s = torch.arange(queries + supports - 1, device=device)[:, None] - t
    return t, s.clamp(0, supports - 1), (s >= 0) & (s < supports)


def align_soft(
    cost: Float[Tensor, "pair query support *views"],
    cells: Bool[Tensor, "pair query support"],
    query_lengths: Int[Tensor, " pair"],
    support_lengths: Int[Tensor, " pair"],
    gamma: float,
    shift: int,
    with_plan: bool,
) -> tuple[Float[Tensor, " pair"], Float[Tensor, "pair query support *views"] | None]:
    """Return value and plan of the soft alignment (plan ``smooth``; paper, Alg. 1), without autograd.

    P[t, s] = w W (P[t-1, s] + P[t, s-1] + P[t-1, s-1]). The plan is P H / Z; H is the same recursion from the end.
    """
    pairs, queries, supports = cost.shape[:3]
    axes = cost.dim() - 3
    t, s, inside = _index_skewed(queries, supports, cost.device)
    alive = (cells[:, t, s] & inside).reshape(pairs, *inside.shape, *[1] * axes)
    # where() also excludes NaN in the padding
    weight = _compute_weights(torch.where(alive, cost[:, t, s].double(), 0.0), gamma)
    batch = torch.arange(pairs, device=cost.device)
    last = query_lengths + support_lengths - 2, query_lengths - 1

    def sweep(order: range, step: int) -> tuple[list[Tensor], list[Tensor]]:
        """Run one direction; return P (weighted) for the forward one, H (not yet weighted) for the backward one."""
        m, k = (torch.empty_like(weight.m[:, 0]) for _ in range(2))
        adjacent = beyond = _Wide(torch.zeros_like(m), torch.full_like(k, _DEAD))
        stored: tuple[list[Tensor], list[Tensor]] = ([], [])
        for d in order:
            x = _slide_window(_merge(adjacent, beyond, step), shift, 2)
            x = set_start(x, d) if step > 0 else set_end(x, d)
            p = _normalise(x.m * weight.m[:, d], x.k + weight.k[:, d])
            p = _Wide(p.m, torch.where(alive[:, d], p.k, _DEAD))
            for store, value in zip(stored, p if step > 0 else x, strict=True):
                store.append(value.expand_as(x.m))
            adjacent, beyond = p, adjacent
        return stored

    def set_start(x: _Wide, d: int) -> _Wide:
        if d == 0:
            x.m[:, 0], x.k[:, 0] = 1.0, 0.0
        return x

    def set_end(x: _Wide, d: int) -> _Wide:
        ends = (last[0] == d).nonzero().flatten()
        x.m[ends, last[1][ends]], x.k[ends, last[1][ends]] = 1.0, 0.0
        return x

    diagonals = range(queries + supports - 1)
    p_m, p_k = (torch.stack(x, 1) for x in sweep(diagonals, 1))
    z = _normalise(*_add_up(p_m[batch, *last].reshape(pairs, -1), p_k[batch, *last].reshape(pairs, -1), 1))
    if bool((z.k < _DEAD / 2).any()):
        reject(NO_PATH)
    value = (-gamma * (z.k * math.log(2) + z.m.log())).to(cost.dtype)
    if not with_plan:
        return value, None
    h_m, h_k = (torch.stack(x[::-1], 1) for x in sweep(diagonals[::-1], -1))
    z_m, z_k = (x.reshape(-1, *[1] * (axes + 2)) for x in z)
    shares = p_m * (h_m / z_m) * torch.exp2((p_k + h_k - z_k).clamp(min=_LOWEST))
    shares = torch.where(alive, shares, 0.0)
    rows, columns = (
        torch.arange(queries, device=cost.device)[:, None],
        torch.arange(supports, device=cost.device),
    )
    return value, shares[:, rows + columns, rows.expand(-1, supports)].to(cost.dtype)
