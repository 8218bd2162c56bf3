"""The content of the pictures: one pair of recordings, its views, costs and alignments."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import torch
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import jeanie
from jeanie.skeleton import Motion

__all__ = [
    "BLUE",
    "FOLDER",
    "GREY",
    "INK",
    "ORANGE",
    "Pair",
    "draw_body",
    "get_clip",
    "make_pair",
    "save",
    "simulate_turn",
]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
BLUE, ORANGE, GREY, INK = "#1f6fb2", "#d9661f", "#9aa3ab", "#1d2329"
BLOCK, STRIDE = 12, 6
plt.rcParams.update(
    {"font.size": 11, "font.family": "DejaVu Sans", "axes.edgecolor": GREY, "text.color": INK}
    | {"axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.titlesize": 12}
)


@dataclass(frozen=True)
class Pair:
    """A query and a support with the costs between their blocks, ``cost[query, support, view]``."""

    query: Motion
    support: Motion
    cost: torch.Tensor
    angles: tuple[int, ...]


def save(figure, name: str, colours: int = 64) -> None:
    """Write a figure with a white background and few colours, so that the file stays small."""
    path = FOLDER / f"{name}.png"
    figure.savefig(path, dpi=110, facecolor="white")
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(colours).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def get_clip(action: str, subject: int, camera: str = "centre") -> Motion:
    """Return a clip of the synthetic data set without noise and gaps."""
    data = jeanie.open_synthetic(subjects=4, takes=1, noise=0, missing=0)
    return data[data.names.index(f"{action}_s{subject:02d}_t00_{camera}")]


def simulate_turn(motion: Motion, degrees: float) -> Motion:
    """Return the motion of a person who turns about the vertical by this angle from the first to the last frame."""
    joints = motion.joints.double()
    turn = torch.linspace(0, degrees, len(joints)).deg2rad()[:, None, None]
    middle = joints[:, :, :1]
    x, y, z = (joints - middle).unbind(-1)
    turned = torch.stack([x * turn.cos() + z * turn.sin(), y, z * turn.cos() - x * turn.sin()], -1)
    return motion.replace(joints=(turned + middle).float())


def compute_features(motion: Motion, angles: tuple[int, ...]) -> torch.Tensor:
    """Return block features ``[block, view, feature]``: coordinates of the body in every view."""
    joints, valid = motion.bodies
    joints = jeanie.scale(jeanie.centre(joints, motion.layout, valid), "body", motion.layout, valid)
    span, step = max(angles), angles[1] - angles[0] if len(angles) > 1 else 15
    views = jeanie.EulerViews(span, 0, step)(joints)[0, :, 0] if span else joints
    return jeanie.blocks(views, length=BLOCK, stride_ratio=STRIDE / BLOCK).movedim(1, 0).flatten(2)


def make_pair(query: Motion, support: Motion, angles: tuple[int, ...]) -> Pair:
    """Return the pair with its costs: squared distances of block features, in units of their median."""
    q, s = compute_features(query, angles), compute_features(support, (0,))[:, 0]
    cost = torch.cdist(q.flatten(0, 1), s).square().view(len(q), len(angles), len(s)).transpose(1, 2)
    return Pair(query, support, cost / cost.median(), angles)


def draw_body(axis, pose, layout, *, at=(0.0, 0.0), size=1.0, colour=INK, width=1.6, alpha=1.0) -> None:
    """Draw one pose ``[joint, xyz]`` as seen from its camera, centred on the hips."""
    flat = (pose[:, :2] - pose[:1, :2]) * size
    x, y = at[0] - flat[:, 0], at[1] + flat[:, 1]
    for parent, child in layout.bones:
        ends = [parent, child]
        axis.plot(x[ends], y[ends], color=colour, linewidth=width, alpha=alpha, solid_capstyle="round")
    head = layout.index("head")
    axis.plot(x[head], y[head], "o", color=colour, markersize=width * 2.6, alpha=alpha)
