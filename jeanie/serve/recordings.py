"""Recordings of the page: frames in JSON as motions, the movement in a take, and poses to draw."""

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from jeanie.errors import DataError
from jeanie.recogniser.explain.bodies import compute_bodies
from jeanie.recogniser.stream.frames import ArrivedFrames, read_frames
from jeanie.recogniser.stream.stream import StreamConfig
from jeanie.skeleton.canonical_body import BODY
from jeanie.skeleton.motion import Motion

__all__ = ["describe_poses", "find_movement", "read_take"]

_CORE = BODY.index("path")  # joints that are drawn; the path of the centre is not
_POSES = 48  # largest number of poses to draw
_LAG_SECONDS = 0.25  # for speeds: sensor jitter is small against limb motion


def read_take(frames: Sequence[dict[str, Any]], rate: float | None = None) -> Motion:
    """Return frames in the format of ``jeanie watch -`` as a motion.

    Raises:
        DataError: A frame is invalid, or frames are missing for more than a second.
    """
    parts: list[Tensor] = []
    about: ArrivedFrames | None = None
    for arrived in read_frames((json.dumps(frame) for frame in frames), rate):
        if arrived.is_new_stream and parts:
            raise DataError("the frames have a gap of more than a second; record the movement again")
        about = arrived
        parts.append(arrived.joints)
    if about is None:
        raise DataError("no frames; a recording needs at least two")
    joints = torch.cat(parts)
    if len(joints) < 2:
        raise DataError(f"{len(joints)} frame; a recording needs at least two")
    return Motion(joints, about.layout, rate=about.rate)


def find_movement(motion: Motion, config: StreamConfig | None = None) -> tuple[int, int]:
    """Return the first frame of the movement in a take and the frame after its last one.

    Rest at both ends is left out, with the speeds and the margin of streams. If nothing moves, the whole take is kept.
    """
    config = StreamConfig() if config is None else config
    rate = motion.rate or 30.0
    lag = max(1, round(_LAG_SECONDS * rate))
    bodies = compute_bodies(motion.fill_gaps(round(rate)))
    if len(bodies.frames) <= lag:
        return 0, len(motion)
    moved = bodies.joints[lag:, :, :_CORE] - bodies.joints[:-lag, :, :_CORE]
    present = bodies.present[:, :_CORE]
    square = (moved.square().sum(-1) * present).sum(-1) / present.sum(-1).clamp_min(1)
    speed = square.sqrt().amax(-1) * (rate / lag)
    fast = (speed > config.start_speed).nonzero()[:, 0]
    if not len(fast):
        return 0, len(motion)
    margin = round(config.margin * rate)
    first, last = int(bodies.frames[fast[0]]), int(bodies.frames[fast[-1] + lag])
    return max(0, first - margin), min(len(motion), last + 1 + margin)


def describe_poses(motion: Motion) -> dict[str, Any]:
    """Return the bodies of a motion to draw: bones, and poses ``[moment][person][joint]`` in thousandths."""
    bodies = compute_bodies(motion)
    count = min(len(bodies.frames), _POSES)
    moments = torch.linspace(0, len(bodies.frames) - 1, count).round().long()
    poses = (bodies.joints[moments, :, :_CORE] * 1000).round().long().tolist()
    present = bodies.present[:, :_CORE].tolist()
    return {
        "bones": [list(bone) for bone in BODY.bones if max(bone) < _CORE],
        "head": BODY.index("head"),
        "seconds": len(motion) / (motion.rate or 30.0),
        "poses": [
            [
                [joint if is_seen else None for joint, is_seen in zip(body, seen, strict=True)]
                for body, seen in zip(pose, present, strict=True)
            ]
            for pose in poses
        ],
    }
