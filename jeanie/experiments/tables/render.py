"""A filled table as Markdown, as JSON, and as one HTML page that needs nothing else."""

import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from jeanie.experiments.reports.page import html_table, page, section
from jeanie.experiments.reports.report import UNITS, cell
from jeanie.experiments.tables.filled import Entry, Filled
from jeanie.experiments.tables.schema import Column, Preset
from jeanie.fewshot.saving import write_atomically

__all__ = ["html", "markdown", "write"]

_NONE = "\u2013"


def write(filled: Filled, out: Path) -> dict[str, Path]:
    """Write a table into ``out`` as Markdown, page and JSON; their paths."""
    out.mkdir(parents=True, exist_ok=True)
    name = filled.table.name + ("-quick" if filled.quick else "")
    texts = {"markdown": ("md", markdown(filled)), "html": ("html", html(filled))}
    texts["json"] = ("json", json.dumps(filled.json(), indent=1) + "\n")
    paths = {kind: out / f"{name}.{suffix}" for kind, (suffix, _) in texts.items()}
    for kind, (_, text) in texts.items():
        write_atomically(paths[kind], text.encode())
    return paths


def markdown(filled: Filled) -> str:
    """The table, paired differences where it has a reference, what failed, and what it was computed with."""
    table = filled.table
    lines = [f"# {cell(table.title)}", "", *(f"{line}\n" for line in _lead(filled))]
    heads = [_heading(column) for column in table.columns]
    lines += _pipes(["method", *heads])
    lines += [_pipe([table.rows[r].name, *map(_text, filled.entries[r])]) for r in filled.rows]
    if filled.pairs:
        lines += [
            "",
            f"Against {cell(_against(filled))}, on the same queries (points; p by Holm's method):",
            "",
        ]
        lines += _pipes(["method", *heads])
        lines += [_pipe([name, *texts]) for name, texts in _compared(filled)]
    failures = list(_failures(filled))
    if failures:
        lines += ["", "Not measured:", "", *(f"- {cell(line)}" for line in failures)]
    return "\n".join([*lines, "", *(f"{line}\n" for line in _notes(filled))]).rstrip() + "\n"


def html(filled: Filled) -> str:
    """The same as a page. What comes from files is shown as it is and never as HTML."""
    table = filled.table
    heads = ["method", *map(_heading, table.columns)]
    rows = [[escape(table.rows[r].name), *map(_marked, filled.entries[r])] for r in filled.rows]
    sections = [section("Ours beside the printed values", table.note, html_table(heads, rows))]
    if filled.pairs:
        compared = [[escape(name), *map(escape, texts)] for name, texts in _compared(filled)]
        heading = f"Against {_against(filled)}, on the same queries"
        sections.append(section(heading, "Points; p by Holm's method.", html_table(heads, compared)))
    failures = "".join(f"<li>{escape(line)}</li>" for line in _failures(filled))
    if failures:
        sections.append(section("Not measured", "", f"<ul>{failures}</ul>"))
    lead = " ".join(line for line in _lead(filled) if line != table.note)
    return page(table.title, eyebrow="Table", lead=lead, sections=sections, notes=_notes(filled))


def _heading(column: Column) -> str:
    return f"{column.group}: {column.name}" if column.group else column.name


def _lead(filled: Filled) -> list[str]:
    """Source and note, then how much was run."""
    table, preset = filled.table, filled.preset
    said = [
        f"Source of the printed values: {table.source}." if _printed(filled) else f"Source: {table.source}."
    ]
    said += [table.note] if table.note else []
    if filled.quick:
        said.append("This is the quick preset, which shows that everything runs; its numbers are no result.")
    return [
        *said,
        f"{_amount(preset)} {filled.count('measured')} cells measured, {filled.count('failed')} failed.",
    ]


def _amount(preset: Preset) -> str:
    """What a preset runs, in a sentence."""
    parts = [f"seeds {', '.join(map(str, preset.seeds))}"]
    parts.append("all splits" if preset.splits is None else f"at most {preset.splits} splits a column")
    parts.append(
        "all test episodes" if preset.limit is None else f"at most {preset.limit} test episodes a split"
    )
    parts += [f"{name} = {value}" for name, value in preset.changes.items()]
    return f"Run with {'; '.join(parts)}."


def _printed(filled: Filled) -> bool:
    return any(entry.printed is not None for row in filled.entries for entry in row)


def _value(value: float, half: float | None) -> str:
    return f"{value:.1f}" if half is None else f"{value:.1f} ± {half:.1f}"


def _text(entry: Entry) -> str:
    """Ours, then in brackets the printed value and the difference."""
    printed = "" if entry.printed is None else _value(entry.printed, entry.printed_half)
    if entry.ours is None:
        said = {"cited": f"cited: {printed}", "failed": "failed", "not run": "not run", "left out": _NONE}[
            entry.status
        ]
        return f"{said} ({printed})" if printed and entry.status != "cited" else said
    ours = _value(entry.ours, entry.half)
    return ours if entry.difference is None else f"{ours} ({printed}, {entry.difference:+.1f})"


def _marked(entry: Entry) -> str:
    if entry.ours is None:
        return f'<span class="soft">{escape(_text(entry))}</span>'
    half = "" if entry.half is None else f' <span class="soft">± {entry.half:.1f}</span>'
    shown = f"<strong>{entry.ours:.1f}</strong>{half}"
    if entry.difference is None or entry.printed is None:
        return shown
    printed = _value(entry.printed, entry.printed_half)
    return f'{shown}<br><span class="soft">printed {printed}, {entry.difference:+.1f}</span>'


def _against(filled: Filled) -> str:
    return next(row.name for row in filled.table.rows if row.method == filled.table.against)


def _compared(filled: Filled) -> Iterator[tuple[str, list[str]]]:
    """For every row that was compared its name and its differences."""
    for r in filled.rows:
        pairs = [filled.pairs.get((r, c)) for c in range(len(filled.table.columns))]
        if any(pair is not None for pair in pairs):
            yield (
                filled.table.rows[r].name,
                [
                    _NONE
                    if pair is None
                    else f"{pair.difference.value:+.1f} ± {pair.difference.half:.1f}, p = {pair.adjusted:.2g}"
                    for pair in pairs
                ],
            )


def _failures(filled: Filled) -> Iterator[str]:
    """Why cells are empty, each reason once."""
    places: dict[str, list[str]] = {}
    for r, row in enumerate(filled.entries):
        for column, entry in zip(filled.table.columns, row, strict=True):
            if entry.reason:
                places.setdefault(entry.reason, []).append(
                    f"{filled.table.rows[r].name} / {_heading(column)}"
                )
    for reason, where in places.items():
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        yield f"{where[0]}{more}: {reason}"


def _notes(filled: Filled) -> list[str]:
    """Intervals, seeds, commit, machine, time."""
    reports = filled.reports
    if not reports:
        return ["Nothing was measured."]
    kinds = "; ".join(dict.fromkeys(UNITS[report.over] for report in reports))
    seeds = sorted({seed for report in reports for seed in report.seeds})
    commits = ", ".join(f"{one[:10]}{'+' * one.endswith('+')}" for one in filled.commits) or "unknown"
    versions = ", ".join(f"{name} {number}" for name, number in reports[0].versions.items())
    machines = "; ".join(
        f"{one['processor']}, {one['cores']} cores, {one['system']}" for one in filled.machines
    )
    brackets = " In brackets the printed value, and ours less it." if _printed(filled) else ""
    return [
        f"Accuracy in percent ± half the 95 % interval: {kinds}.{brackets} Weights and checkpoints are chosen on "
        "validation classes only.",
        f"Seeds {', '.join(map(str, seeds)) or 'none'}; commit {commits}; {versions}; "
        f"{max(report.date for report in reports)}.",
        f"Machine: {machines}; one thread a measurement, {filled.seconds / 60:.1f} minutes in all.",
    ]


def _pipe(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(cell, texts)) + " |"


def _pipes(heads: Sequence[str]) -> list[str]:
    return [_pipe(heads), "|" + "---|" * len(heads)]
