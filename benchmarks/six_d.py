"""Time and memory of one training episode with views of the query (4-D) and of query and support (6-D).

Writes docs/results/six-d.md. Every case runs in a process of its own; memory is the peak of the whole process.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from jeanie._internal.provenance import get_commit
from jeanie.compute.distributed import World
from jeanie.fewshot.episodes import Episodes
from jeanie.fewshot.model import FewShotModel
from jeanie.paper.methods import get_method
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion
from jeanie.training.recipes import RECIPES, fit_recipe
from jeanie.training.step import Learner

ROOT = Path(__file__).resolve().parent.parent
WAY, BLOCKS, STEPS = 5, 20, 3
FRAMES = 8 + 5 * (BLOCKS - 1)  # blocks of 8 frames in steps of 5
CASES = {
    "soft-DTW": ("soft-dtw", "ntu60", 1),
    "4-D, 7 x 7 views of the query": ("jeanie-2v-euler", "ntu60", 1),
    "6-D, 3 x 3 views of query and support": ("jeanie-2v-euler-both", "ntu60", 1),
    "6-D, 7 x 7 views of query and support": ("jeanie-2v-euler-both", "ntu60", 1),
    "6-D, 7 x 7 views, mini-batch of 8 episodes": ("jeanie-2v-euler-both", "ntu60", 8),
    "FVM, 7 x 7 views of query and support": ("fvm-both", "ntu60", 1),
}


def measure(name: str) -> dict[str, float]:
    """Seconds of an episode, forward and backward, and the peak memory in gigabytes."""
    torch.set_num_threads(1)
    method, data, batch = CASES[name]
    recipe = get_method(method).recipe(fit_recipe(RECIPES["authors"], data))
    recipe = recipe.with_values({"batch": batch, "episodes": STEPS * batch})
    if "3 x 3" in name:
        recipe = recipe.with_values({"views.step": 45})
    layout = LAYOUTS["ntu25"]
    generator = torch.Generator().manual_seed(0)
    motions = [
        Motion(torch.randn(FRAMES, len(layout), 3, generator=generator), layout, label=number // 4)
        for number in range(4 * 2 * WAY)
    ]
    model = FewShotModel(recipe.model, layout)
    before = peak()
    labels = [motion.label for motion in motions]
    episodes = Episodes(labels, way=WAY, query_classes=1, count=STEPS * batch, seed=0)
    learner = Learner(model, recipe.train, episodes, model.store(motions), World())
    seconds = []
    for number in range(STEPS):
        start = time.process_time()
        learner.step(number)
        seconds.append((time.process_time() - start) / batch)
    return {"seconds": min(seconds), "gigabytes": peak(), "before": before}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    rows = []
    for name in CASES:
        child = subprocess.run(
            [sys.executable, __file__, "--case", name], capture_output=True, text=True, check=True
        )
        measured = json.loads(child.stdout)
        rows.append(f"| {name} | {measured['seconds']:.2f} | {measured['gigabytes']:.2f} |")
        print(rows[-1], flush=True)
    page = f"""# Training with views of query and support: time and memory

Written by `benchmarks/six_d.py`. One training episode as the paper has it: {WAY}-way 1-shot with one query,
{BLOCKS} blocks per motion, 25 joints, S²GC with the sizes of NTU-60 (d = 64, d' = 100), RBF distance, shift 1,
recipe `authors`; forward, backward and optimiser step. CPU seconds of one thread per episode, the least of
{STEPS} steps; memory is the peak of the whole process, which holds about {measured["before"]:.1f} GB before the
first step.

| case | seconds per episode | peak GB |
|---|---|---|
{chr(10).join(rows)}

With 7 x 7 views on both sides a pair of motions has {BLOCKS} x {BLOCKS} x 2,401 states. Costs are computed for
a few pairs at a time, and what the gradient would need of more than 2^27 costs, or of large mini-batches in the
encoder, is computed again in the backward pass, so that memory does not grow with the mini-batch.

Machine: {platform.machine()}, torch {torch.__version__}; commit {get_commit()}.
"""
    (ROOT / "docs" / "results" / "six-d.md").write_text(page)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=list(CASES), help="measure one case and print it as JSON")
    options = parser.parse_args()
    if options.case is None:
        main()
    else:
        print(json.dumps(measure(options.case)))
