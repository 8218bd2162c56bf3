"""Speed of preprocessing, views and blocks: the calls that the docs show beside a plain NumPy loop, in one run.

1,000 synthetic clips, every person of each: centred on the torso, turned into 7 x 7 Euler views, every view
scaled per axis, cut into blocks of 8 frames, in padded batches (docs/views.md, "From joints to blocks"). Both
routes start from the same motions and must agree to rounding; they run in turn on one core each, and medians
over the rounds are compared. Views multiply memory by 49, so the size of a batch matters: the first of
``--batch`` is the one that counts, once more with a mask in every call; the others are reported. Prints a
report and writes benchmarks/results/data.json.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from jeanie.datasets.synthetic import open_synthetic
from jeanie.skeleton import LAYOUTS, Motion, block_counts, blocks, centre, scale, streams, stride_of
from jeanie.views import EulerViews

LAYOUT = LAYOUTS["ntu25"]
LENGTH, RATIO = 8, 0.6
VIEWS = EulerViews(azimuth=45, altitude=45, step=15)
Body = tuple[Tensor, Tensor]  # joints [frame, 25, 3], valid [frame, 25]


def batched(bodies: list[Body], size: int, masks: bool = False) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """(index, blocks [body, 7, 7, block, 8, 25, 3], frames [body]) of batches of bodies of similar length."""
    order = sorted(range(len(bodies)), key=lambda i: len(bodies[i][0]))
    for start in range(0, len(order), size):
        index = order[start : start + size]
        joints = pad_sequence([bodies[i][0] for i in index], batch_first=True)
        valid = pad_sequence([bodies[i][1] for i in index], batch_first=True)
        lengths = torch.tensor([len(bodies[i][0]) for i in index])

        turned = VIEWS(centre(joints, LAYOUT, valid))
        seen = valid[:, None, None] if masks else None  # missing joints are 0 and stay 0: needed by neither
        scaled = scale(turned, "axis", LAYOUT, seen)
        features = streams(scaled, LAYOUT, ("joints",), seen)
        yield index, blocks(features, LENGTH, RATIO, lengths), lengths


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


def check(bodies: list[Body], size: int, masks: bool) -> float:
    """Largest difference between the two routes."""
    expected = list(looped(bodies))
    worst = 0.0
    for index, cut, lengths in batched(bodies, size, masks):
        counts = block_counts(lengths, LENGTH, stride_of(LENGTH, RATIO)).tolist()
        for i, own, count in zip(index, cut.flatten(1, 2), counts, strict=True):
            if expected[i].shape[1] != count:
                raise SystemExit(f"body {i}: {count} blocks, the loop has {expected[i].shape[1]}")
            worst = max(worst, float(np.abs(own[:, :count].numpy() - expected[i]).max()))
    return worst


def seconds(results: Iterable[object]) -> float:
    """Time to run through all results; nothing is kept."""
    start = time.perf_counter()
    for _ in results:
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
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 1, 64], help="bodies in a batch")
    options = parser.parse_args()
    torch.set_num_threads(1)

    data = open_synthetic(0)
    chosen = np.random.default_rng(0).permutation(len(data))[: options.clips]
    begin = time.perf_counter()
    motions = [data[int(i)] for i in chosen]
    generating = time.perf_counter() - begin
    bodies = all_bodies(motions)
    worst = max(check(bodies[:20], options.batch[0], masks) for masks in (False, True))
    if worst > 1e-4:
        raise SystemExit(f"the two routes differ by {worst:g}")

    first = f"batches of {options.batch[0]}"
    times: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for size in options.batch:
            times.setdefault(f"batches of {size}", []).append(seconds(batched(bodies, size)))
        times.setdefault(f"{first}, masks", []).append(seconds(batched(bodies, options.batch[0], True)))
        times.setdefault("loop", []).append(seconds(looped(bodies)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: round(medians["loop"] / median, 1) for name, median in medians.items() if name != "loop"}
    report = {
        "clips": options.clips,
        "bodies": len(bodies),
        "frames": sum(len(joints) for joints, _ in bodies),
        "views": list(VIEWS.shape),
        "seconds": {name: [round(value, 3) for value in values] for name, values in times.items()},
        "median_seconds": {name: round(value, 3) for name, value in medians.items()},
        "ratio": ratios[first],
        "ratios": ratios,
        "clips_per_second": round(options.clips / medians[first], 1),
        "largest_difference": worst,
        "generating_ms_per_clip": round(1000 * generating / options.clips, 2),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        "threads": torch.get_num_threads(),
        "load_average": round(os.getloadavg()[0], 1),  # what else the machine did
        "huge_pages": os.environ.get("THP_MEM_ALLOC_ENABLE") == "1",
        "seed": 0,
    }
    print(json.dumps(report, indent=1))
    target = Path(__file__).parent / "results" / "data.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
