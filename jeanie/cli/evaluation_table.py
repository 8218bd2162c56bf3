"""The table that ``jeanie evaluate`` prints, and the ones that it writes as CSV and LaTeX."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from jeanie.cli.exports import write_rows
from jeanie.evaluation.report.comparison import Paired, compare
from jeanie.evaluation.report.report import Report, estimate_accuracy

__all__ = ["build_result_table", "write_result_tables"]

_COLUMNS = (
    "method", "protocol", "way", "shot", "accuracy", "low", "high", "ci95", "over", "units", "queries", "seeds",
    "compared_with", "difference", "difference_low", "difference_high", "p",
)  # fmt: skip


def build_result_table(reports: Sequence[Report], pairs: Sequence[Paired]) -> Table:
    """Return a table of the accuracy of each method and its difference to the last one."""
    first = reports[0]
    table = Table(
        title=f"{escape(first.protocol)}: {first.way}-way {first.shot}-shot, {first.queries:,} queries"
    )
    table.add_column("method")
    compared = [f"against {escape(reports[-1].method)}", "p"] if pairs else []
    for heading in ("accuracy, %", "95 % interval", *compared):
        table.add_column(heading, justify="right")
    against = {pair.first: pair for pair in pairs if pair.second == reports[-1].method}
    for report in reports:
        low, high = report.interval
        cells = [
            escape(report.method),
            f"{report.accuracy:.1f} ± {min(report.ci95, 100.0):.1f}",
            f"{low:.1f} to {high:.1f}",
        ]
        if report is not reports[-1]:
            pair = against[report.method]
            cells += [
                f"{pair.difference.value:+.1f} ± {min(pair.difference.half, 100.0):.1f}",
                f"{pair.p:.2g}",
            ]
        table.add_row(*cells)
        for name, rows in report.variants.items():
            accuracy, _ = estimate_accuracy(rows)
            table.add_row(
                f"  {escape(name)}",
                f"{accuracy.value:.1f} ± {min(accuracy.half, 100.0):.1f}",
                f"{accuracy.low:.1f} to {accuracy.high:.1f}",
            )
    return table


def write_result_tables(reports: Sequence[Report], csv: Path | None, latex: Path | None) -> dict[str, str]:
    """Write one row per method: all numbers as CSV, the columns of a paper as LaTeX. Return the paths by format."""
    last = reports[-1].method
    pairs = {pair.first: pair for pair in compare(reports) if pair.second == last}
    paths = write_rows(
        _COLUMNS, [_build_csv_row(report, pairs.get(report.method)) for report in reports], csv, None
    )
    columns = ["method", "accuracy, %", "95 % interval", *([f"against {last}", "p"] if pairs else [])]
    rows = []
    for report in reports:
        low, high = report.interval
        cells = [report.method, f"{report.accuracy:.1f} ± {report.ci95:.1f}", f"{low:.1f} to {high:.1f}"]
        if pair := pairs.get(report.method):
            cells += [f"{pair.difference.value:+.1f} ± {pair.difference.half:.1f}", f"{pair.p:.2g}"]
        rows.append(dict(zip(columns, cells, strict=False)))
    return paths | write_rows(columns, rows, None, latex)


def _build_csv_row(report: Report, pair: Paired | None) -> dict[str, Any]:
    row = {name: report.json().get(name) for name in _COLUMNS}
    row |= {"low": report.interval[0], "high": report.interval[1]}
    row["seeds"] = " ".join(map(str, report.seeds))
    if pair is not None:
        gap = pair.difference
        row |= {"compared_with": pair.second, "difference": gap.value, "p": pair.p}
        row |= {"difference_low": gap.low, "difference_high": gap.high}
    return row
