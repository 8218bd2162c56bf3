"""Compare methods on the same queries: differences with intervals, and paired tests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch

from jeanie.errors import ConfigError
from jeanie.evaluation.predict import Predictions
from jeanie.evaluation.report.markdown import escape_markdown, format_table
from jeanie.evaluation.report.report import Report, Unit, compute_unit_means
from jeanie.evaluation.statistics import Estimate, estimate_mean, estimate_paired_share, holm, mcnemar

__all__ = ["TESTS", "Paired", "adjust_p_values", "compare", "compare_pair", "render_markdown"]

TESTS = {
    "splits": "paired t-test over the splits",
    "seeds": "paired t-test over the seeds",
    "episodes": "paired t-test over the episodes",
    "queries": "exact McNemar test over the queries",
}


@dataclass(frozen=True)
class Paired:
    """Comparison of two methods on the same queries.

    Attributes:
        first, second: Names of the methods.
        difference: First minus second, in points, with its 95 % interval.
        p: p-value of "no difference" by the test that `TESTS` gives for ``over``.
        over, units: Unit of the test, and the number of units.
        first_only, second_only: Queries of one seed that only this method classified correctly.
        mcnemar: p-value of the exact test on these queries, for a single split only: clips recur in several
            splits, so their queries are not independent.
        adjusted: p-value adjusted by Holm's method for all comparisons made together.
    """

    first: str
    second: str
    difference: Estimate
    p: float
    over: Unit
    units: int
    first_only: int
    second_only: int
    mcnemar: float | None
    adjusted: float

    @property
    def test(self) -> str:
        """Name of the test."""
        return TESTS[self.over]

    def json(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        return {
            "first": self.first,
            "second": self.second,
            "difference": round(self.difference.value, 6),
            "ci95": round(self.difference.half, 6),
            "interval": [round(self.difference.low, 6), round(self.difference.high, 6)],
            "p": self.p,
            "p_holm": self.adjusted,
            "test": self.test,
            "units": self.units,
            "first_only": self.first_only,
            "second_only": self.second_only,
            "mcnemar": self.mcnemar,
        }


def compare_pair(first: Report, second: Report) -> Paired:
    """Compare two methods on the same episodes of one protocol.

    Over several splits, otherwise over several seeds or episodes, the differences have Student's interval and
    t-test. Over the queries of one episode they have Bonett and Price's interval and McNemar's exact test. A method
    without seeds is compared with every seed of the other.

    Raises:
        ConfigError: The reports differ in protocol, splits, queries or numbers of seeds.
    """
    _check_comparable(first, second)
    seeds = max(_count_seeds(first), _count_seeds(second))
    unit = _find_unit(first, seeds)
    singles = [_select_first_seed(report) for report in (first, second)]
    first_only = int((singles[0].is_correct & ~singles[1].is_correct).sum())
    second_only = int((~singles[0].is_correct & singles[1].is_correct).sum())
    exact = mcnemar(first_only, second_only)
    if unit == "queries":
        difference, p = estimate_paired_share(first_only, second_only, len(singles[0])), exact
        units = len(singles[0])
    else:
        left, right = (_select_unit_means(report, unit, seeds) for report in (first, second))
        difference, p = estimate_mean([a - b for a, b in zip(left, right, strict=True)])
        units = len(left)
    single = len(first.splits) == 1 and seeds == 1
    return Paired(
        first.method, second.method, difference.times(100), p, unit, units,
        first_only, second_only, exact if single else None, p,
    )  # fmt: skip


def compare(reports: Sequence[Report]) -> tuple[Paired, ...]:
    """Compare every two methods; p-values are adjusted for the number of comparisons (Holm).

    Args:
        reports: One report per method, all on the same queries.

    Returns:
        One comparison per pair of methods.

    Raises:
        ConfigError: The reports differ in protocol, splits, queries or numbers of seeds.

    >>> from jeanie import FewShotModel, evaluate
    >>> report = evaluate(FewShotModel.raw("dtw"), "synthetic", limit=1)
    >>> compare([report, replace(report, method="the same again")])[0].difference.value
    0.0
    """
    return adjust_p_values([compare_pair(first, second) for first, second in combinations(reports, 2)])


def adjust_p_values(pairs: Sequence[Paired]) -> tuple[Paired, ...]:
    """Adjust the p-values of comparisons that are made together (Holm)."""
    adjusted = holm([pair.p for pair in pairs])
    return tuple(replace(pair, adjusted=p) for pair, p in zip(pairs, adjusted, strict=True))


def _count_seeds(report: Report) -> int:
    return len(torch.unique(report.predictions.seed))


def _select_first_seed(report: Report) -> Predictions:
    return report.predictions[report.predictions.seed == 0]


def _find_unit(report: Report, seeds: int) -> Unit:
    if len(report.splits) > 1:
        return "splits"
    if seeds > 1:
        return "seeds"
    return "episodes" if len(torch.unique(report.predictions.episode)) > 1 else "queries"


def _select_unit_means(report: Report, unit: Unit, seeds: int) -> list[float]:
    means = compute_unit_means(report.predictions, unit)
    return means * seeds if unit == "seeds" and len(means) == 1 else means


def _check_comparable(first: Report, second: Report) -> None:
    if first.protocol != second.protocol or first.names != second.names:
        raise ConfigError(
            f"a paired comparison needs one protocol and the same splits, got {first.protocol} with "
            f"{len(first.names)} and {second.protocol} with {len(second.names)} splits"
        )
    counts = {_count_seeds(first), _count_seeds(second)} - {1}
    if len(counts) > 1:
        raise ConfigError(
            f"{first.method} has {_count_seeds(first)} seeds and {second.method} {_count_seeds(second)}; "
            "give both the same number"
        )
    left, right = _select_first_seed(first), _select_first_seed(second)
    same = len(left) == len(right) and all(
        torch.equal(getattr(left, name), getattr(right, name)) for name in ("split", "episode", "query")
    )
    if not same or first.classes != second.classes:
        raise ConfigError(
            f"{first.method} and {second.method} answered different queries of {first.protocol}; "
            "evaluate both with the same way, splits and episodes"
        )


def render_markdown(reports: Sequence[Report]) -> str:
    """Return Markdown tables: the accuracies of all methods, their paired comparisons, then each report."""
    rows = [
        (
            report.method,
            f"{report.accuracy:.1f} ± {report.ci95:.1f}",
            "{:.1f} to {:.1f}".format(*report.interval),
            f"{report.queries:,}",
        )
        for report in reports
    ]
    lines = format_table(("method", "accuracy, %", "95 % interval", "queries"), rows)
    pairs = compare(reports)
    if pairs:
        differences = [
            (
                f"{pair.first} and {pair.second}",
                f"{pair.difference.value:+.1f} ± {pair.difference.half:.1f}",
                f"{pair.p:.2g}",
                f"{pair.adjusted:.2g}",
            )
            for pair in pairs
        ]
        lines += ["", f"Differences on the same queries: {pairs[0].test}.", ""]
        lines += format_table(("methods", "difference, points", "p", "p, Holm"), differences)
    title = f"# {escape_markdown(reports[0].protocol)}"
    return "\n".join([title, "", *lines, "", *(report.markdown() for report in reports)])
