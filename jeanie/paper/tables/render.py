"""Render a filled table as Markdown, JSON and one HTML page."""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path

from jeanie._internal.files import write_atomically
from jeanie.evaluation.report.markdown import escape_markdown, format_table
from jeanie.evaluation.report.page import build_page, build_section, build_table
from jeanie.evaluation.report.report import UNITS
from jeanie.paper.methods import METHODS
from jeanie.paper.tables.filled_table import Entry, FilledTable
from jeanie.paper.tables.schema import Column, Preset

__all__ = ["render_html", "render_markdown", "write_table"]

_EMPTY = "\u2013"


def write_table(filled: FilledTable, out: Path) -> dict[str, Path]:
    """Write a table into the folder ``out`` as Markdown, HTML and JSON; return the paths by format."""
    out.mkdir(parents=True, exist_ok=True)
    name = filled.table.name + ("-quick" if filled.quick else "")
    texts = {"markdown": ("md", render_markdown(filled)), "html": ("html", render_html(filled))}
    texts["json"] = ("json", json.dumps(filled.json(), indent=1) + "\n")
    paths = {kind: out / f"{name}.{suffix}" for kind, (suffix, _) in texts.items()}
    for kind, (_, text) in texts.items():
        write_atomically(paths[kind], text.encode())
    return paths


def render_markdown(filled: FilledTable) -> str:
    """Return the table in Markdown: values, paired differences, failures, and the origin of the numbers."""
    table = filled.table
    lines = [f"# {escape_markdown(table.title)}", "", *(f"{line}\n" for line in _describe_run(filled))]
    heads = ["method", *map(_format_heading, table.columns)]
    lines += format_table(
        heads, [[_get_row_name(filled, r), *map(_format_entry, filled.entries[r])] for r in filled.rows]
    )
    if filled.pairs:
        reference = escape_markdown(_get_reference_name(filled))
        lines += ["", f"Difference to {reference} on the same queries (points; p by Holm's method):", ""]
        lines += format_table(heads, [[name, *texts] for name, texts in _list_differences(filled)])
    failures = list(_list_failures(filled))
    if failures:
        lines += ["", "Not measured:", "", *(f"- {escape_markdown(line)}" for line in failures)]
    return "\n".join([*lines, "", *(f"{line}\n" for line in _list_notes(filled))]).rstrip() + "\n"


def render_html(filled: FilledTable) -> str:
    """Return the same as an HTML page; text from files is escaped."""
    table = filled.table
    heads = ["method", *map(_format_heading, table.columns)]
    rows = [
        [escape(_get_row_name(filled, r)), *map(_format_entry_html, filled.entries[r])] for r in filled.rows
    ]
    sections = [build_section("Our values and the printed values", table.note, build_table(heads, rows))]
    if filled.pairs:
        differences = [[escape(name), *map(escape, texts)] for name, texts in _list_differences(filled)]
        heading = f"Difference to {_get_reference_name(filled)} on the same queries"
        sections.append(
            build_section(heading, "Points; p by Holm's method.", build_table(heads, differences))
        )
    failures = "".join(f"<li>{escape(line)}</li>" for line in _list_failures(filled))
    if failures:
        sections.append(build_section("Not measured", "", f"<ul>{failures}</ul>"))
    lead = " ".join(line for line in _describe_run(filled) if line != table.note)
    return build_page(table.title, eyebrow="Table", lead=lead, sections=sections, notes=_list_notes(filled))


def _get_row_name(filled: FilledTable, row: int) -> str:
    """Return the name of a row, and the network that ran if there is a choice."""
    spec = filled.table.rows[row]
    if f"{spec.method}-small" not in METHODS:
        return spec.name
    return f"{spec.name}, {'small' if filled.preset.small_rivals else 'published'} network"


def _format_heading(column: Column) -> str:
    return f"{column.group}: {column.name}" if column.group else column.name


def _describe_run(filled: FilledTable) -> list[str]:
    """Return sentences about the source of the table and how much of it was run."""
    table, preset = filled.table, filled.preset
    source = "Source of the printed values" if _has_printed(filled) else "Source"
    lines = [f"{source}: {table.source}."]
    lines += [table.note] if table.note else []
    if filled.quick:
        lines.append("This is the quick preset, a check that everything runs; its numbers are no result.")
    return [
        *lines,
        f"{_describe_preset(preset)} {filled.count('measured')} cells measured, {filled.count('failed')} failed.",
    ]


def _describe_preset(preset: Preset) -> str:
    """Return a sentence about what a preset runs."""
    parts = [f"seeds {', '.join(map(str, preset.seeds))}"]
    parts.append("all splits" if preset.splits is None else f"at most {preset.splits} splits per column")
    parts.append(
        "all test episodes" if preset.limit is None else f"at most {preset.limit} test episodes per split"
    )
    parts += [f"{name} = {value}" for name, value in preset.changes.items()]
    return f"Run with {'; '.join(parts)}."


def _has_printed(filled: FilledTable) -> bool:
    return any(entry.printed is not None for row in filled.entries for entry in row)


def _format_value(value: float, half: float | None) -> str:
    return f"{value:.1f}" if half is None else f"{value:.1f} ± {half:.1f}"


def _format_entry(entry: Entry) -> str:
    """Return our value, then the printed value and the difference in parentheses."""
    printed = "" if entry.printed is None else _format_value(entry.printed, entry.printed_half)
    if entry.ours is None:
        if entry.status == "cited":
            return f"cited: {printed}"
        text = _EMPTY if entry.status == "left out" else entry.status
        return f"{text} ({printed})" if printed else text
    our_value = _format_value(entry.ours, entry.half)
    return our_value if entry.difference is None else f"{our_value} ({printed}, {entry.difference:+.1f})"


def _format_entry_html(entry: Entry) -> str:
    if entry.ours is None:
        return f'<span class="soft">{escape(_format_entry(entry))}</span>'
    half = "" if entry.half is None else f' <span class="soft">± {entry.half:.1f}</span>'
    our_value = f"<strong>{entry.ours:.1f}</strong>{half}"
    if entry.difference is None or entry.printed is None:
        return our_value
    printed = _format_value(entry.printed, entry.printed_half)
    return f'{our_value}<br><span class="soft">printed {printed}, {entry.difference:+.1f}</span>'


def _get_reference_name(filled: FilledTable) -> str:
    return next(row.name for row in filled.table.rows if row.method == filled.table.against)


def _list_differences(filled: FilledTable) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the differences of every row that was compared with the reference."""
    for r in filled.rows:
        pairs = [filled.pairs.get((r, c)) for c in range(len(filled.table.columns))]
        if any(pair is not None for pair in pairs):
            texts = [
                _EMPTY
                if pair is None
                else f"{pair.difference.value:+.1f} ± {pair.difference.half:.1f}, p = {pair.adjusted:.2g}"
                for pair in pairs
            ]
            yield filled.table.rows[r].name, texts


def _list_failures(filled: FilledTable) -> Iterator[str]:
    """Yield each reason for empty cells once, with the first of these cells."""
    cells: dict[str, list[str]] = {}
    for r, row in enumerate(filled.entries):
        for column, entry in zip(filled.table.columns, row, strict=True):
            if entry.reason:
                cells.setdefault(entry.reason, []).append(
                    f"{filled.table.rows[r].name} / {_format_heading(column)}"
                )
    for reason, names in cells.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more}: {reason}"


def _list_notes(filled: FilledTable) -> list[str]:
    """Return sentences about intervals, seeds, commit, machine and time."""
    reports = filled.reports
    if not reports:
        return ["Nothing was measured."]
    units = "; ".join(dict.fromkeys(UNITS[report.over] for report in reports))
    seeds = sorted({seed for report in reports for seed in report.seeds})
    commits = (
        ", ".join(f"{commit[:10]}{'+' * commit.endswith('+')}" for commit in filled.commits) or "unknown"
    )
    versions = ", ".join(f"{name} {number}" for name, number in reports[0].versions.items())
    machines = "; ".join(
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}"
        for machine in filled.machines
    )
    printed = " In parentheses: the printed value, and ours minus it." if _has_printed(filled) else ""
    return [
        f"Accuracy in percent ± half the 95 % interval: {units}.{printed} Weights and checkpoints are chosen on "
        "validation classes only.",
        f"Seeds {', '.join(map(str, seeds)) or 'none'}; commit {commits}; {versions}; "
        f"{max(report.date for report in reports)}.",
        f"Machine: {machines}; one thread per measurement, {filled.seconds / 60:.1f} minutes in total.",
    ]
