"""The temporal encoder: residual convolutions along the blocks of a motion, features of length 1."""

from collections.abc import Sequence
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from jeanie.encoders.config import TemporalEncoderConfig

__all__ = ["TemporalEncoder"]


class TemporalEncoder(nn.Module):
    """Turns blocks ``[*batch, block, number]`` into features of length 1, ``[*batch, output, feature]``.

    Unlike the paper's network, this one sees more than one block. ``strides`` has one residual layer per entry; their
    product is the number of input blocks per output. All motions of a batch need the same number of blocks, because
    the network would see padding.

    ``members`` form an ensemble. Their features are concatenated, so that a squared distance is the mean of the
    members' squared distances, or a weighted mean with ``shares``; a member whose share is 0 is not computed.
    ``scales`` gives every member its own strides with the same product: early strides see more context.

    ``positions`` appends the first three of every ``channels`` numbers, averaged over the blocks of an output and
    multiplied by this gain, so that distances keep positions that training might discard.

    A ``dense`` encoder returns one output per block: it reads the motion once from each of the first ``stride``
    blocks and interleaves the outputs. The weights are the same, so a network can be trained with few outputs, which
    are cheap to align, and used with all of them.
    """

    def __init__(self, numbers: int, config: TemporalEncoderConfig, *, channels: int = 3) -> None:
        super().__init__()
        self.stride, self.dense = prod(config.strides), config.dense
        self.positions, self.channels = config.positions, channels
        self.members = nn.ModuleList(
            _Member(numbers, config.width, config.features, strides, config.dropout)
            for strides in config.scales or [config.strides] * config.members
        )
        shares = config.shares or [1.0] * len(self.members)
        self.gains = [(share / sum(shares)) ** 0.5 for share in shares]

    def forward(self, blocks: Float[Tensor, "*batch block number"]) -> Float[Tensor, "*batch less feature"]:
        flat = blocks.flatten(0, -3) if blocks.dim() > 2 else blocks[None]
        features = self._encode_densely(flat) if self.dense and self.stride > 1 else self._encode(flat)
        return features.reshape(*blocks.shape[:-2], *features.shape[-2:])

    def _encode_densely(
        self, blocks: Float[Tensor, "batch block number"]
    ) -> Float[Tensor, "batch block feature"]:
        """Encode the motion from its first, second, ... block on; the last block is repeated."""
        count = blocks.shape[1]
        padded = torch.cat([blocks, blocks[:, -1:].expand(-1, self.stride - 1, -1)], 1)
        shifted = torch.cat([padded[:, start : start + count] for start in range(self.stride)])
        outputs: Tensor = self._encode(shifted).unflatten(0, (self.stride, -1)).movedim(0, 2).flatten(1, 2)
        return outputs[:, :count]

    def _encode(self, blocks: Float[Tensor, "batch block number"]) -> Float[Tensor, "batch less feature"]:
        outputs = [
            gain * member(blocks) if gain else None
            for member, gain in zip(self.members, self.gains, strict=True)
        ]
        zeros = torch.zeros_like(next(output for output in outputs if output is not None))
        features = torch.cat([zeros if output is None else output for output in outputs], -1)
        if self.positions:
            features = torch.cat([features, self.positions * self._average_positions(blocks)], -1)
        return features

    def _average_positions(
        self, blocks: Float[Tensor, "batch block number"]
    ) -> Float[Tensor, "batch less position"]:
        positions = blocks.unflatten(-1, (-1, self.channels))[..., :3].flatten(-2)
        return functional.avg_pool1d(positions.mT, self.stride, ceil_mode=True).mT


class _Member(nn.Module):
    def __init__(
        self, numbers: int, width: int, features: int, strides: Sequence[int], dropout: float
    ) -> None:
        super().__init__()
        self.enter = nn.Linear(numbers, width)
        self.layers = nn.ModuleList(_Residual(width, stride, dropout) for stride in strides)
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, features)

    def forward(self, blocks: Float[Tensor, "batch block number"]) -> Float[Tensor, "batch less feature"]:
        x = self.enter(blocks)
        for layer in self.layers:
            x = layer(x)
        return functional.normalize(self.leave(self.norm(x)), dim=-1)


class _Residual(nn.Module):
    """x + linear(GELU(convolution of 3 blocks(LayerNorm(x)))); a stride averages x.

    The convolution is a matrix product over three shifted copies, a third faster than ``Conv1d`` on a CPU.
    """

    def __init__(self, width: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(3 * width, width)
        self.point = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)
        self.stride = stride

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch less width"]:
        padded = functional.pad(self.norm(x), (0, 0, 1, 1))
        neighbours = [padded[:, start : start + x.shape[1] : self.stride] for start in range(3)]
        inner: Tensor = self.drop(self.point(functional.gelu(self.wide(torch.cat(neighbours, -1)))))
        skip = functional.avg_pool1d(x.mT, self.stride, ceil_mode=True).mT if self.stride > 1 else x
        return skip + inner
