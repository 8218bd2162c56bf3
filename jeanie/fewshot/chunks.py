"""Encode a batch in chunks, so that memory does not grow with the number of clips."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Batch

__all__ = ["encode_in_chunks", "run_encoder"]

_CHUNK = 2**23  # input values that an encoder receives at once without gradients
_KEEP = 2**23  # input values whose activations are stored for the gradient
_RECOMPUTE = 2**21  # input values of a chunk that the backward pass encodes again


def run_encoder(encoder: nn.Module, blocks: Tensor, low: torch.dtype | None) -> Tensor:
    """Return the features of blocks, in their dtype; the encoder computes in the dtype ``low``, if given."""
    if low is None:
        plain: Tensor = encoder(blocks)
        return plain
    with torch.autocast(blocks.device.type, low):
        encoded: Tensor = encoder(blocks)
    return encoded.to(blocks.dtype)


def encode_in_chunks(
    encode: Callable[[Batch], Features],
    batch: Batch,
    values: int,
    encoder: nn.Module,
    *,
    needs_gradients: bool,
    recompute: bool = False,
) -> Features:
    """Return the features of a batch.

    Without gradients, clips are encoded in chunks. With gradients, a batch is encoded at once if it is small. A large
    one is encoded in chunks whose activations are not stored: the backward pass encodes them again.

    Args:
        encode: Function that encodes a chunk.
        batch: The clips.
        values: Input values of the encoder per clip.
        encoder: The encoder. One with batch normalisation depends on the whole batch and is never split for gradients.
        needs_gradients: Whether the features need gradients.
        recompute: Whether the backward pass encodes small batches again, too.
    """
    step = max(1, _CHUNK // values)
    if needs_gradients:
        has_batch_norm = any(isinstance(part, nn.BatchNorm2d) for part in encoder.modules())
        if (len(batch) * values <= _KEEP and not recompute) or has_batch_norm:
            return encode(batch)
        step = max(1, _RECOMPUTE // values)
    chunks = [batch[start : start + step] for start in range(0, len(batch), step)]
    if needs_gradients:
        return Features.cat([checkpoint(encode, chunk, use_reentrant=False) for chunk in chunks])
    return Features.cat([encode(chunk) for chunk in chunks])
