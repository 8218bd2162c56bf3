"""Subsequence alignment: find enrolled examples in a sequence of poses, with free start and end."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.skeleton.canonical_body import compute_canonical_body
from jeanie.skeleton.motion import Motion

__all__ = ["TemplateMatch", "Templates", "match_templates"]

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
    flat = poses.flatten(1).double()
    cost = torch.cdist(flat, templates.poses.double().flatten(0, 1)).square() / _JOINTS
    cost = cost.unflatten(1, (examples, width))
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


def _advance_column(cost: Tensor, before: Tensor, begun: Tensor, tick: int) -> tuple[Tensor, Tensor]:
    """Return D at the next tick and the start of the match of every entry."""
    earlier = torch.nn.functional.pad(before[:, :-1], (1, 0), value=torch.inf)
    moved = torch.nn.functional.pad(begun[:, :-1], (1, 0), value=tick)
    least = torch.minimum(before, earlier)
    since = torch.where(before <= earlier, begun, moved)
    least[:, 0], since[:, 0] = 0.0, tick  # a match may start at any tick
    total = cost.cumsum(1)
    entered, at = (least - (total - cost)).cummin(1)
    return total + entered, since.gather(1, at)
