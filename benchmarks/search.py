"""Measure search in motion capture: disk, encoding, queries, recall and memory, also against an older version.

Every measurement runs in a process of its own with one thread. With ``--before``, a checkout of an older version is
measured in turn with this one: CPU time of the first search per window, and of later searches. Archives that
``scaled_archive.py`` made from CMU (``--archive``) measure the index. Writes docs/results/search.json and search.md.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from search_page import write_page

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"

# A process that measures one version; it uses nothing but what all versions have.
CHILD = """
import json, sys, time
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
# not ru_maxrss, which starts at the size of the parent process
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
memory, own = (int(status[name].split()[0]) / 1024 for name in ("VmHWM", "RssAnon"))
print(json.dumps({"rows": rows, "bytes": size, "memory": memory, "own": own, "torch": torch.__version__}))
"""


def run_child(kernel: Path | None = None, **options: Any) -> dict[str, Any]:
    """Run a measurement in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if options["source"]:
        from jeanie.kernel.library import load_library

        environment["JEANIE_KERNEL"] = str(kernel or load_library()._name)
    command = [sys.executable, "-c", CHILD, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def draw_examples(clip_step: int, count: int, archive: str = "cmu") -> list[tuple[int, int]]:
    """Return clip and first frame of examples of two seconds, drawn at random."""
    from jeanie import open_dataset

    clips = open_dataset(archive)
    numbers = list(range(len(clips)))[::clip_step]
    random, examples = np.random.default_rng(0), []
    while len(examples) < count:
        place = int(random.integers(len(numbers)))
        length = len(clips.motions[numbers[place]])
        if length >= 60:
            examples.append((place, int(random.integers(length - 59))))
    return examples


def have_equal_matches(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether two versions found the same segments, at distances that differ by rounding."""
    return all(
        len(a["matches"]) == len(b["matches"])
        and all(
            x[:3] == y[:3] and abs(x[3] - y[3]) < 1e-4
            for x, y in zip(a["matches"], b["matches"], strict=True)
        )
        for a, b in zip(first["rows"], second["rows"], strict=True)
    )


def compare_versions(
    before: Path, kernel: Path | None, clip_step: int, count: int, scratch: Path
) -> dict[str, Any]:
    """Measure this version and an older one in turn: first searches on a part of CMU, later ones on all of it.

    The caches of all of CMU stay in ``scratch`` and are filled if they are missing.
    """
    sources, results = {"now": None, "before": str(before)}, {}
    part = draw_examples(clip_step, 2)
    with tempfile.TemporaryDirectory() as folder:
        for name, source in sources.items():
            run = run_child(
                kernel,
                source=source,
                archive="cmu",
                every=clip_step,
                examples=part,
                cache=f"{folder}/{name}",
                options={},
            )
            first, second, *_ = run["rows"]
            results[name] = {"first": run, "rows": [], "memory": 0.0}
            results[name]["first_ms"] = 1000 * (first["cpu"] - second["cpu"]) / first["windows"]
    examples = draw_examples(1, count)
    for half in (examples[: count // 2], examples[count // 2 :]):
        for name, source in sources.items():
            run = run_child(
                kernel,
                source=source,
                archive="cmu",
                every=1,
                examples=half,
                cache=str(scratch / name),
                options={},
            )
            results[name]["rows"] += run["rows"][1:]
            results[name]["bytes"], results[name]["torch"] = run["bytes"], run["torch"]
            results[name]["memory"] = max(results[name]["memory"], run["memory"])
    now, old = results["now"], results["before"]
    same = have_equal_matches(now, old) and have_equal_matches(now["first"], old["first"])
    return {"every": clip_step, "same": same, **results}


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


def get_commit(folder: Path) -> str:
    """Return the commit of a checkout, or the name of a folder without one."""
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or folder.name


def measure_index(archive: Path, cache: Path, count: int, samples: int) -> dict[str, Any]:
    """Build the index of an archive for two recalls, and measure searches with them and without an index."""
    import torch

    from jeanie import FewShotModel, open_dataset
    from jeanie.recogniser.search.build_index import build_index, seal_description
    from jeanie.recogniser.search.cache import FeatureRecipe
    from jeanie.recogniser.search.index import find_index_path, open_index
    from jeanie.recogniser.search.recall import draw_samples, measure_recall
    from jeanie.recogniser.search.rows import compute_projection

    torch.set_num_threads(1)
    clips, model = open_dataset(str(archive)), FewShotModel.load()
    hours = sum(float(row["frames"]) / float(row["rate"]) for row in clips.rows) / 3600
    examples = draw_examples(1, count, str(archive))

    def search(exact: bool) -> dict[str, Any]:
        options = {"exact": exact}
        run = run_child(
            source=None, archive=str(archive), every=1, examples=examples, cache=str(cache), options=options
        )
        return run | {"rows": run["rows"][1:]}

    facts: dict[str, Any] = {"hours": hours, "exact": search(True)}
    expected = [{tuple(match[:3]) for match in row["matches"]} for row in facts["exact"]["rows"]]
    recipe = FeatureRecipe(model, clips, cache, 0.25, 30.0, compute_projection(model))
    shutil.rmtree(find_index_path(recipe), ignore_errors=True)  # an update would take less time
    started = process_time()
    report = build_index(model, clips, cache, samples=0)
    facts["build_cpu"] = process_time() - started
    index = open_index(report.path)
    assert index is not None
    started = process_time()
    drawn_samples = draw_samples(recipe, index, [2.0], 1.5, samples)
    facts["measure_cpu"] = process_time() - started
    facts |= {"samples": samples, "commit": get_commit(ROOT)}
    for recall in (0.95, 0.99):
        settings = measure_recall(index, drawn_samples, recall)
        seal_description(report.path, index.about | settings)
        run = search(False) | {"stored": settings["recall"]}
        matches = [{tuple(match[:3]) for match in row["matches"]} for row in run["rows"]]
        run["recall"] = sum(len(a & b) for a, b in zip(matches, expected, strict=True)) / sum(
            map(len, expected)
        )
        run |= {name: settings[name] for name in ("probes", "candidates")}
        facts[f"{recall:.0%}"] = run
        facts |= {"windows": report.windows, "cells": report.cells, "index_bytes": report.size}
        facts["feature_bytes"] = sum(file.count * file.kind.itemsize for file in index.row_files)
    return facts


def read_encoding_cost(cache: Path) -> dict[str, float]:
    """Return the CPU time of ``--encode`` and the number of windows."""
    parts = [
        json.loads(line) for file in cache.glob("encoding-*.jsonl") for line in file.read_text().splitlines()
    ]
    return {name: sum(part[name] for part in parts) for name in ("cpu", "windows")}


def main() -> None:
    """Measure the parts that the options select, keep other results, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="checkout of an older version")
    parser.add_argument(
        "--before-kernel", type=Path, help="compiled kernel of the older version (default: that of this one)"
    )
    parser.add_argument(
        "--scratch",
        type=Path,
        default=Path(tempfile.gettempdir()) / "search",
        help="folder for the caches of both",
    )
    parser.add_argument("--every", type=int, default=16, help="measure first searches on every n-th clip")
    parser.add_argument("--cache", type=Path, help="cache folder for the archives to index")
    parser.add_argument(
        "--archive", type=Path, action="append", default=[], help="archive to index; can be repeated"
    )
    parser.add_argument(
        "--encode", metavar="0/2", help="only encode this share of the archive into the cache"
    )
    parser.add_argument("--examples", type=int, default=10)
    parser.add_argument(
        "--samples", type=int, default=60, help="searches that measure the recall of an index"
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS / "search.json", help="JSON file of the results"
    )
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    if options.encode:
        return encode_share(options.archive[0], options.cache, options.encode)
    store = options.results
    facts = json.loads(store.read_text()) if store.exists() else {}
    if options.before:
        facts["versions"] = compare_versions(
            options.before, options.before_kernel, options.every, options.examples, options.scratch
        )
        facts |= {"before": get_commit(options.before), "now": get_commit(ROOT)}
        facts["torch"] = facts["versions"]["now"]["torch"]
    for archive in options.archive:
        size_facts = measure_index(archive, options.cache, options.examples, options.samples)
        other_sizes = [
            size for size in facts.get("sizes", []) if abs(size["hours"] - size_facts["hours"]) > 0.1
        ]
        facts["sizes"] = sorted([*other_sizes, size_facts], key=lambda size: size["hours"])
        facts["encoding"] = read_encoding_cost(options.cache)
        facts["torch"] = size_facts["exact"]["torch"]
    store.write_text(json.dumps(facts, indent=1) + "\n")
    page = write_page(facts)
    store.with_suffix(".md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
