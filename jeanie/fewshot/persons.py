"""Two persons against two, or one: who is compared with whom, by any distance between persons."""

from collections.abc import Callable
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.fewshot.features import Features

__all__ = ["matched", "pairing"]

Compare = Callable[[Features, Features], Tensor]


def matched(query: Features, support: Features, compare: Compare) -> Float[Tensor, "query support"]:
    """Two persons against two: the better of both ways to pair them. One against two: the nearer of the two."""
    assert query.paired is not None
    assert support.paired is not None
    (q0, q1), (s0, s1) = query.persons, support.persons
    rows, columns = query.paired.nonzero()[:, 0], support.paired.nonzero()[:, 0]
    table = compare(q0, s0)
    if not len(rows) and not len(columns):
        return table
    best = table
    if len(rows):
        best = best.index_copy(0, rows, torch.minimum(best[rows], compare(q1[rows], s0)))
    if len(columns):
        other = torch.minimum(best[:, columns], compare(q0, s1[columns]))
        best = best.index_copy(1, columns, other)
    if len(rows) and len(columns):
        straight = table[rows][:, columns] + compare(q1[rows], s1[columns])
        crossed = compare(q0[rows], s1[columns]) + compare(q1[rows], s0[columns])
        both = best[rows].index_copy(1, columns, torch.minimum(straight, crossed) / 2)
        best = best.index_copy(0, rows, both)
    return best


def pairing(query: Features, support: Features, compare: Compare) -> tuple[tuple[int, int], ...]:
    """Whom ``matched`` compares of one clip and another: numbers of persons, the query's first."""
    ours, theirs = (
        range(2 if side.paired is not None and side.paired[0] else 1) for side in (query, support)
    )
    pairs = list(product(ours, theirs))
    if len(pairs) == 1:
        return ((0, 0),)
    apart = {(q, s): float(compare(query.person(q), support.person(s))) for q, s in pairs}
    ways = [((0, 0), (1, 1)), ((0, 1), (1, 0))] if len(pairs) == 4 else [(pair,) for pair in pairs]
    return min(ways, key=lambda way: sum(apart[pair] for pair in way))
