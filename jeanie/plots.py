"""Pictures of alignments. Needs the extra ``plots`` (matplotlib)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.alignment import Alignment
from jeanie.errors import ConfigError

__all__ = ["draw_alignment", "draw_poses", "new_figure"]


def new_figure(width: float, height: float) -> Any:
    """An empty figure that belongs to no window system."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError("pictures need matplotlib; install it with: pip install 'jeanie[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def draw_poses(
    axes: Any, poses: Float[Tensor, "pose joint 3"], bones: list[tuple[int, int]], *, colour: str = "C0"
) -> None:
    """Stick figures side by side, seen from the camera: x to the right, y up."""
    poses = poses.detach().cpu()
    width = float((poses[..., 0].amax() - poses[..., 0].amin()).clamp(min=1e-6))
    for i, pose in enumerate(poses):
        for a, b in bones:
            x, y = pose[[a, b], 0] + 1.1 * width * i, pose[[a, b], 1]
            axes.plot(x.tolist(), y.tolist(), color=colour, linewidth=1.5, solid_capstyle="round")
    axes.set_aspect("equal")
    axes.set_axis_off()


def draw_alignment(figure: Any, found: Alignment, *, view_labels: list[list[str]] | None = None) -> None:
    """The expected path over block pairs (views summed), the best path, and the views it turns through.

    ``view_labels`` names the views of each axis, for example their angles.
    """
    views = found.path.shape[1] - 2
    panels = figure.subplots(1, 1 + views, squeeze=False)[0]
    plan = found.plan.detach().cpu()
    shown = plan.flatten(2).sum(2) if views else plan
    panels[0].imshow(shown.T, origin="lower", cmap="Greys", vmin=0, vmax=1, aspect="auto")
    panels[0].plot(*found.path[:, :2].T.tolist(), color="C3", linewidth=1.5)
    panels[0].set(xlabel="query block", ylabel="support block", title=f"distance {float(found.distance):.3g}")
    step = torch.arange(len(found.path)).tolist()
    for axis in range(views):
        panel = panels[1 + axis]
        panel.step(step, found.path[:, 2 + axis].tolist(), where="mid", color="C0")
        panel.set(
            xlabel="step of the path", title=f"view axis {axis + 1}", ylim=(-0.5, plan.shape[2 + axis] - 0.5)
        )
        if view_labels is not None:
            panel.set_yticks(range(plan.shape[2 + axis]), view_labels[axis])
