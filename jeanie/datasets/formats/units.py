"""Units, up axes and frame rates of motion-capture files."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.errors import ConfigError, DataError

__all__ = [
    "TIME_UNITS",
    "UNITS",
    "UPS",
    "check_up",
    "compute_frame_rate",
    "estimate_frame_rate",
    "get_metres_per_unit",
    "parse_unit",
    "rotate_to_y_up",
]

UNITS = {"m": 1.0, "dm": 0.1, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}
# axis that points up -> the file's axes that become x, y and z, and their signs: rotations, no mirror
_TURNS = {
    "x": ((1, 0, 2), (-1.0, 1.0, 1.0)),
    "z": ((0, 2, 1), (1.0, 1.0, -1.0)),
    "-x": ((1, 0, 2), (1.0, -1.0, 1.0)),
    "-y": ((0, 1, 2), (-1.0, -1.0, 1.0)),
    "-z": ((0, 2, 1), (1.0, -1.0, 1.0)),
}
UPS = ("y", *_TURNS)
# unit of times -> seconds
TIME_UNITS = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3, "milliseconds": 1e-3, "us": 1e-6,
    "usec": 1e-6, "µs": 1e-6, "microseconds": 1e-6, "ns": 1e-9, "nanoseconds": 1e-9,
}  # fmt: skip
# largest step of times -> seconds per unit
_STEPS = ((2.0, 1.0), (2e3, 1e-3), (2e6, 1e-6), (np.inf, 1e-9))


def get_metres_per_unit(unit: str | float) -> float:
    """Return the length of a unit in metres. ``unit`` is a key of ``UNITS`` or already that number.

    >>> get_metres_per_unit("cm")
    0.01
    """
    if isinstance(unit, str):
        if unit.lower() not in UNITS:
            raise ConfigError(f"unit must be one of {', '.join(UNITS)} or a number of metres, got {unit!r}")
        return UNITS[unit.lower()]
    if not 0 < unit < float("inf"):
        raise ConfigError(f"a unit in metres must be above 0, got {unit!r}")
    return float(unit)


def parse_unit(path: Path, text: str) -> str:
    """Return the key of ``UNITS`` for the unit that a file names."""
    synonyms = {
        "meter": "m", "meters": "m", "metres": "m", "centimeters": "cm", "centimetres": "cm", "millimeters": "mm",
        "millimetres": "mm", "decimeters": "dm", "inches": "in", "inch": "in", "feet": "ft",
    }  # fmt: skip
    word = text.strip().lower()
    unit = synonyms.get(word, word)
    if unit not in UNITS:
        raise DataError(f"{path}: unit {text[:40]!r} is not one of {', '.join(UNITS)}; give unit=")
    return unit


def check_up(up: str) -> str:
    """Return the axis that points up; ConfigError if it is not one of ``UPS``."""
    if up not in UPS:
        raise ConfigError(f"up must be the axis that points up, one of {', '.join(UPS)}, got {up!r}")
    return up


def rotate_to_y_up(points: NDArray[Any], up: str) -> NDArray[Any]:
    """Rotate points [..., 3] so that +y is up; a right-handed system stays right-handed.

    z up: (x, y, z) -> (x, z, -y); x up: (x, y, z) -> (-y, x, z); -y up, as in images: (x, y, z) -> (-x, -y, z).
    """
    if check_up(up) == "y":
        return points
    axes, signs = _TURNS[up]
    rotated_points: NDArray[np.float64] = points[..., list(axes)] * np.array(signs, points.dtype)
    return rotated_points


def compute_frame_rate(seconds: float) -> float | None:
    """Return frames per second from seconds per frame, or None if that is not a sensible number.

    The result is rounded to two decimals, because programs write 1/120 s as .0083333.

    >>> compute_frame_rate(0.0083333), compute_frame_rate(0.0)
    (120.0, None)
    """
    if not 1e-6 < seconds < 1e6:
        return None
    return round(1 / seconds, 2) or 1 / seconds


def estimate_frame_rate(times: NDArray[Any], unit: float | None = None) -> float | None:
    """Return frames per second from the times of frames, or None if there are fewer than two times.

    Args:
        times: Times in any order; frames may be missing, and times may be rounded.
        unit: Seconds per unit of the times; None decides it by their step: below 2 are seconds, below 2,000
            milliseconds, below 2 million microseconds, else nanoseconds.

    >>> estimate_frame_rate(np.array([0, 33, 67, 100, 133, 200])), estimate_frame_rate(np.array([0.0, 0.04, 0.08]))
    (30.08, 25.0)
    """
    steps = np.diff(np.unique(times[np.isfinite(times)]))
    if not len(steps):
        return None
    middle = float(np.median(steps))
    if unit is None:
        unit = next(size for limit, size in _STEPS if middle < limit)
    return compute_frame_rate(unit * float(steps[steps < 1.5 * middle].mean()))
