"""Actions as programs of key poses: how a row is written, read and turned into joint angles over time.

A key pose is written as ``"@0.3 = R raise 90 elbow 20 B knee 10 bend 15"``: optional seconds in which it is
reached, an optional ``=`` to start from the key before instead of from the row's ``base``, then channels of
`jeanie.datasets.body` with their values; ``R``, ``L`` and ``B`` say whose limb is meant (right, left, both).
Channels that a key does not name are those of ``base``, and those that ``base`` does not name are those of
`REST`. Keys are separated by ``;``. The rows are in `jeanie.datasets.action_table`.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.body import CHANNELS, SIDEWAYS, channel, mirrored
from jeanie.errors import ConfigError

__all__ = ["REST", "Action", "Program", "backward", "interpolate", "mirror", "parse_pose", "program"]

Array = NDArray[np.float64]
_SIDES = {"R": ("right",), "L": ("left",), "B": ("left", "right")}


@dataclass(frozen=True)
class Action:
    """One row: how an action is performed by a right-hander (a left-hander is the mirror image).

    ``ends``: "rest" starts and stops in the rest pose, "pose" in the first and last key, "cycle" is
    endless and may start anywhere. ``beat`` is the seconds to reach a key that names none, ``loops`` how
    often the keys are run through (fewest, most). ``alternate`` appends the mirror image of the keys,
    ``drift`` is what one loop adds. ``handed`` is False where a mirror image would be another action. A
    ``partner`` has keys of its own with the same timing, stands ``gap`` arm lengths in front and faces
    the actor. ``facing`` turns the actor by so many degrees to the left, 0 looks at the centre camera.
    """

    name: str
    kind: str
    keys: str
    base: str = ""
    beat: float = 0.5
    loops: tuple[int, int] = (1, 1)
    ends: str = "rest"
    alternate: bool = False
    drift: str = ""
    handed: bool = True
    partner: str | None = None
    partner_base: str = ""
    gap: float = 0.0
    facing: float = 0.0


@dataclass(frozen=True, eq=False)
class Program:
    """An action as numbers.

    ``keys [person, key, channel]``, ``seconds [key]`` to reach each key, ``drift [channel]`` of one loop.
    """

    keys: Array
    seconds: Array
    drift: Array


def parse_pose(text: str, start: Array) -> tuple[Array, float | None]:
    """The pose ``[channel]`` that ``text`` makes of ``start``, and the seconds it names or None.

    >>> pose, seconds = parse_pose("@0.3 R elbow 90", REST)
    >>> float(pose[channel("right_elbow")]), seconds
    (90.0, 0.3)
    """
    pose, seconds, sides = start.copy(), None, _SIDES["B"]
    tokens = iter(text.split())
    for token in tokens:
        if token.startswith("@"):
            seconds = float(token[1:])
        elif token in _SIDES:
            sides = _SIDES[token]
        elif token in CHANNELS:
            pose[channel(token)] = float(next(tokens))
        elif f"left_{token}" in CHANNELS:
            pose[[channel(f"{side}_{token}") for side in sides]] = float(next(tokens))
        else:
            raise ConfigError(
                f"key pose {text!r}: expected a channel name, R, L or B, got {token!r}; "
                "the channels are listed in jeanie.datasets.body.CHANNELS"
            )
    return pose, seconds


REST: Array = parse_pose(
    "B raise 7 plane 15 rotate -15 elbow 14 spread 3 point 8 flex 1 knee 3", np.zeros(len(CHANNELS))
)[0]


def _key_poses(keys: str, base: str) -> list[tuple[Array, float | None]]:
    standing = parse_pose(base, REST)[0]
    poses: list[tuple[Array, float | None]] = [(standing, None)]
    for text in keys.split(";"):
        start = poses[-1][0] if "=" in text else standing
        poses.append(parse_pose(text.replace("=", " "), start))
    return poses[1:]


@cache
def program(action: Action) -> Program:
    """The numbers of one row; parsed once and kept."""
    people = [_key_poses(action.keys, action.base)]
    if action.partner is not None:
        people.append(_key_poses(action.partner, action.partner_base))
    if len({len(person) for person in people}) > 1:
        raise ConfigError(
            f"action {action.name!r}: the partner has {len(people[1])} keys, the actor {len(people[0])}; "
            "they share their timing, give both the same number"
        )
    keys = np.array([[pose for pose, _ in person] for person in people])
    seconds = np.array([action.beat if given is None else given for _, given in people[0]])
    if action.alternate:
        flipped = mirrored(keys)
        for person, base in enumerate((action.base, action.partner_base)[: len(people)]):
            heading = parse_pose(base, REST)[0][channel("turn")]
            flipped[person, :, channel("turn")] += 2 * heading  # the mirror stands along the actor's heading
        keys, seconds = np.concatenate([keys, flipped], 1), np.tile(seconds, 2)
    return Program(keys, seconds, parse_pose(action.drift, np.zeros(len(CHANNELS)))[0])


def interpolate(times: Array, values: Array, at: Array) -> Array:
    """``values [key, ...]`` at increasing ``times [key]``, read at ``at [frame]``; constant beyond the ends.

    Piecewise cubic with harmonic-mean slopes (Fritsch and Butland 1984): smooth, and never beyond its
    neighbouring keys, so a knee that is straight in two keys does not bend backward between them.
    """
    flat = values.reshape(len(times), -1)
    steps = np.diff(times)[:, None]
    rise = np.diff(flat, axis=0) / steps
    product = rise[:-1] * rise[1:]
    steady = product > 0
    slopes = np.zeros_like(flat)
    slopes[1:-1] = np.where(steady, 2 * product / np.where(steady, rise[:-1] + rise[1:], 1.0), 0.0)
    key = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    step = steps[key]
    u = np.clip((at - times[key])[:, None] / step, 0, 1)
    change = (flat[key + 1] - flat[key]) * u * u * (3 - 2 * u)
    bend = u * (1 - u) * step * ((1 - u) * slopes[key] - u * slopes[key + 1])
    curve: Array = flat[key] + change + bend
    return curve.reshape(len(at), *values.shape[1:])


def backward(action: Action, name: str) -> Action:
    """The same keys in the opposite order, each with the seconds it has forward."""
    return replace(action, name=name, keys=";".join(reversed(action.keys.split(";"))))


def mirror(action: Action, name: str) -> Action:
    """The mirror image: left and right exchanged in every text of the row."""
    keys, base, drift = _swap(action.keys), _swap(action.base), _swap(action.drift)
    return replace(action, name=name, keys=keys, base=base, drift=drift)


def _swap(keys: str) -> str:
    words = keys.replace(";", " ; ").split()
    for place, word in enumerate(words):
        if word in SIDEWAYS:
            words[place + 1] = f"{-float(words[place + 1]):g}"
    return " ".join({"L": "R", "R": "L"}.get(word, word) for word in words)
