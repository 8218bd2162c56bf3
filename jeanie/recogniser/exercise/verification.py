"""Decide which passes of a recording are repetitions: the shipped model compares them."""

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.exercise.cycle import CORE, Cycle
from jeanie.recogniser.exercise.passes import MeasuredPass
from jeanie.skeleton.motion import Motion

__all__ = ["Candidate", "select_repetitions"]

_POSE_WEIGHT = 0.3  # of the difference in poses, 1 - similarity, beside the distance of the model
_LARGEST = 0.45  # difference of a repetition from the example
_UNLIKE = 2.0  # a repetition differs from the example at most this many times as much as the best one,
_TOLERANCE = 0.1  # and this
_BEST, _NEARLY = 1.3, 0.02  # passes that differ this little more than the best one represent the person
_APART = 0.125  # distance of the model between a repetition and those that represent the person
_MIRRORED = 0.05  # a symmetric movement is its own mirror image: the side of the example comes first
_SMALL = 0.15  # times the share of the amplitude that a partial one lacks: parts of movements are small
_OVERLAP = 0.2  # share of the shorter of two passes
_MOST = 16  # passes that represent the person


@dataclass(frozen=True, eq=False)
class Candidate:
    """A pass through the cycle of one side of the body."""

    passage: MeasuredPass
    is_mirrored: bool


def select_repetitions(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle, candidates: list[Candidate], complete: float
) -> tuple[list[Candidate], float]:
    """Return the candidates that are repetitions, and how well they explain the recording.

    Candidates overlap; of those that share ticks, the one that differs least from the example counts. A repetition is
    like the example, hardly less than the best one, and like the best ones of the recording: people repeat a movement
    in their own manner.

    Args:
        poses: The recording.
        cycle: The example.
        candidates: Passes through the cycle and through its mirror image.
        complete: Amplitude below which a repetition is partial; it is compared at the size of the example.
    """
    if not candidates:
        return [], 0.0
    model = _load_model()
    with torch.no_grad():
        features = _encode(model, [_cut(poses, candidate, complete) for candidate in candidates])
        distances = model.compare(features, _encode(model, [cycle.poses]))[:, 0]
    similarities = torch.tensor([candidate.passage.similarity for candidate in candidates])
    amplitudes = torch.tensor([candidate.passage.amplitude for candidate in candidates])
    is_mirrored = torch.tensor([candidate.is_mirrored for candidate in candidates])
    difference = distances.double() + _POSE_WEIGHT * (1 - similarities)
    handicap = _MIRRORED * is_mirrored + _SMALL * (1 - amplitudes) * (amplitudes < complete)
    rows = _select_apart(candidates, difference + handicap)
    rows = [row for row in rows if difference[row] <= _LARGEST]
    if not rows:
        return [], 0.0
    least = float(difference[rows].min())
    best = [row for row in rows if difference[row] <= _BEST * least + _NEARLY][:_MOST]
    with torch.no_grad():
        apart = model.compare(features[torch.tensor(rows)], features[torch.tensor(best)])
    nearest_half = apart.sort(1).values[:, : max(1, len(best) // 2)].median(1).values
    is_kept = (difference[rows] <= _UNLIKE * least + _TOLERANCE) & (nearest_half <= _APART)
    kept = [row for row, keep in zip(rows, is_kept.tolist(), strict=True) if keep]
    return [candidates[row] for row in kept], float((_LARGEST - difference[kept]).sum())


@cache
def _load_model() -> FewShotModel:
    return FewShotModel.load().eval()


def _cut(
    poses: Float[Tensor, "tick 15 3"], candidate: Candidate, complete: float
) -> Float[Tensor, "pose 15 3"]:
    """Return the poses of a candidate by the side of the example, and a partial one in full size."""
    passage = candidate.passage
    part = poses[passage.start : passage.end]
    if passage.amplitude < complete:
        line = torch.lerp(
            part[:1], part[-1:], torch.linspace(0, 1, len(part), dtype=part.dtype)[:, None, None]
        )
        part = line + (part - line) / passage.amplitude
    return CORE.mirror_joints(part) if candidate.is_mirrored else part


def _encode(model: FewShotModel, parts: list[Float[Tensor, "_ 15 3"]]) -> Features:
    """Return the features of sequences of poses; a joint that was never seen is 0."""
    motions = [Motion(part.float()[:, None], CORE, valid=(part != 0).any(-1)[:, None]) for part in parts]
    return model.features(model.collate(motions), "support")


def _select_apart(candidates: list[Candidate], difference: Float[Tensor, " pass"]) -> list[int]:
    """Return the rows of candidates that do not overlap, the most similar ones first."""
    rows: list[int] = []
    for row in difference.argsort().tolist():
        if not any(_overlap(candidates[row].passage, candidates[other].passage) for other in rows):
            rows.append(row)
    return rows


def _overlap(a: MeasuredPass, b: MeasuredPass) -> bool:
    common = min(a.end, b.end) - max(a.start, b.start)
    return common > _OVERLAP * min(a.end - a.start, b.end - b.start)
