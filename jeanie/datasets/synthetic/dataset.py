"""The synthetic data set: generated persons perform generated actions in front of imperfect cameras.

Every clip is a pure function of the seed and of its action, subject, take and camera. It can be generated alone, in
any order and in any process, and is equal bit for bit on one machine. All cameras record the same performance,
each from its own position and with its own noise and gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie._internal.digest import compute_crc32
from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.datasets.synthetic.action_table import ACTIONS
from jeanie.datasets.synthetic.actions import REST, Action, compile_action, interpolate
from jeanie.datasets.synthetic.body import (
    CHANNELS,
    Body,
    forward_kinematics,
    get_channel,
    make_body,
    mirror_poses,
)
from jeanie.datasets.synthetic.cameras import CAMERAS, record_joints, rotate_points
from jeanie.errors import ConfigError
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["RATE", "Performer", "Studio", "open_synthetic"]

Array = NDArray[np.float64]
RATE = 30.0  # frames per second

_ROOT = [
    get_channel(name) for name in ("forward", "side", "turn")
]  # the position of the actor: independent of style and rest pose
_SWAYING = ("bend", "lean", "twist", "nod", "look", "raise", "plane", "elbow")
_SWAY = [index for index, name in enumerate(CHANNELS) if name.split("_")[-1] in _SWAYING]
# standard deviation in degrees of the offset that a subject adds to every pose
_POSTURE = {"bend": 4.0, "nod": 5.0, "raise": 4.0, "plane": 9.0, "rotate": 8.0, "elbow": 7.0, "spread": 1.5}
_POSTURE |= {"point": 5.0, "knee": 3.0}


@dataclass(frozen=True, eq=False)
class Performer:
    """A subject: body, tempo (above 1 is slower), amplitude of movements, posture and handedness."""

    body: Body
    tempo: float
    amplitude: Array
    posture: Array
    left_handed: bool


@lru_cache(maxsize=1024)
def _make_performer(seed: int, subject: int) -> Performer:
    rng = np.random.default_rng([seed, 1, subject])
    factors = 1 + 0.04 * rng.standard_normal(4)
    body = make_body(
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
    """Generate the clips of a data set: calling it with a clip returns the motion."""

    seed: int = 0
    subjects: int = 10
    noise: float = 1.0
    missing: float = 1.0

    def __call__(self, clip: Clip) -> Motion:
        tags = clip.tags
        camera = next(camera for camera in CAMERAS if camera.name == tags.view)
        stage = self.perform(ACTIONS[str(tags.label)], int(tags.subject or 0), tags.take or 0)
        key = [self.seed, 3, compute_crc32(clip.name.encode())]
        joints, valid = record_joints(
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
        """Return the performance on the stage, ``[frame, person, 25, 3]``, without noise and gaps."""
        code = compute_crc32(action.name.encode())
        habit = np.random.default_rng([self.seed, 2, code, subject])
        rng = np.random.default_rng([self.seed, 2, code, subject, take + 1])
        partner = (subject + 1) % max(self.subjects, 2)
        cast = [_make_performer(self.seed, person) for person in (subject, partner)]
        cast = cast[: len(compile_action(action).keys)]
        poses = _animate(action, cast, habit, rng)
        people = [forward_kinematics(poses[:, i], person.body) for i, person in enumerate(cast)]
        if len(people) == 2:
            reach = 0.5 * (cast[0].body.arm + cast[1].body.arm)
            people[1] = people[1] * (-1.0, 1.0, -1.0) + (0.0, 0.0, action.gap * reach)
        scene = np.stack(people, 1)
        middle = scene[:, :, 0].mean((0, 1)) * (1.0, 0.0, 1.0)
        facing = np.deg2rad(180 + action.facing + 12 * rng.standard_normal())
        cos, sin = np.cos(facing), np.sin(facing)
        rotation = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])
        position = np.array([0.2, 0.0, 0.2]) * rng.standard_normal(3)
        return rotate_points(scene - middle, rotation) + position


def _animate(
    action: Action, cast: list[Performer], habit: np.random.Generator, rng: np.random.Generator
) -> Array:
    """Return the angles ``[frame, person, channel]`` of one performance of an action."""
    plan = compile_action(action)
    cyclic = action.ends == "cycle"
    loops = int(rng.integers(action.loops[0], action.loops[1] + 1)) + cyclic
    seconds = np.tile(plan.seconds, loops)
    ramp = np.arange(len(seconds)) / len(plan.seconds)
    keys = np.tile(plan.keys, (1, loops, 1)) + ramp[:, None] * plan.drift
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
    first, last = (0.0, times[-1]) if not cyclic else _choose_window(times, len(plan.seconds), rng)
    pause = rng.uniform(0.05, 0.4, 2) * (not cyclic)
    at = np.arange(first - pause[0], last + pause[1], 1 / RATE)
    poses = interpolate(times, keys.transpose(1, 0, 2), at)
    poses = poses + np.stack([person.posture for person in cast])
    hertz, phase = rng.uniform(0.2, 0.7, (2, len(cast), len(_SWAY))) * [[[1.0]], [[9.0]]]
    poses[..., _SWAY] += 1.2 * np.sin(2 * np.pi * hertz * at[:, None, None] + 2 * np.pi * phase)
    if action.handed and cast[0].left_handed:
        poses = mirror_poses(poses)
    return poses


def _choose_window(times: Array, period: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the start and end time of a cyclic action: complete loops from a random start."""
    start = rng.uniform(0, times[period - 1])
    return start, start + times[-1] - times[period - 1]


def open_synthetic(
    seed: int = 0,
    *,
    subjects: int = 10,
    takes: int = 2,
    cameras: int = 4,
    actions: Sequence[str] | None = None,
    noise: float = 1.0,
    missing: float = 1.0,
) -> FileDataset:
    """Open the synthetic data set: every action by every subject in every take, recorded by every camera.

    Labels are action names, subjects and takes count from 0, views are camera names. A motion is generated when it
    is indexed.

    Args:
        seed: Seed of bodies, performances and cameras.
        subjects: Number of subjects.
        takes: Number of takes per action and subject.
        cameras: Number of cameras, the first ones of ``CAMERAS``.
        actions: Names of the actions; default all of ``ACTIONS``.
        noise, missing: Factors of the noise and of the missing joints; 0 is a perfect camera.

    Returns:
        The data set.

    Raises:
        ConfigError: An argument is out of range, or an action is unknown.

    >>> data = open_synthetic(subjects=2, takes=1, actions=["wave", "walk"])
    >>> len(data), data.labels[0], data.views[:4]
    (16, 'wave', ('centre', 'left', 'right', 'top'))
    """
    names = list(ACTIONS) if actions is None else list(actions)
    _check_options(seed, subjects, takes, cameras, names, noise, missing)
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
    return FileDataset("synthetic", LAYOUTS["ntu25"], clips, Studio(seed, subjects, noise, missing))


def _check_options(
    seed: int,
    subjects: int,
    takes: int,
    cameras: int,
    actions: list[str],
    noise: float,
    missing: float,
) -> None:
    if seed < 0:
        raise ConfigError(f"seed must be 0 or more, got {seed}")
    if min(subjects, takes) < 1 or not 1 <= cameras <= len(CAMERAS):
        raise ConfigError(
            f"expected subjects and takes of at least 1 and 1 to {len(CAMERAS)} cameras, "
            f"got subjects={subjects}, takes={takes}, cameras={cameras}"
        )
    if min(noise, missing) < 0:
        raise ConfigError(f"noise and missing must be 0 or more, got noise={noise}, missing={missing}")
    unknown = sorted(set(actions) - ACTIONS.keys())
    if unknown:
        raise ConfigError(f"no action {', '.join(map(repr, unknown))}; the actions are {', '.join(ACTIONS)}")
