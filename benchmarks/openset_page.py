"""The page and the picture with the results of ``openset.py``."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from jeanie.recogniser.confidence import EVIDENCE, Calibration

MEASURES = {
    "auroc": "AUROC",
    "false_alarms": "false alarms",
    "recognised": "recognised",
    "recognised_at": "recognised at equal false alarms",
    "error": "calibration error",
}
TRIALS = Path(__file__).with_name("openset_trials.md")  # evidence that was measured and is not used
STATES = ("before", "after", "calibrated")
SAME_PERSON_EXAMPLES = (
    "## Examples by the same person",
    "",
    "The person who enrols a movement often performs it again later. In these episodes, one person performs the",
    "examples, the queries and the 20 recordings of *calibrated*. Then distances to other movements are smaller too,",
    "so the evidence includes how alike the bodies of query and example are. These episodes have a quarter of the",
    "weight of the others in the fit: more weight gives fewer false alarms here, and fewer recognised queries of other",
    "persons.",
    "",
)


def draw_picture(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the share of right answers over confidence, one line per source."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4.6), layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)
    for result in results:
        rows = [row for row in result["reliability"] if row[0] >= 50]
        style = ":" if "changed" in result["name"] else "-"
        axis.plot(
            [row[1] for row in rows], [row[2] for row in rows], style, marker=".", label=str(result["name"])
        )
    axis.set(xlabel="confidence", ylabel="share of answers that are right", xlim=(0, 1), ylim=(0, 1))
    axis.set_aspect("equal")
    axis.legend(fontsize=6, loc="lower right")  # no line is there
    figure.savefig(path, dpi=110, metadata={"Software": None})


def format_page(facts: dict[str, Any], calibration: Calibration, about: str) -> str:
    """Return the page with all tables."""
    left_out, unseen = facts["left_out"], facts["unseen"]
    lines = [
        "# Open-set confidence: measured",
        "",
        "Written by `benchmarks/openset.py`. Every episode enrols 1 to 20 actions, or half of all, with 1, 3 or 5",
        "examples each. It asks as many queries of enrolled actions, by other subjects, as of actions that are not",
        "enrolled. A *source* is what one sensor records; *changed* sources are the same clips performed by other",
        "bodies before one worse sensor. Each source is measured with coefficients that were fitted without its whole",
        "family, and with a background set without motions of its family. The shipped model was trained on CMU and on",
        "procedural gestures, so it does better in these rows than on new data; the decision was fitted without them.",
        "",
        "*before*: the evidence and coefficients of version 0.1.0 on the same episodes and background set.",
        "*after*: this version. *calibrated*: this version with 20 unlabelled recordings of the same sensor, which may",
        "show enrolled actions too. Evidence and fit were chosen on left-out sources.",
        "",
        about,
        "",
        *_table_of_means("All sources, each left out", left_out),
        *_table_of_sources("Every source left out in turn", left_out),
        *SAME_PERSON_EXAMPLES,
        *_table_of_means(
            "One person performs everything: all sources, each left out", facts["left_out_same_person"]
        ),
        *_table_of_sources("One person performs everything: every source", facts["left_out_same_person"]),
    ]
    if unseen:
        lines += [
            *_table_of_means("Data sets that nothing was fitted to", unseen),
            "These data sets were measured seven times. Earlier results on them were in view when the background",
            "set, the weight of unknown queries, the nearest share of the cohort, the fit and the weight of episodes",
            "of one person changed, so these rows are not blind.",
            "",
            *_table_of_sources("The same data sets one by one", unseen),
            *_table_of_sources(
                "The same data sets, one person performs everything", facts["unseen_same_person"]
            ),
        ]
    lines += [
        "## Measures",
        "",
        "*AUROC*: how well the confidence separates queries of enrolled actions from others. At the threshold of 0.5:",
        "*false alarms*, the share of other movements that get a label, and *recognised*, the share of queries of",
        "enrolled actions that get the right label. *Recognised at equal false alarms*: the same share at the",
        "threshold that gives as many false alarms as *before* had. *Calibration error*: mean difference between",
        "confidence and share of right answers over ten ranges. Intervals of means are 95 % over sources.",
        "",
        "![confidence against the share of right answers](../pictures/openset.png)",
        "",
        "## Thresholds for a share of false alarms",
        "",
        "Mean over all sources, each left out; used by `false_alarms=`.",
        "",
        "| false alarms | " + " | ".join(f"{share:.0%}" for share, _ in calibration.thresholds) + " |",
        "|---|" + "---|" * len(calibration.thresholds),
        "| threshold | " + " | ".join(f"{limit:.2f}" for _, limit in calibration.thresholds) + " |",
        "",
        "## Coefficients",
        "",
        "The fit minimises the log loss, and the squared mean error of every source, so that evidence counts less if",
        "its level depends on the sensor.",
        "",
        "| evidence | coefficient | |",
        "|---|---|---|",
        f"| bias | {calibration.bias:.3f} | |",
    ]
    for name in EVIDENCE:
        said = Calibration.model_fields[name].description
        lines.append(f"| {name} | {getattr(calibration, name):.3f} | {said} |")
    lines += ["", TRIALS.read_text().rstrip()]
    return "\n".join([*lines, ""])


def _table_of_means(title: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return means over sources with their intervals, one row per number of examples."""
    lines = [f"## {title}", "", "| examples | | " + " | ".join(MEASURES.values()) + " |"]
    lines.append("|---|---|" + "---|" * len(MEASURES))
    for shots in sorted({row["shots"] for row in rows}):
        for state in STATES:
            own = [row[state] for row in rows if row["shots"] == shots]
            cells = [_interval([values[key] for values in own]) for key in MEASURES]
            lines.append(f"| {shots} | {state} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _table_of_sources(title: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return one row per source and number of examples, with the three states in each cell."""
    lines = [
        f"## {title}",
        "",
        "Each cell: before, after, calibrated.",
        "",
        "| source | examples | nearest is right | " + " | ".join(MEASURES.values()) + " |",
        "|---|---|---|" + "---|" * len(MEASURES),
    ]
    for row in rows:
        cells = [", ".join(f"{row[state][key]:.3f}" for state in STATES) for key in ("accuracy", *MEASURES)]
        lines.append(f"| {row['name']} | {row['shots']} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _interval(values: Sequence[float]) -> str:
    half = 1.96 * stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{mean(values):.3f} ±{half:.3f}"
