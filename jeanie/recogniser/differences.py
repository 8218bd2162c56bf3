"""Which joints of two bodies differ along a path, by how much, and in which direction."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from jeanie.recogniser.bodies import HEIGHT, Bodies
from jeanie.skeleton.normal import BODY

__all__ = ["JointDifference", "differences"]

_LEAST = 2.5  # percent of the height below which a direction is not named
_SHARE = 0.5  # of the largest component, below which another direction is not named
_LESS, _MORE = 0.67, 1.5  # shares of the support's movement
_NAMED = 2  # directions of one joint
_DIRECTIONS = (("right", "left"), ("higher", "lower"), ("forward", "back"))
_STILL = 1.0  # percent of the height: who moves less does not move
_PATH = BODY.index("path")


@dataclass(frozen=True)
class JointDifference:
    """How far a joint of the query is from the same joint of the support, in the mean over the path.

    ``distance`` is in the unit of normal bodies, ``percent`` in hundredths of a body's height, ``centimetres``
    on the query's own body where its recording is in metres. ``right``, ``up`` and ``forward`` are the mean
    direction, in percent of the height, seen by the person. ``movement`` is how much the joint moves in the
    query as a share of the support's, None where the support holds it still; ``worst`` is the frame of the query
    at which they are furthest apart.
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


def differences(
    query: Float[Tensor, "step person 16 3"],
    support: Float[Tensor, "step person 16 3"],
    sides: tuple[Bodies, Bodies],
    frames: Float[Tensor, " step"],
    metric: bool,
) -> tuple[JointDifference, ...]:
    """The differences of all joints that both have, the largest first, person by person in the same order.

    ``frames`` are the query's moments, ``metric`` says whether it is in metres.
    """
    found = []
    for person in range(query.shape[1]):
        there = sides[0].present[person] & sides[1].present[person]
        left, right = query[:, person], support[:, person]
        apart = (left - right).norm(dim=-1)
        mean = (left - right).mean(0) * (100 / HEIGHT)
        moved = [100 / HEIGHT * (x - x.mean(0)).square().sum(-1).mean(0).sqrt() for x in (left, right)]
        centimetres = 100 * float(sides[0].size[person]) if metric else None
        for joint in there.nonzero()[:, 0].tolist():
            x, y, z = mean[joint].tolist()
            distance = float(apart[:, joint].mean())
            own, others = float(moved[0][joint]), float(moved[1][joint])
            movement = own / others if others >= _STILL else None
            found.append(
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
                    words=_words(joint, (x, y, -z), movement, 100 * distance / HEIGHT),
                )
            )
    return tuple(sorted(found, key=lambda one: -one.percent))


def _words(joint: int, mean: tuple[float, float, float], movement: float | None, percent: float) -> str:
    """A joint and where it is, such as "left elbow lower and further back", or how it moves."""
    name = "whole body" if joint == _PATH else BODY.joints[joint].replace("_", " ")
    least = max(_LEAST, _SHARE * max(map(abs, mean)))
    said = sorted(
        ((abs(value), words[value < 0]) for value, words in zip(mean, _DIRECTIONS, strict=True)), reverse=True
    )
    named = [words for size, words in said[:_NAMED] if size >= least]
    if named:
        level = [words for words in named if words in _DIRECTIONS[1]]
        across = [words for words in named if words not in level]
        return " ".join([name, " and ".join(level + [f"further {' and '.join(across)}"] * bool(across))])
    if percent < _LEAST:
        return f"{name} almost alike"
    if movement is None:
        return f"{name} moves"
    if movement <= _LESS:
        return f"{name} moves less"
    return f"{name} moves more" if movement >= _MORE else f"{name} moves otherwise"
