"""The result of scoring a performance: points per joint and phase, angles, sentence, JSON and page."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.recogniser.exercise.angles import PAIRS
from jeanie.recogniser.explain.bodies import Bodies, wrap_angle
from jeanie.recogniser.explain.explain import Explanation, Step, describe_recording
from jeanie.recogniser.explain.joint_differences import measure_differences
from jeanie.recogniser.explain.page import write_page
from jeanie.recogniser.explain.tempo import measure_parts
from jeanie.skeleton.motion import Motion

__all__ = ["Asymmetry", "JointScore", "PhaseScore", "Score", "build_explanation"]

_NAMED = 3  # joints in the sentence
_LEAST = 1.0  # points that the sentence mentions
_WORST = 3  # joints whose mean difference is that of the explanation


@dataclass(frozen=True)
class JointScore:
    """Points that one joint costs.

    Attributes:
        points: Points lost by this joint.
        degrees, largest: Mean and largest deviation of the limb that the joint moves.
        tolerance: Degrees that cost nothing.
        phase: The phase in which the joint costs most.
    """

    joint: str
    points: float
    degrees: float
    largest: float
    tolerance: float
    phase: str


@dataclass(frozen=True)
class PhaseScore:
    """Points lost in a third of the reference."""

    name: str
    points: float


@dataclass(frozen=True)
class Asymmetry:
    """Range of motion of a joint on the left and on the right, in degrees, and the same of the reference."""

    joint: str
    left: float
    right: float
    reference_left: float
    reference_right: float

    @property
    def difference(self) -> float:
        """Left minus right, beyond the same difference of the reference."""
        return self.left - self.right - (self.reference_left - self.reference_right)


@dataclass(frozen=True)
class Score:
    """How well a performance follows a reference.

    Attributes:
        value: 0 to 100. The points of ``joints``, or of ``phases``, and ``tempo_points`` add up to 100 - value.
        joints: Joints, most expensive first.
        phases: Beginning, middle and end of the reference.
        tempo: Duration of the performance divided by that of the reference; 2 is half as fast.
        tempo_points: Points lost by a tempo beyond the tolerance.
        angles, reference_angles: Smallest and largest angle per joint, in degrees.
        explanation: Differences of joint positions in centimetres, tempo by phase, camera, and the aligned bodies.

    >>> import jeanie
    >>> clip = jeanie.open_synthetic()[0]
    >>> round(jeanie.score(clip, clip).value)
    100
    """

    value: float
    joints: tuple[JointScore, ...]
    phases: tuple[PhaseScore, ...]
    tempo: float
    tempo_points: float
    angles: dict[str, tuple[float, float]]
    reference_angles: dict[str, tuple[float, float]]
    explanation: Explanation

    @property
    def asymmetries(self) -> tuple[Asymmetry, ...]:
        """Left and right ranges of motion of each pair of joints that both recordings have."""
        ranges, reference = (
            {name: high - low for name, (low, high) in side.items()}
            for side in (self.angles, self.reference_angles)
        )
        return tuple(
            Asymmetry(
                left.removeprefix("left_"), ranges[left], ranges[right], reference[left], reference[right]
            )
            for left, right in PAIRS
            if {left, right} <= ranges.keys() & reference.keys()
        )

    @property
    def text(self) -> str:
        """One line: "82 of 100; left knee costs 9 points, mostly in the middle (24 degrees off); 1.3x slower"."""
        parts = [f"{self.value:.0f} of 100"]
        parts += [
            f"{joint.joint.replace('_', ' ')} costs {joint.points:.0f} points, mostly "
            f"{'in' if joint.phase == 'middle' else 'at'} the {joint.phase} ({joint.degrees:.0f} degrees off)"
            for joint in self.joints[:_NAMED]
            if joint.points >= _LEAST
        ]
        parts += [f"tempo costs {self.tempo_points:.0f} points"] * (self.tempo_points >= _LEAST)
        ratio = max(self.tempo, 1 / self.tempo)
        pace = "slower" if self.tempo > 1 else "faster"
        return "; ".join([*parts, f"{ratio:.2g}x {pace}" if ratio >= 1.1 else "at the same speed"])

    def __str__(self) -> str:
        return self.text

    def json(self) -> dict[str, Any]:
        """Return everything except the bodies as plain values for JSON."""
        angles = {
            name: {"performance": [low, high], "reference": list(self.reference_angles[name])}
            for name, (low, high) in self.angles.items()
            if name in self.reference_angles
        }
        values = {
            "text": self.text,
            "score": self.value,
            "tempo": self.tempo,
            "tempo_points": self.tempo_points,
            "joints": [asdict(entry) for entry in self.joints],
            "phases": [asdict(entry) for entry in self.phases],
            "angles": angles,
            "asymmetries": [asdict(entry) | {"difference": entry.difference} for entry in self.asymmetries],
        }
        rounded: dict[str, Any] = _round_values(values)
        positions = [
            {key: row[key] for key in ("joint", "percent", "centimetres", "words")}
            for row in self.explanation.json()["joints"]
        ]
        return rounded | {"positions": positions}

    def write_html(self, path: str | Path) -> Path:
        """Write a self-contained HTML page that plays the performance and the reference in step."""
        chips = {"score": f"{self.value:.0f} of 100"}
        chips |= {
            f"{phase.name}": f"-{phase.points:.0f} points" for phase in self.phases if phase.points >= _LEAST
        }
        facts = self.explanation.json() | {"text": self.text, "chips": chips}
        return write_page(Path(path), facts, self.explanation.bodies)


def build_explanation(
    motions: tuple[Motion, Motion],
    bodies: tuple[Bodies, Bodies],
    at: tuple[Float[Tensor, " step"], Float[Tensor, " step"]],
    tempo: float,
    is_timed: bool,
    value: float,
) -> Explanation:
    """Return the differences of two aligned performances (query first) in positions, tempo and camera."""
    query, support = motions
    poses = [side.at(times) for side, times in zip(bodies, at, strict=True)]
    joints = measure_differences(poses[0], poses[1], bodies, at[0], query.layout.unit == "m")
    worst = joints[:_WORST]
    flat = min(query.layout.dims, support.layout.dims) < 3
    turn = None if flat else wrap_angle(float(bodies[0].facing[0] - bodies[1].facing[0]))
    apart = (poses[0] - poses[1]).norm(dim=-1).mean((1, 2))
    spans = [len(motion) / (motion.rate or 1.0) if is_timed else float(len(motion)) for motion in motions]
    steps = torch.stack([at[0], at[1], apart], 1).tolist()
    return Explanation(
        query=describe_recording(query),
        support=describe_recording(support),
        label=None,
        likeness="similar",
        reflected=False,
        distance=float(apart.mean()),
        difference=sum(joint.percent for joint in worst) / max(1, len(worst)),
        turn=turn,
        lift=None,
        tempo=tempo,
        timed=is_timed,
        parts=measure_parts(at[0], at[1], len(query), len(support), spans),
        steps=tuple(Step(q, s, cost, turn, None) for q, s, cost in steps),
        joints=joints,
        bodies=bodies,
        persons=((0, 0),),
    )


def _round_values(value: Any) -> Any:
    """Round plain values to two decimals."""
    if isinstance(value, float):
        return round(value, 2)
    if isinstance(value, dict):
        return {key: _round_values(inner) for key, inner in value.items()}
    return [_round_values(inner) for inner in value] if isinstance(value, list | tuple) else value
