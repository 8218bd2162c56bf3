"""A tensor of a module that is computed, not learnt."""

from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor, nn

__all__ = ["Constant"]


class Constant(nn.Module):
    """A fixed tensor with the dtype and device of its module; it is not in the state dict.

    A plain buffer would keep the rounding of its first dtype: created in float32 and converted to float64, it is
    wrong in the eighth digit. This tensor is converted from its float64 values whenever the module is moved.
    """

    value: Tensor

    def __init__(self, exact: Float64[Tensor, "..."]) -> None:
        super().__init__()
        self._exact = exact
        self.register_buffer("value", exact.to(torch.get_default_dtype()), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Constant":
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # first the dtype, then the device: some devices have no float64
        self.value = self._exact.to(self.value.dtype).to(self.value.device)
        return self

    def forward(self) -> Tensor:
        """Return the tensor in the dtype and on the device of the module."""
        return self.value
