"""A tensor that is computed, not learnt, and lives in a module beside the weights."""

from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor, nn

__all__ = ["Constant"]


class Constant(nn.Module):
    """A fixed tensor that goes wherever its module goes: same dtype, same device, in no state dict.

    A plain buffer would keep the rounding of its first dtype: made in float32 and then ``.double()``, it is
    wrong in the eighth digit. This one is cast from its float64 values every time the module is moved.
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
        """The tensor, in the dtype and on the device of the module."""
        return self.value
