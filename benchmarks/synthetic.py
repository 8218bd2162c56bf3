"""How hard the synthetic data set is: one-shot recognition across cameras by a nearest neighbour.

One exemplar of every action from the centre camera, queries by other subjects from the other cameras, the
first person of each clip centred on the torso, scaled by one number and resampled. Plain DTW, then DTW with
the best of several simulated views of the query, one for the whole path. Prints accuracies with 95 %
intervals (bootstrap over actions) and writes them to benchmarks/results.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from jeanie.datasets.dataset import Clips
from jeanie.datasets.synthetic import open_synthetic
from jeanie.skeleton.preprocess import centre, scale
from jeanie.views.euler import EulerViews

FRAMES = 24
AZIMUTHS = EulerViews(azimuth=75, altitude=0)


@dataclass(frozen=True)
class Outcome:
    """Whether each query was recognised, by plain DTW and with views, and which action and camera it was."""

    plain: np.ndarray
    turned: np.ndarray
    actions: np.ndarray
    views: np.ndarray

    def interval(self, values: np.ndarray, rounds: int = 2000) -> tuple[float, float, float]:
        """Mean of ``values [query]`` and its 95 % interval, in percent: bootstrap over actions."""
        names, group = np.unique(self.actions, return_inverse=True)
        sums = np.bincount(group, weights=values)
        sizes = np.bincount(group)
        drawn = np.random.default_rng(0).integers(0, len(names), (rounds, len(names)))
        means = sums[drawn].sum(1) / sizes[drawn].sum(1)
        low, high = np.percentile(means, [2.5, 97.5])
        return tuple(round(100 * float(x), 1) for x in (values.mean(), low, high))


def prepared(data: Clips, index: list[int]) -> Tensor:
    """First persons ``[clip, frame, joint, 3]``: gaps filled, resampled, centred, scaled by one number."""
    clips = []
    for i in index:
        motion = data[i].person(0).filled(max_gap=10_000).to_length(FRAMES)
        joints, valid = motion.bodies
        clips.append(scale(centre(joints, data.layout, valid), "body")[0])
    return torch.stack(clips)


def dtw(cost: Tensor) -> Tensor:
    """Smallest sum along a path through ``cost [..., query, support]`` with steps (0,1), (1,0), (1,1)."""
    table = cost.movedim((-2, -1), (0, 1)).contiguous()  # one cell of all pairs lies together
    beyond = torch.full_like(table[0, 0], torch.inf)
    before = [torch.zeros_like(beyond)] + [beyond] * table.shape[1]
    for row in table.unbind():
        now = [beyond]
        for s, cell in enumerate(row.unbind()):
            now.append(cell + torch.minimum(torch.minimum(before[s], before[s + 1]), now[s]))
        before = now
    return before[-1]


def recognise(queries: Tensor, exemplars: Tensor, views: EulerViews, cells: int = 180) -> Tensor:
    """Index ``[query, 2]`` of the nearest exemplar: in the recorded view, and over all views of the query."""
    own = views.shape[0] * views.shape[1] // 2
    found = []
    for part in queries.split(max(1, cells // (2 * own + 1))):
        turned = views(part).flatten(1, 2)  # [query, view, frame, joint, 3]
        cost = torch.cdist(turned.reshape(-1, 75), exemplars.reshape(-1, 75))
        cost = cost.view(*turned.shape[:3], *exemplars.shape[:2]).transpose(
            2, 3
        )  # [query, view, action, t, s]
        distance = dtw(cost)
        found.append(torch.stack([distance[:, own].argmin(-1), distance.amin(1).argmin(-1)], -1))
    return torch.cat(found)


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
    labels, people, seen = (np.array(values) for values in (data.labels, data.subjects, data.views))
    names = list(dict.fromkeys(data.labels))
    rng = np.random.default_rng(seed)
    rows: list[tuple[np.ndarray, ...]] = []
    for teacher in range(exemplar_subjects):
        shown = np.flatnonzero((people == teacher) & (seen == "centre"))
        others = np.flatnonzero((people != teacher) & (seen != "centre"))
        asked = np.concatenate(
            [rng.choice(others[labels[others] == name], per_action, replace=False) for name in names]
        )
        found = recognise(prepared(data, asked.tolist()), prepared(data, shown.tolist()), views).numpy()
        right = labels[shown][found] == labels[asked][:, None]
        rows.append((right[:, 0], right[:, 1], labels[asked], seen[asked]))
    return Outcome(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--azimuth", type=float, default=75)
    parser.add_argument("--altitude", type=float, default=0)
    options = parser.parse_args()
    outcome = measure(options.seed, views=EulerViews(options.azimuth, options.altitude))
    gain = outcome.turned.astype(float) - outcome.plain
    report = {
        "seed": options.seed,
        "azimuth": options.azimuth,
        "altitude": options.altitude,
        "actions": len(np.unique(outcome.actions)),
        "queries": len(gain),
        "plain": outcome.interval(outcome.plain.astype(float)),
        "views": outcome.interval(outcome.turned.astype(float)),
        "gain": outcome.interval(gain),
        "by camera": {
            str(view): [
                round(100 * float(values[outcome.views == view].mean()), 1)
                for values in (outcome.plain, outcome.turned)
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
