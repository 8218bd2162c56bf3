"""Animation curves of glTF 2.0: step, linear (spherical for rotations) and cubic-spline interpolation."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Curve", "sample_curve"]

Floats = NDArray[np.float64]
_PARALLEL = 0.9995  # cosine above which a spherical interpolation is a linear one


@dataclass(frozen=True, eq=False)
class Curve:
    """Keys of a curve: ``times`` [key], ``values`` [key, width], for CUBICSPLINE [3 x key, width], and the ``way``."""

    times: Floats
    values: Floats
    way: str


@np.errstate(invalid="ignore", divide="ignore")
def sample_curve(curve: Curve, times: Floats, *, is_rotation: bool = False) -> Floats:
    """Return the values [time, width] of a curve; before the first and after the last key it is constant."""
    last = len(curve.times) - 1
    low = np.clip(np.searchsorted(curve.times, times, side="right") - 1, 0, max(last - 1, 0))
    high = np.minimum(low + 1, last)
    step = (curve.times[high] - curve.times[low])[:, None]
    part = np.clip((times - curve.times[low])[:, None] / np.where(step > 0, step, 1.0), 0.0, 1.0)
    if curve.way == "CUBICSPLINE":
        return _sample_spline(curve.values.reshape(last + 1, 3, -1), low, high, step, part)
    start, end = curve.values[low], curve.values[high]
    if curve.way == "STEP":
        return np.where(part >= 1.0, end, start)
    return _slerp(start, end, part) if is_rotation else start + (end - start) * part


def _sample_spline(
    keys: Floats, low: NDArray[np.int64], high: NDArray[np.int64], step: Floats, part: Floats
) -> Floats:
    """Return the cubic Hermite spline of keys [key, (in-tangent, value, out-tangent), width] (glTF 2.0, appendix C)."""
    square, cube = part**2, part**3
    value: Floats = (
        (2 * cube - 3 * square + 1) * keys[low, 1]
        + step * (cube - 2 * square + part) * keys[low, 2]
        + (3 * square - 2 * cube) * keys[high, 1]
        + step * (cube - square) * keys[high, 0]
    )
    return value


def _slerp(start: Floats, end: Floats, part: Floats) -> Floats:
    """Return the spherical interpolation of quaternions along the shorter way."""
    cosine = (start * end).sum(-1, keepdims=True)
    end, cosine = np.where(cosine < 0, -end, end), np.abs(cosine)
    angle = np.arccos(np.clip(cosine, -1.0, 1.0))
    near = cosine > _PARALLEL
    sine = np.where(near, 1.0, np.sin(angle))
    first = np.where(near, 1 - part, np.sin((1 - part) * angle) / sine)
    second = np.where(near, part, np.sin(part * angle) / sine)
    return first * start + second * end
