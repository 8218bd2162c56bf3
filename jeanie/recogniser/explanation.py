"""Why two recordings are near or far: their common time, the camera's turn, the tempo, and the joints that differ."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import torch

from jeanie.align import Alignment
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.bodies import Bodies, bodies_of, wrapped
from jeanie.recogniser.differences import JointDifference, differences
from jeanie.recogniser.page import write_page
from jeanie.recogniser.tempo import Part, block_moments, parts_of
from jeanie.recogniser.wording import Likeness, told
from jeanie.skeleton.motion import Motion

__all__ = ["Explanation", "Recording", "Step", "explain"]

# Percent of a body's height, mean of the three joints that differ most. On MSRAction3D two recordings of one action
# lie at 10.5 in the middle and below 7 in one of ten, those of two actions at 17.7 and above 10.5 in nine of ten.
_SAME, _SIMILAR = 7.0, 18.0
_WORST = 3


@dataclass(frozen=True)
class Recording:
    """What is known about one of the two recordings."""

    name: str | None
    label: str | None
    frames: int
    rate: float | None
    persons: int

    @property
    def seconds(self) -> float | None:
        """How long it lasts, where the frame rate is known."""
        return None if self.rate is None else self.frames / self.rate


@dataclass(frozen=True)
class Step:
    """A step of the path: which moments met (in frames of each recording), at what cost, and how the query was seen.

    ``turn`` and ``lift`` say by how many degrees the query's camera stood further to the person's left, and
    higher, than the support's; None where nobody's facing is known.
    """

    query: float
    support: float
    cost: float
    turn: float | None
    lift: float | None


@dataclass(frozen=True)
class Explanation:
    """How a query differs from a support. Left, right and forward are the moving person's own.

    Where it was ``reflected``, the query did with the left what the support did with the right: ``joints`` and
    ``bodies`` are then those of its mirror image.
    ``turn`` is the mean over ``steps``. ``tempo`` is how many times as long the query took, in seconds where both
    frame rates are known (``timed``) and in frames elsewhere; ``parts`` say the same of the support's beginning,
    middle and end. ``joints`` are sorted, those that differ most first; ``difference`` is the mean of the first three,
    in percent of a body's height. ``persons`` says who of the query was compared with whom of the support, as numbers
    from 0 in the recordings; person 0 of ``joints`` and ``bodies`` is the first of these pairs.
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
        return told(
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
        """Everything but the bodies in plain values, ready for JSON."""
        names = (
            "label", "likeness", "reflected", "distance", "difference", "turn", "lift", "tempo", "timed"
        )  # fmt: skip
        kept: dict[str, Any] = {name: getattr(self, name) for name in names}
        kept["persons"] = [list(pair) for pair in self.persons]
        rows = {key: [asdict(one) for one in getattr(self, key)] for key in ("parts", "steps", "joints")}
        sides = {key: asdict(getattr(self, key)) for key in ("query", "support")}
        plain: dict[str, Any] = _rounded({"text": self.text, **sides, **kept, **rows})
        return plain

    def write_html(self, path: str | Path) -> Path:
        """Write a page that shows both movements in step; it needs neither network nor anything beside it."""
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
    """How ``query`` differs from ``support`` as ``model`` aligns them.

    ``label`` names the movement that ``support`` is an example of. ``same`` is a recogniser's verdict; without one,
    likeness is told from the joints that differ most: a word about poses, not a recognition. Of two persons
    against one, the nearer one is explained.
    """
    recordings = _recording(query), _recording(support)
    query, support, persons = _alike(model, query, support)
    found, reflected = model.trace(query, support), model.reflects(query, support)
    moments = [block_moments(model, motion) for motion in (query, support)]
    recorded, example = bodies_of(query), bodies_of(support)
    sides = (bodies_of(query.mirrored()) if reflected else recorded, example)
    at = [times[found.path[:, side]] for side, times in enumerate(moments)]
    poses = [body.at(times) for body, times in zip(sides, at, strict=True)]
    joints = differences(poses[0], poses[1], sides, at[0], query.layout.unit == "m")
    flat = min(query.layout.dims, support.layout.dims) < 3
    facing = None if flat else wrapped(float(recorded.facing[0] - example.facing[0]))
    turns = _turns(model, found, facing, reflected)
    timed = query.rate is not None and support.rate is not None
    spans = [_span(motion, timed) for motion in (query, support)]
    apart = sum(one.percent for one in joints[:_WORST]) / max(1, len(joints[:_WORST]))
    steps = zip(at[0].tolist(), at[1].tolist(), found.steps.tolist(), turns, strict=True)
    return Explanation(
        query=recordings[0],
        support=recordings[1],
        label=label,
        likeness=_likeness(apart, same),
        reflected=reflected,
        distance=float(model.distances([query], [support])),
        difference=apart,
        turn=_mean([turn for turn, _ in turns]),
        lift=_mean([lift for _, lift in turns]),
        tempo=spans[0] / spans[1],
        timed=timed,
        parts=parts_of(at[0], at[1], len(query), len(support), spans),
        steps=tuple(Step(q, s, cost, *turn) for q, s, cost, turn in steps),
        joints=joints,
        bodies=sides,
        persons=persons,
    )


def _alike(
    model: FewShotModel, query: Motion, support: Motion
) -> tuple[Motion, Motion, tuple[tuple[int, int], ...]]:
    """Both with as many persons, in one order, and who they are in the recordings.

    Of the persons that the model looks at, those are compared whom the model compares; where that takes the mean over
    persons, those who make the smallest sum of distances.
    """
    ours, theirs = (_looked_at(model, motion) for motion in (query, support))
    left, right = _chosen(query, ours), _chosen(support, theirs)
    if model.config.align.persons == "matched" or left.persons == right.persons == 1:
        pairs = model.pairing(left, right)
    else:
        pairs = _nearest_pairs(model, left, right)
    persons = tuple((ours[q], theirs[s]) for q, s in pairs)
    return _chosen(query, [q for q, _ in persons]), _chosen(support, [s for _, s in persons]), persons


def _nearest_pairs(model: FewShotModel, query: Motion, support: Motion) -> tuple[tuple[int, int], ...]:
    count = min(query.persons, support.persons)
    left, right = ([motion.person(i) for i in range(motion.persons)] for motion in (query, support))
    apart = model.distances(left, right)
    ours, theirs = min(
        product(combinations(range(len(left)), count), permutations(range(len(right)), count)),
        key=lambda both: float(apart[list(both[0]), list(both[1])].sum()),
    )
    return tuple(zip(ours, theirs, strict=True))


def _chosen(motion: Motion, persons: Sequence[int]) -> Motion:
    some = list(persons)
    if some == list(range(motion.persons)):
        return motion
    return motion.replace(joints=motion.joints[:, some], valid=motion.valid[:, some])


def _looked_at(model: FewShotModel, motion: Motion) -> list[int]:
    """Numbers of the persons whom the model looks at and who are seen at all, in the model's order."""
    most = model.config.inputs.prepare.persons
    rows = motion.liveliest(most) if motion.persons > most else list(range(motion.persons))
    there = motion.valid.any(2).any(0)
    return [row for row in rows if bool(there[row])]


def _turns(
    model: FewShotModel, found: Alignment, facing: float | None, reflected: bool
) -> list[tuple[float | None, float | None]]:
    """(turn, lift) at every step: what preparation turned away, or else was measured, and the views of the path.

    A view (azimuth, altitude) that makes the query look like the support stands as much to the person's left and
    as much higher than the query's camera; one of the query's mirror image as much to the right.
    """
    steps = len(found.path)
    views = model.views
    if views is None:
        return [(facing, None)] * steps
    prepare = model.config.inputs.prepare
    removed = prepare.body == "normal" or prepare.facing != "none"
    base = (facing or 0.0) if removed else 0.0
    azimuths, altitudes = views.azimuths, views.altitudes
    if len(views.shape) == 1:  # azimuths alone, then altitudes alone
        table = [(a, 0.0) for a in azimuths] + [(0.0, a) for a in altitudes]
        seen = [table[view] for view in found.path[:, 2].tolist()]
    else:
        seen = [(azimuths[a], altitudes[b]) for a, b in found.path[:, 2:4].tolist()]
    other = (
        [(azimuths[a], altitudes[b]) for a, b in found.path[:, 4:6].tolist()]
        if found.path.shape[1] == 6
        else []
    )
    other = other or [(0.0, 0.0)] * steps
    if reflected:
        seen = [(-azimuth, altitude) for azimuth, altitude in seen]
    return [(wrapped(base - a + x), b_ - b) for (a, b), (x, b_) in zip(seen, other, strict=True)]


def _likeness(apart: float, same: bool | None) -> Likeness:
    if same is not None:
        return "same" if same else "different"
    return "same" if apart <= _SAME else "similar" if apart <= _SIMILAR else "different"


def _mean(values: list[float | None]) -> float | None:
    """The mean direction of angles, None where there is none."""
    known = torch.deg2rad(torch.tensor([value for value in values if value is not None]))
    if not len(known):
        return None
    return float(torch.rad2deg(torch.atan2(known.sin().mean(), known.cos().mean())))


def _span(motion: Motion, timed: bool) -> float:
    return len(motion) / motion.rate if timed and motion.rate is not None else float(len(motion))


def _recording(motion: Motion) -> Recording:
    label = None if motion.label is None else str(motion.label)
    return Recording(motion.name, label, len(motion), motion.rate, motion.persons)


def _rounded(value: Any) -> Any:
    """Plain values with five digits: more would be noise in a file."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
