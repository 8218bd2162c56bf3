"""Actions as sequences of key poses: the text format, its parser, and interpolation to joint angles over time.

A key pose is a text such as ``"@0.3 = R raise 90 elbow 20 B knee 10 bend 15"``: optionally the seconds until the
pose is reached, optionally ``=`` to start from the previous key instead of ``base``, then channels of
``jeanie.datasets.synthetic.body`` with their values. ``R``, ``L`` and ``B`` select the right, left or both limbs.
Channels that a key does not name come from ``base``; channels that ``base`` does not name come from ``REST``. Keys
are separated by ``;``. The rows are in ``jeanie.datasets.synthetic.action_table``.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.synthetic.body import CHANNELS, SIDEWAYS, get_channel, mirror_poses
from jeanie.errors import ConfigError

__all__ = [
    "REST",
    "Action",
    "Program",
    "compile_action",
    "interpolate",
    "mirror_action",
    "parse_pose",
    "reverse_action",
]

Array = NDArray[np.float64]
_SIDES = {"R": ("right",), "L": ("left",), "B": ("left", "right")}


@dataclass(frozen=True)
class Action:
    """One row: an action of a right-handed person. A left-handed person performs the mirror image.

    Args:
        kind: Group of the action: arms, legs, whole, locomotion or together.
        keys, base: The key poses as text; see the module.
        beat: Default seconds until a key is reached.
        loops: Minimum and maximum number of repetitions of the keys.
        ends: "rest" starts and ends in the rest pose, "pose" in the first and last key; "cycle" repeats and may
            start anywhere.
        alternate: Append the mirror image of the keys.
        drift: Channels that each loop adds.
        handed: False if the mirror image is another action.
        partner, partner_base: Key poses of a second person with the same timing.
        gap: Distance of the partner, who faces the actor, in arm lengths.
        facing: Direction of the actor in degrees to the left; 0 faces the centre camera.
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

    ``keys [person, key, channel]``, ``seconds [key]`` until each key is reached, ``drift [channel]`` per loop.
    """

    keys: Array
    seconds: Array
    drift: Array


def parse_pose(text: str, start: Array) -> tuple[Array, float | None]:
    """Return the pose ``[channel]`` after applying ``text`` to ``start``, and its seconds or None.

    >>> pose, seconds = parse_pose("@0.3 R elbow 90", REST)
    >>> float(pose[get_channel("right_elbow")]), seconds
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
            pose[get_channel(token)] = float(next(tokens))
        elif f"left_{token}" in CHANNELS:
            pose[[get_channel(f"{side}_{token}") for side in sides]] = float(next(tokens))
        else:
            raise ConfigError(
                f"key pose {text!r}: expected a channel name, R, L or B, got {token!r}; "
                "the channels are in jeanie.datasets.synthetic.body.CHANNELS"
            )
    return pose, seconds


REST: Array = parse_pose(
    "B raise 7 plane 15 rotate -15 elbow 14 spread 3 point 8 flex 1 knee 3", np.zeros(len(CHANNELS))
)[0]


def _parse_keys(keys: str, base: str) -> list[tuple[Array, float | None]]:
    standing = parse_pose(base, REST)[0]
    poses: list[tuple[Array, float | None]] = [(standing, None)]
    for text in keys.split(";"):
        start = poses[-1][0] if "=" in text else standing
        poses.append(parse_pose(text.replace("=", " "), start))
    return poses[1:]


@cache
def compile_action(action: Action) -> Program:
    """Return the numbers of an action; cached."""
    people = [_parse_keys(action.keys, action.base)]
    if action.partner is not None:
        people.append(_parse_keys(action.partner, action.partner_base))
    if len({len(person) for person in people}) > 1:
        raise ConfigError(
            f"action {action.name!r}: the partner has {len(people[1])} keys, the actor {len(people[0])}; "
            "both need the same number, because they share their timing"
        )
    keys = np.array([[pose for pose, _ in person] for person in people])
    seconds = np.array([action.beat if duration is None else duration for _, duration in people[0]])
    if action.alternate:
        flipped = mirror_poses(keys)
        for person, base in enumerate((action.base, action.partner_base)[: len(people)]):
            heading = parse_pose(base, REST)[0][get_channel("turn")]
            flipped[person, :, get_channel("turn")] += (
                2 * heading
            )  # the mirror plane contains the heading of the actor
        keys, seconds = np.concatenate([keys, flipped], 1), np.tile(seconds, 2)
    return Program(keys, seconds, parse_pose(action.drift, np.zeros(len(CHANNELS)))[0])


def interpolate(times: Array, values: Array, at: Array) -> Array:
    """Interpolate ``values [key, ...]`` at increasing ``times [key]`` to ``at [frame]``; constant beyond the ends.

    Piecewise cubic with harmonic-mean slopes (Fritsch and Butland 1984): smooth, and within the range of the
    neighbouring keys. A knee that is straight in two keys does not bend backward between them.
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


def reverse_action(action: Action, name: str) -> Action:
    """Return the action with its keys in reverse order; each key keeps its seconds."""
    return replace(action, name=name, keys=";".join(reversed(action.keys.split(";"))))


def mirror_action(action: Action, name: str) -> Action:
    """Return the mirror image of an action: left and right swapped."""
    keys, base, drift = _mirror_text(action.keys), _mirror_text(action.base), _mirror_text(action.drift)
    return replace(action, name=name, keys=keys, base=base, drift=drift)


def _mirror_text(keys: str) -> str:
    words = keys.replace(";", " ; ").split()
    for index, word in enumerate(words):
        if word in SIDEWAYS:
            words[index + 1] = f"{-float(words[index + 1]):g}"
    return " ".join({"L": "R", "R": "L"}.get(word, word) for word in words)
