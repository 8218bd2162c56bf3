"""Draw every action of the synthetic data set, five moments each, into docs/pictures/synthetic.png."""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection

from jeanie import Motion, open_synthetic
from jeanie.datasets.synthetic.action_table import ACTIONS

COLUMNS = 5
MOMENTS = 5
COLOURS = {"left": "#1f77b4", "right": "#d62728"}


def draw(axis: plt.Axes, motion: Motion, from_rest: bool) -> None:
    """Draw moments of a motion from left to right; without its ends if the action starts and ends at rest."""
    joints, names = motion.joints.numpy().astype(float), motion.layout.joints
    share = np.linspace(0, 1, MOMENTS + 2)[1:-1] if from_rest else np.linspace(0, 1, MOMENTS)
    moments = (share * (len(joints) - 1)).round().astype(int)
    flat = joints[moments][..., :2] * (-1.0, 1.0)  # +x is the left of the camera
    width = 1.15 if motion.persons == 1 else 1.6
    flat[..., 0] -= flat[:, :, 0, 0].mean(1)[:, None, None]
    flat[..., 0] += width * np.arange(MOMENTS)[:, None, None]
    for person, fade in zip(range(flat.shape[1]), (1.0, 0.45), strict=False):
        for parent, child in motion.layout.bones:
            colour = COLOURS.get(names[child].split("_")[0], "#222222")
            lines = LineCollection(
                flat[:, person][:, [parent, child]], colors=colour, linewidths=1.0, alpha=fade
            )
            axis.add_collection(lines)
        axis.scatter(*flat[:, person, names.index("head")].T, s=9, color="#222222", alpha=fade, linewidths=0)
    low = flat[..., 1].min()
    axis.set_xlim(-0.8, width * (MOMENTS - 1) + 0.8)
    axis.set_ylim(low - 0.05, low + 2.35)
    axis.set_aspect("equal")
    axis.axis("off")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seed of the data set")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures/synthetic.png"), help="file to write")
    options = parser.parse_args()
    data = open_synthetic(options.seed, subjects=1, takes=1, noise=0, missing=0)
    rows = -(-len(ACTIONS) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13, 1.16 * rows))
    for axis in axes.flat:
        axis.axis("off")
    for axis, action in zip(axes.flat, ACTIONS.values(), strict=False):
        view = "centre" if action.partner else "right"
        clip = list(zip(data.labels, data.views, strict=True)).index((action.name, view))
        draw(axis, data[clip], action.ends == "rest")
        name = action.name.replace("_", " ")
        axis.text(0.5, 0.0, name, fontsize=8, ha="center", va="top", transform=axis.transAxes)
    figure.subplots_adjust(0.005, 0.012, 0.995, 1.0, 0.02, 0.12)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, dpi=100)
    Image.open(options.out).convert("RGB").quantize(24).save(options.out, optimize=True)
    print(f"{options.out}: {options.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
