"""Encoders from outside: any module that maps blocks ``[n, block, joint, channel]`` to features ``[n, feature]``."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jeanie.errors import ShapeError

__all__ = ["FoldedEncoder", "measure_features"]


class FoldedEncoder(nn.Module):
    """A module over single blocks, applied to blocks with any axes before them."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(
        self, blocks: Float[Tensor, "*batch length joint channel"]
    ) -> Float[Tensor, "*batch feature"]:
        """Return the features of every block.

        Raises:
            ShapeError: The module does not return one feature vector per block.
        """
        batch = blocks.shape[:-3]
        features = self.module(blocks.reshape(-1, *blocks.shape[-3:]))
        count = batch.numel()
        if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != count:
            actual = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise ShapeError(
                f"the encoder {type(self.module).__name__} got blocks of shape {(count, *blocks.shape[-3:])} and needs "
                f"to return features of shape ({count}, feature), got {actual}; flatten or average the other axes"
            )
        return features.view(*batch, -1)


def measure_features(module: nn.Module, block: int, joints: int, channels: int) -> int:
    """Return the size of the features of a module, from one run on two blocks of zeros in evaluation mode."""
    weight = next(module.parameters(), None)
    is_lazy = isinstance(weight, nn.UninitializedParameter)
    blocks = torch.zeros(2, block, joints, channels)
    if weight is not None and not is_lazy:
        blocks = blocks.to(weight.device, weight.dtype)
    training = module.training
    try:
        with torch.no_grad():
            features: Tensor = FoldedEncoder(module).eval()(blocks)
    except RuntimeError as error:
        raise ShapeError(
            f"the encoder {type(module).__name__} fails on blocks of shape {tuple(blocks.shape)} "
            f"(block, frame, joint, channel): {error}"
        ) from None
    finally:
        module.train(training)
    return features.shape[-1]
