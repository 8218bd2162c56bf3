"""Moving average of the weights over training steps."""

import torch
from torch import nn

__all__ = ["update_average"]


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Update a moving average of weights in place: average = decay * average + (1 - decay) * model.

    Buffers are copied.
    """
    for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
        mean.lerp_(weight, 1 - decay)
    for averaged, current in zip(average.buffers(), model.buffers(), strict=True):
        averaged.copy_(current)
