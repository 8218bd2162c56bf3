"""Find the passes of a recording through a cycle, whatever the tilt of the sensor and the build of the person."""

from dataclasses import replace
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.recogniser.exercise.cycle import Cycle, compute_side_difference, find_movement, make_cycle
from jeanie.recogniser.exercise.decoder import CycleDecoder, Pass, compute_costs
from jeanie.recogniser.exercise.passes import (
    MeasuredPass,
    average_phases,
    compare_passes,
    find_alike,
    measure_pass,
)
from jeanie.recogniser.exercise.pose_change import PoseChange, estimate_pose_change, guess_pose_changes

__all__ = ["find_passes", "rank_passes"]

# The first search, while the tilt of the sensor and the manner of the person are unknown, has wider limits.
_WIDER = (2.0, 4.0)  # factors of the cost of other movements; the second if the first finds nothing
_OWN_SIMILARITY = 0.5  # of a repetition with the other repetitions of the same recording
_SURE = 0.85  # mean similarity
_SMALL = (
    0.15  # a movement that is smaller than the example must be more similar, by this times what is missing
)
_SPREAD = (
    0.15  # a repetition may be less similar than the limit, by this, if the best one of the recording is not
)
_SHORTEST = 1 / 3  # share of a cycle that moves


def find_passes(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle, other: float, similarity: float
) -> list[MeasuredPass]:
    """Return the passes of a recording.

    The tilt of the sensor and the proportions and posture of the person are constant differences between the recording
    and the cycle. For each first guess of them, a search with wide limits finds some repetitions. They give the
    difference and the cycle as this person performs it, and the second search finds the passes through that cycle. The
    guess with the best passes counts.

    Of an alternating movement, the difference between each pose and its mirror image is searched. Posture and
    proportions are the same on both sides, so they cancel out and only the tilt is guessed.
    """
    poses = poses.to(cycle.poses)
    changes = guess_pose_changes(poses, cycle)
    if cycle.is_alternating:
        changes = [change for change in changes if not change.offset.any()]
    best: list[MeasuredPass] = []
    for change, factor in product(changes, _WIDER):
        if best and factor > _WIDER[0]:
            continue
        found = _search_twice(poses, cycle, change, factor, other, similarity)
        if rank_passes(found) > rank_passes(best):
            best = found
        if _is_sure(best):
            break
    return best


def rank_passes(passes: list[MeasuredPass]) -> float:
    """Return how well passes explain a recording: the sum of their similarities."""
    return sum(passage.similarity for passage in passes)


def _search_twice(
    poses: Float[Tensor, "tick 15 3"],
    cycle: Cycle,
    change: PoseChange,
    factor: float,
    other: float,
    similarity: float,
) -> list[MeasuredPass]:
    """Return the passes through the cycle of the person, measured by the given cycle."""
    changed, is_alternating = change.apply(poses), cycle.is_alternating
    if is_alternating:
        changed, cycle = compute_side_difference(changed), cycle.separate_sides()
    rough = _select_alike(changed, cycle, _decode(changed, cycle, factor * other, similarity - _SPREAD))
    if not rough:
        return []
    if not is_alternating:
        changed = estimate_pose_change(rough).apply(changed)
    own_cycle = _adapt_cycle(changed, cycle, rough)
    own = _decode(changed, own_cycle, other, _OWN_SIMILARITY)
    measured = [measure_pass(changed, cycle, Pass(passage.start, passage.end)) for passage in own]
    found = [
        (replace(passage, start=whole.start, end=whole.end), whole)
        for passage, whole in zip(measured, own, strict=True)
        if _compute_margin(passage, similarity - _SPREAD) >= 0
    ]
    if max((_compute_margin(passage, similarity) for passage, _ in found), default=-1.0) < 0:
        return []
    if is_alternating:
        return [passage for passage, _ in found]
    mutual = compare_passes(changed, own_cycle, [whole for _, whole in found])
    is_alike = find_alike(mutual, torch.tensor([passage.similarity for passage, _ in found]))
    return [passage for (passage, _), keep in zip(found, is_alike.tolist(), strict=True) if keep]


def _compute_margin(passage: MeasuredPass, similarity: float) -> float:
    """Return by how much a pass is more similar than the limit; that of a small movement is higher."""
    return passage.similarity - similarity - _SMALL * max(0.0, 1 - passage.amplitude)


def _select_alike(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle, passes: list[MeasuredPass]
) -> list[MeasuredPass]:
    """Return the repetitions of one movement. An alternating movement has no rest between them, so all count."""
    if cycle.is_alternating or not passes:
        return passes
    similarity = torch.tensor([passage.similarity for passage in passes])
    is_alike = find_alike(compare_passes(poses, cycle, passes), similarity)
    return [passage for passage, keep in zip(passes, is_alike.tolist(), strict=True) if keep]


def _adapt_cycle(poses: Float[Tensor, "tick 15 3"], cycle: Cycle, passes: list[MeasuredPass]) -> Cycle:
    """Return the cycle as this person performs it, without rest: the mean over passes of the poses at each phase."""
    own = average_phases(poses, cycle, passes)
    first, last = find_movement(own)
    if last - first >= _SHORTEST * len(own):
        own = own[max(0, first - 1) : last + 2]  # one more pose at each end, for the range of motion
    return make_cycle(own, cycle.rate, cycle.weights > 0)


def _decode(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle, other: float, similarity: float
) -> list[MeasuredPass]:
    decoder = CycleDecoder(len(cycle), other, progress=cycle.measure_progress())
    decoder.push(compute_costs(poses, cycle))
    measured = [
        measure_pass(poses, cycle, passage)
        for passage in decoder.list_passes(finish=True)
        if passage.end - passage.start > 1
    ]
    return [passage for passage in measured if passage.similarity >= similarity]


def _is_sure(passes: list[MeasuredPass]) -> bool:
    """Return whether passes are so similar to the cycle that no other search is needed."""
    return bool(passes) and sum(passage.similarity for passage in passes) >= _SURE * len(passes)
