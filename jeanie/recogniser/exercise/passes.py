"""Compare passes through a cycle with the cycle itself and with each other: amplitude, correlation, difference."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from jeanie.alignment import trace
from jeanie.recogniser.exercise.cycle import Cycle
from jeanie.recogniser.exercise.decoder import Pass, compute_axes, make_templates

__all__ = [
    "NEARLY",
    "MeasuredPass",
    "average_phases",
    "compare_passes",
    "find_alike",
    "find_least_similarity",
    "measure_pass",
]

NEARLY = 0.1  # passes that are as similar as the best one, or less similar by this, represent a person
_UNLIKE = (
    2.5  # a pass differs from the best passes at most this many times as much as they do from each other
)
_ALIKE = 0.2  # or by this
_OUTLIER = 3.0  # a pass differs at most this many times as much from a cycle as the best passes


@dataclass(frozen=True, eq=False)
class MeasuredPass:
    """A pass without the rest before and after it.

    ``own`` and ``example`` are the mean poses of the pass and of the cycle along their alignment: ``path`` counts
    ticks from ``since`` and poses of the cycle.
    """

    start: int
    end: int
    amplitude: float
    similarity: float
    own: Float[Tensor, "15 3"]
    example: Float[Tensor, "15 3"]
    since: int
    path: Int[Tensor, "step 2"]


def measure_pass(poses: Float[Tensor, "tick 15 3"], cycle: Cycle, span: Pass) -> MeasuredPass:
    """Align a pass with its cycle, in full or at half the amplitude, and measure it.

    With aligned poses q and r about their means, and the joints' weights in the product, the similarity is
    <q, r> / sqrt(<q, q> <r, r>). The amplitude is |P q| / |P r|, where P projects on the principal directions of the
    cycle: a movement in another manner is not smaller, and noise of other joints does not count.
    """
    part = poses[span.start : span.end].to(cycle.poses)
    weights = cycle.weights * (part != 0).any(-1).all(0)
    scale = weights.sqrt()[:, None]
    templates = (make_templates(cycle.poses) * scale).flatten(2)
    cost = torch.cdist((part * scale).flatten(1)[None], templates).square()
    path = min(trace(cost, gamma=0.0), key=lambda alignment: float(alignment.distance)).path
    first = int(path[path[:, 1] == 0, 0].max())
    last = int(path[path[:, 1] == len(cycle) - 1, 0].min())
    path = path[(path[:, 0] >= first) & (path[:, 0] <= max(last, first + 1))]  # without rest before and after
    recorded_poses, cycle_poses = part[path[:, 0]], cycle.poses[path[:, 1]]
    q, r = (side - side.mean(0) for side in (recorded_poses, cycle_poses))
    common, own, other = ((weights[:, None] * product).sum() for product in (q * r, q * q, r * r))
    axes = compute_axes((r * scale).flatten(1))
    size, full = ((side * scale).flatten(1) @ axes for side in (q, r))
    return MeasuredPass(
        span.start + first,
        max(span.start + last, span.start + first + 1) + 1,
        float(size.norm() / full.norm().clamp_min(1e-6)),
        float(common / (own * other).sqrt().clamp_min(1e-12)),
        recorded_poses.mean(0) * (weights > 0)[:, None],
        cycle_poses.mean(0) * (weights > 0)[:, None],
        span.start,
        path,
    )


def average_phases(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle, passes: list[MeasuredPass]
) -> Float[Tensor, "pose 15 3"]:
    """Return the mean over passes of the poses at each phase of the cycle."""
    total, count = torch.zeros_like(cycle.poses), torch.zeros(len(cycle), dtype=cycle.poses.dtype)
    for passage in passes:
        total.index_add_(0, passage.path[:, 1], poses[passage.since + passage.path[:, 0]])
        count += torch.bincount(passage.path[:, 1], minlength=len(cycle))
    return total / count[:, None, None]


def compare_passes(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle, passes: list[MeasuredPass]
) -> Float[Tensor, "pass pass"]:
    """Return the similarity of each pass with each other one: the correlation of their poses at equal phases."""
    at_phase = torch.stack([average_phases(poses, cycle, [passage]) for passage in passes])
    moved = at_phase - at_phase.mean(1, keepdim=True)
    rows = (moved * cycle.weights.sqrt()[:, None]).flatten(1)
    rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-9)
    mutual: Tensor = rows @ rows.T
    return mutual


def find_alike(
    mutual: Float[Tensor, "pass pass"], similarity: Float[Tensor, " pass"]
) -> Bool[Tensor, " pass"]:
    """Return which passes are repetitions of one movement, and not another movement that resembles the example.

    The passes that are nearly as similar to the example as the best one represent the movement. Repetitions by one
    person are more alike than movements of two people: another pass differs from these passes at most a few times as
    much as they do from each other.

    Args:
        mutual: Similarity of each pass with each other one.
        similarity: Similarity of each pass with the example.
    """
    is_best = similarity >= similarity.max() - NEARLY
    others = mutual.clone().fill_diagonal_(-torch.inf)[:, is_best].sort(1, descending=True).values
    number = is_best.sum() - is_best.int()  # of the best passes other than itself
    typical = others.gather(1, ((number - 1) // 2).clamp_min(0)[:, None])[:, 0]  # their upper median
    if int(is_best.sum()) == 1:
        return is_best | (typical >= 1 - _ALIKE)
    least = 1 - max(_UNLIKE * (1 - float(typical[is_best].median())), _ALIKE)
    return (typical >= least) | (similarity >= similarity[is_best].median())


def find_least_similarity(passes: list[MeasuredPass], share: float, tolerance: float) -> float:
    """Return the similarity to a cycle below which a pass is another movement.

    Repetitions by one person are alike: the difference of a pass from the cycle, 1 - similarity, is at most a few times
    that of the best ``share`` of the passes, but at least ``tolerance``.
    """
    if not passes:
        return 0.0
    differences = sorted(1 - passage.similarity for passage in passes)
    return 1 - max(_OUTLIER * differences[int(share * (len(passes) - 1))], tolerance)
