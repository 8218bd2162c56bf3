"""Speed of preprocessing, views and blocks: our batched functions beside a plain NumPy loop, in one run.

1,000 synthetic clips, every person of each: centred on the torso, turned into 7 x 7 Euler views, every view
scaled per axis, cut into blocks of 8 frames. Both routes start from the same motions and must agree to
rounding; they run in turn on one core each, and medians over the rounds are compared. Prints a report and
writes benchmarks/results/data.json.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from jeanie.datasets.synthetic import open_synthetic
from jeanie.skeleton.blocks import block_counts, blocks, stride_of
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.preprocess import centre, scale
from jeanie.views.euler import EulerViews, turn

LAYOUT = LAYOUTS["ntu25"]
LENGTH, RATIO = 8, 0.6
TOGETHER = 64  # bodies that are centred and cut at once
VIEWS = EulerViews(azimuth=45, altitude=45, step=15)
Body = tuple[Tensor, Tensor]  # joints [frame, 25, 3], valid [frame, 25]


def batched(bodies: list[Body], size: int) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """(index, blocks [body, 7, 7, block, 8, 25, 3], number of blocks [body]) of batches of similar length.

    Blocks are cut before the views are made: they cover every frame, so the largest coordinate of a view is
    the same, and 49 times less is gathered. Missing joints are 0 once centred and stay 0 in every view, so
    scaling needs no mask. Views multiply the memory by 49 and are therefore made of few bodies at once.
    """
    matrices = VIEWS.rotations().flatten(0, 1)
    order = sorted(range(len(bodies)), key=lambda i: len(bodies[i][0]))
    for start in range(0, len(order), TOGETHER):
        index = order[start : start + TOGETHER]
        joints = pad_sequence([bodies[i][0] for i in index], batch_first=True)
        valid = pad_sequence([bodies[i][1] for i in index], batch_first=True)
        lengths = torch.tensor([len(bodies[i][0]) for i in index])
        cut = blocks(centre(joints, LAYOUT, valid), LENGTH, RATIO, lengths)
        counts = block_counts(lengths, LENGTH, stride_of(LENGTH, RATIO))
        for part in torch.arange(len(index)).split(size):
            few = cut[part, : int(counts[part].max())]
            turned = turn(few.flatten(1, 2), matrices, [len(matrices) // 2])
            views = scale(turned, "axis").unflatten(2, (-1, LENGTH)).unflatten(1, VIEWS.shape)
            yield [index[i] for i in part], views, counts[part]


def looped(bodies: list[Body]) -> Iterator[np.ndarray]:
    """The same, straightforwardly, in a loop over clips, views and frames: [49, block, 8, 25, 3] a body."""
    rotations = VIEWS.rotations().flatten(0, 1).float().numpy()
    torso = LAYOUT.torso
    stride = stride_of(LENGTH, RATIO)
    for tensor, mask in bodies:
        joints, valid = tensor.numpy(), mask.numpy()
        frames = np.arange(len(joints))
        seen = valid[:, torso]
        origin = np.stack(
            [np.interp(frames, frames[seen], joints[seen, torso, axis]) for axis in range(3)], -1
        )
        views = []
        for rotation in rotations:
            view = np.zeros_like(joints)
            for t in range(len(joints)):
                centred = joints[t] - origin[t]
                turned = centred @ rotation.T
                turned[~valid[t]] = 0
                view[t] = turned
            largest = np.abs(view).max(axis=(0, 1))
            largest[largest == 0] = 1
            view = view / largest
            starts = list(range(0, max(len(view) - LENGTH, 0) + 1, stride))
            if starts[-1] + LENGTH < len(view):
                starts.append(len(view) - LENGTH)
            if len(view) < LENGTH:
                view = np.concatenate([view, np.repeat(view[-1:], LENGTH - len(view), 0)])
            views.append(np.stack([view[start : start + LENGTH] for start in starts]))
        yield np.stack(views)


def check(bodies: list[Body], size: int) -> float:
    """Largest difference between the two routes."""
    expected = list(looped(bodies))
    worst = 0.0
    for index, cut, counts in batched(bodies, size):
        for i, own, count in zip(index, cut.flatten(1, 2), counts.tolist(), strict=True):
            if expected[i].shape[1] != count:
                raise SystemExit(f"body {i}: {count} blocks, the loop has {expected[i].shape[1]}")
            worst = max(worst, float(np.abs(own[:, :count].numpy() - expected[i]).max()))
    return worst


def seconds(run: Callable[[], Iterator[object]]) -> float:
    """Time to run through everything that ``run`` yields; nothing is kept."""
    start = time.perf_counter()
    for _ in run():
        pass
    return time.perf_counter() - start


def all_bodies(motions: list[Motion]) -> list[Body]:
    return [body for motion in motions for body in zip(*motion.bodies, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clips", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1, help="bodies whose views are made at once")
    options = parser.parse_args()
    torch.set_num_threads(1)

    data = open_synthetic(0)
    chosen = np.random.default_rng(0).permutation(len(data))[: options.clips]
    begin = time.perf_counter()
    motions = [data[int(i)] for i in chosen]
    generating = time.perf_counter() - begin
    bodies = all_bodies(motions)
    worst = check(bodies[:20], options.batch)
    if worst > 1e-4:
        raise SystemExit(f"the two routes differ by {worst:g}")

    times: dict[str, list[float]] = {"batched": [], "loop": []}
    for _ in range(options.rounds):
        times["batched"].append(seconds(lambda: batched(bodies, options.batch)))
        times["loop"].append(seconds(lambda: looped(bodies)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    report = {
        "clips": options.clips,
        "bodies": len(bodies),
        "frames": sum(len(joints) for joints, _ in bodies),
        "views": list(VIEWS.shape),
        "seconds": {name: [round(value, 3) for value in values] for name, values in times.items()},
        "median_seconds": {name: round(value, 3) for name, value in medians.items()},
        "ratio": round(medians["loop"] / medians["batched"], 1),
        "clips_per_second": round(options.clips / medians["batched"], 1),
        "largest_difference": worst,
        "generating_ms_per_clip": round(1000 * generating / options.clips, 2),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        "threads": torch.get_num_threads(),
        "seed": 0,
    }
    print(json.dumps(report, indent=1))
    target = Path(__file__).parent / "results" / "data.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
