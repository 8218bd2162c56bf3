"""The dense temporal encoder without gradients: the same features from about two thirds of the multiplications.

A dense encoder of stride 2 reads a motion from its first and from its second block. In layers before the stride, both
passes see the same neighbours, except near the ends. Those layers run once, and again on a few blocks at each end.
Convolutions of 3 blocks use the minimal filtering F(2, 3) of Winograd: 4 products per 2 outputs instead of 6.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from jeanie.encoders.matrix_product import multiply
from jeanie.encoders.temporal import TemporalEncoder
from jeanie.errors import ShapeError

__all__ = ["FastTemporalEncoder", "can_run_fast"]

_STRIDE = 2
_MIN_BLOCKS = 8  # shorter motions are nothing but ends


def can_run_fast(encoder: object) -> bool:
    """Return whether ``FastTemporalEncoder`` can run this network: dense, of stride 2, without positions."""
    return (
        isinstance(encoder, TemporalEncoder)
        and encoder.dense
        and encoder.stride == _STRIDE
        and not encoder.positions
        and all(encoder.gains)
        and not encoder.training
    )


class FastTemporalEncoder:
    """Computes the features of ``TemporalEncoder``, up to rounding. It copies the weights.

    Args:
        encoder: A network for which ``can_run_fast`` holds.

    >>> from jeanie.encoders.config import TemporalEncoderConfig
    >>> config = TemporalEncoderConfig(features=4, width=8, dense=True, members=2)
    >>> encoder = TemporalEncoder(6, config).eval()
    >>> blocks = torch.randn(3, 16, 6)
    >>> torch.allclose(FastTemporalEncoder(encoder)(blocks), encoder(blocks), atol=1e-5)
    True
    """

    def __init__(self, encoder: TemporalEncoder) -> None:
        self._members = [
            _Member(member, gain) for member, gain in zip(encoder.members, encoder.gains, strict=True)
        ]
        # the first layers of all members are one matrix product
        members: Any = encoder.members
        self._enter = torch.cat([member.enter.weight for member in members]).detach()
        self._enter_bias = torch.cat([member.enter.bias for member in members]).detach()

    @staticmethod
    def takes(blocks: int) -> bool:
        """Return whether motions may have this number of blocks: even, and 8 or more."""
        return blocks % _STRIDE == 0 and blocks >= _MIN_BLOCKS

    @torch.inference_mode()
    def __call__(self, blocks: Float[Tensor, "batch block number"]) -> Float[Tensor, "batch block feature"]:
        """Return the features of every block. The number of blocks is even and at least 8."""
        if not self.takes(blocks.shape[1]):
            raise ShapeError(f"needs an even number of at least {_MIN_BLOCKS} blocks, got {blocks.shape[1]}")
        entered = multiply(blocks, self._enter, self._enter_bias).unflatten(-1, (len(self._members), -1))
        return torch.cat(
            [member.run(entered[..., place, :]) for place, member in enumerate(self._members)], -1
        )


class _Member:
    def __init__(self, member: Any, gain: float) -> None:
        self.layers = [_Layer(layer) for layer in member.layers]
        self.first = next(place for place, layer in enumerate(self.layers) if layer.stride == _STRIDE)
        self.norm, self.leave, self.gain = member.norm, member.leave, gain

    def run(self, x: Tensor) -> Tensor:
        """Return the features of every block. Passes from the first and the second block form one batch."""
        reach = self.first
        ends = self._run_ends(x) if reach else None
        for layer in self.layers[:reach]:
            x = layer.run(x)
        if ends is None:
            second = torch.cat([x[:, 1:], x[:, -1:]], 1)
        else:
            second = torch.cat([ends[0], x[:, 1 + reach : -reach], ends[1]], 1)
        features = self.layers[self.first].run_strided(x, second, self.first)
        for layer in self.layers[self.first + 1 :]:
            features = layer.run(features)
        out: Tensor = functional.normalize(
            multiply(self.norm(features), self.leave.weight, self.leave.bias), dim=-1
        ).mul_(self.gain)
        interleaved: Tensor = out.unflatten(0, (_STRIDE, -1)).movedim(0, 2).flatten(1, 2)
        return interleaved

    def _run_ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the layers before the stride give near the two ends if the second block is the first."""
        length = 2 * self.first + 1
        ends = torch.cat([x[:, 1 : 1 + length], torch.cat([x[:, 1 - length :], x[:, -1:]], 1)])
        for layer in self.layers[: self.first]:
            ends = layer.run(ends)
        left, right = ends.chunk(2)
        return left[:, : self.first], right[:, -self.first - 1 :]


class _Layer:
    """x + linear(GELU(convolution of 3 blocks(LayerNorm(x))))."""

    def __init__(self, layer: Any) -> None:
        self.norm, self.wide, self.point, self.stride = layer.norm, layer.wide, layer.point, layer.stride
        before, centre, after = self.wide.weight.detach().T.chunk(3)
        filters = torch.stack([before, (before + centre + after) / 2, (before - centre + after) / 2, after])
        self.filters = filters.transpose(1, 2).contiguous()

    def run(self, x: Tensor) -> Tensor:
        """Run the layer with stride 1."""
        padded = functional.pad(self.norm(x), (0, 0, 1, 1))
        wide = self._filter(padded) if x.shape[1] % 2 == 0 else self._convolve(padded, 0, x.shape[1], 1)
        return self._finish(wide).add_(x)

    def run_strided(self, x: Tensor, second: Tensor, reach: int) -> Tensor:
        """Run the layer with stride 2 on ``x`` and on ``second``, which is ``x`` from its second block on.

        They differ in ``reach`` blocks at the start and in one more at the end. One convolution of stride 1 gives the
        outputs of both; those near the ends are computed again.
        """
        count = x.shape[1]
        padded = functional.pad(self.norm(x), (0, 0, 1, 1))
        wide = torch.stack(list(self._filter(padded).unflatten(1, (-1, 2)).unbind(2)))
        left, right = reach // 2 + 1, (reach + 1) // 2 + 1
        other = functional.pad(self.norm(second), (0, 0, 1, 1))
        wide[1, :, :left] = self._convolve(other, 0, left, 2)
        wide[1, :, -right:] = self._convolve(other, count - 2 * right, right, 2)
        skip = torch.stack([x, second]).unflatten(2, (-1, 2))
        inner = self._finish(wide)
        inner.add_(skip[:, :, :, 0], alpha=0.5).add_(skip[:, :, :, 1], alpha=0.5)
        return inner.flatten(0, 1)

    def _finish(self, wide: Tensor) -> Tensor:
        return multiply(functional.gelu(wide), self.point.weight, self.point.bias)

    def _convolve(self, padded: Tensor, first: int, count: int, stride: int) -> Tensor:
        """Return ``count`` outputs of the convolution from block ``first`` on."""
        shifted = [padded[:, first + at : first + at + count * stride : stride][:, :count] for at in range(3)]
        return multiply(torch.cat(shifted, -1), self.wide.weight, self.wide.bias)

    def _filter(self, padded: Tensor) -> Tensor:
        """Return the convolution by F(2, 3)."""
        batch, length, width = padded.shape
        count = length // 2 - 1
        d0, d1 = padded[:, 0:-2:2], padded[:, 1:-1:2]
        d2, d3 = padded[:, 2::2], padded[:, 3::2]
        inputs = padded.new_empty(4, batch, count, width)
        torch.sub(d0, d2, out=inputs[0])
        torch.add(d1, d2, out=inputs[1])
        torch.sub(d2, d1, out=inputs[2])
        torch.sub(d1, d3, out=inputs[3])
        m0, m1, m2, m3 = (multiply(part, kernel) for part, kernel in zip(inputs, self.filters, strict=True))
        m1 += self.wide.bias
        out = padded.new_empty(batch, count, 2, width)
        torch.add(m0, m1, out=out[:, :, 0]).add_(m2)
        torch.sub(m1, m2, out=out[:, :, 1]).sub_(m3)
        return out.flatten(1, 2)
