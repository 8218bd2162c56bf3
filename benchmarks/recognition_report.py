"""One report of the recogniser on real recordings: recognition beside DTW, open set, latency.

Enrols the exemplars of every episode in a ``Recogniser`` and asks it for the queries, without a threshold: the answer
is the nearest action. The same episodes go through recognisers whose models learn nothing, with plain DTW and with
soft-DTW on coordinates. Open set and latency are read from what ``openset.py`` and ``recogniser.py`` measured
(``--all`` runs both first). Writes docs/results/recogniser.md and benchmarks/results/recogniser.json.

    JEANIE_DATA=... python benchmarks/recognition_report.py
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

from jeanie._internal.provenance import get_commit, get_versions
from jeanie.datasets import Dataset
from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.statistics import (
    Estimate,
    estimate_mean,
    estimate_paired_share,
    estimate_share,
    holm,
    mcnemar,
)
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
    """Episodes of a data set under one title; ``whole`` is one fixed episode, whose queries are the trials."""

    title: str
    data: Dataset
    episodes: Sequence[Episode]
    note: str
    whole: bool = False


def tasks(episodes: int) -> Iterator[Task]:
    """The three tasks, the first ``episodes`` of every split."""
    chosen = get_protocol("msraction3d-exemplars")
    data = chosen.open()
    (split,) = chosen.splits(data)
    yield Task("MSRAction3D", data, list(split.test), "the authors' exemplars, 10 actions", whole=True)
    chosen = get_protocol("nwucla-crossview")
    data = chosen.open()
    crossed = [one for one in chosen.splits(data) if len(set(one.name.split(" to "))) == 2]
    drawn = [split.test[at] for split in crossed for at in range(min(episodes, len(split.test)))]
    yield Task(
        "NW-UCLA, cross-view",
        data,
        drawn,
        f"10 actions, {len(crossed)} ordered pairs of cameras, other subjects",
    )
    chosen = get_protocol("sbu")
    data = chosen.open()
    drawn = [
        split.test[at] for split in chosen.splits(data) for at in range(min(3 * episodes, len(split.test)))
    ]
    yield Task("SBU", data, drawn, "8 interactions of two persons, other pairs")


def methods(data: Dataset) -> dict[str, FewShotModel]:
    """The shipped model and two without learning, for the layout of a data set."""
    plain = RAW.with_values({"inputs.prepare.layout": data.layout.name, "align.persons": "matched"})
    soft = plain.with_values({"align.gamma": GAMMA})
    return {OURS: FewShotModel.load(), DTW: FewShotModel.raw(plain), SOFT: FewShotModel.raw(soft)}


def recognised(model: FewShotModel, task: Task) -> list[list[bool]]:
    """For every episode, whether the nearest action of each query is the right one."""
    found = []
    with Recogniser.load(model=model, threshold=0) as recogniser:
        for episode in task.episodes:
            names = [str(label) for label in episode.classes]
            for label in list(recogniser.actions):
                recogniser.forget(label)
            for clip, number in zip(episode.support.tolist(), episode.support_labels.tolist(), strict=True):
                recogniser.enrol(names[number], task.data[clip])
            asked = zip(episode.query.tolist(), episode.query_labels.tolist(), strict=True)
            found.append([recogniser.recognise(task.data[clip]).nearest == names[n] for clip, n in asked])
    return found


def estimate(right: list[list[bool]], whole: bool) -> Estimate:
    """Accuracy in percent: Wilson's interval over queries, or Student's over episodes."""
    if whole:
        (row,) = right
        return estimate_share(sum(row), len(row)).times(100)
    return estimate_mean([sum(row) / len(row) for row in right])[0].times(100)


def difference(ours: list[list[bool]], others: list[list[bool]], whole: bool) -> tuple[Estimate, float]:
    """Paired difference in percent, with its interval and p-value (McNemar, or Student over episodes)."""
    if whole:
        pairs = list(zip(ours[0], others[0], strict=True))
        first, second = (sum(a > b for a, b in pairs), sum(b > a for a, b in pairs))
        return estimate_paired_share(first, second, len(pairs)).times(100), mcnemar(first, second)
    each = [(sum(a) - sum(b)) / len(a) for a, b in zip(ours, others, strict=True)]
    found, p = estimate_mean(each)
    return found.times(100), p


def measured(model: FewShotModel) -> dict[str, Any]:
    """What the other scripts wrote, where it was of this model."""
    known = {}
    for file, script in MEASURED.items():
        path = RESULTS / file
        if not path.is_file() or json.loads(path.read_text())["model"] != fingerprint(model):
            raise SystemExit(
                f"{file} is not of this model: run benchmarks/{script} first, or this with --all"
            )
        known[file] = json.loads(path.read_text())
    return known


def page(rows: list[dict[str, Any]], known: dict[str, Any], about: dict[str, Any]) -> str:
    """The report."""
    lines = [
        "# The recogniser on real recordings",
        "",
        "Written by `benchmarks/recognition_report.py`. No data set here was trained on or fitted to; how often they",
        "were looked at on the way stands on [the model's card](../../jeanie/models/default/CARD.md).",
        "",
        "## One example of every action",
        "",
        "`Recogniser` with one enrolled example of each action; the answer is the nearest action, without a threshold.",
        "DTW and soft-DTW are recognisers of the same kind whose features are body-sized coordinates and deviations",
        f"from the mean pose (`FewShotModel.raw`), soft-DTW with gamma {GAMMA}. Percent right with 95 % intervals:",
        "Wilson's over queries for MSRAction3D, Student's over episodes for the others, whose episodes share clips, so",
        "that theirs are a little narrow.",
        "",
        f"| | episodes | queries | {OURS} | {DTW} | {SOFT} |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [_interval(row["accuracy"][name]) for name in (OURS, DTW, SOFT)]
        lines.append(f"| {row['title']} | {row['episodes']} | {row['queries']} | " + " | ".join(cells) + " |")
    lines += ["", *(f"- {row['title']}: {row['note']}" for row in rows)]
    lines += [
        "",
        "Paired differences, the shipped model minus the other, and p-values adjusted for all six (Holm):",
        "",
    ]
    lines += [f"| | minus {DTW} | p | minus {SOFT} | p |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [f"{_signed(row['minus'][name])} | {_p(row['minus'][name]['p'])}" for name in (DTW, SOFT)]
        lines.append(f"| {row['title']} | " + " | ".join(cells) + " |")
    with_them = rows[0]["with_exemplars"]
    lines += [
        "",
        f"With the {with_them['exemplars']} exemplars among the queries, as some publish it, MSRAction3D is "
        f"{with_them[OURS]:.1f} % ({DTW} {with_them[DTW]:.1f} %, {SOFT} {with_them[SOFT]:.1f} %).",
        "",
        "## Knowing when not",
        "",
        "How well queries of enrolled actions are told from others (1 is always, 0.5 is by chance), and what happens",
        "at the usual threshold: [the whole of it](openset.md).",
        "",
        "| | AUROC | false alarms | recognised rightly | confused | calibration error |",
        "|---|---|---|---|---|---|",
    ]
    for one in known["openset.json"]["results"]:
        if "left out" in one["name"]:  # of the data that was fitted on
            continue
        keys = ("auroc", "false_alarms", "recognised", "confused", "error")
        lines.append(f"| {one['name']} | " + " | ".join(f"{one[key]:.3f}" for key in keys) + " |")
    latency = known["latency.json"]
    lines += [
        "",
        "## Latency",
        "",
        f"One pass of the encoder takes {latency['encoder_ms']:.1f} ms ({latency['machine']}, "
        f"{latency['threads']} thread); one recognition, in such passes: [more](latency.md).",
        "",
        "| " + " | ".join(f"{one['examples']} examples" for one in latency["sizes"]) + " |",
        "|" + "---|" * len(latency["sizes"]),
        "| " + " | ".join(f"{one['passes']:.2f}" for one in latency["sizes"]) + " |",
        "",
        f"Model {about['model'][:8]}, commit {_commit(about['commit'])}, torch {about['versions']['torch']},"
        f" {about['seconds']:.0f} s.",
    ]
    return "\n".join([*lines, ""])


def _interval(one: dict[str, float]) -> str:
    return f"{one['value']:.1f} ({one['low']:.1f} to {one['high']:.1f})"


def _signed(one: dict[str, float]) -> str:
    return f"{one['value']:+.1f} ({one['low']:+.1f} to {one['high']:+.1f})"


def _commit(text: str | None) -> str:
    """Ten digits, with "+" where files differ from it."""
    return "unknown" if text is None else text[:10] + "+" * text.endswith("+")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _plain(one: Estimate) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high}


def measured_task(task: Task) -> dict[str, Any]:
    """All methods on one task."""
    right = {}
    for name, model in methods(task.data).items():
        right[name] = recognised(model, task)
        print(f"{task.title}, {name}: {estimate(right[name], task.whole)}", flush=True)
    row: dict[str, Any] = {
        "title": task.title,
        "note": task.note,
        "episodes": len(task.episodes),
        "queries": sum(map(len, right[OURS])),
        "accuracy": {name: _plain(estimate(found, task.whole)) for name, found in right.items()},
        "minus": {},
    }
    for name in (DTW, SOFT):
        found, p = difference(right[OURS], right[name], task.whole)
        row["minus"][name] = {**_plain(found), "p": p}
    if task.whole:  # an exemplar is its own nearest example
        count = len(task.episodes[0].support)
        shares = {name: 100 * (sum(one[0]) + count) / (len(one[0]) + count) for name, one in right.items()}
        row["with_exemplars"] = {"exemplars": count, **shares}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--episodes", type=int, default=30, help="of every pair of cameras; thrice that of SBU"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="run openset.py and recogniser.py first")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.all:
        for script in MEASURED.values():
            subprocess.run([sys.executable, str(ROOT / "benchmarks" / script)], check=True)
    known, start = measured(FewShotModel.load()), time.monotonic()
    rows = [measured_task(task) for task in tasks(options.episodes)]
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
    PAGE.write_text(page(rows, known, about))


if __name__ == "__main__":
    main()
