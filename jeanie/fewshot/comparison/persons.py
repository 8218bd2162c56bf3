"""Comparison of two persons with two, or with one."""

from collections.abc import Callable
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.fewshot.features import Features

__all__ = ["compare_persons", "match_persons"]

Compare = Callable[[Features, Features], Tensor]


def compare_persons(query: Features, support: Features, compare: Compare) -> Float[Tensor, "query support"]:
    """Return distances with persons matched.

    If both clips have two persons, the better of the two possible matches counts. If only one clip has two persons,
    the closer person counts.
    """
    if query.second is None:
        return compare(query, support)
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
        pair_distances = best[rows].index_copy(1, columns, torch.minimum(straight, crossed) / 2)
        best = best.index_copy(0, rows, pair_distances)
    return best


def match_persons(query: Features, support: Features, compare: Compare) -> tuple[tuple[int, int], ...]:
    """Return the pairs (query person, support person) that ``compare_persons`` compares for a single pair of clips."""
    queries, supports = (
        range(2 if side.paired is not None and side.paired[0] else 1) for side in (query, support)
    )
    pairs = list(product(queries, supports))
    if len(pairs) == 1:
        return ((0, 0),)
    distances = {(q, s): float(compare(query.person(q), support.person(s))) for q, s in pairs}
    matches = [((0, 0), (1, 1)), ((0, 1), (1, 0))] if len(pairs) == 4 else [(pair,) for pair in pairs]
    return min(matches, key=lambda match: sum(distances[pair] for pair in match))
