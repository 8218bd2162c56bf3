"""Score how well a performance follows one or several reference performances, from 0 to 100."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from jeanie.alignment import trace
from jeanie.config import Config
from jeanie.errors import DataError
from jeanie.recogniser.exercise.angles import compute_angles, measure_ranges
from jeanie.recogniser.exercise.cycle import MOVES, find_movement
from jeanie.recogniser.exercise.deviations import (
    JOINTS,
    compute_deviations,
    compute_directions,
    list_known_joints,
)
from jeanie.recogniser.exercise.score_report import JointScore, PhaseScore, Score, build_explanation
from jeanie.recogniser.explain.bodies import Bodies, compute_bodies
from jeanie.skeleton.inputs import check_motion, list_motions
from jeanie.skeleton.motion import Motion

__all__ = ["Score", "ScoreConfig", "score"]

_MOMENTS = 64  # of each performance
_PHASES = ("beginning", "middle", "end")
_LEAST_WEIGHT = 0.25  # of a joint that the reference does not move
_SPREAD = 2.0  # tolerance from several references, in standard deviations
_CORE = 15


class ScoreConfig(Config):
    """What costs points."""

    tolerance: float = Field(
        default=10.0, ge=0, le=180, description="degrees that a joint may deviate without loss of points"
    )
    scale: float = Field(
        default=60.0,
        gt=0,
        description="degrees beyond the tolerance, of one joint, that divide the score by e",
    )
    tempo: float = Field(
        default=2.2,
        ge=1,
        description="factor by which the performance may be slower or faster without loss of points",
    )


@dataclass(frozen=True, eq=False)
class _Performance:
    """Bodies of the moving person at evenly spaced moments of the movement, and the directions of the limbs."""

    motion: Motion
    bodies: Bodies
    moments: Float[Tensor, " moment"]
    directions: Float[Tensor, "moment 10 3"]
    known: Tensor

    @property
    def seconds(self) -> float:
        """Duration of the movement without the rest before and after it; frames if the rate is unknown."""
        return float(self.moments[-1] - self.moments[0]) / (self.motion.rate or 1.0)


def score(references: Motion | Sequence[Motion], motion: Motion, config: ScoreConfig | None = None) -> Score:
    """Score a performance against references, from 0 to 100.

    Body size, place and the side of the camera do not matter, and within ``ScoreConfig.tempo`` the speed does not
    either. Left and right matter: for the other side give ``motion.mirror()``. Of several persons, the most active one
    counts.

    Args:
        references: One or more performances of the exercise. The nearest one is compared. The differences between
            several references widen the tolerance of each joint.
        motion: The performance, one repetition as the references.
        config: What costs points.

    Returns:
        The score, with the joints and phases that cost points.

    Raises:
        ConfigError: There is no reference, or something is not a ``Motion``.
        DataError: Nobody moves in a recording.

    >>> from jeanie.datasets import open_dataset
    >>> clips = open_dataset("synthetic")
    >>> teacher, pupil = (clips[clips.names.index(f"bow_s0{subject}_t00_centre")] for subject in (0, 1))
    >>> round(score(teacher, teacher).value), score(teacher, pupil).value < 100
    (100, True)
    """
    config = ScoreConfig() if config is None else config
    reference_list = list_motions(
        references, "no reference to score against; give a recording of the exercise"
    )
    query, supports = (
        _measure_performance(check_motion(motion)),
        [_measure_performance(reference_motion) for reference_motion in reference_list],
    )
    tolerance = _estimate_tolerance(supports, config)
    return max(
        (_compare(query, reference_motion, tolerance, config) for reference_motion in supports),
        key=lambda result: result.value,
    )


def _measure_performance(motion: Motion) -> _Performance:
    person = motion.select_most_active(1)
    bodies = compute_bodies(person)
    poses = bodies.joints[:, 0, :_CORE]
    start, end = find_movement(poses)
    if end - start < 2 or float((poses[start : end + 1] - poses[start]).norm(dim=-1).max()) < MOVES:
        raise DataError(f"{motion.name or 'a motion'}: nobody moves; a score needs a movement")
    first, last = float(bodies.frames[start]), float(bodies.frames[end])
    moments = torch.linspace(first, last, _MOMENTS)
    directions = compute_directions(bodies.at(moments)[:, 0, :_CORE])
    return _Performance(person, bodies, moments, directions, list_known_joints(bodies.present[0, :_CORE]))


def _align(
    query: _Performance, support: _Performance
) -> tuple[Int[Tensor, "step 2"], Float[Tensor, "step 10 3"], Float[Tensor, "step 10 3"]]:
    """Return the path and the directions of both along it.

    The facing of a body comes from its shoulders and hips; what remains of the camera's side is removed by the rotation
    about the vertical that brings the limbs together.
    """
    is_known = (query.known & support.known)[:, None]
    if not bool(is_known.any()):
        raise DataError("the recordings have no joint in common; a score compares limbs")
    query_directions, support_directions = query.directions * is_known, support.directions * is_known
    for is_last in (False, True):
        cost = (1 - torch.einsum("qjc,sjc->qs", query_directions, support_directions) / is_known.sum())[None]
        path = trace(cost, gamma=0.0)[0].path
        left, right = query_directions[path[:, 0]], support_directions[path[:, 1]]
        if not is_last:
            along = (left[..., 0] * right[..., 0] + left[..., 2] * right[..., 2]).sum()
            aside = (left[..., 2] * right[..., 0] - left[..., 0] * right[..., 2]).sum()
            length = torch.hypot(along, aside).clamp_min(1e-9)
            c, s = along / length, aside / length
            x, y, z = query_directions.unbind(-1)
            query_directions = torch.stack([c * x + s * z, y, c * z - s * x], -1)
    return path, left, right


def _estimate_tolerance(supports: Sequence[_Performance], config: ScoreConfig) -> Float[Tensor, " 10"]:
    """Return the tolerance per joint: the given one, or twice the deviation between references if that is larger."""
    tolerance = torch.full((len(JOINTS),), config.tolerance)
    pairs = [(a, b) for i, a in enumerate(supports) for b in supports[:i]]
    if not pairs:
        return tolerance
    squares = [compute_deviations(*_align(a, b)[1:]).square().mean(0) for a, b in pairs]
    return torch.maximum(tolerance, _SPREAD * torch.stack(squares).mean(0).div(2).sqrt())


def _compare(
    query: _Performance, support: _Performance, tolerance: Float[Tensor, " 10"], config: ScoreConfig
) -> Score:
    path, left, right = _align(query, support)
    deviations = compute_deviations(left, right)
    spread = (support.directions - support.directions.mean(0)).square().sum(-1).mean(0).sqrt()
    is_known = query.known & support.known
    weights = (spread / spread.max().clamp_min(1e-9)).clamp_min(_LEAST_WEIGHT) * is_known
    excess = (deviations - tolerance).clamp_min(0) * weights / config.scale
    phase = (path[:, 1] * len(_PHASES)).div(_MOMENTS, rounding_mode="floor").clamp_max(len(_PHASES) - 1)
    share = torch.stack([(phase == index).float() for index in range(len(_PHASES))]) / len(path)
    costs = share @ excess  # [phase, joint]
    is_timed = query.motion.rate is not None and support.motion.rate is not None
    tempo = query.seconds / support.seconds if is_timed else len(query.motion) / len(support.motion)
    late = max(0.0, abs(math.log2(tempo)) - math.log2(config.tempo))
    total = float(costs.sum()) + late
    value = 100 * math.exp(-total)
    points = (100 - value) / max(total, 1e-9)
    mean, largest = deviations.mean(0).tolist(), deviations.amax(0).tolist()
    joints = [
        JointScore(
            joint=name,
            points=points * float(costs[:, index].sum()),
            degrees=mean[index],
            largest=largest[index],
            tolerance=float(tolerance[index]),
            phase=_PHASES[int(costs[:, index].argmax())],
        )
        for index, name in enumerate(JOINTS)
        if bool(is_known[index])
    ]
    at = query.moments[path[:, 0]], support.moments[path[:, 1]]
    return Score(
        value=value,
        joints=tuple(sorted(joints, key=lambda joint: (-joint.points, -joint.degrees))),
        phases=tuple(
            PhaseScore(name, points * float(cost)) for name, cost in zip(_PHASES, costs.sum(1), strict=True)
        ),
        tempo=tempo,
        tempo_points=points * late,
        angles=_measure_angles(query),
        reference_angles=_measure_angles(support),
        explanation=build_explanation(
            (query.motion, support.motion), (query.bodies, support.bodies), at, tempo, is_timed, value
        ),
    )


def _measure_angles(performance: _Performance) -> dict[str, tuple[float, float]]:
    angles = compute_angles(performance.bodies.joints[:, 0, :_CORE])
    return measure_ranges(angles, performance.bodies.present[0, :_CORE])
