"""Intervals and tests against SciPy and against counting."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from jeanie.errors import ConfigError
from jeanie.evaluation.statistics import (
    estimate_mean,
    estimate_paired_share,
    estimate_share,
    holm,
    incomplete_beta,
    mcnemar,
    t_p_value,
    t_quantile,
)

DEGREES = [1, 2, 3, 4, 9, 19, 30, 299, 5000, 100_000]


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1, 1), (2, 7), (4.5, 0.5), (150, 0.5), (3, 400)])
def test_the_incomplete_beta_function_is_scipys(a, b):
    for x in (0.0, 1e-12, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-9, 1.0):
        assert incomplete_beta(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("degrees", DEGREES)
def test_quantiles_of_student_are_scipys(degrees):
    for p in (1e-6, 0.01, 0.025, 0.3, 0.5, 0.8, 0.95, 0.975, 0.995, 1 - 1e-7):
        assert t_quantile(p, degrees) == pytest.approx(stats.t.ppf(p, degrees), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("degrees", DEGREES)
def test_p_values_of_student_are_scipys(degrees):
    for t in (0.0, 1e-3, 0.7, -2.0, 5.0, 30.0):
        expected = 2 * stats.t.sf(abs(t), degrees)
        assert t_p_value(t, degrees) == pytest.approx(expected, rel=1e-8, abs=1e-300)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40).filter(lambda values: np.std(values) > 1e-6))
def test_the_mean_has_scipys_interval_and_p_value(values):
    found, p = estimate_mean(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert found.value == pytest.approx(np.mean(values), abs=1e-9)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-9)
    assert found.half == pytest.approx((high - low) / 2, rel=1e-9)
    assert p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-6, abs=1e-12)


def test_the_interval_holds_the_true_mean_in_95_of_100_cases():
    rng = np.random.default_rng(0)
    inside = [
        found.low <= 3 <= found.high
        for found, _ in (estimate_mean(rng.normal(3, 2, size=5).tolist()) for _ in range(2000))
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 2000))


def test_values_that_are_all_alike_have_an_interval_of_width_0():
    found, p = estimate_mean([2.0, 2.0, 2.0])
    assert (found.value, found.low, found.high, p) == (2, 2, 2, 0)
    assert estimate_mean([0.0, 0.0])[1] == 1


@pytest.mark.parametrize("count", [1, 2, 10, 289, 7500])
def test_a_share_has_wilsons_interval_as_in_scipy(count):
    for hits in sorted({0, 1, count // 3, count - 1, count}):
        expected = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
        found = estimate_share(hits, count)
        assert found.value == hits / count
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-10, abs=1e-12)
        assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize(
    ("first", "second"), [(0, 0), (0, 5), (3, 3), (7, 12), (40, 11), (200, 260), (3000, 2800)]
)
def test_mcnemars_test_is_scipys_binomial_test(first, second):
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(second, first) == mcnemar(first, second)


def test_mcnemars_test_counts_the_ways_a_coin_can_fall():
    falls = [sum(fall) for fall in product((0, 1), repeat=9)]
    expected = sum(abs(heads - 4.5) >= abs(2 - 4.5) for heads in falls) / len(falls)
    assert mcnemar(2, 7) == pytest.approx(expected)


def test_the_interval_of_a_paired_difference_covers_as_it_says():
    """200 queries, one method alone right on 12 %, the other alone on 7 %; Wald's interval is checked nowhere."""
    rng = np.random.default_rng(1)
    covered = []
    for first, second, _ in rng.multinomial(200, (0.12, 0.07, 0.81), size=3000):
        found = estimate_paired_share(int(first), int(second), 200)
        assert found.value == pytest.approx((first - second) / 200)
        covered.append(found.low <= 0.05 <= found.high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.012)


def test_methods_that_never_differ_still_have_an_interval():
    found = estimate_paired_share(0, 0, 20)
    assert found.low < 0 < found.high
    assert found.low == -found.high


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holms_method_is_the_closed_test(values):
    """Adjusted p of one hypothesis: the largest over all sets that hold it of the smallest p times their number."""
    expected = []
    for one in range(len(values)):
        worst = 0.0
        for members in product((False, True), repeat=len(values)):
            if members[one]:
                chosen = [value for value, inside in zip(values, members, strict=True) if inside]
                worst = max(worst, min(1.0, len(chosen) * min(chosen)))
        expected.append(worst)
    assert holm(values) == pytest.approx(tuple(expected))


@pytest.mark.errors
def test_what_has_no_interval_is_refused():
    with pytest.raises(ConfigError, match="2 or more values, got 1"):
        estimate_mean([1.0])
    with pytest.raises(ConfigError, match="got 3 of 2"):
        estimate_share(3, 2)
    with pytest.raises(ConfigError, match="got 0 of 0"):
        estimate_share(0, 0)
    with pytest.raises(ConfigError, match="of 5 trials 3 and 3 cannot differ"):
        estimate_paired_share(3, 3, 5)
    with pytest.raises(ConfigError, match="0 < p < 1"):
        t_quantile(1.0, 5)
