"""A table filled with our results: our value beside each printed value, the difference, and the reports behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jeanie.evaluation.report.comparison import Paired, adjust_p_values, compare_pair
from jeanie.evaluation.report.report import Report, pool_seeds
from jeanie.paper.tables.cells import PlacedCell
from jeanie.paper.tables.results import Result, read_failure, read_result
from jeanie.paper.tables.schema import Preset, Table

__all__ = ["Entry", "FilledTable", "fill_table"]

Status = Literal["measured", "cited", "failed", "not run", "left out"]


@dataclass(frozen=True)
class Entry:
    """A cell of a filled table; accuracies in percent.

    Attributes:
        status: "left out" if the paper or our preset leaves the cell out.
        printed, printed_half: Value that the paper prints, and the number after its ±.
        ours, half: Our mean over splits and seeds, and half the width of its 95 % interval.
        reason: Why the cell failed or is incomplete.
        report: Our report, pooled over the seeds.
        seconds: Time of search, training and testing.
        searched: Values that the search on validation classes chose, one entry per seed; empty if it searched none.
    """

    status: Status
    printed: float | None = None
    printed_half: float | None = None
    ours: float | None = None
    half: float | None = None
    reason: str = ""
    report: Report | None = None
    seconds: float = 0.0
    searched: tuple[Mapping[str, Any], ...] = ()

    @property
    def difference(self) -> float | None:
        """Our value minus the printed value, in points."""
        return None if self.ours is None or self.printed is None else self.ours - self.printed

    def json(self) -> dict[str, Any]:
        """Return the cell as plain values."""
        values: dict[str, Any] = {
            "status": self.status,
            "printed": self.printed,
            "printed_half": self.printed_half,
            "ours": _round(self.ours),
            "ci95": _round(self.half),
            "difference": _round(self.difference),
            "reason": self.reason,
            "seconds": round(self.seconds, 1),
            "searched": [dict(values) for values in self.searched],
        }
        if self.report is not None:
            values |= {
                "over": self.report.over,
                "splits": len(self.report.splits),
                "queries": self.report.queries,
                "way": self.report.way,
                "seeds": list(self.report.seeds),
                "commit": self.report.commit,
            }
        return values


@dataclass(frozen=True)
class FilledTable:
    """A table with its entries by row and column, paired comparisons, and the machines that measured."""

    table: Table
    preset: Preset
    quick: bool
    entries: tuple[tuple[Entry, ...], ...]
    pairs: Mapping[tuple[int, int], Paired]
    machines: tuple[Mapping[str, Any], ...]

    @property
    def reports(self) -> list[Report]:
        """All reports in row order."""
        return [entry.report for row in self.entries for entry in row if entry.report is not None]

    @property
    def seconds(self) -> float:
        """Total time of the measurements; a shared training counts once."""
        return sum(entry.seconds for row in self.entries for entry in row)

    @property
    def commits(self) -> list[str]:
        """Commits of the code that measured, one or more."""
        return sorted({report.commit for report in self.reports if report.commit})

    @property
    def rows(self) -> list[int]:
        """Numbers of the rows that have a value under the preset."""
        return [
            number
            for number, entries in enumerate(self.entries)
            if any(entry.status != "left out" or entry.printed is not None for entry in entries)
        ]

    def count(self, status: Status) -> int:
        """Return the number of entries with this status."""
        return sum(entry.status == status for row in self.entries for entry in row)

    def json(self) -> dict[str, Any]:
        """Return the table as plain values."""
        description = self.table.describe()
        for number, row in enumerate(description["rows"]):
            row["cells"] = [entry.json() for entry in self.entries[number]]
        return {
            **description,
            "quick": self.quick,
            "preset": self.preset.model_dump(mode="json"),
            "measured": self.count("measured"),
            "failed": self.count("failed"),
            "not_run": self.count("not run"),
            "seconds": round(self.seconds, 1),
            "commits": self.commits,
            "machines": [dict(machine) for machine in self.machines],
            "versions": dict(self.reports[0].versions) if self.reports else {},
            "comparisons": [
                {"row": self.table.rows[r].name, "column": c, **pair.json()}
                for (r, c), pair in self.pairs.items()
            ],
        }


def fill_table(
    table: Table, preset: Preset, placed: Sequence[PlacedCell], out: Path, *, quick: bool = False
) -> FilledTable:
    """Fill a table with the results that are stored so far.

    Args:
        table: The table.
        preset: How much of the table is run.
        placed: The measurements, as `list_cells` returns them.
        out: Folder of the results.
        quick: Whether the preset is the quick one, which the rendered table mentions.
    """
    results = {item.cell.key: read_result(out, item.cell) for item in placed}
    entries = tuple(
        _fill_means(
            table, [_build_entry(table, r, c, placed, results, out) for c in range(len(table.columns))]
        )
        for r in range(len(table.rows))
    )
    machines = [result.machine for result in results.values() if result is not None]
    distinct = tuple({repr(sorted(machine.items())): machine for machine in machines}.values())
    return FilledTable(table, preset, quick, entries, _compare_entries(table, entries), distinct)


def _build_entry(
    table: Table,
    r: int,
    c: int,
    placed: Sequence[PlacedCell],
    results: Mapping[str, Result | None],
    out: Path,
) -> Entry:
    row = table.rows[r]
    printed, half = table.printed_value(row, c)
    cells = [item.cell for item in placed if (item.row, item.column) == (r, c)]
    if not cells:
        return Entry("cited" if row.cited and printed is not None else "left out", printed, half)
    stored = [results[cell.key] for cell in cells]
    measured = [result for result in stored if result is not None]
    failures = [read_failure(out, cell) for cell, result in zip(cells, stored, strict=True) if result is None]
    reasons = [failure.reason for failure in failures if failure is not None]
    if not measured:
        return Entry("failed" if reasons else "not run", printed, half, reason=reasons[0] if reasons else "")
    report = measured[0].report if len(measured) == 1 else pool_seeds([result.report for result in measured])
    reason = f"{len(measured)} of {len(cells)} seeds" if len(measured) < len(cells) else ""
    seconds = sum(result.seconds for result in measured)
    searched = tuple(result.searched for result in measured if result.searched)
    return Entry("measured", printed, half, report.accuracy, report.ci95, reason, report, seconds, searched)


def _fill_means(table: Table, entries: list[Entry]) -> tuple[Entry, ...]:
    """Return the entries of a row; a column of means is filled if all columns before it are."""
    filled: list[Entry] = []
    for column, entry in zip(table.columns, entries, strict=True):
        before = [earlier.ours for earlier in filled]
        if column.mean and all(value is not None for value in before):
            mean = sum(value for value in before if value is not None) / len(before)
            filled.append(Entry("measured", entry.printed, entry.printed_half, mean))
        else:
            filled.append(entry)
    return tuple(filled)


def _compare_entries(table: Table, entries: Sequence[Sequence[Entry]]) -> dict[tuple[int, int], Paired]:
    """Compare every measured cell with the reference row in its column; p-values are adjusted together (Holm)."""
    reference_row = next((r for r, row in enumerate(table.rows) if row.method == table.against), None)
    if reference_row is None:
        return {}
    pairs: dict[tuple[int, int], Paired] = {}
    for r, row in enumerate(entries):
        for c, entry in enumerate(row):
            reference = entries[reference_row][c].report
            if r != reference_row and entry.report is not None and reference is not None:
                pairs[r, c] = compare_pair(entry.report, reference)
    return dict(zip(pairs, adjust_p_values(list(pairs.values())), strict=True))


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
