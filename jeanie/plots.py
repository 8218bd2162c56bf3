"""Pictures of skeletons and alignments. They need the extra ``plots`` (matplotlib)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.alignment import Alignment
from jeanie.errors import ConfigError

__all__ = ["draw_alignment", "draw_poses", "make_figure"]


def make_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure that needs no display.

    Args:
        width: Width in inches.
        height: Height in inches.

    Raises:
        ConfigError: If matplotlib is not installed.

    >>> len(make_figure(6, 3).subplots(1, 2))
    2
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError("pictures need matplotlib; install it with: pip install 'jeanie[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def draw_poses(
    axes: Any, poses: Float[Tensor, "pose joint 3"], bones: list[tuple[int, int]], *, colour: str = "C0"
) -> None:
    """Draw stick figures side by side, as seen from the camera: x to the right, y up.

    Args:
        axes: Matplotlib axes.
        poses: The poses, from left to right.
        bones: Pairs of joint indices; see ``Layout.bones``.
        colour: Matplotlib colour.

    >>> axes = make_figure(6, 3).subplots()
    >>> draw_poses(axes, torch.rand(4, 3, 3), [(0, 1), (1, 2)])
    >>> len(axes.lines)  # 4 poses of 2 bones
    8
    """
    poses = poses.detach().cpu()
    width = float((poses[..., 0].amax() - poses[..., 0].amin()).clamp(min=1e-6))
    for i, pose in enumerate(poses):
        for a, b in bones:
            x, y = pose[[a, b], 0] + 1.1 * width * i, pose[[a, b], 1]
            axes.plot(x.tolist(), y.tolist(), color=colour, linewidth=1.5, solid_capstyle="round")
    axes.set_aspect("equal")
    axes.set_axis_off()


def draw_alignment(figure: Any, alignment: Alignment, *, view_labels: list[list[str]] | None = None) -> None:
    """Draw the plan over block pairs (summed over views) with the best path, and the views along the path.

    Args:
        figure: Matplotlib figure.
        alignment: The alignment of one pair.
        view_labels: Names of the views of each view axis, for example their angles.

    >>> from jeanie import trace
    >>> figure = make_figure(6, 3)
    >>> draw_alignment(figure, trace(torch.rand(1, 5, 4, 3))[0])
    >>> len(figure.axes)  # the plan, and one panel per view axis
    2
    """
    views = alignment.path.shape[1] - 2
    panels = figure.subplots(1, 1 + views, squeeze=False)[0]
    plan = alignment.plan.detach().cpu()
    weights = plan.flatten(2).sum(2) if views else plan
    panels[0].imshow(weights.T, origin="lower", cmap="Greys", vmin=0, vmax=1, aspect="auto")
    panels[0].plot(*alignment.path[:, :2].T.tolist(), color="C3", linewidth=1.5)
    title = f"distance {float(alignment.distance):.3g}"
    panels[0].set(xlabel="query block", ylabel="support block", title=title)
    step = torch.arange(len(alignment.path)).tolist()
    for axis in range(views):
        panel = panels[1 + axis]
        panel.step(step, alignment.path[:, 2 + axis].tolist(), where="mid", color="C0")
        panel.set(
            xlabel="step of the path", title=f"view axis {axis + 1}", ylim=(-0.5, plan.shape[2 + axis] - 0.5)
        )
        if view_labels is not None:
            panel.set_yticks(range(plan.shape[2 + axis]), view_labels[axis])
