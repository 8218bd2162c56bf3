"""Other libraries and plain implementations that ``align.py`` compares with."""

import math
from collections.abc import Callable
from itertools import product

import numba
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Step = Callable[[], object]


def _with_backward(loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> tuple[Step, Step]:
    """Return (forward, forward+backward) of a soft-DTW between features."""
    leaf = x.clone().requires_grad_()

    def both() -> None:
        leaf.grad = None
        loss(leaf, y).sum().backward()

    def forward() -> None:
        with torch.no_grad():
            loss(x, y)

    return forward, both


def make_pysdtw_steps(x: Tensor, y: Tensor, gamma: float) -> tuple[Step, Step]:
    """Return the steps of pysdtw, the fastest soft-DTW for torch on PyPI."""
    import pysdtw

    return _with_backward(pysdtw.SoftDTW(gamma=gamma, use_cuda=False), x, y)


def make_tslearn_steps(x: Tensor, y: Tensor, gamma: float) -> tuple[Step, Step]:
    """Return the steps of tslearn's SoftDTWLossPyTorch."""
    from tslearn.metrics import SoftDTWLossPyTorch

    return _with_backward(SoftDTWLossPyTorch(gamma=gamma), x, y)


def make_aeon_step(x: Tensor, y: Tensor, gamma: float) -> Step:
    """Return the step of aeon's soft_dtw_distance, pair by pair; it has no gradient."""
    from aeon.distances import soft_dtw_distance

    pairs = [(a.T.double().numpy().copy(), b.T.double().numpy().copy()) for a, b in zip(x, y, strict=True)]
    return lambda: [soft_dtw_distance(a, b, gamma=gamma) for a, b in pairs]


def align_plain(cost: Tensor, gamma: float, shift: int) -> Tensor:
    """Return JEANIE distances, cell by cell in torch: a log-sum-exp over all predecessors, gradients by autograd."""
    views = cost.shape[3:]
    turns = list(product(range(2 * shift + 1), repeat=len(views)))

    def window(r: Tensor) -> list[Tensor]:
        padded = functional.pad(r, [shift, shift] * len(views), value=math.inf)
        return [
            padded[(slice(None), *(slice(a, a + n) for a, n in zip(turn, views, strict=True)))]
            for turn in turns
        ]

    table: dict[tuple[int, int], Tensor] = {}
    for t in range(cost.shape[1]):
        for s in range(cost.shape[2]):
            before = [window(table[i]) for i in ((t, s - 1), (t - 1, s), (t - 1, s - 1)) if i in table]
            value = cost[:, t, s]
            if before:
                value = value - gamma * torch.logsumexp(
                    torch.stack([x for some in before for x in some]) / -gamma, 0
                )
            table[t, s] = value
    return -gamma * torch.logsumexp(value.flatten(1) / -gamma, 1)


@numba.njit(cache=False)
def _numba_sweep(cost, gamma, shift, size, backward):  # type: ignore[no-untyped-def]
    """Return JEANIE distances and plans in the log domain; ``cost[pair, t, s, view]``, ``size`` is the view grid."""
    pairs, queries, supports, views = cost.shape
    axes = size.shape[0]
    near = np.zeros((views, views), np.bool_)  # whether two views are within ``shift`` of each other
    for v in range(views):
        for w in range(views):
            a, b, close = v, w, True
            for i in range(axes - 1, -1, -1):
                close = close and abs(a % size[i] - b % size[i]) <= shift
                a //= size[i]
                b //= size[i]
            near[v, w] = close
    value = np.empty(pairs, cost.dtype)
    plan = np.zeros(cost.shape if backward else (0, 0, 0, 0), cost.dtype)
    r = np.empty((queries, supports, views), cost.dtype)
    for p in range(pairs):
        for t in range(queries):
            for s in range(supports):
                for v in range(views):
                    if t == 0 and s == 0:
                        r[t, s, v] = cost[p, t, s, v]
                        continue
                    least = np.inf
                    for step in range(3):
                        i, j = t - (step != 0), s - (step != 1)
                        if i >= 0 and j >= 0:
                            for w in range(views):
                                if near[v, w] and r[i, j, w] < least:
                                    least = r[i, j, w]
                    total = 0.0
                    for step in range(3):
                        i, j = t - (step != 0), s - (step != 1)
                        if i >= 0 and j >= 0:
                            for w in range(views):
                                if near[v, w]:
                                    total += math.exp((least - r[i, j, w]) / gamma)
                    r[t, s, v] = cost[p, t, s, v] + least - gamma * math.log(total)
        least = r[-1, -1].min()
        total = 0.0
        for v in range(views):
            total += math.exp((least - r[-1, -1, v]) / gamma)
        value[p] = least - gamma * math.log(total)
        if not backward:
            continue
        for v in range(views):
            plan[p, -1, -1, v] = math.exp((value[p] - r[-1, -1, v]) / gamma)
        for t in range(queries - 1, -1, -1):
            for s in range(supports - 1, -1, -1):
                for v in range(views):
                    total = plan[p, t, s, v]
                    for step in range(3):
                        i, j = t + (step != 0), s + (step != 1)
                        if i < queries and j < supports:
                            for w in range(views):
                                if near[v, w]:
                                    rest = r[i, j, w] - cost[p, i, j, w]
                                    total += plan[p, i, j, w] * math.exp((rest - r[t, s, v]) / gamma)
                    plan[p, t, s, v] = total
    return value, plan


def make_numba_steps(cost: Tensor, gamma: float, shift: int) -> tuple[Step, Step]:
    """Return the steps of plain numba, which is compiled before it is timed."""
    size = np.array(cost.shape[3:] or (1,))
    flat = cost.reshape(*cost.shape[:3], -1).numpy()
    _numba_sweep(flat[:1, :2, :2], gamma, shift, size, True)
    return (
        lambda: _numba_sweep(flat, gamma, shift, size, False),
        lambda: _numba_sweep(flat, gamma, shift, size, True),
    )
