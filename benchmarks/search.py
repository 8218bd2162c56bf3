"""Measure search in motion capture: disk, encoding, queries, recall and memory, also against an older version.

Every measurement runs in a process of its own with one thread. With ``--before``, a checkout of an older version is
measured in turn with this one: CPU time of the first search per window, and of later searches. An archive of
``--hours`` made from CMU (``scaled_archive.py``) measures the index. Writes docs/results/search.json and search.md.
"""

# ruff: noqa: E501 (tables)
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"

# A process that measures one version; it uses nothing but what all versions have.
CHILD = """
import json, resource, sys, time
from dataclasses import replace
from pathlib import Path
options = json.loads(sys.argv[1])
if options["source"]:
    sys.meta_path[:] = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]
    sys.path.insert(0, options["source"])
import torch
torch.set_num_threads(1)
import jeanie
from jeanie import FewShotModel, open_dataset
from jeanie.recogniser.search.find import find
model, clips = FewShotModel.load(), open_dataset(options["archive"])
if options["every"] > 1:
    clips = replace(clips, clips=clips.clips[:: options["every"]])
rows = []
for number, (clip, start) in enumerate(options["examples"]):
    example = clips.motions[clip][start : start + 60]
    for repeat in range(2 if number == 0 else 1):
        wall, cpu = time.perf_counter(), time.process_time()
        found = find(model, example, clips, 10, cache=options["cache"], **options["options"])
        rows.append({
            "cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "windows": found.windows,
            "compared": found.compared, "looked_at": getattr(found, "looked_at", found.windows),
            "exact": getattr(found, "exact", True), "recall": getattr(found, "recall", 1.0),
            "matches": [(m.clip, m.start, m.end, m.distance) for m in found],
        })
size = sum(file.stat().st_size for file in Path(options["cache"]).rglob("*") if file.is_file())
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"rows": rows, "bytes": size, "memory": memory, "torch": torch.__version__}))
"""


def run_child(**options: Any) -> dict[str, Any]:
    """Run a measurement in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if options["source"]:
        from jeanie.alignment.backends.kernel_library import load_library

        environment["JEANIE_KERNEL"] = str(load_library()._name)
    command = [sys.executable, "-c", CHILD, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def draw_examples(every: int, count: int, archive: str = "cmu") -> list[tuple[int, int]]:
    """Return clip and first frame of examples of two seconds, drawn at random."""
    from jeanie import open_dataset

    clips = open_dataset(archive)
    numbers = list(range(len(clips)))[::every]
    random, drawn = np.random.default_rng(0), []
    while len(drawn) < count:
        place = int(random.integers(len(numbers)))
        length = len(clips.motions[numbers[place]])
        if length >= 60:
            drawn.append((place, int(random.integers(length - 59))))
    return drawn


def have_equal_matches(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two versions found the same segments, at distances that differ by rounding."""
    return all(
        len(a["matches"]) == len(b["matches"])
        and all(
            x[:3] == y[:3] and abs(x[3] - y[3]) < 1e-4
            for x, y in zip(a["matches"], b["matches"], strict=True)
        )
        for a, b in zip(one["rows"], other["rows"], strict=True)
    )


def compare_versions(before: Path, every: int, count: int) -> dict[str, Any]:
    """Measure this version and an older one in turn on a part of CMU."""
    examples = draw_examples(every, count)
    with tempfile.TemporaryDirectory() as scratch:
        found = {}
        for name, source in (("now", None), ("before", str(before))):
            found[name] = run_child(
                source=source,
                archive="cmu",
                every=every,
                examples=examples,
                cache=f"{scratch}/{name}",
                options={},
            )
    return {"every": every, "same": have_equal_matches(found["now"], found["before"]), **found}


def measure_whole(cache: Path, count: int) -> dict[str, Any]:
    """Measure all of CMU, in a cache that may be complete already."""
    examples = draw_examples(1, count)
    return run_child(source=None, archive="cmu", every=1, examples=examples, cache=str(cache), options={})


def encode_share(archive: Path, cache: Path, share: str) -> None:
    """Encode a share of an archive, such as 0/2 in one process and 1/2 in another, and note the CPU time in the cache.

    What is in the cache is not encoded again, so an interrupted run continues. ``encoding-*.jsonl`` gets the CPU
    time and the windows of every part.
    """
    import torch

    from jeanie import FewShotModel, open_dataset
    from jeanie.recogniser.search.cache import FeatureRecipe, build_cache, list_entries
    from jeanie.recogniser.search.clip_states import read_clip_states
    from jeanie.recogniser.search.rows import compute_projection
    from jeanie.recogniser.search.windows import select_duration_steps

    torch.set_num_threads(1)
    number, count = map(int, share.split("/"))
    model, clips = FewShotModel.load(), open_dataset(str(archive))
    recipe = FeatureRecipe(model, clips, cache, 0.25, 30.0, compute_projection(model))
    entries = list_entries(recipe, select_duration_steps(2.0, 1.5), read_clip_states(clips, cache) or [])
    groups = [list(group) for _, group in groupby(entries, lambda entry: entry.clips)][number::count]
    with (cache / f"encoding-{archive.stem}-{number}.jsonl").open("a") as log:
        for group in groups:
            if all((cache / f"{entry.key}.json").exists() for entry in group):
                continue
            started = process_time()
            files, _ = build_cache(recipe, group)
            facts = {"cpu": process_time() - started, "windows": sum(file.count for file in files)}
            log.write(json.dumps(facts) + "\n")
            log.flush()


def measure_index(archive: Path, cache: Path, count: int) -> dict[str, Any]:
    """Build the index of an archive and measure searches with and without it."""
    import torch

    from jeanie import FewShotModel, open_dataset
    from jeanie.recogniser.search.build_index import build_index

    torch.set_num_threads(1)
    started = process_time()
    clips = open_dataset(str(archive))
    report = build_index(FewShotModel.load(), clips, cache)
    built = process_time() - started
    hours = sum(float(row["frames"]) / float(row["rate"]) for row in clips.rows) / 3600
    examples = draw_examples(1, count, str(archive))
    runs = {
        name: run_child(
            source=None,
            archive=str(archive),
            every=1,
            examples=examples,
            cache=str(cache),
            options={"exact": exact},
        )
        for name, exact in (("index", False), ("exact", True))
    }
    hits = [
        len({tuple(m[:3]) for m in a["matches"]} & {tuple(m[:3]) for m in b["matches"]})
        for a, b in zip(runs["index"]["rows"], runs["exact"]["rows"], strict=True)
    ]
    total = sum(len(row["matches"]) for row in runs["exact"]["rows"])
    return {
        "hours": hours, "windows": report.windows, "cells": report.cells, "index_bytes": report.size,
        "build_cpu": built, "stored_recall": report.recall, "measured_recall": sum(hits) / total, **runs,
    }  # fmt: skip


def quantile(rows: list[dict[str, Any]], share: float, key: str = "cpu") -> float:
    """Return a quantile of a measure, without the first search of a process."""
    return float(np.quantile([row[key] for row in rows[1:]], share))


def write_page(facts: dict[str, Any]) -> str:
    """Return the page of the results."""
    lines = [
        "# Speed of search in motion capture\n",
        "Written by `benchmarks/search.py`; numbers in `search.json`. A search finds the ten segments that are nearest to",
        f"two seconds of a clip. {platform.machine()}, torch {facts['torch']}, one thread. Times are CPU seconds of the",
        "process, because the machine was busy with other work.\n",
    ]
    if "versions" in facts:
        part = facts["versions"]
        now, before = part["now"], part["before"]
        windows = now["rows"][0]["windows"]
        lines += [
            f"## Against the version before ({facts['before']})\n",
            f"Every {part['every']}th clip of CMU: {windows} windows, {len(now['rows']) - 1} examples, both versions in one run.",
            ("Both found the same segments." if part["same"] else "The segments differ.") + "\n",
            "| | before | now | ratio |",
            "|---|---|---|---|",
        ]
        table = [
            ("first search, ms per window", *(1000 * (one["rows"][0]["cpu"] - one["rows"][1]["cpu"]) / windows for one in (before, now)), 2),
            ("bytes per window", *(one["bytes"] / windows for one in (before, now)), 0),
            ("later search, median seconds", *(quantile(one["rows"], 0.5) for one in (before, now)), 2),
            ("later search, 95th percentile", *(quantile(one["rows"], 0.95) for one in (before, now)), 2),
            ("windows aligned in full, median", *(quantile(one["rows"], 0.5, "compared") for one in (before, now)), 0),
        ]  # fmt: skip
        lines += [f"| {name} | {a:.{d}f} | {b:.{d}f} | {a / b:.1f} |" for name, a, b, d in table]
        lines.append("")
    if "whole" in facts:
        whole = facts["whole"]
        rows = whole["rows"]
        lines += [
            "## All of CMU, 7.5 hours\n",
            f"{rows[0]['windows']} windows, {whole['bytes'] / 1e9:.3f} GB of features, {len(rows) - 1} examples, exact: "
            f"median {quantile(rows, 0.5):.2f} s, 95th percentile {quantile(rows, 0.95):.2f} s, "
            f"{quantile(rows, 0.5, 'compared'):.0f} windows aligned in full (median), "
            f"peak memory {whole['memory']:.0f} MB.\n",
        ]
    if facts.get("sizes"):
        lines += [
            "## Index\n",
            "Archives made from CMU by `benchmarks/scaled_archive.py`. The recall is that of the searches below; the one in",
            "brackets is what `jeanie index` stored.\n",
            "| hours | windows | features, GB | index, GB | index, CPU s | recall | with index: median, 95 % | exact: median, 95 % | memory, MB: index, exact |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for one in facts["sizes"]:
            a, b = one["index"], one["exact"]
            stored = "not measured" if one["stored_recall"] is None else f"{100 * one['stored_recall']:.1f} %"
            lines.append(
                f"| {one['hours']:.1f} | {one['windows']} | {(a['bytes'] - one['index_bytes']) / 1e9:.2f} "
                f"| {one['index_bytes'] / 1e9:.3f} | {one['build_cpu']:.0f} | {100 * one['measured_recall']:.1f} % ({stored}) "
                f"| {quantile(a['rows'], 0.5):.2f} s, {quantile(a['rows'], 0.95):.2f} s "
                f"| {quantile(b['rows'], 0.5):.2f} s, {quantile(b['rows'], 0.95):.2f} s "
                f"| {a['memory']:.0f}, {b['memory']:.0f} |"
            )
        lines.append("")
    lines += facts.get("notes", [])
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Measure the parts that the options select, keep other results, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="checkout of an older version")
    parser.add_argument("--every", type=int, default=8, help="compare versions on every n-th clip of CMU")
    parser.add_argument("--cache", type=Path, help="cache folder; measures all of CMU in it")
    parser.add_argument(
        "--archive", type=Path, action="append", default=[], help="archive to index; can be repeated"
    )
    parser.add_argument(
        "--encode", metavar="0/2", help="only encode this share of the archive into the cache"
    )
    parser.add_argument("--examples", type=int, default=10)
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    if options.encode:
        return encode_share(options.archive[0], options.cache, options.encode)
    store = RESULTS / "search.json"
    facts = json.loads(store.read_text()) if store.exists() else {}
    if options.before:
        facts["versions"] = compare_versions(options.before, options.every, options.examples)
        commit = subprocess.run(
            ["git", "-C", str(options.before), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        )
        facts["before"] = commit.stdout.strip() or options.before.name
        facts["torch"] = facts["versions"]["now"]["torch"]
    if options.cache and not options.archive:
        facts["whole"] = measure_whole(options.cache, options.examples)
        facts["torch"] = facts["whole"]["torch"]
    for archive in options.archive:
        one = measure_index(archive, options.cache, options.examples)
        others = [size for size in facts.get("sizes", []) if abs(size["hours"] - one["hours"]) > 0.1]
        facts["sizes"] = sorted([*others, one], key=lambda size: size["hours"])
    store.write_text(json.dumps(facts, indent=1) + "\n")
    page = write_page(facts)
    (RESULTS / "search.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
