"""The embedded data set: generated persons perform generated actions before imperfect cameras.

Every clip is a pure function of the data set's seed and its own place (action, subject, take, camera): any
one can be made alone, in any order and in any process, and is the same to the last bit on one machine. The
cameras see one and the same performance, each from its own place and with its own noise and gaps.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.action_table import ACTIONS
from jeanie.datasets.actions import REST, Action, interpolate, program
from jeanie.datasets.body import CHANNELS, Body, channel, forward_kinematics, mirrored, stature
from jeanie.datasets.dataset import Clip, Clips
from jeanie.datasets.names import Tags
from jeanie.datasets.sensors import CAMERAS, record, turned
from jeanie.errors import ConfigError
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["RATE", "Performer", "Studio", "open_synthetic"]

Array = NDArray[np.float64]
RATE = 30.0  # frames a second

_ROOT = [channel(name) for name in ("forward", "side", "turn")]  # where the actor is: neither style nor rest
_SWAYING = ("bend", "lean", "twist", "nod", "look", "raise", "plane", "elbow")
_SWAY = [place for place, name in enumerate(CHANNELS) if name.split("_")[-1] in _SWAYING]
# standard deviation in degrees of what a subject adds to every pose
_POSTURE = {"bend": 4.0, "nod": 5.0, "raise": 4.0, "plane": 9.0, "rotate": 8.0, "elbow": 7.0, "spread": 1.5}
_POSTURE |= {"point": 5.0, "knee": 3.0}


@dataclass(frozen=True, eq=False)
class Performer:
    """A subject: body, tempo (above 1 is slower), size of the movements, habitual posture, hand."""

    body: Body
    tempo: float
    amplitude: Array
    posture: Array
    left_handed: bool


@lru_cache(maxsize=1024)
def _performer(seed: int, subject: int) -> Performer:
    rng = np.random.default_rng([seed, 1, subject])
    factors = 1 + 0.04 * rng.standard_normal(4)
    body = stature(
        rng.uniform(1.5, 1.95), arms=factors[0], legs=factors[1], trunk=factors[2], width=factors[3]
    )
    amplitude = rng.uniform(0.82, 1.15) * (1 + 0.06 * rng.standard_normal(len(CHANNELS)))
    amplitude[_ROOT] = 1
    spread = np.array([_POSTURE.get(name.split("_")[-1], 0.0) for name in CHANNELS])
    posture = spread * rng.standard_normal(len(CHANNELS))
    tempo = float(np.exp(0.18 * rng.standard_normal()))
    return Performer(body, tempo, amplitude, posture, left_handed=subject % 8 == 5)


@dataclass(frozen=True)
class Studio:
    """Makes the clips of a data set: called with a clip it returns the motion. No state but its options."""

    seed: int = 0
    subjects: int = 10
    noise: float | int = 1.0
    missing: float | int = 1.0

    def __call__(self, clip: Clip) -> Motion:
        tags = clip.tags
        camera = next(camera for camera in CAMERAS if camera.name == tags.view)
        stage = self.perform(ACTIONS[str(tags.label)], int(tags.subject or 0), tags.take or 0)
        key = [self.seed, 3, zlib.crc32(clip.name.encode())]
        joints, valid = record(
            stage, camera, np.random.default_rng(key), float(self.noise), float(self.missing)
        )
        return Motion(
            joints.astype(np.float32),
            LAYOUTS["ntu25"],
            label=tags.label,
            subject=tags.subject,
            view=tags.view,
            rate=RATE,
            name=clip.name,
            valid=valid,
            take=tags.take,
        )

    def perform(self, action: Action, subject: int, take: int) -> Array:
        """The performance itself, ``[frame, person, 25, 3]`` on the stage, exact and complete."""
        code = zlib.crc32(action.name.encode())
        habit = np.random.default_rng([self.seed, 2, code, subject])
        rng = np.random.default_rng([self.seed, 2, code, subject, take + 1])
        partner = (subject + 1) % max(self.subjects, 2)
        cast = [_performer(self.seed, person) for person in (subject, partner)]
        cast = cast[: len(program(action).keys)]
        poses = _poses(action, cast, habit, rng)
        people = [forward_kinematics(poses[:, i], person.body) for i, person in enumerate(cast)]
        if len(people) == 2:
            reach = 0.5 * (cast[0].body.arm + cast[1].body.arm)
            people[1] = people[1] * (-1.0, 1.0, -1.0) + (0.0, 0.0, action.gap * reach)
        scene = np.stack(people, 1)
        middle = scene[:, :, 0].mean((0, 1)) * (1.0, 0.0, 1.0)
        facing = np.deg2rad(180 + action.facing + 12 * rng.standard_normal())
        cos, sin = np.cos(facing), np.sin(facing)
        turn = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])
        place = np.array([0.2, 0.0, 0.2]) * rng.standard_normal(3)
        return turned(scene - middle, turn) + place


def _poses(
    action: Action, cast: list[Performer], habit: np.random.Generator, rng: np.random.Generator
) -> Array:
    """Angles ``[frame, person, channel]`` of one performance of an action."""
    plan = program(action)
    cyclic = action.ends == "cycle"
    loops = int(rng.integers(action.loops[0], action.loops[1] + 1))
    turns = loops + cyclic
    seconds = np.tile(plan.seconds, turns)
    ramp = np.arange(len(seconds)) / len(plan.seconds)
    keys = np.tile(plan.keys, (1, turns, 1)) + ramp[:, None] * plan.drift
    if action.ends == "rest":
        start, end = np.tile(REST, (2, len(cast), 1, 1))
        end[..., _ROOT] = keys[:, -1:, _ROOT]
        keys = np.concatenate([start, keys, end], 1)
        seconds = np.concatenate([[0.0], seconds, [0.5]])
    amplitude = np.stack([person.amplitude for person in cast])[:, None]
    keys = REST + amplitude * (keys - REST)
    span = np.ptp(keys, axis=1, keepdims=True)
    span[..., _ROOT] = 0
    keys = keys + 0.09 * span * habit.standard_normal(span.shape)
    keys = keys + 0.05 * span * rng.standard_normal(keys.shape)

    pace = cast[0].tempo * np.exp(0.1 * habit.standard_normal() + 0.12 * rng.standard_normal(len(seconds)))
    times = np.cumsum(np.maximum(seconds * pace, 1 / RATE))
    times -= times[0]
    first, last = (0.0, times[-1]) if not cyclic else _window(times, len(plan.seconds), rng)
    pause = rng.uniform(0.05, 0.4, 2) * (not cyclic)
    at = np.arange(first - pause[0], last + pause[1], 1 / RATE)
    poses = interpolate(times, keys.transpose(1, 0, 2), at)
    poses = poses + np.stack([person.posture for person in cast])
    hertz, phase = rng.uniform(0.2, 0.7, (2, len(cast), len(_SWAY))) * [[[1.0]], [[9.0]]]
    poses[..., _SWAY] += 1.2 * np.sin(2 * np.pi * hertz * at[:, None, None] + 2 * np.pi * phase)
    if action.handed and cast[0].left_handed:
        poses = mirrored(poses)
    return poses


def _window(times: Array, period: int, rng: np.random.Generator) -> tuple[float, float]:
    """From when to when a cyclic action is seen: whole loops, entered anywhere."""
    entry = rng.uniform(0, times[period - 1])
    return entry, entry + times[-1] - times[period - 1]


def open_synthetic(
    seed: int = 0,
    *,
    subjects: int = 10,
    takes: int = 2,
    cameras: int = 4,
    actions: Sequence[str] | None = None,
    noise: float | int = 1.0,
    missing: float | int = 1.0,
) -> Clips:
    """The synthetic data set: every action by every subject in every take, seen by every camera.

    Labels are action names (`ACTIONS`, all by default), subjects and takes count from 0, views are names of
    `CAMERAS`, of which the first ``cameras`` are used. ``noise`` and ``missing`` scale the flaws of the
    sensors, 0 is perfect. Nothing is generated before a motion is asked for.

    >>> data = open_synthetic(subjects=2, takes=1, actions=["wave", "walk"])
    >>> len(data), data.labels[0], data.views[:4]
    (16, 'wave', ('centre', 'left', 'right', 'top'))
    """
    names = list(ACTIONS) if actions is None else list(actions)
    _check(seed, subjects, takes, cameras, names, noise, missing)
    clips = tuple(
        Clip(
            f"{action}_s{subject:02d}_t{take:02d}_{camera.name}",
            Path("synthetic"),
            Tags(label=action, subject=subject, view=camera.name, take=take),
        )
        for action in names
        for subject in range(subjects)
        for take in range(takes)
        for camera in CAMERAS[:cameras]
    )
    return Clips("synthetic", LAYOUTS["ntu25"], clips, Studio(seed, subjects, noise, missing))


def _check(
    seed: int,
    subjects: int,
    takes: int,
    cameras: int,
    actions: list[str],
    noise: float | int,
    missing: float | int,
) -> None:
    if seed < 0:
        raise ConfigError(f"seed is 0 or larger, got {seed}")
    if min(subjects, takes) < 1 or not 1 <= cameras <= len(CAMERAS):
        raise ConfigError(
            f"expected subjects and takes of at least 1 and 1 to {len(CAMERAS)} cameras, "
            f"got subjects={subjects}, takes={takes}, cameras={cameras}"
        )
    if min(noise, missing) < 0:
        raise ConfigError(f"noise and missing are factors of 0 or more, got noise={noise}, missing={missing}")
    unknown = sorted(set(actions) - ACTIONS.keys())
    if unknown:
        raise ConfigError(
            f"no action {', '.join(map(repr, unknown))}; the known ones are {', '.join(ACTIONS)}"
        )
