"""Encode many motions in batches that fit into memory; training, evaluation and labelling share this."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel

__all__ = [
    "FIRST_BATCH",
    "MAX_BATCH",
    "MAX_NUMBERS",
    "Progress",
    "count_numbers",
    "encode_batches",
    "encode_groups",
    "evaluation_mode",
]

Progress = Callable[[int, int], Any]
"""A function that is called with (pairs done, pairs in total)."""

FIRST_BATCH = 16  # clips in the first batch, before the size of the features is known
MAX_BATCH = 512  # clips in a batch
MAX_NUMBERS = 2**26  # numbers in the features of queries or of supports at a time: 256 MB in float32


@contextmanager
def evaluation_mode(model: FewShotModel) -> Iterator[None]:
    """Switch a model to evaluation mode without gradients.

    On exit the training mode and the measured cost scale are restored.
    """
    training = model.training
    scales = [
        (buffer, buffer.clone()) for name, buffer in model.named_buffers() if name.endswith("cost_scale")
    ]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)
        for buffer, value in scales:
            buffer.copy_(value)


def encode_batches(
    model: FewShotModel, store: Store, clips: Tensor, side: Literal["query", "support"]
) -> Iterator[tuple[slice, Features]]:
    """Encode clips batch by batch; a batch is as large as memory allows.

    Yields:
        The positions of the batch in ``clips``, and its features.
    """
    start, size = 0, FIRST_BATCH
    while start < len(clips):
        batch = slice(start, min(start + size, len(clips)))
        features = model.features(store[clips[batch]], side)
        yield batch, features
        start = batch.stop
        size = max(1, min(MAX_BATCH, MAX_NUMBERS * len(features) // count_numbers(features)))


def encode_groups(
    model: FewShotModel, store: Store, clips: Tensor
) -> Iterator[tuple[Int[Tensor, " clip"], Features]]:
    """Encode support clips in groups that fit into memory, usually a single group.

    Yields:
        The clips of the group, in the order of ``clips``, and their features.
    """
    first, numbers, parts = 0, 0, []
    for batch, features in encode_batches(model, store, clips, "support"):
        parts.append(features)
        numbers += count_numbers(features)
        if numbers >= MAX_NUMBERS or batch.stop == len(clips):
            yield clips[first : batch.stop], Features.cat(parts)
            first, numbers, parts = batch.stop, 0, []


def count_numbers(features: Features) -> int:
    """Return how many numbers features hold, those of components included."""
    return features.values.numel() + sum(count_numbers(part) for part in features.components)
