"""Measure the recogniser on real recordings, compared with DTW and soft-DTW without learning.

Enrols the exemplars of every episode in a ``Recogniser`` and recognises the queries without a threshold, so the answer
is the nearest action. The same episodes are given to recognisers with plain DTW and with soft-DTW on coordinates. The
results of open-set recognition and latency come from ``openset.py`` and ``recogniser.py`` (``--all`` runs both first).
Writes docs/results/recogniser.md and benchmarks/results/recogniser.json.

    JEANIE_DATA=... python benchmarks/recognition_report.py
    python benchmarks/recognition_report.py --page         # only the page, from the stored results
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from recognition_page import estimate_accuracy, estimate_difference

from jeanie._internal.provenance import get_commit, get_versions
from jeanie.datasets import Dataset
from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.statistics import Estimate, holm
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.config import RAW
from jeanie.fewshot.episodes import Episode
from jeanie.fewshot.model import SHIPPED
from jeanie.recogniser import Recogniser
from jeanie.recogniser.fingerprints import fingerprint

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results" / "recogniser.md"
OURS, DTW, SOFT = "shipped model", "DTW", "soft-DTW"
GAMMA = 0.1  # of soft-DTW
MEASURED = {"openset.json": "openset.py", "latency.json": "recogniser.py"}


@dataclass(frozen=True)
class Task:
    """Episodes of a data set; ``whole`` means a single fixed episode, with statistics over its queries."""

    title: str
    data: Dataset
    episodes: Sequence[Episode]
    note: str
    whole: bool = False


def open_tasks(episodes: int) -> Iterator[Task]:
    """Yield the three tasks with the first ``episodes`` of every split."""
    protocol = get_protocol("msraction3d-exemplars")
    data = protocol.open()
    (split,) = protocol.splits(data)
    yield Task("MSRAction3D", data, list(split.test), "the authors' exemplars, 10 actions", whole=True)
    protocol = get_protocol("nwucla-crossview")
    data = protocol.open()
    cross_view_splits = [item for item in protocol.splits(data) if len(set(item.name.split(" to "))) == 2]
    task_episodes = [
        split.test[at] for split in cross_view_splits for at in range(min(episodes, len(split.test)))
    ]
    yield Task(
        "NW-UCLA, cross-view",
        data,
        task_episodes,
        f"10 actions, {len(cross_view_splits)} ordered pairs of cameras, other subjects",
    )
    protocol = get_protocol("sbu")
    data = protocol.open()
    task_episodes = [
        split.test[at] for split in protocol.splits(data) for at in range(min(3 * episodes, len(split.test)))
    ]
    yield Task("SBU", data, task_episodes, "8 interactions of two persons, other pairs")


def build_methods(data: Dataset) -> dict[str, FewShotModel]:
    """Return the shipped model and two models without learning, for the layout of a data set."""
    plain = RAW.with_values({"inputs.prepare.layout": data.layout.name, "align.persons": "matched"})
    soft = plain.with_values({"align.gamma": GAMMA})
    return {OURS: FewShotModel.load(), DTW: FewShotModel.raw(plain), SOFT: FewShotModel.raw(soft)}


def find_right_answers(model: FewShotModel, task: Task) -> list[list[bool]]:
    """Return for every episode and query whether the nearest action is the right one."""
    right = []
    with Recogniser.load(model=model, threshold=0) as recogniser:
        for episode in task.episodes:
            names = [str(label) for label in episode.classes]
            for label in list(recogniser.actions):
                recogniser.forget(label)
            for clip, number in zip(episode.support.tolist(), episode.support_labels.tolist(), strict=True):
                recogniser.enrol(names[number], task.data[clip])
            queries = zip(episode.query.tolist(), episode.query_labels.tolist(), strict=True)
            right.append([recogniser.recognise(task.data[clip]).nearest == names[n] for clip, n in queries])
    return right


def compute_units(right: list[list[bool]], whole: bool) -> dict[str, Any]:
    """Return the units of the statistics: the queries of a single episode, or the accuracy of each episode."""
    if whole:
        (units,) = right
        return {"over": "queries", "units": units}
    return {"over": "episodes", "units": [sum(row) / len(row) for row in right]}


def read_measured(model: FewShotModel) -> dict[str, Any]:
    """Return the results of the other scripts; exit if they belong to another model."""
    known = {}
    for file, script in MEASURED.items():
        path = RESULTS / file
        if not path.is_file() or json.loads(path.read_text())["model"] != fingerprint(model):
            raise SystemExit(
                f"{file} belongs to another model; run benchmarks/{script} first, or this script with --all"
            )
        known[file] = json.loads(path.read_text())
    return known


def format_page(rows: list[dict[str, Any]], known: dict[str, Any], about: dict[str, Any]) -> str:
    """Return the page."""
    lines = [
        "# Recogniser results: accuracy, confidence and latency",
        "",
        "Written by `benchmarks/recognition_report.py`. No data set of this page was used for training or fitting. The",
        "[model card](../../jeanie/models/default/CARD.md) says how often they were evaluated during development.",
        "",
        "## Accuracy with one example per action",
        "",
        "`Recogniser` with one enrolled example per action; the answer is the nearest action, without a threshold. DTW",
        "and soft-DTW are the same recogniser with coordinates scaled by body size and deviations from the mean pose",
        f"as features (`FewShotModel.raw`); soft-DTW has gamma {GAMMA}. Accuracy in percent, 95 % intervals: Wilson's",
        "interval over queries for MSRAction3D, Student's interval over episodes for the others. Their episodes share",
        "clips, so these intervals are slightly too narrow.",
        "",
        f"| | episodes | queries | {OURS} | {DTW} | {SOFT} |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [_format_interval(row["accuracy"][name]) for name in (OURS, DTW, SOFT)]
        lines.append(f"| {row['title']} | {row['episodes']} | {row['queries']} | " + " | ".join(cells) + " |")
    lines += ["", *(f"- {row['title']}: {row['note']}" for row in rows)]
    lines += [
        "",
        "Paired differences (shipped model minus the other) and p-values adjusted for all six comparisons (Holm):",
        "",
    ]
    lines += [f"| | minus {DTW} | p | minus {SOFT} | p |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [
            f"{_format_signed(row['minus'][name])} | {_format_p(row['minus'][name]['p'])}"
            for name in (DTW, SOFT)
        ]
        lines.append(f"| {row['title']} | " + " | ".join(cells) + " |")
    with_them = rows[0]["with_exemplars"]
    lines += [
        "",
        f"If the {with_them['exemplars']} exemplars are also queries, as in some publications, MSRAction3D has "
        f"{with_them[OURS]:.1f} % ({DTW} {with_them[DTW]:.1f} %, {SOFT} {with_them[SOFT]:.1f} %).",
        "",
        "## Open-set confidence",
        "",
        "AUROC says how well queries of enrolled actions are separated from the others (1: perfect, 0.5: chance). The",
        "other columns are for the default threshold. See [all results](openset.md).",
        "",
        "| | AUROC | false alarms | recognised | confused | calibration error |",
        "|---|---|---|---|---|---|",
    ]
    for result in known["openset.json"]["results"]:
        if "held out" in result["name"]:  # other actions of these data sets were used to fit
            continue
        keys = ("auroc", "false_alarms", "recognised", "confused", "error")
        lines.append(f"| {result['name']} | " + " | ".join(f"{result[key]:.3f}" for key in keys) + " |")
    latency = known["latency.json"]
    lines += [
        "",
        "## Latency",
        "",
        f"One pass of the encoder takes {latency['encoder_ms']:.1f} ms ({latency['machine']}, "
        f"{latency['threads']} thread). Duration of one recognition in encoder passes ([details](latency.md)):",
        "",
        "| " + " | ".join(f"{size['examples']} examples" for size in latency["sizes"]) + " |",
        "|" + "---|" * len(latency["sizes"]),
        "| " + " | ".join(f"{size['passes']:.2f}" for size in latency["sizes"]) + " |",
        "",
        f"Model {about['model'][:8]}, commit {_format_commit(about['commit'])}, torch {about['versions']['torch']},"
        f" {about['seconds']:.0f} s.",
    ]
    return "\n".join([*lines, ""])


def _format_interval(estimate: dict[str, float]) -> str:
    return f"{estimate['value']:.1f} ({estimate['low']:.1f} to {estimate['high']:.1f})"


def _format_signed(estimate: dict[str, float]) -> str:
    return f"{estimate['value']:+.1f} ({estimate['low']:+.1f} to {estimate['high']:+.1f})"


def _format_commit(text: str | None) -> str:
    """Return the first ten digits, with "+" if files differ from the commit."""
    return "unknown" if text is None else text[:10] + "+" * text.endswith("+")


def _format_p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _to_dict(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def measure_task(task: Task) -> dict[str, Any]:
    """Return the results of all methods on one task."""
    right, units = {}, {}
    for name, model in build_methods(task.data).items():
        right[name] = find_right_answers(model, task)
        units[name] = compute_units(right[name], task.whole)
        print(f"{task.title}, {name}: {estimate_accuracy(units[name])}", flush=True)
    row: dict[str, Any] = {
        "title": task.title,
        "note": task.note,
        "episodes": len(task.episodes),
        "queries": sum(map(len, right[OURS])),
        "accuracy": {name: _to_dict(estimate_accuracy(values)) for name, values in units.items()},
        "minus": {},
    }
    for name in (DTW, SOFT):
        difference, p = estimate_difference(units[OURS], units[name])
        row["minus"][name] = {**_to_dict(difference), "p": p}
    if task.whole:  # an exemplar is its own nearest example
        count = len(task.episodes[0].support)
        shares = {
            name: 100 * (sum(answers[0]) + count) / (len(answers[0]) + count)
            for name, answers in right.items()
        }
        row["with_exemplars"] = {"exemplars": count, **shares}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--episodes", type=int, default=30, help="episodes per pair of cameras; SBU has three times as many"
    )
    parser.add_argument("--threads", type=int, default=1, help="number of torch threads")
    parser.add_argument("--all", action="store_true", help="run openset.py and recogniser.py first")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; write the page from the stored results"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.all:
        for script in MEASURED.values():
            subprocess.run([sys.executable, str(ROOT / "benchmarks" / script)], check=True)
    known, start = read_measured(FewShotModel.load()), time.monotonic()
    if options.page:
        stored = json.loads((RESULTS / "recogniser.json").read_text())
        PAGE.write_text(format_page(stored["tasks"], known, stored))
        return
    rows = [measure_task(task) for task in open_tasks(options.episodes)]
    places = [(row, name) for row in rows for name in (DTW, SOFT)]
    adjusted = holm([row["minus"][name]["p"] for row, name in places])
    for (row, name), p in zip(places, adjusted, strict=True):
        row["minus"][name]["p"] = p
    about = {
        "model": fingerprint(FewShotModel.load(SHIPPED)),
        "commit": get_commit(),
        "versions": get_versions() | {"torch": torch.__version__},
        "seconds": time.monotonic() - start,
    }
    (RESULTS / "recogniser.json").write_text(json.dumps({**about, "tasks": rows}, indent=1) + "\n")
    PAGE.write_text(format_page(rows, known, about))


if __name__ == "__main__":
    main()
