"""Weights that are means over the steps of a training."""

import torch
from torch import nn

__all__ = ["average"]


@torch.no_grad()
def average(mean: nn.Module, model: nn.Module, keep: float) -> None:
    """One step of a running mean of weights, mean = keep * mean + (1 - keep) * model; buffers are copied."""
    for old, new in zip(mean.parameters(), model.parameters(), strict=True):
        old.lerp_(new, 1 - keep)
    for kept, now in zip(mean.buffers(), model.buffers(), strict=True):
        kept.copy_(now)
