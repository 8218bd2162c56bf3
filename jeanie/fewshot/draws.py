"""Random draws without replacement that any machine and any process can repeat."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from jeanie.errors import ConfigError

__all__ = ["Draw"]

Item = TypeVar("Item")


class Draw:
    """Draws without replacement from a key of integers; equal keys give equal draws in every version of numpy.

    numpy keeps the raw output of a bit generator unchanged between versions, but not the output of its random
    methods. This class therefore computes the choices from the raw words of PCG64 (Fisher-Yates shuffle; an index is
    a word modulo the number of remaining items).

    >>> Draw(0, 7).pick("abcdef", 3) == Draw(0, 7).pick("abcdef", 3)
    True
    """

    def __init__(self, *key: int) -> None:
        if any(part < 0 for part in key):
            raise ConfigError(f"a seed must be an integer of 0 or more, got {key}")
        # the length comes first because numpy pads a short key with zeros: (5,) would equal (5, 0)
        self._words = np.random.PCG64(np.random.SeedSequence([len(key), *key]))

    def pick_indices(self, total: int, count: int) -> list[int]:
        """Return ``count`` different numbers below ``total``, in the order in which they were drawn."""
        swapped: dict[int, int] = {}
        indices = []
        for index in range(count):
            other = index + int(self._words.random_raw()) % (total - index)
            indices.append(swapped.get(other, other))
            swapped[other] = swapped.get(index, index)
        return indices

    def pick(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return ``count`` of the items, each index at most once, in the order in which they were drawn."""
        return [items[index] for index in self.pick_indices(len(items), count)]
