"""Measure which joints of two bodies differ along a path, by how much, and in which direction."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from jeanie.recogniser.explain.bodies import HEIGHT, Bodies
from jeanie.skeleton.canonical_body import BODY

__all__ = ["JointDifference", "measure_differences"]

_LEAST = 2.5  # smallest component, in percent of the height, that is described
_SHARE = 0.5  # smallest share of the largest component that is described
_LESS, _MORE = 0.67, 1.5  # ratios to the movement of the support that count as less and more
_NAMED = 2  # directions per joint
_DIRECTIONS = (("right", "left"), ("higher", "lower"), ("forward", "back"))
_STILL = 1.0  # percent of the height: a smaller movement counts as none
_PATH = BODY.index("path")


@dataclass(frozen=True)
class JointDifference:
    """Mean difference of one joint between query and support along the path.

    Attributes:
        distance: In the unit of canonical bodies.
        percent: In percent of the body height.
        centimetres: On the query's own body; None unless its recording is in metres.
        right, up, forward: Mean direction in percent of the height, as seen by the person.
        movement: Movement in the query divided by that in the support; None if the support does not move the joint.
        worst: Frame of the query with the largest difference.
        words: Description in words.
    """

    joint: str
    person: int
    distance: float
    percent: float
    centimetres: float | None
    right: float
    up: float
    forward: float
    movement: float | None
    worst: float
    words: str


def measure_differences(
    query: Float[Tensor, "step person 16 3"],
    support: Float[Tensor, "step person 16 3"],
    sides: tuple[Bodies, Bodies],
    frames: Float[Tensor, " step"],
    metric: bool,
) -> tuple[JointDifference, ...]:
    """Return the differences of all joints that both bodies have, largest first.

    ``frames`` are the moments of the query; ``metric`` says whether it is in metres.
    """
    differences = []
    for person in range(query.shape[1]):
        is_shared = sides[0].present[person] & sides[1].present[person]
        left, right = query[:, person], support[:, person]
        apart = (left - right).norm(dim=-1)
        mean = (left - right).mean(0) * (100 / HEIGHT)
        moved = [100 / HEIGHT * (x - x.mean(0)).square().sum(-1).mean(0).sqrt() for x in (left, right)]
        centimetres = 100 * float(sides[0].size[person]) if metric else None
        for joint in is_shared.nonzero()[:, 0].tolist():
            x, y, z = mean[joint].tolist()
            distance = float(apart[:, joint].mean())
            query_movement, support_movement = float(moved[0][joint]), float(moved[1][joint])
            movement = query_movement / support_movement if support_movement >= _STILL else None
            differences.append(
                JointDifference(
                    joint=BODY.joints[joint],
                    person=person,
                    distance=distance,
                    percent=100 * distance / HEIGHT,
                    centimetres=None if centimetres is None else distance * centimetres,
                    right=x,
                    up=y,
                    forward=-z,
                    movement=movement,
                    worst=float(frames[int(apart[:, joint].argmax())]),
                    words=_describe_joint(joint, (x, y, -z), movement, 100 * distance / HEIGHT),
                )
            )
    return tuple(sorted(differences, key=lambda joint: -joint.percent))


def _describe_joint(
    joint: int, mean: tuple[float, float, float], movement: float | None, percent: float
) -> str:
    """Return a joint with its direction, such as "left elbow lower and further back", or with its movement."""
    name = "whole body" if joint == _PATH else BODY.joints[joint].replace("_", " ")
    least = max(_LEAST, _SHARE * max(map(abs, mean)))
    components = sorted(
        ((abs(value), words[value < 0]) for value, words in zip(mean, _DIRECTIONS, strict=True)), reverse=True
    )
    phrases = [words for size, words in components[:_NAMED] if size >= least]
    if phrases:
        level = [words for words in phrases if words in _DIRECTIONS[1]]
        across = [words for words in phrases if words not in level]
        return " ".join([name, " and ".join(level + [f"further {' and '.join(across)}"] * bool(across))])
    if percent < _LEAST:
        return f"{name} almost alike"
    if movement is None:
        return f"{name} moves"
    if movement <= _LESS:
        return f"{name} moves less"
    return f"{name} moves more" if movement >= _MORE else f"{name} moves otherwise"
