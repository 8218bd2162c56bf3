"""Reports of several methods as one HTML page that needs no network and no server."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from jeanie._internal.files import write_atomically
from jeanie.errors import ConfigError
from jeanie.evaluation.report.charts import (
    Curves,
    draw_accuracy_bar,
    draw_confusion,
    draw_dots,
    draw_histogram,
    draw_training,
)
from jeanie.evaluation.report.comparison import Paired, compare
from jeanie.evaluation.report.examples import Example
from jeanie.evaluation.report.page import build_page, build_section, build_table
from jeanie.evaluation.report.report import UNITS, Report, estimate_accuracy

__all__ = ["render_html", "write_html"]

_PLAYER = """<div class="tabs" data-part="chooser"></div>
<p><span class="verdict" data-part="verdict"></span><span data-part="distances"></span></p>
<div class="stage">
<figure><canvas data-part="query"></canvas><figcaption data-part="query-caption"></figcaption></figure>
<figure data-part="seen-figure"><canvas data-part="seen"></canvas>
<figcaption data-part="seen-caption"></figcaption></figure>
<figure><canvas data-part="support"></canvas><figcaption data-part="support-caption"></figcaption></figure>
</div>
<div class="player"><button type="button" data-part="play">Play</button>
<input type="range" min="0" step="1" value="0" data-part="slider" aria-label="step of the path"></div>
<p class="now" data-part="now"></p>
<div class="maps">
<figure><canvas data-part="cost"></canvas><figcaption><b>Cost of each pair of blocks, and the path</b>lighter
cells cost less; each cell shows its best view</figcaption></figure>
<figure><canvas data-part="turns"></canvas><figcaption><b>Views along the path</b>rotation of the
query</figcaption></figure>
</div>"""


def write_html(
    reports: Sequence[Report],
    path: str | Path,
    *,
    examples: Sequence[Example] = (),
    title: str | None = None,
    curves: Mapping[str, Curves] | None = None,
) -> Path:
    """Write the HTML page of several methods on one protocol. Text from files, such as labels, is escaped.

    Args:
        reports: One report per method.
        path: The file to write; its folder is created.
        examples: Alignments to show as animations.
        title: Title of the page (default: name of the protocol).
        curves: Training curves of methods that were trained, by method; ``Run.curves`` returns those of a run.

    Returns:
        The path of the page.

    Raises:
        ConfigError: There is no report.

    >>> from jeanie import FewShotModel, evaluate
    >>> report = evaluate(FewShotModel.raw("dtw"), "synthetic")  # doctest: +SKIP
    >>> write_html([report], "report.html")  # doctest: +SKIP
    PosixPath('report.html')
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render_html(reports, examples=examples, title=title, curves=curves).encode())
    return path


def render_html(
    reports: Sequence[Report],
    *,
    examples: Sequence[Example] = (),
    title: str | None = None,
    curves: Mapping[str, Curves] | None = None,
) -> str:
    """Return the HTML page of several methods on one protocol; text from files, such as labels, is escaped.

    Args:
        reports: One report per method.
        examples: Alignments to show as animations.
        title: Title of the page (default: name of the protocol).
        curves: Training curves of methods that were trained, by method.
    """
    if not reports:
        raise ConfigError("a page needs at least one report")
    first = reports[0]
    facts = {"protocol": first.protocol, "date": first.date, "commit": (first.commit or "")[:10]}
    return build_page(
        title or first.protocol,
        eyebrow="Evaluation report",
        lead=_describe_result(reports),
        facts={**facts, **first.versions},
        sections=[
            build_section("Accuracy", _describe_intervals(reports), _build_accuracy_tables(reports)),
            _build_split_section(reports),
            _build_class_section(reports),
            _build_confusion_section(reports),
            *(_build_curve_section(method, steps) for method, steps in (curves or {}).items()),
            _build_alignment_section(examples),
        ],
        notes=_list_notes(reports),
        script="report.js",
        data=[example.json() for example in examples],
    )


def _describe_result(reports: Sequence[Report]) -> str:
    first = reports[0]
    best = max(reports, key=lambda report: report.accuracy)
    return (
        f"{first.way}-way {first.shot}-shot on {first.queries:,} queries of {len(first.per_class)} classes; "
        f"chance is {100 / first.way:.1f} %. {best.method} reaches {best.accuracy:.1f} ± {best.ci95:.1f} %."
    )


def _describe_intervals(reports: Sequence[Report]) -> str:
    units = dict.fromkeys(UNITS[report.over] for report in reports)
    cautions = "".join(f" {text}" for text in dict.fromkeys(report.caution for report in reports) if text)
    return f"Percentage of correctly classified queries with 95 % intervals: {'; '.join(units)}.{cautions}"


def _format_value(value: str, half: float) -> str:
    return f'<strong>{value}</strong> <span class="soft">± {half:.1f}</span>'


def _draw_color_key(number: int) -> str:
    return f'<span class="key c{number % 6}"></span>'


def _build_accuracy_row(report: Report, number: int) -> list[str]:
    low, high = report.interval
    return [
        _draw_color_key(number) + escape(report.method),
        _format_value(f"{report.accuracy:.1f}", report.ci95),
        draw_accuracy_bar(report.accuracy, low, high, 100 / report.way, number),
        f"{low:.1f} to {high:.1f}",
        f"{report.queries:,}",
        escape(", ".join(map(str, report.seeds)) or "none"),
    ]


def _build_accuracy_tables(reports: Sequence[Report]) -> str:
    """Return the table of accuracies, the table of variants if there are any, and the comparisons."""
    tables = build_table(
        ("method", "accuracy, %", "dashed: chance", "95 % interval", "queries", "seeds"),
        [_build_accuracy_row(report, number) for number, report in enumerate(reports)],
        kinds=("method", "number", "", "number", "number", ""),
    )
    variants = [
        [
            _draw_color_key(number) + escape(report.method),
            escape(name),
            _format_value(f"{accuracy.value:.1f}", accuracy.half),
            f"{len(rows) // max(1, len(report.seeds)):,}",
        ]
        for number, report in enumerate(reports)
        for name, rows in report.variants.items()
        for accuracy, _ in [estimate_accuracy(rows)]
    ]
    if variants:
        tables += build_table(
            ("method", "queries are", "accuracy, %", "queries"),
            variants,
            kinds=("method", "", "number", "number"),
            caption="Other sets of queries",
        )
    return tables + (_build_comparison_table(compare(reports)) if len(reports) > 1 else "")


def _build_comparison_table(pairs: Sequence[Paired]) -> str:
    rows = [
        [
            f"{escape(pair.first)} <span class='soft'>and</span> {escape(pair.second)}",
            _format_value(f"{pair.difference.value:+.1f}", pair.difference.half),
            f"{pair.difference.low:+.1f} to {pair.difference.high:+.1f}",
            _format_p(pair.p),
            f'<span class="{"sure" if pair.adjusted < 0.05 else ""}">{_format_p(pair.adjusted)}</span>',
            f"{pair.first_only:,} / {pair.second_only:,}",
            "" if pair.mcnemar is None else _format_p(pair.mcnemar),
        ]
        for pair in pairs
    ]
    heads = ("methods", "difference, points", "95 % interval", "p", "p, Holm", "correct alone", "McNemar p")
    return build_table(heads, rows, caption=f"Differences on the same queries: {pairs[0].test}")


def _format_p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _draw_dot_chart(
    reports: Sequence[Report], names: Iterable[str], columns: Sequence[dict[str, float]]
) -> str:
    """Return a legend and one line of dots per name."""
    items = [
        f"<li>{_draw_color_key(number)}<span>{escape(report.method)}</span></li>"
        for number, report in enumerate(reports)
    ]
    rows = {name: [column.get(name) for column in columns] for name in names}
    chart = draw_dots(rows, [report.method for report in reports])
    return f'<ul class="legend">{"".join(items)}</ul><div class="scroll">{chart}</div>'


def _build_split_section(reports: Sequence[Report]) -> str:
    if len(reports[0].splits) < 2:
        return ""
    columns = [{part.name: part.accuracy for part in report.splits} for report in reports]
    chart = _draw_dot_chart(reports, reports[0].names, columns)
    return build_section("Splits", "Accuracy on each split, in percent.", chart)


def _build_class_section(reports: Sequence[Report]) -> str:
    columns = [report.per_class for report in reports]
    names = sorted(columns[0], key=lambda name: -sum(column.get(name, 0.0) for column in columns))
    note = "Percentage of correctly classified queries of each class, best class first."
    return build_section("Classes", note, _draw_dot_chart(reports, names, columns))


def _build_confusion_section(reports: Sequence[Report]) -> str:
    tabs = "".join(f'<button type="button">{escape(report.method)}</button>' for report in reports)
    panels = []
    for report in reports:
        rows = report.predictions
        share = float((rows.own < rows.other).double().mean()) * 100
        true_median, other_median = float(rows.own.median()), float(rows.other.median())
        panels.append(
            f'<div class="panel side" data-group="methods"><div><h3>Confusions of {escape(report.method)}</h3>'
            f'<div class="scroll">{draw_confusion(report.confusion, report.titles)}</div></div>'
            '<div><h3>Distances</h3><ul class="legend"><li class="own"><span class="key"></span><span>true class</span>'
            '</li><li class="other"><span class="key"></span><span>nearest other class</span></li></ul>'
            f"{draw_histogram(rows.own, rows.other)}<p class='soft'>The true class is nearest for {share:.1f} % of "
            f"the queries. Medians: {true_median:.3g} and {other_median:.3g}.</p></div></div>"
        )
    body = f'<div class="tabs" data-group="methods">{tabs}</div>{"".join(panels)}'
    return build_section(
        "Confusions and distances", "Rows are true classes, columns are predicted classes.", body
    )


def _build_curve_section(method: str, curves: Curves) -> str:
    """Return the training curves of a method, one chart per split."""
    charts = [
        f"<figure><figcaption><b>{escape(split)}</b></figcaption>{draw_training(steps)}</figure>"
        for split, steps in curves.items()
        if len(steps) > 1
    ]
    note = (
        "Loss and accuracy on training episodes and, as dots, accuracy on validation episodes. Both lines are moving "
        "means."
    )
    legend = "".join(
        f'<li class="{kind}"><span class="key"></span><span>{text}</span></li>'
        for kind, text in (("own", "loss, left axis"), ("other", "accuracy in percent, right axis"))
    )
    body = f'<ul class="legend">{legend}</ul><div class="maps">{"".join(charts)}</div>'
    return build_section(f"Training of {method}", note, body) if charts else ""


def _build_alignment_section(examples: Sequence[Example]) -> str:
    if not examples:
        return ""
    note = (
        "Single queries aligned with a support of their predicted class. Both move along the alignment path; the "
        "middle picture shows the query from the view that the path selects."
    )
    return build_section("Alignments", note, _PLAYER, "alignments")


def _list_notes(reports: Sequence[Report]) -> list[str]:
    notes = [
        "An interval over splits covers other choices of classes; an interval over episodes or queries covers only "
        "other draws from the same clips.",
        "A query gets the class of its nearest support."
        if reports[0].rule == "nearest"
        else "A query gets the class whose supports are nearest on average.",
    ]
    if len(reports) > 1:
        notes.append(
            "Methods are compared on the same queries. p is the probability of a difference at least this large if "
            "the methods are equally good; Holm's method corrects it for the number of comparisons. “Correct alone” "
            "counts queries that only the first and only the second method classified correctly. McNemar's exact "
            "test on them assumes independent queries and is given for single splits only."
        )
    return notes
