"""Encode only the blocks that motions have, and not the padding of their batch."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.encoders import BlockEncoder
from jeanie.fewshot.batch import Batch
from jeanie.fewshot.chunks import run_encoder
from jeanie.fewshot.inputs import InputConfig
from jeanie.skeleton.blocks import compute_stride, count_blocks

__all__ = ["encode_blocks"]


def encode_blocks(
    encoder: BlockEncoder,
    blocks: Float[Tensor, "clip person *views block length joint channel"],
    batch: Batch,
    config: InputConfig,
    low: torch.dtype | None = None,
) -> Float[Tensor, "clip person *views output feature"]:
    """Return the features of the blocks of a batch.

    An encoder of single blocks gets no padding, and the features of padding are 0. The other encoders get all blocks.

    Args:
        encoder: The encoder.
        blocks: The blocks that ``arrange`` returns for the batch.
        batch: The clips.
        config: How the blocks were cut.
        low: Dtype in which the encoder computes, if it is not that of the blocks.
    """
    places = _find_real_blocks(batch, config) if encoder.is_per_block else None
    if places is None:
        return run_encoder(encoder, blocks, low)
    index = tuple(axis.to(blocks.device, non_blocking=True) for axis in places)
    ordered = blocks.movedim(-4, 2)  # [clip, person, block, *views, ...]
    encoded = run_encoder(encoder, ordered[index], low)
    features = encoded.new_zeros(*ordered.shape[:3], *encoded.shape[1:])
    return features.index_put(index, encoded).movedim(2, -2)


def _find_real_blocks(batch: Batch, config: InputConfig) -> tuple[Int[Tensor, " real"], ...] | None:
    """Return clip, person and number of every block that is not padding, on the host; None if there is no padding."""
    counts = count_blocks(batch.frames, config.block, compute_stride(config.block, config.stride))
    people = batch.joints.shape[1]
    persons = torch.full_like(counts, people) if batch.persons is None else batch.persons
    is_present = torch.arange(people) < persons[:, None]
    is_inside = torch.arange(int(counts.max())) < counts[:, None]
    is_real = is_present[:, :, None] & is_inside[:, None]
    return None if bool(is_real.all()) else torch.nonzero(is_real, as_tuple=True)
