"""Progress of a movement that goes on, from the alignment with the beginning of each example of its action."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.skeleton.canonical_body import compute_canonical_body
from jeanie.skeleton.motion import Motion

__all__ = ["Templates", "measure_progress"]

_JOINTS = 15


@dataclass(frozen=True)
class Templates:
    """Examples as poses at the rate of the ticks, padded to the longest."""

    labels: tuple[str, ...]
    poses: Float[Tensor, "example tick 45"]
    lengths: Int[Tensor, " example"]

    @classmethod
    def from_motions(
        cls, examples: Iterable[tuple[str, Motion]], clock_rate: float, rate: float
    ) -> "Templates":
        """Return templates of labelled motions at ``clock_rate`` ticks per second.

        ``rate`` applies to motions without a frame rate. The person who moves most represents a motion.
        """
        labels, bodies = [], []
        for label, motion in examples:
            count = max(2, round(len(motion) / (motion.rate or rate) * clock_rate))
            body, _ = compute_canonical_body(motion.select_most_active(1), count)
            labels.append(label)
            bodies.append(body[:, 0, :_JOINTS].flatten(1))
        padded = (
            torch.nn.utils.rnn.pad_sequence(bodies, batch_first=True) if bodies else torch.zeros(0, 1, 45)
        )
        return cls(tuple(labels), padded, torch.tensor([len(body) for body in bodies], dtype=torch.long))


def measure_progress(poses: Float[Tensor, "tick 15 3"], templates: Templates, label: str) -> float:
    """Return how far a movement that goes on has come, from 0 to 1: the share of an example of its action.

    The poses are aligned with the beginning of each example. Of all beginnings, the one with the smallest mean cost
    along its path shows the progress.
    """
    rows = [row for row, other in enumerate(templates.labels) if other == label]
    if not rows or not len(poses):
        return 0.0
    action_templates = Templates((label,) * len(rows), templates.poses[rows], templates.lengths[rows])
    cost = _compute_costs(poses, action_templates)
    before = cost[0].cumsum(1)
    for tick in range(1, len(poses)):
        before = _advance_column(cost[tick], before)
    reached = torch.arange(1, before.shape[1] + 1)
    score = before / (reached + len(poses))
    score = score.masked_fill(reached > action_templates.lengths[:, None], torch.inf)
    row, at = divmod(int(score.argmin()), before.shape[1])
    return (at + 1) / int(action_templates.lengths[row])


def _compute_costs(
    poses: Float[Tensor, "tick 15 3"], templates: Templates
) -> Float[Tensor, "tick example pose"]:
    """Return the mean squared distance of the joints, at each tick and each pose of each template."""
    template_poses = templates.poses.double()
    cost = torch.cdist(poses.flatten(1).double(), template_poses.flatten(0, 1)).square() / _JOINTS
    table: Tensor = cost.unflatten(1, template_poses.shape[:2])
    return table


def _advance_column(cost: Tensor, before: Tensor) -> Tensor:
    """Return D at the next tick, where D[t, i] = cost[t, i] + min(D[t, i-1], D[t-1, i], D[t-1, i-1]).

    All i are computed at once: with the running sum C of the cost along i,
    D[t, i] = C[i] + minimum over j <= i of min(D[t-1, j], D[t-1, j-1]) - C[j-1].
    """
    earlier = torch.nn.functional.pad(before[:, :-1], (1, 0), value=torch.inf)
    total = cost.cumsum(1)
    return total + (torch.minimum(before, earlier) - (total - cost)).cummin(1).values
