"""Randomness without state: whatever is drawn depends on a key of whole numbers, not on what was drawn before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["drawn", "seed_of", "seeded"]


def seed_of(*key: int) -> int:
    """One seed for a key of whole numbers of 0 or more; the same on any machine.

    >>> seed_of(0, 1) == seed_of(0, 1) != seed_of(0, 1, 0)
    True
    """
    # the length comes first because numpy pads a short key with zeros
    state = np.random.SeedSequence([len(key), *key]).generate_state(1, np.uint64)
    return int(state[0]) >> 1  # torch takes 63 bits


@contextmanager
def seeded(*key: int, device: torch.device | None = None) -> Iterator[None]:
    """Torch's own generators, which dropout and initialisation draw from, seeded here and restored after."""
    cuda = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed_of(*key))
        yield


def drawn(keys: Sequence[Sequence[int]], count: int) -> Float[Tensor, "key count"]:
    """``count`` numbers from -1 to 1 for each key, float32."""
    rows = torch.empty(len(keys), count)
    for row, key in zip(rows, keys, strict=True):
        row.uniform_(-1, 1, generator=torch.Generator().manual_seed(seed_of(*key)))
    return rows
