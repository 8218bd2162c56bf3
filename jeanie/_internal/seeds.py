"""Random numbers without state: they depend on a key of whole numbers only, not on earlier draws."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["derive_seed", "draw_uniform", "use_seed"]


def derive_seed(*key: int) -> int:
    """Return a seed for a key of non-negative whole numbers; it is the same on every machine.

    >>> derive_seed(0, 1) == derive_seed(0, 1) != derive_seed(0, 1, 0)
    True
    """
    # the length comes first because numpy pads a short key with zeros
    state = np.random.SeedSequence([len(key), *key]).generate_state(1, np.uint64)
    return int(state[0]) >> 1  # torch takes 63 bits


@contextmanager
def use_seed(*key: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed the global generators of torch, which dropout and initialisation use; on exit they are restored."""
    cuda = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(derive_seed(*key))
        yield


def draw_uniform(keys: Sequence[Sequence[int]], count: int) -> Float[Tensor, "key count"]:
    """Return ``count`` numbers from -1 to 1 for each key, float32."""
    rows = torch.empty(len(keys), count)
    for row, key in zip(rows, keys, strict=True):
        row.uniform_(-1, 1, generator=torch.Generator().manual_seed(derive_seed(*key)))
    return rows
