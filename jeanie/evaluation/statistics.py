"""Intervals and tests for accuracies: Student's t, Wilson, McNemar, Holm; exact and without SciPy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, stdev

from jeanie.errors import ConfigError

__all__ = [
    "Estimate",
    "estimate_mean",
    "estimate_paired_share",
    "estimate_share",
    "holm",
    "incomplete_beta",
    "mcnemar",
    "t_p_value",
    "t_quantile",
]

Number = float

_TINY = 1e-300
_TERMS = 10_000


@dataclass(frozen=True)
class Estimate:
    """A value with a two-sided interval."""

    value: float
    low: float
    high: float
    margin: float | None = None  # half the width before the interval was limited

    @property
    def half(self) -> float:
        """Half the width of the interval, before it was limited to possible values."""
        return (self.high - self.low) / 2 if self.margin is None else self.margin

    def times(self, factor: Number) -> "Estimate":
        """Return the estimate in another unit, such as percent."""
        margin = None if self.margin is None else self.margin * factor
        return Estimate(self.value * factor, self.low * factor, self.high * factor, margin)

    def limit(self, least: Number, most: Number) -> "Estimate":
        """Return the estimate with an interval inside the possible values."""
        return Estimate(self.value, max(float(least), self.low), min(float(most), self.high), self.half)


def incomplete_beta(a: Number, b: Number, x: Number, complement: Number | None = None) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1.

    The continued fraction converges fast where x < (a + 1) / (a + b + 2); elsewhere I_x(a, b) =
    1 - I_{1-x}(b, a). ``complement`` is 1 - x if it is known more exactly than by subtraction.

    >>> incomplete_beta(1, 1, 0.25)
    0.25
    """
    rest = 1 - x if complement is None else complement
    if x <= 0 or rest <= 0:
        return float(x > 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, rest, x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(log_front) / a / _evaluate_continued_fraction(a, b, x)


def _evaluate_continued_fraction(a: Number, b: Number, x: Number) -> float:
    """Return 1 + d1/(1 + d2/(1 + ...)) of the incomplete beta function by Lentz's method."""
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _TERMS):
        m = term // 2
        if term % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + step * d or _TINY)
        c = 1 + step / c or _TINY
        value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value


def t_p_value(t: Number, degrees: Number) -> float:
    """Return P(|T| >= |t|) for Student's t: I_x(degrees / 2, 1 / 2) at x = degrees / (degrees + t^2)."""
    if math.isinf(t):
        return 0.0
    total = degrees + t * t
    return incomplete_beta(degrees / 2, 0.5, degrees / total, t * t / total)


@lru_cache(maxsize=256)
def t_quantile(p: float, degrees: Number) -> float:
    """Return the ``p`` quantile of Student's t distribution by bisection.

    >>> round(t_quantile(0.975, 9), 6)
    2.262157
    """
    if not 0 < p < 1 or not degrees > 0:
        raise ConfigError(f"a quantile needs 0 < p < 1 and degrees > 0, got p={p}, degrees={degrees}")
    if p < 0.5:
        return -t_quantile(1 - p, degrees)
    outside = 2 * (1 - p)
    low, high = 0.0, 1.0
    while t_p_value(high, degrees) > outside:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if t_p_value(middle, degrees) > outside else (low, middle)
    return high


def estimate_mean(values: Sequence[Number], confidence: float = 0.95) -> tuple[Estimate, float]:
    """Estimate the mean of independent values with Student's interval, mean +- t_{n-1} s / sqrt(n).

    Equal values have an interval of width 0.

    Returns:
        The estimate, and the p-value of "the mean is 0".

    Raises:
        ConfigError: There are fewer than 2 values.
    """
    count = len(values)
    if count < 2:
        raise ConfigError(f"Student's interval needs 2 or more values, got {count}")
    mean, error = fmean(values), stdev(values) / math.sqrt(count)
    half = t_quantile((1 + confidence) / 2, count - 1) * error
    t = mean / error if error > 0 else math.copysign(math.inf, mean) if mean else 0.0
    p = t_p_value(t, count - 1)
    return Estimate(mean, mean - half, mean + half), p


def estimate_share(hits: int, count: int, confidence: float = 0.95) -> Estimate:
    """Estimate the share of hits among independent trials with Wilson's score interval."""
    if not 0 <= hits <= count or not count:
        raise ConfigError(f"a share needs hits among one or more trials, got {hits} of {count}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = hits / count
    scale = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    # with no hits or only hits, one end is exactly 0 or 1
    low = 0.0 if hits == 0 else middle - half
    high = 1.0 if hits == count else middle + half
    return Estimate(share, low, high)


def mcnemar(first_only: int, second_only: int) -> float:
    """Return the exact two-sided p-value of McNemar's test for two methods on the same trials.

    p = 2 P(X <= min) of X ~ Binomial(first_only + second_only, 1/2), at most 1.

    >>> mcnemar(0, 5)
    0.0625
    """
    count = first_only + second_only
    ways, term = 0, 1
    for k in range(min(first_only, second_only) + 1):
        ways += term
        term = term * (count - k) // (k + 1)
    return min(1.0, 2 * ways / (1 << count))


def estimate_paired_share(
    first_only: int, second_only: int, count: int, confidence: float = 0.95
) -> Estimate:
    """Estimate the difference of two shares on the same trials, first minus second, with Bonett and Price's interval.

    The interval adds one trial per side: p1 = (first_only + 1) / (count + 2), p2 likewise, and
    p1 - p2 +- z sqrt((p1 + p2 - (p1 - p2)^2) / (count + 2)). If few pairs differ, Wald's interval is too short.
    """
    if not 0 <= first_only + second_only <= count or not count:
        raise ConfigError(f"of {count} trials {first_only} and {second_only} cannot differ")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p1, p2 = (first_only + 1) / (count + 2), (second_only + 1) / (count + 2)
    half = z * math.sqrt((p1 + p2 - (p1 - p2) ** 2) / (count + 2))
    low, high = max(-1.0, p1 - p2 - half), min(1.0, p1 - p2 + half)
    return Estimate((first_only - second_only) / count, low, high)


def holm(p_values: Sequence[Number]) -> tuple[float, ...]:
    """Adjust p-values for multiple comparisons by Holm's method.

    >>> holm((0.01, 0.04, 0.03))
    (0.03, 0.06, 0.06)
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return tuple(adjusted)
