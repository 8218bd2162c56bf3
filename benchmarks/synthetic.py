"""Measure the difficulty of the synthetic data set: one-shot recognition across cameras by a nearest neighbour.

There is one exemplar per action from the centre camera; queries are by other subjects from the other cameras. The
first person of each clip is centred on the torso, scaled by one factor and resampled. The distances are DTW, and
DTW with the best of several simulated views of the query, one view for the whole path. Prints accuracies with 95 %
intervals (bootstrap over actions) and writes them to benchmarks/results.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from jeanie.datasets.dataset import FileDataset
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.skeleton.normalise import centre, scale
from jeanie.views.euler import EulerViews

FRAMES = 24
AZIMUTHS = EulerViews(azimuth=75, altitude=0)


@dataclass(frozen=True)
class Outcome:
    """One entry per query: whether DTW and DTW with views recognise it, its action and its camera."""

    plain: np.ndarray
    with_views: np.ndarray
    actions: np.ndarray
    views: np.ndarray

    def interval(self, values: np.ndarray, rounds: int = 2000) -> tuple[float, float, float]:
        """Return the mean of ``values [query]`` and its 95 % interval in percent: bootstrap over actions."""
        names, group = np.unique(self.actions, return_inverse=True)
        sums = np.bincount(group, weights=values)
        sizes = np.bincount(group)
        samples = np.random.default_rng(0).integers(0, len(names), (rounds, len(names)))
        means = sums[samples].sum(1) / sizes[samples].sum(1)
        low, high = np.percentile(means, [2.5, 97.5])
        return tuple(round(100 * float(x), 1) for x in (values.mean(), low, high))


def prepare_clips(data: FileDataset, index: list[int]) -> Tensor:
    """Return the first persons ``[clip, frame, joint, 3]``: gaps filled, resampled, centred, scaled by one factor."""
    clips = []
    for i in index:
        motion = data[i].person(0).fill_gaps(max_gap=10_000).to_length(FRAMES)
        joints, valid = motion.bodies
        clips.append(scale(centre(joints, data.layout, valid), "body")[0])
    return torch.stack(clips)


def dtw(cost: Tensor) -> Tensor:
    """Return the smallest sum along a path through ``cost [..., query, support]``, steps (0,1), (1,0), (1,1)."""
    table = cost.movedim((-2, -1), (0, 1)).contiguous()  # a cell of all pairs is contiguous
    infinite = torch.full_like(table[0, 0], torch.inf)
    previous = [torch.zeros_like(infinite)] + [infinite] * table.shape[1]
    for row in table.unbind():
        current = [infinite]
        for s, cell in enumerate(row.unbind()):
            current.append(cell + torch.minimum(torch.minimum(previous[s], previous[s + 1]), current[s]))
        previous = current
    return previous[-1]


def recognise(queries: Tensor, exemplars: Tensor, views: EulerViews, cells: int = 180) -> Tensor:
    """Return the index ``[query, 2]`` of the nearest exemplar: in the recorded view, and over all views."""
    recorded = views.shape[0] * views.shape[1] // 2
    nearest = []
    for part in queries.split(max(1, cells // (2 * recorded + 1))):
        rotated = views(part).flatten(1, 2)  # [query, view, frame, joint, 3]
        cost = torch.cdist(rotated.reshape(-1, 75), exemplars.reshape(-1, 75))
        cost = cost.view(*rotated.shape[:3], *exemplars.shape[:2]).transpose(
            2, 3
        )  # [query, view, action, t, s]
        distance = dtw(cost)
        nearest.append(torch.stack([distance[:, recorded].argmin(-1), distance.amin(1).argmin(-1)], -1))
    return torch.cat(nearest)


def measure(
    seed: int = 0,
    *,
    views: EulerViews = AZIMUTHS,
    subjects: int = 10,
    exemplar_subjects: int = 3,
    per_action: int = 9,
) -> Outcome:
    """Recognise ``per_action`` queries of every action against exemplars of several subjects in turn."""
    data = open_synthetic(seed, subjects=subjects, takes=1)
    labels, people, cameras = (np.array(values) for values in (data.labels, data.subjects, data.views))
    names = list(dict.fromkeys(data.labels))
    rng = np.random.default_rng(seed)
    rows: list[tuple[np.ndarray, ...]] = []
    for subject in range(exemplar_subjects):
        exemplars = np.flatnonzero((people == subject) & (cameras == "centre"))
        others = np.flatnonzero((people != subject) & (cameras != "centre"))
        queries = np.concatenate(
            [rng.choice(others[labels[others] == name], per_action, replace=False) for name in names]
        )
        index = recognise(
            prepare_clips(data, queries.tolist()), prepare_clips(data, exemplars.tolist()), views
        )
        correct = labels[exemplars][index.numpy()] == labels[queries][:, None]
        rows.append((correct[:, 0], correct[:, 1], labels[queries], cameras[queries]))
    return Outcome(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the data set")
    parser.add_argument("--azimuth", type=float, default=75, help="largest azimuth of the views in degrees")
    parser.add_argument("--altitude", type=float, default=0, help="largest altitude of the views in degrees")
    options = parser.parse_args()
    outcome = measure(options.seed, views=EulerViews(options.azimuth, options.altitude))
    gain = outcome.with_views.astype(float) - outcome.plain
    report = {
        "seed": options.seed,
        "azimuth": options.azimuth,
        "altitude": options.altitude,
        "actions": len(np.unique(outcome.actions)),
        "queries": len(gain),
        "plain": outcome.interval(outcome.plain.astype(float)),
        "views": outcome.interval(outcome.with_views.astype(float)),
        "gain": outcome.interval(gain),
        "by camera": {
            str(view): [
                round(100 * float(values[outcome.views == view].mean()), 1)
                for values in (outcome.plain, outcome.with_views)
            ]
            for view in np.unique(outcome.views)
        },
    }
    print(json.dumps(report, indent=1))
    name = f"synthetic_{options.azimuth:g}x{options.altitude:g}_seed{options.seed}.json"
    target = Path(__file__).parent / "results" / name
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
