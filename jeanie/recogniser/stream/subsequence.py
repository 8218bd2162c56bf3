"""Subsequence alignment: find enrolled examples in a sequence of poses, with free start and end."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.skeleton.canonical_body import compute_canonical_body
from jeanie.skeleton.motion import Motion

__all__ = ["TemplateMatch", "Templates", "match_templates", "measure_progress"]

_TEMPO = 2.0  # a match is at most this factor faster or slower than the example
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

        ``rate`` applies to motions without a frame rate. The person who moves most represents a motion. Rest before
        and after an example stays: without it matches end too early (measured on MSRAction3D).
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

    @property
    def longest(self) -> int:
        """Number of ticks of the longest template, 0 without templates."""
        return int(self.lengths.max()) if len(self.lengths) else 0


@dataclass(frozen=True)
class TemplateMatch:
    """Best match of a template: ticks ``start`` to ``end`` (exclusive) and the mean cost along the path."""

    label: str
    score: float
    start: int
    end: int


def match_templates(poses: Float[Tensor, "tick 15 3"], templates: Templates) -> list[TemplateMatch]:
    """Return the best match of every template in a sequence of poses, sorted by score.

    With cost c[t, i] between tick t and pose i of a template of n poses, and any tick as the start,

        D[t, 0] = c[t, 0],    D[t, i] = c[t, i] + min(D[t, i-1], D[t-1, i], D[t-1, i-1]),

    and the smallest D[t, n-1] / (n + ticks of the match) ends the match. Matches that are more than twice as
    fast or slow as the template are ignored. All i are computed at once: with the running sum C of c along i,
    D[t, i] = C[i] + minimum over j <= i of min(D[t-1, j], D[t-1, j-1]) - C[j-1].
    """
    if not len(templates.labels) or not len(poses):
        return []
    examples, width = templates.poses.shape[:2]
    cost = _compute_costs(poses, templates)
    last = (templates.lengths - 1)[:, None]
    before = torch.full((examples, width), torch.inf, dtype=torch.float64)
    first_tick = torch.zeros(examples, width, dtype=torch.long)
    best = torch.full((examples,), torch.inf, dtype=torch.float64)
    start, end = torch.zeros(examples, dtype=torch.long), torch.zeros(examples, dtype=torch.long)
    for tick in range(len(poses)):
        before, first_tick = _advance_column(cost[tick], before, first_tick, tick)
        length = tick + 1 - first_tick.gather(1, last)[:, 0]
        score = before.gather(1, last)[:, 0] / (templates.lengths + length)
        fits = (length * _TEMPO >= templates.lengths) & (length <= _TEMPO * templates.lengths)
        better = fits & (score < best)
        best = torch.where(better, score, best)
        start = torch.where(better, tick + 1 - length, start)
        end = torch.where(better, tick + 1, end)
    rows = zip(templates.labels, best.tolist(), start.tolist(), end.tolist(), strict=True)
    return sorted((TemplateMatch(*row) for row in rows if row[1] < torch.inf), key=lambda place: place.score)


def measure_progress(poses: Float[Tensor, "tick 15 3"], templates: Templates, label: str) -> float:
    """Return how far a movement that goes on has come, from 0 to 1: the share of an example of its action.

    The poses are aligned with the beginning of each example. Of all beginnings, the one with the smallest mean cost
    along its path shows the progress.
    """
    rows = [row for row, other in enumerate(templates.labels) if other == label]
    if not rows or not len(poses):
        return 0.0
    own = Templates((label,) * len(rows), templates.poses[rows], templates.lengths[rows])
    cost = _compute_costs(poses, own)
    before = cost[0].cumsum(1)
    begun = torch.zeros(before.shape, dtype=torch.long)
    for tick in range(1, len(poses)):
        before, begun = _advance_column(cost[tick], before, begun, tick, is_anchored=True)
    reached = torch.arange(1, before.shape[1] + 1)
    score = before / (reached + len(poses))
    score = score.masked_fill(reached > own.lengths[:, None], torch.inf)
    row, at = divmod(int(score.argmin()), before.shape[1])
    return (at + 1) / int(own.lengths[row])


def _compute_costs(
    poses: Float[Tensor, "tick 15 3"], templates: Templates
) -> Float[Tensor, "tick example pose"]:
    """Return the mean squared distance of the joints, at each tick and each pose of each template."""
    theirs = templates.poses.double()
    cost = torch.cdist(poses.flatten(1).double(), theirs.flatten(0, 1)).square() / _JOINTS
    table: Tensor = cost.unflatten(1, theirs.shape[:2])
    return table


def _advance_column(
    cost: Tensor, before: Tensor, begun: Tensor, tick: int, *, is_anchored: bool = False
) -> tuple[Tensor, Tensor]:
    """Return D at the next tick and the start of the match of every entry.

    A match may start at any tick; an anchored one starts at the first.
    """
    earlier = torch.nn.functional.pad(before[:, :-1], (1, 0), value=torch.inf)
    moved = torch.nn.functional.pad(begun[:, :-1], (1, 0), value=tick)
    least = torch.minimum(before, earlier)
    since = torch.where(before <= earlier, begun, moved)
    if not is_anchored:
        least[:, 0], since[:, 0] = 0.0, tick
    total = cost.cumsum(1)
    entered, at = (least - (total - cost)).cummin(1)
    return total + entered, since.gather(1, at)
