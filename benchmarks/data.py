"""Speed of preprocessing, views and blocks, compared with a plain NumPy loop in the same run.

The steps are those of docs/views.md, "From joints to blocks": every person of 1,000 synthetic clips is centred on the
torso, rotated into 7 x 7 Euler views, scaled per axis in every view, and cut into blocks of 8 frames, in padded
batches. Both versions start from the same motions and must agree up to rounding. They run alternately on one core, and
the report compares medians over the rounds. Views multiply memory by 49, so the batch size matters: the ratio is that
of the first value of ``--batch``, which also runs with a mask in every call. Prints a report and writes
benchmarks/results/data.json.
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

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.skeleton import LAYOUTS, Motion, centre, compute_streams, compute_stride, count_blocks, scale
from jeanie.skeleton.blocks import blocks
from jeanie.views import EulerViews

LAYOUT = LAYOUTS["ntu25"]
LENGTH, RATIO = 8, 0.6
VIEWS = EulerViews(azimuth=45, altitude=45, step=15)
Body = tuple[Tensor, Tensor]  # joints [frame, 25, 3], valid [frame, 25]


def batched(bodies: list[Body], size: int, masks: bool = False) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yield (index, blocks [body, 7, 7, block, 8, 25, 3], frames [body]) for batches of bodies of similar length."""
    order = sorted(range(len(bodies)), key=lambda i: len(bodies[i][0]))
    for start in range(0, len(order), size):
        index = order[start : start + size]
        joints = pad_sequence([bodies[i][0] for i in index], batch_first=True)
        valid = pad_sequence([bodies[i][1] for i in index], batch_first=True)
        lengths = torch.tensor([len(bodies[i][0]) for i in index])

        turned = VIEWS(centre(joints, LAYOUT, valid))
        mask = valid[:, None, None] if masks else None  # missing joints are 0 and stay 0 without a mask
        scaled = scale(turned, "axis", LAYOUT, mask)
        features = compute_streams(scaled, LAYOUT, ("joints",), mask)
        yield index, blocks(features, LENGTH, RATIO, lengths), lengths


def cut_in_loops(bodies: list[Body]) -> Iterator[np.ndarray]:
    """Yield the same blocks from a loop over clips, views and frames: [49, block, 8, 25, 3] per body."""
    rotations = VIEWS.rotations().flatten(0, 1).float().numpy()
    torso = LAYOUT.torso
    stride = compute_stride(LENGTH, RATIO)
    for tensor, mask in bodies:
        joints, valid = tensor.numpy(), mask.numpy()
        frames = np.arange(len(joints))
        visible = valid[:, torso]
        origin = np.stack(
            [np.interp(frames, frames[visible], joints[visible, torso, axis]) for axis in range(3)], -1
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


def compare(bodies: list[Body], size: int, masks: bool) -> float:
    """Return the largest difference between the two versions."""
    expected = list(cut_in_loops(bodies))
    worst = 0.0
    for index, cut, lengths in batched(bodies, size, masks):
        counts = count_blocks(lengths, LENGTH, compute_stride(LENGTH, RATIO)).tolist()
        for i, body_blocks, count in zip(index, cut.flatten(1, 2), counts, strict=True):
            if expected[i].shape[1] != count:
                raise SystemExit(f"body {i}: {count} blocks, the loop has {expected[i].shape[1]}")
            worst = max(worst, float(np.abs(body_blocks[:, :count].numpy() - expected[i]).max()))
    return worst


def measure_seconds(results: Iterable[object]) -> float:
    """Return the time to iterate over all results without keeping them."""
    start = time.perf_counter()
    for _ in results:
        pass
    return time.perf_counter() - start


def list_bodies(motions: list[Motion]) -> list[Body]:
    return [body for motion in motions for body in zip(*motion.bodies, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clips", type=int, default=1000, help="number of clips")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds")
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 1, 64], help="bodies per batch")
    options = parser.parse_args()
    torch.set_num_threads(1)

    data = open_synthetic(0)
    clip_numbers = np.random.default_rng(0).permutation(len(data))[: options.clips]
    begin = time.perf_counter()
    motions = [data[int(i)] for i in clip_numbers]
    generating = time.perf_counter() - begin
    bodies = list_bodies(motions)
    worst = max(compare(bodies[:20], options.batch[0], masks) for masks in (False, True))
    if worst > 1e-4:
        raise SystemExit(f"the two versions differ by {worst:g}")

    first = f"batches of {options.batch[0]}"
    times: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for size in options.batch:
            times.setdefault(f"batches of {size}", []).append(measure_seconds(batched(bodies, size)))
        times.setdefault(f"{first}, masks", []).append(
            measure_seconds(batched(bodies, options.batch[0], True))
        )
        times.setdefault("loop", []).append(measure_seconds(cut_in_loops(bodies)))
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
        "load_average": round(os.getloadavg()[0], 1),  # other work on the machine
        "huge_pages": os.environ.get("THP_MEM_ALLOC_ENABLE") == "1",
        "seed": 0,
    }
    print(json.dumps(report, indent=1))
    target = Path(__file__).parent / "results" / "data.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
