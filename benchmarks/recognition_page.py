"""docs/results/recognition.md from the results that benchmarks/recognition.py has kept."""

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
Kept = dict[str, Any]

# task: what it is, and the goal that was set before anything was measured: must reach, aim
TASKS = {
    "msr10": ("MSRAction3D, 10 random class splits, 10-way", "74 / 80"),
    "msr5": ("the same, 5-way", ""),
    "msr10-person": ("the same 10 classes, all ten examples by one person, all clips of the nine others", ""),
    "exemplars": ("MSRAction3D, the authors' exemplars, they themselves among the 289 queries", "80 / 87"),
    "exemplars-without": ("the same without them, 279 queries", ""),
    "ucla-same": ("NW-UCLA, 10-way, examples and queries of one camera", "52 / 60"),
    "ucla-other": ("NW-UCLA, 10-way, mean of the six ordered pairs of cameras", "50 / 58"),
    "ucla-published": ("NW-UCLA, published protocol, 5-way, cameras 1 and 2 to 3, 5 seeds of episodes", ""),
    "sbu": ("SBU, two persons, 8-way, examples by other pairs of persons", "+5 / +15 over no learning"),
}

# protocol and way of what is fine-tuned: what it is, and its goal
TUNED = {
    ("msr", 10): ("MSRAction3D, 10 splits, 10-way", "76 / 82"),
    ("msr", 5): ("MSRAction3D, 10 splits, 5-way", "83 / 88"),
    ("ucla", 5): ("NW-UCLA, published 5-way protocol, 5 seeds", "50 / 60"),
}

INTRO = """\
# Recognition: measured

Written by `benchmarks/recognition.py`; `benchmarks/results/recognition.json` has the numbers behind it. One example of
every action, nearest example wins. Nothing on this page was trained on MSRAction3D, NW-UCLA or SBU unless its row says
*fine-tuned*. The settings of the model that ships and of the reference were chosen on held-out subjects of CMU motion
capture, on procedural gestures and on the embedded data set.
"""

MEASURED = """\
## What is measured

- *plain DTW*: `FewShotModel.raw("dtw")`, DTW on body-sized positions and deviations from the mean pose, in the view of
  the recording. *reference*: `FewShotModel.raw()`, of all models without learning the best on validation data: bodies
  turned to face the camera, two persons to face each other, positions, deviations and velocities at two time scales.
  *shipped*: `FewShotModel.load()`, an ensemble; *its networks*: each of them by itself; they differ in their seeds.
- For comparison, all after training on the data set's own training classes: the paper prints 64.6 and 73.2 for
  MSRAction3D, 10-way and 5-way, its authors 80.3 for their exemplars (picked on the test list after every episode),
  and the source of the published protocol of NW-UCLA 35.3 for JEANIE and 41.2 for FVM.
- MSRAction3D, 10 splits: the protocol `msraction3d-splits` (10 test classes each, 200 episodes of one query a class;
  examples and queries may be by one person). In the row *by one person* each of the ten subjects in turn shows one
  take of every class, twice drawn, and all clips of all others are queries.
- The authors' exemplars: protocol `msraction3d-exemplars`, one take of subject 1 for each of ten classes.
- NW-UCLA: protocol `nwucla-crossview`, 200 episodes a pair of cameras, examples and queries by different persons;
  `nwucla-published` to the generator call of its source. SBU: protocol `sbu`, 200 episodes.
- ± is a 95 % interval: Student's t over splits (over the three cameras or six pairs of cameras), over episodes for
  SBU, Wilson's over queries for the exemplars. It does not speak for other data sets.
- The last column compares shipped and reference on the same queries: paired t-test over the same units; for the
  exemplars McNemar's exact test.
"""


def estimate(result: Kept) -> Estimate:
    """Accuracy in percent with its 95 % interval."""
    units = result["units"]
    if result["over"] == "queries":
        return estimate_share(round(sum(units)), len(units)).times(100)
    return estimate_mean(units)[0].times(100)


def difference(first: Kept, second: Kept) -> tuple[Estimate, float]:
    """First minus second on the same units, in points, and its p-value."""
    pairs = list(zip(first["units"], second["units"], strict=True))
    if first["over"] == "queries":
        only, other = (sum(a > b for a, b in some) for some in (pairs, [(b, a) for a, b in pairs]))
        return estimate_paired_share(only, other, len(pairs)).times(100), mcnemar(only, other)
    found, p = estimate_mean([a - b for a, b in pairs])
    return found.times(100), p


def told(result: Kept | None) -> str:
    """A cell with accuracy and interval; empty where nothing was measured."""
    if result is None:
        return ""
    found = estimate(result)
    return f"{found.value:.1f} ±{found.half:.1f}"


def compared(first: Kept | None, second: Kept | None) -> str:
    if first is None or second is None:
        return ""
    found, p = difference(first, second)
    return f"{found.value:+.1f} ±{found.half:.1f}, p {p:.1g}"


def named(kept: Kept, name: str) -> Kept:
    """Tasks of the model of this name; none where it was not measured."""
    return next((row["tasks"] for row in kept["models"].values() if row.get("name") == name), {})


def mean_over(rows: list[Kept], task: str) -> str:
    values = [estimate(row[task]).value for row in rows if task in row]
    if not values:
        return ""
    return f"{fmean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def page(kept: Kept, shipped: str) -> str:
    """The page, from all results and the digest of the model that ships."""
    about = kept.get("about", {})
    versions = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    code = f"commit {str(about.get('commit'))[:10]}; {versions}; {about.get('machine', '')}"
    stamp = f"Weights {shipped}; {code}, one thread."
    parts = [
        INTRO,
        stamp + "\n",
        results(kept, shipped),
        MEASURED,
        turned(kept, shipped),
        tuned(kept, shipped),
        encoders(kept),
        labelled(kept, shipped),
        cost(kept, shipped),
        ABLATION.read_text() if ABLATION.exists() else "",
    ]
    return "\n".join(part for part in parts if part)


def _of(kept: Kept, shipped: str) -> Kept:
    row = kept["models"].get(shipped)
    return {} if row is None else row["tasks"]


def _members(kept: Kept) -> list[Kept]:
    rows = [(row["name"], row["tasks"]) for row in kept["models"].values() if row.get("name")]
    return [tasks for name, tasks in sorted(rows, key=lambda row: row[0]) if name.startswith("member ")]


def results(kept: Kept, shipped: str) -> str:
    plain, reference, ours = named(kept, "plain DTW"), named(kept, "reference"), _of(kept, shipped)
    lines = [
        "## One-shot accuracy, in percent",
        "",
        "| | plain DTW | reference | networks of shipped, mean (range) | shipped | shipped over reference | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    for task, (title, goal) in TASKS.items():
        cells = [
            title,
            told(plain.get(task)),
            told(reference.get(task)),
            mean_over(_members(kept), task),
            f"**{told(ours.get(task))}**" if task in ours else "",
            compared(ours.get(task), reference.get(task)),
            goal,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    above = [title for task, (title, _) in TASKS.items() if _value(plain, task) > _value(reference, task)]
    if above:
        lines += [
            "",
            "No recipe without learning is the best everywhere: plain DTW is above the reference on "
            + "; ".join(above)
            + ".",
        ]
    if "ucla-other" in ours:
        pairs = ", ".join(f"{100 * unit:.1f}" for unit in ours["ucla-other"]["units"])
        lines += [
            "",
            f"The six pairs of cameras (1 to 2, 1 to 3, 2 to 1, 2 to 3, 3 to 1, 3 to 2), shipped: {pairs}.",
        ]
    return "\n".join([*lines, ""])


def _value(tasks: Kept, task: str) -> float:
    return estimate(tasks[task]).value if task in tasks else 0.0


def turned(kept: Kept, shipped: str) -> str:
    rows = {
        "plain DTW": named(kept, "plain DTW"),
        "reference": named(kept, "reference"),
        "shipped": _of(kept, shipped),
    }
    lines = [
        "## Queries turned by an unknown yaw",
        "",
        "The episodes of MSRAction3D, 10-way; every query is turned about the vertical by an angle drawn between",
        "-60 and 60 degrees, the examples are as recorded. Goal: within 2 points, better 1.",
        "",
        "| | as recorded | turned | change |",
        "|---|---|---|---|",
    ]
    for name, tasks in rows.items():
        if "msr10-turned" in tasks:
            found, _ = difference(tasks["msr10-turned"], tasks["msr10"])
            cells = [
                name,
                told(tasks["msr10"]),
                told(tasks["msr10-turned"]),
                f"{found.value:+.1f} ±{found.half:.1f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def tuned(kept: Kept, shipped: str) -> str:
    found = kept.get("tuned", {}).get(shipped, {})
    lines = [
        "## Fine-tuned on a protocol's own training classes",
        "",
        "`jeanie train PROTOCOL --from shipped`: recipe `finetune`. Validation classes, held out of the training",
        "classes, judge the start as episode 0; it is kept unless training beats it by the margin. Test classes are",
        "seen by nobody. The rate of 3e-4 was set before; on the validation classes of three splits of MSRAction3D",
        "1e-4 and 5e-4 differed by less than the noise. *chosen*: the start without any step, but with the kinds of",
        "networks, and with examples held back or not, that halves of the training classes choose",
        "([how](../training.md)).",
        "",
        "| | start | chosen | fine-tuned | gain | goal |",
        "|---|---|---|---|---|---|",
    ]
    notes = []
    for (task, way), (title, goal) in TUNED.items():
        if task in found:
            tasks = found[task]["tasks"]
            start, after = tasks[f"{way}-start"], tasks[f"{way}-tuned"]
            cells = [title, told(start), told(tasks.get(f"{way}-chosen")), f"**{told(after)}**"]
            lines.append("| " + " | ".join([*cells, compared(after, start), goal]) + " |")
    for task, title in (("msr", "MSRAction3D"), ("ucla", "NW-UCLA")):
        if task in found:
            runs = found[task]["runs"]
            stayed = sum(run["best_episode"] == 0 for run in runs)
            seconds = fmean(run["seconds"] for run in runs)
            notes.append(
                f"{title}: {len(runs)} trainings ({len({run['seed'] for run in runs})} seeds), {seconds:.0f} s each on "
                f"a shared core; {_choices(runs)}; no step beat that in {stayed}."
            )
    with_raw = found.get("msr", {}).get("tasks", {})
    if "10-fused" in with_raw:
        ten, five = (
            f"{estimate(with_raw[f'{way}-fused']).value:.1f} for {estimate(with_raw[f'{way}-start']).value:.1f}"
            for way in (10, 5)
        )
        notes.append(
            "The raw reference beside the shipped model without any training, its weight chosen on the same validation "
            f"classes: 10-way {ten}, 5-way {five}. The recipe adds none."
        )
    if not found:
        lines[-2:] = ["Not measured for these weights yet: `benchmarks/recognition.py --part finetune`."]
    return "\n".join([*lines, "", *notes, ""] if notes else [*lines, ""])


def _choices(runs: Sequence[Kept]) -> str:
    """How often hubs were held back, and one kind of networks taken alone."""
    hubness, alone = sum(run["hubness"] > 0 for run in runs), sum(bool(run["shares"]) for run in runs)
    return f"hubs were held back in {hubness}, one kind of networks was taken alone in {alone}"


def encoders(kept: Kept) -> str:
    known = {"plain DTW", "reference", "shipped", None}
    rows = {
        key: row
        for key, row in kept["models"].items()
        if row.get("name") not in known and not str(row.get("name")).startswith("member ")
    }
    if not rows:
        return ""
    tasks = {
        "msr10": "MSR 10-way",
        "msr10-turned": "the same, turned",
        "msr5": "MSR 5-way",
        "exemplars": "exemplars",
        "ucla-same": "UCLA same",
        "ucla-other": "UCLA other",
        "ucla-published": "UCLA published",
        "sbu": "SBU",
    }
    lines = [
        "## Other encoders on the same data and loss",
        "",
        "`jeanie pretrain OUT --config benchmarks/encoders/NAME.json` (`s2gc`, `s2gc_transformer`), then",
        "`benchmarks/recognition.py --model NAME=OUT`. One network each, one seed, with the pairs, the changes and the",
        "mirror of the shipped model.",
        "",
        "| | " + " | ".join(tasks.values()) + " | weights |",
        "|---|" + "---|" * (len(tasks) + 1),
    ]
    for row in rows.values():
        cells = [told(row["tasks"].get(task)) for task in tasks]
        weights = row["tasks"].get("cost", {}).get("weights", "")
        lines.append(f"| {row['name']} | " + " | ".join(cells) + f" | {weights:,} |")
    return "\n".join([*lines, "", *_tuned_encoders(kept, rows)])


def _tuned_encoders(kept: Kept, rows: Kept) -> list[str]:
    """Each of them after fine-tuning, as the shipped model is."""
    lines = []
    for key, row in rows.items():
        found = kept.get("tuned", {}).get(key, {})
        cells = []
        for task, way in TUNED:
            tasks = found.get(task, {}).get("tasks", {})
            start, after = tasks.get(f"{way}-start"), tasks.get(f"{way}-tuned")
            cells += [told(after), compared(after, start)]
        if any(cells):
            lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    if not lines:
        return []
    titles = " | ".join(f"{title} | gain" for title, _ in TUNED.values())
    return [
        "Fine-tuned from these weights (`--part finetune --model NAME=OUT`), one seed on MSRAction3D, as above:",
        "",
        f"| | {titles} |",
        "|---|" + "---|---|" * len(TUNED),
        *lines,
        "",
    ]


def labelled(kept: Kept, shipped: str) -> str:
    lines = [
        "## Labelling a whole archive: another task",
        "",
        "`jeanie label`: all clips are there at once and help to label each other, so these numbers stand in no table",
        "of recognition. One example of each class; *nearest*: every clip gets the label of its nearest example;",
        "*spread*: labels spread over the graph of ten nearest clips, every clip gets one; *shuffled*: the same with",
        "the examples' labels permuted (chance is 10 %). *told*: share of clips that get a label at the usual",
        "threshold, and how many of those are right. Neighbours, weights and threshold were chosen on the embedded",
        "data set.",
        "",
        "| archive | model | nearest | spread | shuffled | told | right of those |",
        "|---|---|---|---|---|---|---|",
    ]
    archives = {
        "label-fixed": "MSRAction3D, classes 11 to 20, the authors' exemplars, 279 clips",
        "label-drawn": "MSRAction3D, 10 splits x 10 drawn sets of examples, 10 classes each",
    }
    models = {
        "plain DTW": named(kept, "plain DTW"),
        "reference": named(kept, "reference"),
        "shipped": _of(kept, shipped),
    }
    for task, title in archives.items():
        for name, tasks in models.items():
            if task in tasks:
                means = {key: 100 * fmean(values) for key, values in tasks[task].items()}
                cells = [
                    f"{means[key]:.1f}" for key in ("nearest", "all", "shuffled", "told", "right_of_told")
                ]
                lines.append(f"| {title} | {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def cost(kept: Kept, shipped: str) -> str:
    lines = [
        "## Cost",
        "",
        "Milliseconds of one core for one motion of MSRAction3D: prepared and encoded, and compared with ten examples",
        "that are encoded already (lower quartile of 20; the machine was shared).",
        "",
        "| | encode | compare with ten | learnt weights |",
        "|---|---|---|---|",
    ]
    models = {
        "plain DTW": named(kept, "plain DTW"),
        "reference": named(kept, "reference"),
        "shipped": _of(kept, shipped),
    }
    for name, tasks in models.items():
        if "cost" in tasks:
            found = tasks["cost"]
            lines.append(
                f"| {name} | {found['encode_ms']:.1f} | {found['compare_ms']:.2f} | {found['weights']:,} |"
            )
    return "\n".join([*lines, ""])
