"""Measure the time of a search in all of CMU's motion capture: the first and later searches, with and without bounds.

Examples of two seconds are cut from three clips of the data set. Every result with bounds is checked against the result
without bounds. Writes docs/results/search.md.
"""

import argparse
import platform
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from jeanie.datasets import open_dataset
from jeanie.fewshot import FewShotModel
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.recogniser.search.find import SearchResult, find

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ((0, 60), (300, 40), (1200, 20))  # clip and first frame


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cache",
        type=Path,
        help="cache folder of an earlier run; the time of the first search is then left out",
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, clips = FewShotModel.load(), open_dataset("cmu")
    with tempfile.TemporaryDirectory() as scratch:
        cache = options.cache or Path(scratch)
        first = None
        rows = []
        for clip, start in EXAMPLES:
            example = clips[clip][start : start + 60]

            def search(prune: bool) -> tuple[SearchResult, float]:
                start_time = time.perf_counter()
                found = find(model, example, clips, 10, cache=cache, prune=prune)  # noqa: B023
                return found, time.perf_counter() - start_time

            if first is None:
                first = search(True)[1]
            some, quick = search(True)
            whole, slow = search(False)
            assert some.matches == whole.matches, "bounds changed the result"
            labels = Counter(str(match.label) for match in some if match.label is not None)
            named = (
                ", ".join(f"{label} ({count})" for label, count in labels.most_common())
                or "the segments have no labels"
            )
            rows.append((clips.clips[clip].name, some.windows, some.compared, quick, slow, named))
        size = sum(file.stat().st_size for file in cache.iterdir())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = [
        "# Speed of search in 7.5 hours of motion capture\n",
        "Written by `benchmarks/search.py`. A search finds the ten segments of CMU's 2,425 clips that are nearest to",
        f"two seconds of one of them. Model {fingerprint(model)[:8]}, {platform.machine()}, torch {torch.__version__},",
        "1 thread, on a busy machine. Bounds did not change any result.\n",
        "| example | windows | aligned in full | seconds | without bounds | labels found |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {windows} | {compared} ({100 * compared / windows:.1f} %) | {quick:.1f} | {slow:.1f} | {named} |"
        for name, windows, compared, quick, slow, named in rows
    ]
    if options.cache is None:
        lines.append(f"\nThe first search, which encodes all windows, took {first:.0f} s.")
    lines.append(f"\nFeatures on disk: {size / 1e9:.2f} GB. Peak memory of the process: {memory:.0f} MB.")
    (ROOT / "docs" / "results" / "search.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
