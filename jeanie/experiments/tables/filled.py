"""A table with our numbers in it: beside each printed value ours, the difference, and what it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jeanie.experiments.reports.comparison import Paired, paired
from jeanie.experiments.reports.report import Report, pooled
from jeanie.experiments.reports.statistics import holm
from jeanie.experiments.tables.grid import Placed
from jeanie.experiments.tables.results import Result, read_failure, read_result
from jeanie.experiments.tables.schema import Preset, Table

__all__ = ["Entry", "Filled", "fill"]

Status = Literal["measured", "cited", "failed", "not run", "left out"]


@dataclass(frozen=True)
class Entry:
    """A cell: what is printed, and ours; accuracies in percent.

    ``ours`` is the mean over splits and seeds, ``half`` its 95 % interval's half width over ``over``. "left
    out" is what the paper leaves out, or our preset. ``report`` holds the seeds together.
    """

    status: Status
    printed: float | None = None
    printed_half: float | None = None
    ours: float | None = None
    half: float | None = None
    reason: str = ""
    report: Report | None = None
    seconds: float = 0.0

    @property
    def difference(self) -> float | None:
        """Ours less the printed value, in points."""
        return None if self.ours is None or self.printed is None else self.ours - self.printed

    def json(self) -> dict[str, Any]:
        """The cell in plain values."""
        told: dict[str, Any] = {
            "status": self.status,
            "printed": self.printed,
            "printed_half": self.printed_half,
            "ours": _round(self.ours),
            "ci95": _round(self.half),
            "difference": _round(self.difference),
            "reason": self.reason,
            "seconds": round(self.seconds, 1),
        }
        if self.report is not None:
            told |= {
                "over": self.report.over,
                "splits": len(self.report.splits),
                "queries": self.report.queries,
                "way": self.report.way,
                "seeds": list(self.report.seeds),
                "commit": self.report.commit,
            }
        return told


@dataclass(frozen=True)
class Filled:
    """A table with its entries, by row and column, and what they were computed with."""

    table: Table
    preset: Preset
    quick: bool
    entries: tuple[tuple[Entry, ...], ...]
    pairs: Mapping[tuple[int, int], Paired]
    machines: tuple[Mapping[str, Any], ...]

    @property
    def reports(self) -> list[Report]:
        """All reports, row by row."""
        return [entry.report for row in self.entries for entry in row if entry.report is not None]

    @property
    def seconds(self) -> float:
        """What the measurements took, one after the other; a shared training counts where it was done."""
        return sum(entry.seconds for row in self.entries for entry in row)

    @property
    def commits(self) -> list[str]:
        """Commits of the code that measured; more than one where a table was filled over time."""
        return sorted({report.commit for report in self.reports if report.commit})

    @property
    def rows(self) -> list[int]:
        """Rows that have anything to show under the preset."""
        return [
            number
            for number, entries in enumerate(self.entries)
            if any(entry.status != "left out" or entry.printed is not None for entry in entries)
        ]

    def count(self, status: Status) -> int:
        """Number of entries of a kind."""
        return sum(entry.status == status for row in self.entries for entry in row)

    def json(self) -> dict[str, Any]:
        """The table in plain values."""
        listed = self.table.listed()
        for number, row in enumerate(listed["rows"]):
            row["cells"] = [entry.json() for entry in self.entries[number]]
        return {
            **listed,
            "quick": self.quick,
            "preset": self.preset.model_dump(mode="json"),
            "measured": self.count("measured"),
            "failed": self.count("failed"),
            "not_run": self.count("not run"),
            "seconds": round(self.seconds, 1),
            "commits": self.commits,
            "machines": [dict(one) for one in self.machines],
            "versions": dict(self.reports[0].versions) if self.reports else {},
            "comparisons": [
                {"row": self.table.rows[r].name, "column": c, **pair.json()}
                for (r, c), pair in self.pairs.items()
            ],
        }


def fill(table: Table, preset: Preset, placed: Sequence[Placed], out: Path, *, quick: bool = False) -> Filled:
    """The table with whatever has been measured so far."""
    results = {one.cell.key: read_result(out, one.cell) for one in placed}
    entries = tuple(
        _with_means(table, [_entry(table, r, c, placed, results, out) for c in range(len(table.columns))])
        for r in range(len(table.rows))
    )
    found = [result.machine for result in results.values() if result is not None]
    machines = tuple({repr(sorted(one.items())): one for one in found}.values())
    return Filled(table, preset, quick, entries, _pairs(table, entries), machines)


def _entry(
    table: Table, r: int, c: int, placed: Sequence[Placed], results: Mapping[str, Result | None], out: Path
) -> Entry:
    row = table.rows[r]
    printed, half = table.printed(row, c)
    cells = [one.cell for one in placed if (one.row, one.column) == (r, c)]
    if not cells:
        return Entry("cited" if row.cited and printed is not None else "left out", printed, half)
    found = [results[cell.key] for cell in cells]
    done = [result for result in found if result is not None]
    failures = [read_failure(out, cell) for cell, result in zip(cells, found, strict=True) if result is None]
    reasons = [failure.reason for failure in failures if failure is not None]
    if not done:
        return Entry("failed" if reasons else "not run", printed, half, reason=reasons[0] if reasons else "")
    report = done[0].report if len(done) == 1 else pooled([result.report for result in done])
    reason = f"{len(done)} of {len(cells)} seeds" if len(done) < len(cells) else ""
    seconds = sum(result.seconds for result in done)
    return Entry("measured", printed, half, report.accuracy, report.ci95, reason, report, seconds)


def _with_means(table: Table, entries: list[Entry]) -> tuple[Entry, ...]:
    """The entries of a row; a column of means is filled where all columns before it are."""
    filled: list[Entry] = []
    for column, entry in zip(table.columns, entries, strict=True):
        before = [one.ours for one in filled]
        if column.mean and all(value is not None for value in before):
            mean = sum(value for value in before if value is not None) / len(before)
            filled.append(Entry("measured", entry.printed, entry.printed_half, mean))
        else:
            filled.append(entry)
    return tuple(filled)


def _pairs(table: Table, entries: Sequence[Sequence[Entry]]) -> dict[tuple[int, int], Paired]:
    """Every measured cell against that of the table's reference in its column, adjusted together (Holm)."""
    against = [number for number, row in enumerate(table.rows) if row.method == table.against]
    if not against:
        return {}
    found: dict[tuple[int, int], Paired] = {}
    for r, row in enumerate(entries):
        for c, entry in enumerate(row):
            reference = entries[against[0]][c].report
            if r != against[0] and entry.report is not None and reference is not None:
                found[r, c] = paired(entry.report, reference)
    adjusted = holm([pair.p for pair in found.values()])
    return {
        place: Paired(**{**pair.__dict__, "adjusted": value})
        for (place, pair), value in zip(found.items(), adjusted, strict=True)
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
