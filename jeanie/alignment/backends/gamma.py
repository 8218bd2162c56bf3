"""The temperature ``gamma`` as constants that keep every digit of cost / gamma; both backends use them."""

import ctypes
import functools
import math
from decimal import Decimal, localcontext
from typing import NamedTuple

import torch

__all__ = ["GammaConstants", "split_gamma"]


class GammaConstants(NamedTuple):
    """``scale = -1 / (gamma ln 2)`` and ``unit = gamma ln 2``, each also as the unevaluated sum ``hi + lo``.

    ``scale_hi`` is rounded to the dtype of the costs. ``unit_hi`` has 18 significant bits, so that its product with a
    whole number below 2^35 is exact in float64.
    """

    scale_hi: float
    scale_lo: float
    unit: float
    unit_hi: float
    unit_lo: float


@functools.lru_cache(64)
def split_gamma(gamma: float, dtype: torch.dtype) -> GammaConstants:
    """Return the constants of ``gamma`` for costs of ``dtype``; all are 0 for the hard minimum."""
    if gamma == 0:
        return GammaConstants(0.0, 0.0, 0.0, 0.0, 0.0)
    with localcontext(prec=60):
        unit = Decimal(gamma) * Decimal(2).ln()
        scale = -1 / unit
        scale_hi = float(scale) if dtype == torch.float64 else ctypes.c_float(float(scale)).value
        mantissa, exponent = math.frexp(float(unit))
        unit_hi = math.ldexp(math.floor(mantissa * 2**18), exponent - 18)
        return GammaConstants(
            scale_hi, float(scale - Decimal(scale_hi)), float(unit), unit_hi, float(unit - Decimal(unit_hi))
        )
