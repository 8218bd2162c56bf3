"""Writes docs/results/recognition.md from the stored results of benchmarks/recognition.py."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from jeanie.evaluation.statistics import (
    Estimate,
    estimate_mean,
    estimate_paired_share,
    estimate_share,
    mcnemar,
)

ABLATION = Path(__file__).resolve().parent / "results" / "ablation.md"
StoredResults = dict[str, Any]

# task: title, and the goal that was set before the first measurement: minimum / target
TASKS = {
    "msr10": ("MSRAction3D, 10 random class splits, 10-way", "74 / 80"),
    "msr5": ("the same, 5-way", ""),
    "msr10-person": ("the same 10 classes, all ten examples by one person, queries by the nine others", ""),
    "exemplars": ("MSRAction3D, the authors' exemplars, 289 queries including the exemplars", "80 / 87"),
    "exemplars-without": ("the same, 279 queries without the exemplars", ""),
    "ucla-same": ("NW-UCLA, 10-way, examples and queries from the same camera", "52 / 60"),
    "ucla-other": ("NW-UCLA, 10-way, mean of the six ordered pairs of cameras", "50 / 58"),
    "ucla-published": ("NW-UCLA, published protocol, 5-way, cameras 1 and 2 to 3, 5 seeds of episodes", ""),
    "sbu": ("SBU, two persons, 8-way, examples by other pairs of persons", "+5 / +15 over the reference"),
}

# fine-tuned protocol and way: title and goal
TUNED = {
    ("msr", 10): ("MSRAction3D, 10 splits, 10-way", "76 / 82"),
    ("msr", 5): ("MSRAction3D, 10 splits, 5-way", "83 / 88"),
    ("ucla", 5): ("NW-UCLA, published 5-way protocol, 5 seeds", "50 / 60"),
}

INTRO = """\
# One-shot recognition results

Written by `benchmarks/recognition.py`; the numbers are stored in `benchmarks/results/recognition.json`. There is one
example per action, and a query gets the class of the nearest example. Only the rows *fine-tuned* were trained on
MSRAction3D, NW-UCLA or SBU. The settings of the shipped model and of the reference were selected on held-out subjects
of CMU motion capture, on procedural gestures and on the synthetic data set.
"""

MEASURED = """\
## Models, protocols and intervals

- *plain DTW*: `FewShotModel.raw("dtw")`, DTW on positions scaled by body size and deviations from the mean pose, in
  the recorded view. *reference*: `FewShotModel.raw()`, the best model without learning on validation data. It turns
  bodies to face the camera, and two persons to face each other, and uses positions, deviations and velocities at two
  time scales. *shipped*: `FewShotModel.load()`, an ensemble. *members*: its networks, each used alone; they differ in
  their seeds.
- For comparison, with training on the training classes of the data set: the paper prints 64.6 and 73.2 for MSRAction3D,
  10-way and 5-way. Its authors print 80.3 for their exemplars (selected on the test list after every episode). The
  source of the published protocol of NW-UCLA prints 35.3 for JEANIE and 41.2 for FVM.
- MSRAction3D, 10 splits: protocol `msraction3d-splits` (10 test classes each, 200 episodes with one query per class;
  examples and queries may be by the same person). In the row *by one person*, each of the ten subjects in turn performs
  one take of every class, in two draws, and all clips of all others are queries.
- The authors' exemplars: protocol `msraction3d-exemplars`, one take of subject 1 for each of ten classes.
- NW-UCLA: protocol `nwucla-crossview`, 200 episodes per pair of cameras, examples and queries by different persons;
  `nwucla-published` with the same generator calls as its source. SBU: protocol `sbu`, 200 episodes.
- ± is a 95 % interval: Student's t over splits (over the three cameras or the six pairs of cameras), over episodes for
  SBU, Wilson's interval over queries for the exemplars. It does not cover other data sets.
- The column *shipped minus reference* compares both on the same queries: paired t-test over the same units; McNemar's
  exact test for the exemplars.
- A goal was set before the first measurement: minimum / target.
"""


def estimate_accuracy(result: StoredResults) -> Estimate:
    """Return the accuracy in percent with its 95 % interval."""
    units = result["units"]
    if result["over"] == "queries":
        return estimate_share(round(sum(units)), len(units)).times(100)
    return estimate_mean(units)[0].times(100)


def estimate_difference(first: StoredResults, second: StoredResults) -> tuple[Estimate, float]:
    """Return first minus second on the same units, in points, and the p-value."""
    pairs = list(zip(first["units"], second["units"], strict=True))
    if first["over"] == "queries":
        only, other = (sum(a > b for a, b in some) for some in (pairs, [(b, a) for a, b in pairs]))
        return estimate_paired_share(only, other, len(pairs)).times(100), mcnemar(only, other)
    difference, p = estimate_mean([a - b for a, b in pairs])
    return difference.times(100), p


def format_accuracy(result: StoredResults | None) -> str:
    """Return a cell with accuracy and interval, empty without a result."""
    if result is None:
        return ""
    estimate = estimate_accuracy(result)
    return f"{estimate.value:.1f} ±{estimate.half:.1f}"


def format_difference(first: StoredResults | None, second: StoredResults | None) -> str:
    if first is None or second is None:
        return ""
    difference, p = estimate_difference(first, second)
    return f"{difference.value:+.1f} ±{difference.half:.1f}, p {p:.1g}"


def get_tasks(stored: StoredResults, name: str) -> StoredResults:
    """Return the tasks of the model of this name, empty without results."""
    return next((row["tasks"] for row in stored["models"].values() if row.get("name") == name), {})


def format_member_mean(rows: list[StoredResults], task: str) -> str:
    values = [estimate_accuracy(row[task]).value for row in rows if task in row]
    if not values:
        return ""
    return f"{fmean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def format_page(stored: StoredResults, shipped: str) -> str:
    """Return the page, from all results and the key of the shipped model."""
    about = stored.get("about", {})
    versions = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    code = f"commit {str(about.get('commit'))[:10]}; {versions}; {about.get('machine', '')}"
    stamp = f"Model {shipped[:8]}; {code}, one thread."
    parts = [
        INTRO,
        stamp + "\n",
        format_results(stored, shipped),
        MEASURED,
        format_rotated(stored, shipped),
        format_finetuned(stored, shipped),
        format_encoders(stored),
        format_labelling(stored, shipped),
        format_cost(stored, shipped),
        ABLATION.read_text() if ABLATION.exists() else "",
    ]
    return "\n".join(part for part in parts if part)


def _get_shipped(stored: StoredResults, shipped: str) -> StoredResults:
    row = stored["models"].get(shipped)
    return {} if row is None else row["tasks"]


def _list_compared_models(stored: StoredResults, shipped: str) -> StoredResults:
    """Return the results by task of plain DTW, the reference and the shipped model."""
    return {
        "plain DTW": get_tasks(stored, "plain DTW"),
        "reference": get_tasks(stored, "reference"),
        "shipped": _get_shipped(stored, shipped),
    }


def _list_members(stored: StoredResults) -> list[StoredResults]:
    rows = [(row["name"], row["tasks"]) for row in stored["models"].values() if row.get("name")]
    return [tasks for name, tasks in sorted(rows, key=lambda row: row[0]) if name.startswith("member ")]


def format_results(stored: StoredResults, shipped: str) -> str:
    plain, reference, shipped_tasks = _list_compared_models(stored, shipped).values()
    lines = [
        "## One-shot accuracy in percent",
        "",
        "| | plain DTW | reference | members, mean (range) | shipped | shipped minus reference | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    for task, (title, goal) in TASKS.items():
        cells = [
            title,
            format_accuracy(plain.get(task)),
            format_accuracy(reference.get(task)),
            format_member_mean(_list_members(stored), task),
            f"**{format_accuracy(shipped_tasks.get(task))}**" if task in shipped_tasks else "",
            format_difference(shipped_tasks.get(task), reference.get(task)),
            goal,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    titles_above = [
        title for task, (title, _) in TASKS.items() if _get_value(plain, task) > _get_value(reference, task)
    ]
    if titles_above:
        lines += [
            "",
            "No model without learning is the best on all tasks. Plain DTW is above the reference on these rows: "
            + "; ".join(titles_above)
            + ".",
        ]
    if "ucla-other" in shipped_tasks:
        pairs = ", ".join(f"{100 * unit:.1f}" for unit in shipped_tasks["ucla-other"]["units"])
        lines += [
            "",
            "Accuracy of the shipped model per pair of cameras (1 to 2, 1 to 3, 2 to 1, 2 to 3, 3 to 1, 3 to 2): "
            f"{pairs}.",
        ]
    return "\n".join([*lines, ""])


def _get_value(tasks: StoredResults, task: str) -> float:
    return estimate_accuracy(tasks[task]).value if task in tasks else 0.0


def format_rotated(stored: StoredResults, shipped: str) -> str:
    rows = _list_compared_models(stored, shipped)
    lines = [
        "## Queries rotated by an unknown yaw",
        "",
        "The episodes of MSRAction3D, 10-way. Every query is rotated about the vertical by a random angle between -60",
        "and 60 degrees; the examples are as recorded. Goal: a loss of at most 2 points; target: 1.",
        "",
        "| | as recorded | rotated | change |",
        "|---|---|---|---|",
    ]
    for name, tasks in rows.items():
        if "msr10-turned" in tasks:
            difference, _ = estimate_difference(tasks["msr10-turned"], tasks["msr10"])
            cells = [
                name,
                format_accuracy(tasks["msr10"]),
                format_accuracy(tasks["msr10-turned"]),
                f"{difference.value:+.1f} ±{difference.half:.1f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def format_finetuned(stored: StoredResults, shipped: str) -> str:
    tuned = stored.get("tuned", {}).get(shipped, {})
    lines = [
        "## Fine-tuning on the training classes of a protocol",
        "",
        "`jeanie train PROTOCOL --from shipped`, recipe `finetune`. The initial model is validated as episode 0 on",
        "validation classes, which are held out of the training classes. It is kept unless training beats it by the",
        "margin. Test classes are not used. The learning rate of 3e-4 was set in advance; on the validation classes",
        "of three splits of MSRAction3D, 1e-4 and 5e-4 differed by less than the noise. *selected*: the initial model",
        "with the members and the hubness correction that were selected on halves of the training classes, without",
        "training ([selection](../training.md#fine-tuning-a-pretrained-model)).",
        "",
        "| | initial | selected | fine-tuned | gain | goal |",
        "|---|---|---|---|---|---|",
    ]
    notes = []
    for (task, way), (title, goal) in TUNED.items():
        if task in tuned:
            tasks = tuned[task]["tasks"]
            start, after = tasks[f"{way}-start"], tasks[f"{way}-tuned"]
            cells = [
                title,
                format_accuracy(start),
                format_accuracy(tasks.get(f"{way}-chosen")),
                f"**{format_accuracy(after)}**",
            ]
            lines.append("| " + " | ".join([*cells, format_difference(after, start), goal]) + " |")
    for task, title in (("msr", "MSRAction3D"), ("ucla", "NW-UCLA")):
        if task in tuned:
            runs = tuned[task]["runs"]
            stayed = sum(run["best_episode"] == 0 for run in runs)
            seconds = fmean(run["seconds"] for run in runs)
            notes.append(
                f"- {title}: {len(runs)} trainings ({len({run['seed'] for run in runs})} seeds), {seconds:.0f} s each "
                f"on a shared core. {_describe_selection(runs)}. In {stayed} trainings no step beat the selected model."
            )
    with_raw = tuned.get("msr", {}).get("tasks", {})
    if "10-fused" in with_raw:
        ten, five = (
            f"{estimate_accuracy(with_raw[f'{way}-fused']).value:.1f} instead of "
            f"{estimate_accuracy(with_raw[f'{way}-start']).value:.1f}"
            for way in (10, 5)
        )
        notes.append(
            "- Adding the distance of the reference to that of the shipped model, without training and with a weight "
            f"selected on the same validation classes, gives {ten} (10-way) and {five} (5-way). So the recipe does not "
            "add it."
        )
    if not tuned:
        lines[-2:] = ["Not measured for this model yet: run `benchmarks/recognition.py --part finetune`."]
    return "\n".join([*lines, "", *notes, ""] if notes else [*lines, ""])


def _describe_selection(runs: Sequence[StoredResults]) -> str:
    """Return how often the hubness correction and a single kind of members were selected."""
    hubness, alone = sum(run["hubness"] > 0 for run in runs), sum(bool(run["shares"]) for run in runs)
    return f"The hubness correction was selected in {hubness}, a single kind of members in {alone}"


def format_encoders(stored: StoredResults) -> str:
    known = {"plain DTW", "reference", "shipped", None}
    rows = {
        key: row
        for key, row in stored["models"].items()
        if row.get("name") not in known and not str(row.get("name")).startswith("member ")
    }
    if not rows:
        return ""
    tasks = {
        "msr10": "MSR 10-way",
        "msr10-turned": "the same, rotated",
        "msr5": "MSR 5-way",
        "exemplars": "exemplars",
        "ucla-same": "UCLA same camera",
        "ucla-other": "UCLA other camera",
        "ucla-published": "UCLA published",
        "sbu": "SBU",
    }
    lines = [
        "## Other encoders with the same data and loss",
        "",
        "`jeanie pretrain OUT --config benchmarks/encoders/NAME.json` (`s2gc`, `s2gc_transformer`), then",
        "`benchmarks/recognition.py --model NAME=OUT`. One network each, one seed, with the pairs, the augmentation",
        "and the mirror penalty of the shipped model.",
        "",
        "| | " + " | ".join(tasks.values()) + " | weights |",
        "|---|" + "---|" * (len(tasks) + 1),
    ]
    for row in rows.values():
        cells = [format_accuracy(row["tasks"].get(task)) for task in tasks]
        weights = row["tasks"].get("cost", {}).get("weights", "")
        lines.append(f"| {row['name']} | " + " | ".join(cells) + f" | {weights:,} |")
    return "\n".join([*lines, "", *_format_finetuned_encoders(stored, rows)])


def _format_finetuned_encoders(stored: StoredResults, rows: StoredResults) -> list[str]:
    """Return the table of these encoders after fine-tuning."""
    lines = []
    for key, row in rows.items():
        tuned = stored.get("tuned", {}).get(key, {})
        cells = []
        for task, way in TUNED:
            tasks = tuned.get(task, {}).get("tasks", {})
            start, after = tasks.get(f"{way}-start"), tasks.get(f"{way}-tuned")
            cells += [format_accuracy(after), format_difference(after, start)]
        if any(cells):
            lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    if not lines:
        return []
    titles = " | ".join(f"{title} | gain" for title, _ in TUNED.values())
    return [
        "The same encoders after fine-tuning (`--part finetune --model NAME=OUT`), one seed on MSRAction3D:",
        "",
        f"| | {titles} |",
        "|---|" + "---|---|" * len(TUNED),
        *lines,
        "",
    ]


def format_labelling(stored: StoredResults, shipped: str) -> str:
    lines = [
        "## Labelling an archive",
        "",
        "`jeanie label` uses all clips at once, and the clips help to label each other. So do not compare these",
        "numbers with those of recognition. There is one example per class. All values are in percent. *nearest*:",
        "every clip gets the label of its nearest example. *spread*: labels spread over the graph of the ten nearest",
        "clips, and every clip gets one. *shuffled*: the same with permuted labels of the examples (chance is 10 %).",
        "*labelled*: share of the clips that get a label at the default threshold; *right of labelled*: share of",
        "these labels that are right. Neighbours, weights and threshold were selected on the synthetic data set.",
        "",
        "| archive | model | nearest | spread | shuffled | labelled | right of labelled |",
        "|---|---|---|---|---|---|---|",
    ]
    archives = {
        "label-fixed": "MSRAction3D, classes 11 to 20, the authors' exemplars, 279 clips",
        "label-drawn": "MSRAction3D, 10 splits x 10 drawn sets of examples, 10 classes each",
    }
    models = _list_compared_models(stored, shipped)
    for task, title in archives.items():
        for name, tasks in models.items():
            if task in tasks:
                means = {key: 100 * fmean(values) for key, values in tasks[task].items()}
                cells = [
                    f"{means[key]:.1f}"
                    for key in ("nearest", "all", "shuffled", "labelled", "right_of_labelled")
                ]
                lines.append(f"| {title} | {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def format_cost(stored: StoredResults, shipped: str) -> str:
    lines = [
        "## Cost",
        "",
        "Milliseconds on one core for one motion of MSRAction3D: to prepare and encode it, and to compare it with ten",
        "encoded examples (lower quartile of 20; the machine was shared).",
        "",
        "| | encode | compare with ten | learnt weights |",
        "|---|---|---|---|",
    ]
    models = _list_compared_models(stored, shipped)
    for name, tasks in models.items():
        if "cost" in tasks:
            cost = tasks["cost"]
            lines.append(
                f"| {name} | {cost['encode_ms']:.1f} | {cost['compare_ms']:.2f} | {cost['weights']:,} |"
            )
    return "\n".join([*lines, ""])
