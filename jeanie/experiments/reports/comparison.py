"""Methods compared on the same queries: differences with intervals, and paired tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from jeanie.errors import ConfigError
from jeanie.experiments.reports.report import Report, Unit, cell, unit_means
from jeanie.experiments.reports.statistics import Estimate, holm, mcnemar, mean_of, paired_share

__all__ = ["TESTS", "Paired", "compare", "markdown", "paired"]

TESTS = {
    "splits": "paired t-test over the splits",
    "seeds": "paired t-test over the seeds",
    "episodes": "paired t-test over the episodes",
    "queries": "exact McNemar test over the queries",
}


@dataclass(frozen=True)
class Paired:
    """Method ``first`` against method ``second`` on the same queries.

    ``difference`` is first minus second, in points, with its 95 % interval; ``p`` the p-value of "no
    difference" by the test of `TESTS` for ``over``. ``first_only`` and ``second_only`` count queries that one
    alone got right (of one seed each); ``mcnemar`` is the exact test on them, told where there is one split:
    over several splits clips recur, and queries are not independent. ``adjusted`` is p by Holm's method for
    all comparisons made together.
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
        """The name of the test."""
        return TESTS[self.over]

    def json(self) -> dict[str, Any]:
        """The comparison in plain values."""
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


def paired(first: Report, second: Report) -> Paired:
    """Two methods on the same episodes of one protocol, compared.

    Over several splits, or else over several seeds or episodes, their differences with Student's interval and
    t-test; over the queries of one episode Bonett and Price's interval and the exact test of McNemar. A method
    without seeds meets every seed of the other.
    """
    _check(first, second)
    seeds = max(_seeds(first), _seeds(second))
    unit = _unit(first, seeds)
    singles = [_of_seed(report, 0) for report in (first, second)]
    first_only = int((singles[0].right & ~singles[1].right).sum())
    second_only = int((~singles[0].right & singles[1].right).sum())
    exact = mcnemar(first_only, second_only)
    if unit == "queries":
        found, p = paired_share(first_only, second_only, len(singles[0])), exact
        units = len(singles[0])
    else:
        left, right = (_means(report, unit, seeds) for report in (first, second))
        found, p = mean_of([a - b for a, b in zip(left, right, strict=True)])
        units = len(left)
    single = len(first.splits) == 1 and seeds == 1
    return Paired(
        first.method, second.method, found.times(100), p, unit, units,
        first_only, second_only, exact if single else None, p,
    )  # fmt: skip


def compare(reports: Sequence[Report]) -> tuple[Paired, ...]:
    """Every two of some methods compared, p-values adjusted for their number (Holm)."""
    pairs = [paired(one, other) for one, other in combinations(reports, 2)]
    adjusted = holm([pair.p for pair in pairs])
    return tuple(
        Paired(**{**pair.__dict__, "adjusted": value}) for pair, value in zip(pairs, adjusted, strict=True)
    )


def _seeds(report: Report) -> int:
    return len(torch.unique(report.predictions.seed))


def _of_seed(report: Report, seed: int) -> Any:
    """The predictions of one seed, or the only ones there are."""
    number = seed if _seeds(report) > 1 else 0
    return report.predictions[report.predictions.seed == number]


def _unit(report: Report, seeds: int) -> Unit:
    if len(report.splits) > 1:
        return "splits"
    if seeds > 1:
        return "seeds"
    return "episodes" if len(torch.unique(report.predictions.episode)) > 1 else "queries"


def _means(report: Report, unit: Unit, seeds: int) -> list[float]:
    means = unit_means(report.predictions, unit)
    return means * seeds if unit == "seeds" and len(means) == 1 else means


def _check(first: Report, second: Report) -> None:
    if first.protocol != second.protocol or first.names != second.names:
        raise ConfigError(
            f"a paired comparison needs one protocol and the same splits, got {first.protocol} with "
            f"{len(first.names)} and {second.protocol} with {len(second.names)} splits"
        )
    counts = {_seeds(first), _seeds(second)} - {1}
    if len(counts) > 1:
        raise ConfigError(
            f"{first.method} has {_seeds(first)} seeds and {second.method} {_seeds(second)}; give both as many"
        )
    left, right = _of_seed(first, 0), _of_seed(second, 0)
    same = len(left) == len(right) and all(
        torch.equal(getattr(left, name), getattr(right, name)) for name in ("split", "episode", "query")
    )
    if not same or first.classes != second.classes:
        raise ConfigError(
            f"{first.method} and {second.method} answered different queries of {first.protocol}; "
            "evaluate both with the same way, splits and episodes"
        )


def markdown(reports: Sequence[Report]) -> str:
    """A page of tables: methods side by side, their paired comparisons, then each report."""
    lines = ["| method | accuracy, % | 95 % interval | queries |", "|---|---|---|---|"]
    for report in reports:
        low, high = report.interval
        lines.append(
            f"| {cell(report.method)} | {report.accuracy:.1f} ± {report.ci95:.1f} | {low:.1f} to {high:.1f} | "
            f"{report.queries:,} |"
        )
    pairs = compare(reports)
    if pairs:
        lines += ["", f"On the same queries: {pairs[0].test}.", ""]
        lines += ["| methods | difference, points | p | p, Holm |", "|---|---|---|---|"]
    lines += [
        f"| {cell(pair.first)} against {cell(pair.second)} | {pair.difference.value:+.1f} ± "
        f"{pair.difference.half:.1f} | {pair.p:.2g} | {pair.adjusted:.2g} |"
        for pair in pairs
    ]
    title = f"# {cell(reports[0].protocol)}"
    return "\n".join([title, "", *lines, "", *(report.markdown() for report in reports)])
