"""Page and picture of the results of ``openset.py``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jeanie.recogniser.confidence import Calibration

NAMES = list(Calibration.model_fields)[1:8]


def draw_picture(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the share of right answers over the confidence, one line per data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4.6), layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)
    selected = [one for one in results if not any(word in one["name"] for word in ("example", "0.5", "1.5"))]
    for result in selected:
        rows = [row for row in result["reliability"] if row[0] >= 50]
        axis.plot([row[1] for row in rows], [row[2] for row in rows], marker=".", label=str(result["name"]))
    axis.set(xlabel="confidence", ylabel="share of answers that are right", xlim=(0, 1), ylim=(0, 1))
    axis.set_aspect("equal")
    axis.legend(fontsize=7, loc="upper left")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def format_page(
    results: list[dict[str, Any]], before: list[dict[str, Any]], calibration: Calibration, about: str
) -> str:
    """Return the page; ``before`` are the results of coefficients that were fitted on recorded clips alone."""
    lines = [
        "# Open-set confidence: results",
        "",
        "Written by `benchmarks/openset.py`. Every episode enrols 1 to 20 actions with 1 to 5 examples each. Half of",
        "the queries are enrolled actions by other subjects, the other half are actions that are not enrolled. *Held",
        "out* rows contain only actions that are neither in the background set nor in the fit. *Augmentation* rows",
        "contain the same clips with another body, another style and a worse sensor; the number is the strength, and",
        "1 is the strength used in training. The shipped model itself was trained on CMU and on generated motions, so",
        "these rows are optimistic.",
        "",
        "The last three data sets are not in the training, in the background set or in the fit. However, the kinds of",
        "evidence and the way episodes are drawn were selected among about twenty variants whose results on these",
        "data sets were known. The variants differed by 0.01 to 0.03 in AUROC and by up to 0.09 in calibration error,",
        "so the last digits of these rows are optimistic.",
        "",
        about,
        "",
        "| data | answers | accuracy | AUROC, distance alone | AUROC | false alarms | recognised | confused "
        "| calibration error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    keys = ("accuracy", "auroc_distance", "auroc", "false_alarms", "recognised", "confused", "error")
    lines += [
        f"| {one['name']} | {one['answers']} | " + " | ".join(f"{one[key]:.3f}" for key in keys) + " |"
        for one in results
    ]
    lines += [
        "",
        "*Accuracy*: share of the queries of enrolled actions whose nearest action is the right one. *AUROC*: how",
        "well queries of enrolled actions are separated from the others, by the nearest distance alone and by the",
        "confidence. At the threshold of 0.5: *false alarms* is the share of unknown queries that get a label;",
        "*recognised* and *confused* are the shares of known queries that get the right label and a wrong label; the",
        "rest is answered with unknown. *Calibration error*: mean difference between the confidence and the share of",
        "right answers over ten ranges.",
        "",
        "![Confidence and share of right answers](../pictures/openset.png)",
        "",
        "| data | " + " | ".join(f"{at / 10:.1f}-{(at + 1) / 10:.1f}" for at in range(10)) + " |",
        "|---|" + "---|" * 10,
    ]
    for one in results:
        cells = ["" for _ in range(10)]
        for count, mean, share in one["reliability"]:
            cells[min(9, int(mean * 10))] = f"{share:.2f} ({count})"
        lines.append(f"| {one['name']} | " + " | ".join(cells) + " |")
    lines += ["", "Share of right answers (and their number) in each range of confidence.", ""]
    lines += _compare_fits(results, before)
    lines += [
        "",
        "## Coefficients",
        "",
    ]
    lines += ["| evidence | coefficient | |", "|---|---|---|", f"| bias | {calibration.bias:.3f} | |"]
    for name in NAMES:
        description = Calibration.model_fields[name].description
        lines.append(f"| {name} | {getattr(calibration, name):.3f} | {description} |")
    return "\n".join([*lines, ""])


def _compare_fits(results: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[str]:
    """Return the section that compares the fit with and without augmented clips."""
    lines = [
        "## Effect of augmentation in the fit",
        "",
        "Coefficients that are fitted on recorded clips alone are too cautious on held-out clips of a worse sensor.",
        "So the fit also uses augmented clips. This was selected among 22 ways to fit and to build the background",
        "set, by the log loss on held-out actions of CMU, of the synthetic data set and of random gestures. Results",
        "on the last three data sets were not used. Each cell has two values: fitted on recorded clips, and fitted on",
        "augmented clips as well.",
        "",
        "| data | false alarms | recognised | calibration error | mean of confidence minus right |",
        "|---|---|---|---|---|",
    ]
    for old, new in zip(before, results, strict=True):
        cells = [f"{old[key]:.3f}, {new[key]:.3f}" for key in ("false_alarms", "recognised", "error")]
        cells.append(f"{old['excess']:+.3f}, {new['excess']:+.3f}")
        lines.append(f"| {new['name']} | " + " | ".join(cells) + " |")
    return lines
