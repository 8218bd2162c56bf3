"""The soft recursion in torch, for every device: a wavefront over anti-diagonals with the kernel's numerics.

P = exp(-R / gamma) is kept as m 2^k with an exponent for each view and cell, in float64: no logarithms, no overflow,
and no difference of large numbers. Cells of one anti-diagonal ``d = t + s`` depend only on the two before it.
"""

import math
from decimal import Decimal, localcontext
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from jeanie.align.cells import NO_PATH, reject

__all__ = ["soft"]

_DEAD = -(2.0**60)  # exponent of a cell that no path reaches
_SHARED = -900.0  # views of a cell within 2^900 of each other may share an exponent
_LOWEST = -2000.0  # 2^-2000 is 0: what is so much smaller than the largest term does not count


class _Wide(NamedTuple):
    """Numbers m 2^k beyond the range of a float; k is integer-valued."""

    m: Tensor
    k: Tensor


def _sum(m: Tensor, k: Tensor, axis: int) -> _Wide:
    top = k.amax(axis, keepdim=True)
    return _Wide((m * torch.exp2((k - top).clamp(min=_LOWEST))).sum(axis), top.squeeze(axis))


def _normalised(m: Tensor, k: Tensor) -> _Wide:
    mantissa, exponent = torch.frexp(m)
    return _Wide(mantissa, k + exponent)


def _weights(cost: Tensor, gamma: float) -> _Wide:
    """exp(-cost / gamma); cost + n unit is formed with a unit of 18 bits and its rest, so that no digit is lost."""
    with localcontext(prec=60):
        exact = Decimal(gamma) * Decimal(2).ln()
        mantissa, exponent = math.frexp(float(exact))
        coarse = math.ldexp(math.floor(mantissa * 2**18), exponent - 18)
        fine = float(exact - Decimal(coarse))
    n = torch.round(cost / -float(exact))
    return _Wide(torch.exp2(((cost + n * coarse) + n * fine) / -float(exact)), n)


def _windowed(x: _Wide, shift: int, first_axis: int) -> _Wide:
    """Sum over neighbours within ``shift`` on every view axis, clipped at the grid's edge."""
    m, k = x
    reach = {axis: min(shift, m.shape[axis] - 1) for axis in range(first_axis, m.dim())}
    if not any(reach.values()):
        return x
    top = k.amax(tuple(reach), keepdim=True)
    below = k - top
    if bool((below < _SHARED).any()):
        return _windowed_apart(x, reach)
    m = m * torch.exp2(below)
    for axis, r in reach.items():
        padded = functional.pad(m, [0, 0] * (m.dim() - 1 - axis) + [r, r])
        m = sum(
            (padded.narrow(axis, i, m.shape[axis]) for i in range(1, 2 * r + 1)),
            padded.narrow(axis, 0, m.shape[axis]),
        )
    return _Wide(m, top)  # one exponent for all views


def _windowed_apart(x: _Wide, reach: dict[int, int]) -> _Wide:
    """The same where views of a cell are too far apart for one exponent."""
    m, k = x
    for axis, r in reach.items():
        if r:
            pad = [0, 0] * (m.dim() - 1 - axis) + [r, r]
            m = functional.pad(m, pad).unfold(axis, 2 * r + 1, 1)
            k = functional.pad(k, pad, value=_DEAD).unfold(axis, 2 * r + 1, 1)
            m, k = _sum(m, k, -1)
    return _Wide(m, k)


def _moved(x: _Wide, by: int) -> _Wide:
    """Rows t moved by one (down for by=1, up for by=-1); dead cells come in."""
    edge_m, edge_k = torch.zeros_like(x.m[:, :1]), torch.full_like(x.k[:, :1], _DEAD)
    if by > 0:
        return _Wide(torch.cat([edge_m, x.m[:, :-1]], 1), torch.cat([edge_k, x.k[:, :-1]], 1))
    return _Wide(torch.cat([x.m[:, 1:], edge_m], 1), torch.cat([x.k[:, 1:], edge_k], 1))


def _merged(one: _Wide, two: _Wide, by: int) -> _Wide:
    """Three temporal neighbours: both of the next anti-diagonal ``one``, the corner of ``two``."""
    terms = (one, _moved(one, by), _moved(two, by))
    return _sum(torch.stack([x.m for x in terms]), torch.stack([x.k for x in terms]), 0)


def _skew_index(queries: int, supports: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """(row t, column s, inside) of every cell (d, t) of the skewed table."""
    t = torch.arange(queries, device=device).expand(queries + supports - 1, -1)
    s = torch.arange(queries + supports - 1, device=device)[:, None] - t
    return t, s.clamp(0, supports - 1), (s >= 0) & (s < supports)


def soft(
    cost: Float[Tensor, "pair query support *views"],
    cells: Bool[Tensor, "pair query support"],
    query_lengths: Int[Tensor, " pair"],
    support_lengths: Int[Tensor, " pair"],
    gamma: float,
    shift: int,
    with_plan: bool,
) -> tuple[Float[Tensor, " pair"], Float[Tensor, "pair query support *views"] | None]:
    """Value and plan of the soft alignment (METHOD ``smooth``; paper, Alg. 1), without autograd.

    P[t, s] = w W (P[t-1, s] + P[t, s-1] + P[t-1, s-1]), the plan is P H / Z with H the same recursion from the end.
    """
    pairs, queries, supports = cost.shape[:3]
    axes = cost.dim() - 3
    t, s, inside = _skew_index(queries, supports, cost.device)
    alive = (cells[:, t, s] & inside).reshape(pairs, *inside.shape, *[1] * axes)
    # where() also keeps NaN of the padding out
    weight = _weights(torch.where(alive, cost[:, t, s].double(), 0.0), gamma)
    batch = torch.arange(pairs, device=cost.device)
    last = query_lengths + support_lengths - 2, query_lengths - 1

    def sweep(order: range, by: int, weigh_first: bool) -> tuple[list[Tensor], list[Tensor]]:
        """One direction; returns P (weighed) going forward, H (not yet weighed) going back."""
        m, k = (torch.empty_like(weight.m[:, 0]) for _ in range(2))
        two = one = _Wide(torch.zeros_like(m), torch.full_like(k, _DEAD))
        kept: tuple[list[Tensor], list[Tensor]] = ([], [])
        for d in order:
            x = _windowed(_merged(one, two, by), shift, 2)
            x = _begin(x, d) if by > 0 else _end(x, d)
            p = _normalised(x.m * weight.m[:, d], x.k + weight.k[:, d])
            p = _Wide(p.m, torch.where(alive[:, d], p.k, _DEAD))
            for store, value in zip(kept, p if weigh_first else x, strict=True):
                store.append(value.expand_as(x.m))
            one, two = p, one
        return kept

    def _begin(x: _Wide, d: int) -> _Wide:
        if d == 0:
            x.m[:, 0], x.k[:, 0] = 1.0, 0.0
        return x

    def _end(x: _Wide, d: int) -> _Wide:
        ends = (last[0] == d).nonzero().flatten()
        x.m[ends, last[1][ends]], x.k[ends, last[1][ends]] = 1.0, 0.0
        return x

    diagonals = range(queries + supports - 1)
    p_m, p_k = (torch.stack(x, 1) for x in sweep(diagonals, 1, True))
    z = _normalised(*_sum(p_m[batch, *last].reshape(pairs, -1), p_k[batch, *last].reshape(pairs, -1), 1))
    if bool((z.k < _DEAD / 2).any()):
        reject(NO_PATH)
    value = (-gamma * (z.k * math.log(2) + z.m.log())).to(cost.dtype)
    if not with_plan:
        return value, None
    h_m, h_k = (torch.stack(x[::-1], 1) for x in sweep(diagonals[::-1], -1, False))
    z_m, z_k = (x.reshape(-1, *[1] * (axes + 2)) for x in z)
    shares = p_m * (h_m / z_m) * torch.exp2((p_k + h_k - z_k).clamp(min=_LOWEST))
    shares = torch.where(alive, shares, 0.0)
    rows, columns = (
        torch.arange(queries, device=cost.device)[:, None],
        torch.arange(supports, device=cost.device),
    )
    return value, shares[:, rows + columns, rows.expand(-1, supports)].to(cost.dtype)
