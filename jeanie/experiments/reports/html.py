"""Reports as one HTML page that needs nothing else: no network, no library, opened from a file."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from jeanie.errors import ConfigError
from jeanie.experiments.reports.charts import bars, confusion_chart, dots, histogram
from jeanie.experiments.reports.comparison import Paired, compare
from jeanie.experiments.reports.examples import Example
from jeanie.experiments.reports.report import UNITS, Report, estimate
from jeanie.fewshot.saving import write_atomically

__all__ = ["html", "write_html"]

_PLAYER = """<div class="tabs" data-part="chooser"></div>
<p><span class="verdict" data-part="verdict"></span><span data-part="distances"></span></p>
<div class="stage">
<figure><canvas data-part="query"></canvas><figcaption data-part="query-told"></figcaption></figure>
<figure data-part="seen-figure"><canvas data-part="seen"></canvas>
<figcaption data-part="seen-told"></figcaption></figure>
<figure><canvas data-part="support"></canvas><figcaption data-part="support-told"></figcaption></figure>
</div>
<div class="player"><button type="button" data-part="play">Play</button>
<input type="range" min="0" step="1" value="0" data-part="slider" aria-label="step of the path"></div>
<p class="now" data-part="now"></p>
<div class="maps">
<figure><canvas data-part="cost"></canvas><figcaption><b>Cost of every two blocks, and the path</b>the
fainter, the nearer; each cell in its best view</figcaption></figure>
<figure><canvas data-part="turns"></canvas><figcaption><b>Views along the path</b>how far the query is
turned</figcaption></figure>
</div>"""


def write_html(
    reports: Sequence[Report], path: str | Path, *, examples: Sequence[Example] = (), title: str | None = None
) -> Path:
    """Write the page of some methods on one protocol; the last method is the one to beat."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, html(reports, examples=examples, title=title).encode())
    return path


def html(reports: Sequence[Report], *, examples: Sequence[Example] = (), title: str | None = None) -> str:
    """The page as text. What comes from files, such as labels, is shown as it is and never as HTML."""
    if not reports:
        raise ConfigError("a page needs at least one report")
    script = _resource("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sections = [
        _section("Accuracy", _interval_note(reports), _summary(reports)),
        _splits(reports),
        _classes(reports),
        _confusions(reports),
        _alignments(examples),
    ]
    return Template(_resource("report.html")).substitute(
        title=escape(title or reports[0].protocol),
        lead=escape(_lead(reports)),
        facts=_facts(reports[0]),
        sections="\n".join(part for part in sections if part),
        notes=_notes(reports),
        style=_resource("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        # "<" could end the script element early
        examples=json.dumps([one.json() for one in examples], separators=(",", ":")).replace("<", "\\u003c"),
    )


def _resource(name: str) -> str:
    return resources.files("jeanie.experiments.reports").joinpath(name).read_text(encoding="utf-8")


def _section(heading: str, note: str, body: str, name: str = "") -> str:
    place = f' id="{name}"' if name else ""
    return f"<section{place}><h2>{escape(heading)}</h2><p>{escape(note)}</p>{body}</section>"


def _lead(reports: Sequence[Report]) -> str:
    first = reports[0]
    best = max(reports, key=lambda report: report.accuracy)
    said = (
        f"{first.way}-way {first.shot}-shot on {first.queries:,} queries of {len(first.per_class)} classes; "
    )
    return said + (
        f"chance is {100 / first.way:.1f} %. {best.method} reaches {best.accuracy:.1f} ± {best.ci95:.1f} %."
    )


def _facts(report: Report) -> str:
    rows = [("protocol", report.protocol), ("date", report.date), ("commit", (report.commit or "")[:10])]
    rows += list(report.versions.items())
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in rows if value
    )


def _interval_note(reports: Sequence[Report]) -> str:
    kinds = dict.fromkeys(UNITS[report.over] for report in reports)
    return f"Percent of queries that were given their class, with 95 % intervals: {'; '.join(kinds)}."


def _row(cells: Iterable[tuple[str, str]]) -> str:
    return "<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in cells) + "</tr>"


def _table(heads: Sequence[tuple[str, str]], rows: Iterable[str], caption: str = "") -> str:
    head = "".join(f'<th scope="col" class="{kind}">{escape(name)}</th>' for kind, name in heads)
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table>{told}{body}</table></div>'


def _with_half(value: str, half: float) -> str:
    return f'<strong>{value}</strong> <span class="soft">± {half:.1f}</span>'


def _key(place: int) -> str:
    return f'<span class="key c{place % 6}"></span>'


def _accuracy(report: Report, place: int) -> str:
    low, high = report.interval
    cells = [
        ("method", _key(place) + escape(report.method)),
        ("number", _with_half(f"{report.accuracy:.1f}", report.ci95)),
        ("", bars(report.accuracy, low, high, 100 / report.way, place)),
        ("number", f"{low:.1f} to {high:.1f}"),
        ("number", f"{report.queries:,}"),
        ("", escape(", ".join(map(str, report.seeds)) or "none")),
    ]
    return _row(cells)


def _summary(reports: Sequence[Report]) -> str:
    heads = [
        ("", "method"), ("number", "accuracy, %"), ("", "dashed: chance"), ("number", "95 % interval"),
        ("number", "queries"), ("", "seeds"),
    ]  # fmt: skip
    body = _table(heads, (_accuracy(report, place) for place, report in enumerate(reports)))
    variants = [
        _row([
            ("method", _key(place) + escape(report.method)),
            ("", escape(name)),
            ("number", _with_half(f"{found.value:.1f}", found.half)),
            ("number", f"{len(rows) // max(1, len(report.seeds)):,}"),
        ])
        for place, report in enumerate(reports)
        for name, rows in report.variants.items()
        for found, _ in [estimate(rows)]
    ]  # fmt: skip
    if variants:
        heads = [("", "method"), ("", "queries are"), ("number", "accuracy, %"), ("number", "queries")]
        body += _table(heads, variants, "The same with other queries")
    return body + (_comparison(compare(reports)) if len(reports) > 1 else "")


def _comparison(pairs: Sequence[Paired]) -> str:
    heads = [
        ("", "methods"), ("number", "difference, points"), ("number", "95 % interval"), ("number", "p"),
        ("number", "p, Holm"), ("number", "right alone"), ("number", "McNemar p"),
    ]  # fmt: skip
    rows = []
    for pair in pairs:
        sure = "sure" if pair.adjusted < 0.05 else ""
        rows.append(_row([
            ("method", f"{escape(pair.first)} <span class='soft'>against</span> {escape(pair.second)}"),
            ("number", _with_half(f"{pair.difference.value:+.1f}", pair.difference.half)),
            ("number", f"{pair.difference.low:+.1f} to {pair.difference.high:+.1f}"),
            ("number", _p(pair.p)),
            (f"number {sure}", _p(pair.adjusted)),
            ("number", f"{pair.first_only:,} / {pair.second_only:,}"),
            ("number", "" if pair.mcnemar is None else _p(pair.mcnemar)),
        ]))  # fmt: skip
    return _table(heads, rows, f"On the same queries: {pairs[0].test}")


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _legend(reports: Sequence[Report]) -> str:
    items = [
        f"<li>{_key(place)}<span>{escape(report.method)}</span></li>" for place, report in enumerate(reports)
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _splits(reports: Sequence[Report]) -> str:
    if len(reports[0].splits) < 2:
        return ""
    columns = [{part.name: part.accuracy for part in report.splits} for report in reports]
    rows = {name: [column.get(name) for column in columns] for name in reports[0].names}
    chart = dots(rows, [report.method for report in reports])
    return _section(
        "Splits",
        "Accuracy on each split, in percent.",
        _legend(reports) + f'<div class="scroll">{chart}</div>',
    )


def _classes(reports: Sequence[Report]) -> str:
    columns = [report.per_class for report in reports]
    ordered = sorted(columns[0], key=lambda name: -sum(column.get(name, 0.0) for column in columns))
    rows = {name: [column.get(name) for column in columns] for name in ordered}
    chart = dots(rows, [report.method for report in reports])
    return _section(
        "Classes",
        "Percent of each class's queries that were right, the best class first.",
        _legend(reports) + f'<div class="scroll">{chart}</div>',
    )


def _confusions(reports: Sequence[Report]) -> str:
    tabs = "".join(f'<button type="button">{escape(report.method)}</button>' for report in reports)
    panels = []
    for report in reports:
        rows = report.predictions
        share = float((rows.own < rows.other).double().mean()) * 100
        own, other = float(rows.own.median()), float(rows.other.median())
        panels.append(
            f'<div class="panel side" data-group="methods"><div><h3>Confusions of {escape(report.method)}</h3>'
            f'<div class="scroll">{confusion_chart(report.confusion, [str(tag) for tag in report.classes])}</div></div>'
            '<div><h3>Distances</h3><ul class="legend"><li class="own"><span class="key"></span><span>own class</span>'
            '</li><li class="other"><span class="key"></span><span>nearest other class</span></li></ul>'
            f"{histogram(rows.own, rows.other)}<p class='soft'>The own class is nearer in {share:.1f} % of the "
            f"queries. Medians: {own:.3g} and {other:.3g}.</p></div></div>"
        )
    body = f'<div class="tabs" data-group="methods">{tabs}</div>{"".join(panels)}'
    return _section(
        "Confusions and distances", "Rows are true classes, columns what they were taken for.", body
    )


def _alignments(examples: Sequence[Example]) -> str:
    if not examples:
        return ""
    note = (
        "How single queries were laid on a support of the class they were given: both move in step along the path, "
        "and the middle picture is the query from the view that the path has found."
    )
    return _section("Alignments", note, _PLAYER, "alignments")


def _notes(reports: Sequence[Report]) -> str:
    notes = [
        "An interval over splits tells how far another choice of classes might lead; one over episodes or "
        "queries only how far other draws from the same clips might.",
        "A query is given the class of its nearest support."
        if reports[0].rule == "nearest"
        else "A query is given the class whose supports are nearest on average.",
    ]
    if len(reports) > 1:
        notes.append(
            "Methods are compared on the same queries. p is the probability of a difference this large where there is "
            "none; Holm's method corrects it for the number of comparisons. "
            "“Right alone” counts queries that only the first, and only the second method got right; McNemar's "
            "exact test on them takes queries as independent and is told for single splits only."
        )
    return "".join(f"<p>{escape(note)}</p>" for note in notes)
