"""Explain how two recordings differ: camera, tempo, and the joints that differ most."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import torch

from jeanie.alignment import Alignment
from jeanie.fewshot.model import FewShotModel, PairMatch
from jeanie.recogniser.explain.bodies import Bodies, compute_bodies, wrap_angle
from jeanie.recogniser.explain.joint_differences import JointDifference, measure_differences
from jeanie.recogniser.explain.page import write_page
from jeanie.recogniser.explain.tempo import Part, locate_blocks, measure_parts
from jeanie.recogniser.explain.wording import Likeness, describe
from jeanie.skeleton.motion import Motion

__all__ = ["Explanation", "Recording", "Step", "describe_recording", "explain"]

# Mean difference of the three joints that differ most, in percent of the body height. On MSRAction3D, recordings of the
# same action have a median of 10.5 and 10 % lie below 7; those of two actions have 17.7, and 90 % lie above 10.5.
_SAME, _SIMILAR = 7.0, 18.0
_WORST = 3


@dataclass(frozen=True)
class Recording:
    """Facts about one of the two recordings."""

    name: str | None
    label: str | None
    frames: int
    rate: float | None
    persons: int

    @property
    def seconds(self) -> float | None:
        """Duration, or None if the frame rate is unknown."""
        return None if self.rate is None else self.frames / self.rate


@dataclass(frozen=True)
class Step:
    """One step of the path.

    Attributes:
        query, support: The aligned moments, in frames of each recording.
        cost: Cost of the step.
        turn: Degrees by which the query's camera stands further to the person's left; None if the facing is unknown.
        lift: Degrees by which it stands higher; None if unknown.
    """

    query: float
    support: float
    cost: float
    turn: float | None
    lift: float | None


@dataclass(frozen=True)
class Explanation:
    """How a query differs from a support. Left, right and forward are those of the moving person.

    Attributes:
        query, support: Facts about both recordings.
        label: Name of the action that the support is an example of; None if unknown.
        likeness: "same", "similar" or "different".
        reflected: Whether the mirror image of the query matched; ``joints`` and ``bodies`` are then those of the image.
        distance: Distance of the model.
        difference: Mean of the three largest joint differences, in percent of the body height.
        turn, lift: Mean camera difference over ``steps``, in degrees.
        tempo: Duration of the query divided by that of the support, in seconds if ``timed``, else in frames.
        timed: Whether both frame rates are known.
        parts: The tempo of the beginning, the middle and the end of the support.
        steps: The path of the alignment.
        joints: Joint differences, largest first.
        bodies: The canonical bodies of query and support.
        persons: The compared (query, support) persons, numbered from 0 as in the recordings. Person 0 of ``joints``
            and ``bodies`` is the first of these pairs.

    >>> from jeanie import FewShotModel, open_synthetic
    >>> clip = open_synthetic()[0]
    >>> explanation = explain(FewShotModel.raw(), clip, clip)
    >>> explanation.likeness, explanation.distance, explanation.tempo
    ('same', 0.0, 1.0)
    """

    query: Recording
    support: Recording
    label: str | None
    likeness: Likeness
    reflected: bool
    distance: float
    difference: float
    turn: float | None
    lift: float | None
    tempo: float
    timed: bool
    parts: tuple[Part, ...]
    steps: tuple[Step, ...]
    joints: tuple[JointDifference, ...]
    bodies: tuple[Bodies, Bodies]
    persons: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        """One line: "same movement, seen from 30 degrees to the person's left, 1.4x slower; left elbow lower"."""
        return describe(
            self.likeness,
            self.label,
            self.reflected,
            self.turn,
            self.lift,
            self.tempo,
            self.parts,
            self.joints,
            self.persons,
            (self.query.persons, self.support.persons),
        )

    def __str__(self) -> str:
        return self.text

    def json(self) -> dict[str, Any]:
        """Return everything except the bodies as plain values for JSON."""
        names = (
            "label", "likeness", "reflected", "distance", "difference", "turn", "lift", "tempo", "timed"
        )  # fmt: skip
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        values["persons"] = [list(pair) for pair in self.persons]
        rows = {key: [asdict(row) for row in getattr(self, key)] for key in ("parts", "steps", "joints")}
        sides = {key: asdict(getattr(self, key)) for key in ("query", "support")}
        plain: dict[str, Any] = _round_values({"text": self.text, **sides, **values, **rows})
        return plain

    def write_html(self, path: str | Path) -> Path:
        """Write a self-contained HTML page that plays both movements in step."""
        return write_page(Path(path), self.json(), self.bodies)


@torch.no_grad()
def explain(
    model: FewShotModel,
    query: Motion,
    support: Motion,
    *,
    label: str | None = None,
    same: bool | None = None,
) -> Explanation:
    """Explain how ``query`` differs from ``support`` as ``model`` aligns them.

    If two people are compared with one, the explanation covers the closer match.

    Args:
        model: The model that aligns the motions.
        query: The motion to explain.
        support: The motion that it is compared with.
        label: Name of the action that ``support`` is an example of.
        same: Answer of a recogniser. Without it, the likeness follows from the joints that differ most, which is a
            statement about poses, not a recognition.

    Returns:
        The explanation; ``print`` shows it as one sentence.

    Raises:
        DataError: A motion has no valid frame.

    >>> from jeanie import FewShotModel, open_synthetic
    >>> clip = open_synthetic()[0]
    >>> print(explain(FewShotModel.raw(), clip, clip))
    same movement, at the same speed
    """
    recordings = describe_recording(query), describe_recording(support)
    query, support, persons, match = _match_motions(model, query, support)
    alignment, reflected = match.alignment, match.is_mirrored
    moments = [locate_blocks(model, motion) for motion in (query, support)]
    recorded, example = compute_bodies(query), compute_bodies(support)
    sides = (compute_bodies(query.mirror()) if reflected else recorded, example)
    at = [times[alignment.path[:, side]] for side, times in enumerate(moments)]
    poses = [body.at(times) for body, times in zip(sides, at, strict=True)]
    joints = measure_differences(poses[0], poses[1], sides, at[0], query.layout.unit == "m")
    flat = min(query.layout.dims, support.layout.dims) < 3
    facing = None if flat else wrap_angle(float(recorded.facing[0] - example.facing[0]))
    turns = _compute_camera_turns(model, alignment, facing, reflected)
    timed = query.rate is not None and support.rate is not None
    spans = [_duration(motion, timed) for motion in (query, support)]
    difference = sum(joint.percent for joint in joints[:_WORST]) / max(1, len(joints[:_WORST]))
    steps = zip(at[0].tolist(), at[1].tolist(), alignment.steps.tolist(), turns, strict=True)
    return Explanation(
        query=recordings[0],
        support=recordings[1],
        label=label,
        likeness=_classify_likeness(difference, same),
        reflected=reflected,
        distance=match.distance,
        difference=difference,
        turn=_average_angles([turn for turn, _ in turns]),
        lift=_average_angles([lift for _, lift in turns]),
        tempo=spans[0] / spans[1],
        timed=timed,
        parts=measure_parts(at[0], at[1], len(query), len(support), spans),
        steps=tuple(Step(q, s, cost, *turn) for q, s, cost, turn in steps),
        joints=joints,
        bodies=sides,
        persons=persons,
    )


def _match_motions(
    model: FewShotModel, query: Motion, support: Motion
) -> tuple[Motion, Motion, tuple[tuple[int, int], ...], PairMatch]:
    """Return both motions with the compared persons only, in one order, who they are, and the model's match of them.

    The persons are those that the model compares. If it compares means over persons, they are the pairs with the
    smallest sum of distances.
    """
    query_persons, support_persons = (_select_used_persons(model, motion) for motion in (query, support))
    left, right = _select_persons(query, query_persons), _select_persons(support, support_persons)
    match = None
    if model.config.align.persons == "matched" or left.persons == right.persons == 1:
        match = model.match(left, right)
        pairs = match.persons
    else:
        pairs = _find_nearest_pairs(model, left, right)
    persons = tuple((query_persons[q], support_persons[s]) for q, s in pairs)
    query = _select_persons(query, [q for q, _ in persons])
    support = _select_persons(support, [s for _, s in persons])
    if match is None or [list(side) for side in zip(*persons, strict=True)] != [
        query_persons,
        support_persons,
    ]:
        match = model.match(query, support)
    return query, support, persons, match


def _find_nearest_pairs(model: FewShotModel, query: Motion, support: Motion) -> tuple[tuple[int, int], ...]:
    count = min(query.persons, support.persons)
    left, right = ([motion.person(i) for i in range(motion.persons)] for motion in (query, support))
    distances = model.distances(left, right)
    query_persons, support_persons = min(
        product(combinations(range(len(left)), count), permutations(range(len(right)), count)),
        key=lambda pairing: float(distances[list(pairing[0]), list(pairing[1])].sum()),
    )
    return tuple(zip(query_persons, support_persons, strict=True))


def _select_persons(motion: Motion, persons: Sequence[int]) -> Motion:
    numbers = list(persons)
    if numbers == list(range(motion.persons)):
        return motion
    return motion.replace(joints=motion.joints[:, numbers], valid=motion.valid[:, numbers])


def _select_used_persons(model: FewShotModel, motion: Motion) -> list[int]:
    """Return the numbers of the persons that the model uses and that have valid joints, in the model's order."""
    limit = model.config.inputs.prepare.persons
    rows = motion.find_most_active(limit) if motion.persons > limit else list(range(motion.persons))
    is_seen = motion.valid.any(2).any(0)
    return [row for row in rows if bool(is_seen[row])]


def _compute_camera_turns(
    model: FewShotModel, alignment: Alignment, facing: float | None, reflected: bool
) -> list[tuple[float | None, float | None]]:
    """Return (turn, lift) per step: the facing removed in preparation, or the measured one, and the views of the path.

    A view (azimuth, altitude) that makes the query look like the support stands as much further to the person's left
    and as much higher than the query's camera; for the mirror image as much further to the right.
    """
    steps = len(alignment.path)
    views = model.views
    if views is None:
        return [(facing, None)] * steps
    prepare = model.config.inputs.prepare
    removed = prepare.body == "canonical" or prepare.facing != "none"
    base = (facing or 0.0) if removed else 0.0
    azimuths, altitudes = views.azimuths, views.altitudes
    if len(views.shape) == 1:  # azimuths alone, then altitudes alone
        table = [(a, 0.0) for a in azimuths] + [(0.0, a) for a in altitudes]
        query_views = [table[view] for view in alignment.path[:, 2].tolist()]
    else:
        query_views = [(azimuths[a], altitudes[b]) for a, b in alignment.path[:, 2:4].tolist()]
    support_views = (
        [(azimuths[a], altitudes[b]) for a, b in alignment.path[:, 4:6].tolist()]
        if alignment.path.shape[1] == 6
        else []
    )
    support_views = support_views or [(0.0, 0.0)] * steps
    if reflected:
        query_views = [(-azimuth, altitude) for azimuth, altitude in query_views]
    return [
        (wrap_angle(base - a + x), b_ - b) for (a, b), (x, b_) in zip(query_views, support_views, strict=True)
    ]


def _classify_likeness(difference: float, same: bool | None) -> Likeness:
    if same is not None:
        return "same" if same else "different"
    return "same" if difference <= _SAME else "similar" if difference <= _SIMILAR else "different"


def _average_angles(values: list[float | None]) -> float | None:
    """Return the mean direction of the known angles in degrees, or None if none is known."""
    angles = torch.deg2rad(torch.tensor([value for value in values if value is not None]))
    if not len(angles):
        return None
    return float(torch.rad2deg(torch.atan2(angles.sin().mean(), angles.cos().mean())))


def _duration(motion: Motion, timed: bool) -> float:
    return len(motion) / motion.rate if timed and motion.rate is not None else float(len(motion))


def describe_recording(motion: Motion) -> Recording:
    """Return the facts about a recording."""
    label = None if motion.label is None else str(motion.label)
    return Recording(motion.name, label, len(motion), motion.rate, motion.persons)


def _round_values(value: Any) -> Any:
    """Round plain values to five significant digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _round_values(inner) for key, inner in value.items()}
    return [_round_values(inner) for inner in value] if isinstance(value, list | tuple) else value
