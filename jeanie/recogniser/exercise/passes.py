"""Compare one pass through a cycle with the cycle itself: amplitude, correlation, and constant difference."""

from dataclasses import dataclass, replace
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.alignment import trace
from jeanie.recogniser.exercise.cycle import CORE, Cycle, make_cycle
from jeanie.recogniser.exercise.decoder import CycleDecoder, Pass, compute_axes, compute_costs, make_templates

__all__ = [
    "MeasuredPass",
    "PoseChange",
    "estimate_pose_change",
    "estimate_rotation",
    "find_least_similarity",
    "find_passes",
    "measure_pass",
]

# The first search, while the tilt of the sensor and the offset of the person are unknown, has wider limits.
_WIDER = (2.0, 4.0)  # factors of the cost of other movements; the second if the first finds nothing
_OWN_SIMILARITY = 0.7  # of a repetition with the other repetitions of the same recording
_SURE = 0.85  # mean similarity
_OUTLIER = 3.0  # a pass differs at most this many times as much from a cycle as the best passes
_HALF, _OWN_TOLERANCE = 0.5, 0.2  # share of the best passes, and tolerance, for the person's own cycle
_NEARLY = 0.1  # passes that are as similar as the best one, or less similar by this, represent a person


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


def find_passes(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle, other: float, similarity: float
) -> list[MeasuredPass]:
    """Return the passes of a recording.

    The tilt of the sensor and the proportions of the body are constant differences between the recording and the cycle.
    A first guess of the tilt comes from the mean poses of both. A search with a wide limit gives tilt and offset, and
    the last search is made without them.
    """
    poses = poses.to(cycle.poses)
    is_visible = (poses != 0).any(-1, keepdim=True)
    guess = estimate_rotation(poses.mean(0), cycle.poses.mean(0))
    unturned = torch.zeros(len(CORE), 3, dtype=poses.dtype)
    starts = (
        PoseChange(guess, unturned),
        PoseChange(guess, cycle.poses.mean(0) - poses.mean(0) @ guess),
        PoseChange(torch.eye(3, dtype=poses.dtype), unturned),
    )
    best: list[MeasuredPass] = []
    changed = poses
    for start, factor in product(starts, _WIDER):
        if best and factor > _WIDER[0]:
            continue
        turned = torch.where(is_visible, start.apply(poses), 0.0)
        rough = _decode(turned, cycle, factor * other, similarity)
        if rough:
            turned = torch.where(is_visible, estimate_pose_change(rough).apply(turned), 0.0)
            candidate = _decode(turned, cycle, other, similarity)
            if _rank(candidate) > _rank(best):
                best, changed = candidate, turned
        if is_sure(best):
            break
    if not best:
        return []
    own = adapt_cycle(changed, cycle, best)
    passes = _decode(changed, own, other, _OWN_SIMILARITY)
    measured = [measure_pass(changed, cycle, Pass(passage.start, passage.end)) for passage in passes]
    least = find_least_similarity(passes, _HALF, _OWN_TOLERANCE)
    return [
        replace(passage, start=whole.start, end=whole.end)
        for passage, whole in zip(measured, passes, strict=True)
        if passage.similarity >= similarity and whole.similarity >= least
    ]


def find_least_similarity(passes: list[MeasuredPass], share: float, tolerance: float) -> float:
    """Return the similarity to a cycle below which a pass is another movement.

    Repetitions by one person are alike: the difference of a pass from the cycle, 1 - similarity, is at most a few times
    that of the best ``share`` of the passes, but at least ``tolerance``.
    """
    if not passes:
        return 0.0
    differences = sorted(1 - passage.similarity for passage in passes)
    return 1 - max(_OUTLIER * differences[int(share * (len(passes) - 1))], tolerance)


def adapt_cycle(poses: Float[Tensor, "tick 15 3"], cycle: Cycle, passes: list[MeasuredPass]) -> Cycle:
    """Return the cycle as this person performs it: the mean over the most similar passes of the poses at each phase."""
    least = max(passage.similarity for passage in passes) - _NEARLY
    similar = [passage for passage in passes if passage.similarity >= least]
    total, count = torch.zeros_like(cycle.poses), torch.zeros(len(cycle), dtype=cycle.poses.dtype)
    for passage in similar:
        total.index_add_(0, passage.path[:, 1], poses[passage.since + passage.path[:, 0]])
        count += torch.bincount(passage.path[:, 1], minlength=len(cycle))
    return make_cycle(total / count[:, None, None], cycle.rate, cycle.weights > 0)


def is_sure(passes: list[MeasuredPass]) -> bool:
    """Return whether passes are so similar to the cycle that no other search is needed."""
    return bool(passes) and sum(passage.similarity for passage in passes) >= _SURE * len(passes)


def _rank(passes: list[MeasuredPass]) -> float:
    return sum(passage.similarity * (passage.end - passage.start) for passage in passes)


@dataclass(frozen=True, eq=False)
class PoseChange:
    """A rotation and then an offset per joint."""

    rotation: Float[Tensor, "3 3"]
    offset: Float[Tensor, "15 3"]

    def apply(self, poses: Float[Tensor, "tick 15 3"]) -> Float[Tensor, "tick 15 3"]:
        """Return the changed poses."""
        return poses @ self.rotation + self.offset


def estimate_pose_change(measured: list[MeasuredPass]) -> PoseChange:
    """Return the change that turns the mean poses of passes into those of the cycle."""
    recorded_poses, cycle_poses = (
        torch.stack([getattr(passage, side) for passage in measured]).mean(0) for side in ("own", "example")
    )
    rotation = estimate_rotation(recorded_poses, cycle_poses)
    return PoseChange(rotation, cycle_poses - recorded_poses @ rotation)


def estimate_rotation(pose: Float[Tensor, "15 3"], target: Float[Tensor, "15 3"]) -> Float[Tensor, "3 3"]:
    """Return the rotation of row vectors that brings the joints that both poses have together (Kabsch, 1976)."""
    both = ((pose != 0).any(-1) & (target != 0).any(-1))[:, None]
    u, _, v = torch.linalg.svd((pose * both).T @ target)
    sign = torch.ones(3, dtype=pose.dtype)
    sign[2] = torch.linalg.det(u @ v).sign()
    rotation: Tensor = u @ (sign[:, None] * v)
    return rotation


def _decode(poses: Tensor, cycle: Cycle, other: float, similarity: float) -> list[MeasuredPass]:
    decoder = CycleDecoder(len(cycle), other)
    decoder.push(compute_costs(poses, cycle))
    measured = [
        measure_pass(poses, cycle, passage)
        for passage in decoder.list_passes(finish=True)
        if passage.end - passage.start > 1
    ]
    return [passage for passage in measured if passage.similarity >= similarity]
