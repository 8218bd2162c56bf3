"""Slow and obvious truths that import nothing of ours: enumerated paths, and scalar recursions in float64."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

Cell = tuple[int, ...]
Array = np.ndarray


def is_inside(t: int, s: int, tau: int, tau_: int, band: float | None) -> bool:
    """Whether a path may pass block pair (t, s)."""
    return t < tau and s < tau_ and (band is None or abs(t / tau - s / tau_) <= band + 1e-9)


def smooth_paths(shape: tuple[int, ...], shift: int, band: float | None = None) -> Iterator[list[Cell]]:
    """Every path of the default plan through a table (query, support, *views): free start and end views."""
    tau, tau_, *views = shape

    def extend(path: list[Cell]) -> Iterator[list[Cell]]:
        t, s, *view = path[-1]
        if (t, s) == (tau - 1, tau_ - 1):
            yield path
        near = [range(max(0, v - shift), min(n, v + shift + 1)) for v, n in zip(view, views, strict=True)]
        for dt, ds in ((0, 1), (1, 0), (1, 1)):
            if is_inside(t + dt, s + ds, tau, tau_, band):
                for turn in itertools.product(*near):
                    yield from extend([*path, (t + dt, s + ds, *turn)])

    for start in itertools.product(*map(range, views)):
        if is_inside(0, 0, tau, tau_, band):
            yield from extend([(0, 0, *start)])


def preprint_paths(shape: tuple[int, ...], shift: int, band: float | None = None) -> Iterator[list[Cell]]:
    """Every path of the preprint's Algorithm 1: origins D compete, views only move forward, also on their own."""
    tau, tau_, *views = shape
    etas = [n // 2 for n in views]
    moves = [
        (turn, dt, ds)
        for turn in itertools.product(range(shift + 1), repeat=len(views))
        for dt, ds in itertools.product((0, 1), repeat=2)
        if any((*turn, dt, ds))
    ]

    def extend(origin: Cell, n: Cell, t: int, s: int, path: list[Cell]) -> Iterator[list[Cell]]:
        if (t, s) == (tau, tau_):
            yield path
        for turn, dt, ds in moves:
            m = tuple(a + b for a, b in zip(n, turn, strict=True))
            view = tuple(a - b for a, b in zip(m, origin, strict=True))
            if t + dt < 1 or s + ds < 1 or not is_inside(t + dt - 1, s + ds - 1, tau, tau_, band):
                continue
            if all(abs(a) <= e and abs(b) <= e for a, b, e in zip(m, view, etas, strict=True)):
                cell = (t + dt - 1, s + ds - 1, *(v + e for v, e in zip(view, etas, strict=True)))
                yield from extend(origin, m, t + dt, s + ds, [*path, cell])

    for origin in itertools.product(*(range(-e, e + 1) for e in etas)):
        yield from extend(origin, (0,) * len(views), 0, 0, [])


def sum_over_paths(cost: Array, paths: Iterator[list[Cell]], gamma: float) -> tuple[float, Array]:
    """Soft minimum of the path sums and the expected path; for gamma 0 the minimum and its path."""
    sums, visits = [], []
    for path in paths:
        sums.append(math.fsum(float(cost[c]) for c in path))
        visits.append(path)
    least = min(sums)
    weights = [float(x == least) if gamma == 0 else math.exp((least - x) / gamma) for x in sums]
    total = math.fsum(weights)
    plan = np.zeros(cost.shape)
    for weight, path in zip(weights, visits, strict=True):
        for cell in path:
            plan[cell] += weight / total
    return least - (gamma * math.log(total) if gamma else 0.0), plan


def _softmin(x: Array, gamma: float) -> Array:
    least = x.min(0)
    if gamma == 0:
        return least
    safe = np.where(np.isinf(least), 0.0, least)
    with np.errstate(divide="ignore"):
        return safe - gamma * np.log(np.exp((safe - x) / gamma).sum(0))


def prefix_table(cost: Array, gamma: float, shift: int, allowed: Callable[[int, int], bool]) -> Array:
    """R[t, s, *views] of the default plan by the naive recursion over every predecessor, float64."""
    cost = cost.astype(np.float64)
    tau, tau_, *views = cost.shape
    table = np.full(cost.shape, np.inf)
    turns = list(itertools.product(range(2 * shift + 1), repeat=len(views)))

    def neighbours(t: int, s: int) -> list[Array]:
        padded = np.pad(table[t, s], shift, constant_values=np.inf) if views else table[t, s]
        return [padded[tuple(slice(a, a + n) for a, n in zip(turn, views, strict=True))] for turn in turns]

    for t in range(tau):
        for s in range(tau_):
            if not allowed(t, s):
                continue
            if t == s == 0:
                table[0, 0] = cost[0, 0]
                continue
            before = [
                x
                for dt, ds in ((0, 1), (1, 0), (1, 1))
                if t >= dt and s >= ds
                for x in neighbours(t - dt, s - ds)
            ]
            table[t, s] = cost[t, s] + _softmin(np.stack(before), gamma)
    return table


def recursion(cost: Array, gamma: float, shift: int, band: float | None = None) -> tuple[float, Array]:
    """Value and plan of one pair by the naive recursion from both ends, for tables too large to enumerate."""
    tau, tau_ = cost.shape[:2]
    front = prefix_table(cost, gamma, shift, lambda t, s: is_inside(t, s, tau, tau_, band))
    back = prefix_table(
        cost[::-1, ::-1], gamma, shift, lambda t, s: is_inside(tau - 1 - t, tau_ - 1 - s, tau, tau_, band)
    )[::-1, ::-1]
    value = float(_softmin(front[-1, -1].reshape(-1, 1), gamma)[0])
    if gamma == 0:
        return value, np.zeros(cost.shape)
    return value, np.exp((value - front - back + cost) / gamma)
