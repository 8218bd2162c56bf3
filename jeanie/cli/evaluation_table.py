"""The table that ``jeanie evaluate`` prints."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from jeanie.evaluation.report.comparison import Paired
from jeanie.evaluation.report.report import Report, estimate_accuracy

__all__ = ["build_result_table"]


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
