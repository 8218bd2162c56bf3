"""An encoder over time: residual convolutions along the blocks of a motion, unit features out."""

from collections.abc import Sequence
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["TemporalEncoder"]


class TemporalEncoder(nn.Module):
    """Blocks ``[*batch, block, number]`` as features of length 1, ``[*batch, fewer blocks, feature]``.

    Unlike the paper's network it looks beyond a block: ``strides`` has one residual layer an entry, and their
    product is the number of input blocks that one output stands for. Several ``members`` are an ensemble: their
    features lie side by side, so that squared distances are the means of the members' own, or with ``shares`` (of
    their sum) weighted means; a member without a share is not asked. ``scales`` gives every member strides of its
    own, of the same product: with early ones it sees more of the motion around an output.
    Every motion of a batch needs as many blocks, as padding would be seen.

    With ``positions`` the first three of every ``channels`` numbers, averaged over the blocks that an output stands
    for, lie beside the features with that gain: what training could forget stays in the distances.

    A ``dense`` encoder has an output for every block: the motion is read once from each of its first ``stride``
    blocks on, and the outputs take turns. The weights are the same, so that a network may learn with the cheap
    alignments of few outputs and be used with the finer ones.
    """

    def __init__(
        self,
        numbers: int,
        *,
        width: int = 128,
        features: int = 64,
        strides: Sequence[int] = (2, 1, 1),
        dropout: float = 0.0,
        members: int = 1,
        positions: float = 0.0,
        channels: int = 3,
        dense: bool = False,
        scales: Sequence[Sequence[int]] = (),
        shares: Sequence[float] = (),
    ) -> None:
        super().__init__()
        self.stride, self.dense = prod(strides), dense
        self.positions, self.channels = positions, channels
        self.members = nn.ModuleList(
            _Member(numbers, width, features, own, dropout) for own in scales or [strides] * members
        )
        shares = shares or [1.0] * len(self.members)
        self.gains = [(share / sum(shares)) ** 0.5 for share in shares]

    def forward(self, blocks: Float[Tensor, "*batch block number"]) -> Float[Tensor, "*batch less feature"]:
        flat = blocks.flatten(0, -3) if blocks.dim() > 2 else blocks[None]
        found = self._densely(flat) if self.dense and self.stride > 1 else self._read(flat)
        return found.reshape(*blocks.shape[:-2], *found.shape[-2:])

    def _densely(self, blocks: Float[Tensor, "batch block number"]) -> Float[Tensor, "batch block feature"]:
        """Readings from the first, second, ... block on, the last block held, with their outputs in turns."""
        count = blocks.shape[1]
        held = torch.cat([blocks, blocks[:, -1:].expand(-1, self.stride - 1, -1)], 1)
        later = torch.cat([held[:, at : at + count] for at in range(self.stride)])
        in_turns: Tensor = self._read(later).unflatten(0, (self.stride, -1)).movedim(0, 2).flatten(1, 2)
        return in_turns[:, :count]

    def _read(self, blocks: Float[Tensor, "batch block number"]) -> Float[Tensor, "batch less feature"]:
        told = [
            gain * one(blocks) if gain else None for one, gain in zip(self.members, self.gains, strict=True)
        ]
        silent = torch.zeros_like(next(one for one in told if one is not None))
        found = torch.cat([silent if one is None else one for one in told], -1)
        if self.positions:
            found = torch.cat([found, self.positions * self._positions(blocks)], -1)
        return found

    def _positions(self, blocks: Float[Tensor, "batch block number"]) -> Float[Tensor, "batch less position"]:
        own = blocks.unflatten(-1, (-1, self.channels))[..., :3].flatten(-2)
        return functional.avg_pool1d(own.mT, self.stride, ceil_mode=True).mT


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
    """x + linear(GELU(convolution of 3 blocks(LayerNorm(x)))); with a stride the way past it is a mean.

    The convolution is a matrix product over three shifted copies, on processors a third quicker than ``Conv1d``.
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
        near = [padded[:, at : at + x.shape[1] : self.stride] for at in range(3)]
        inner: Tensor = self.drop(self.point(functional.gelu(self.wide(torch.cat(near, -1)))))
        past = functional.avg_pool1d(x.mT, self.stride, ceil_mode=True).mT if self.stride > 1 else x
        return past + inner
