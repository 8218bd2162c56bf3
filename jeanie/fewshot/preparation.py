"""Preparation of motions, once per clip, before views are simulated (paper, Eq. 18)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.errors import DataError
from jeanie.skeleton.canonical_body import BODY, compute_canonical_body
from jeanie.skeleton.convert import convert
from jeanie.skeleton.facing import face, find_depth_axis, rotate_to_travel
from jeanie.skeleton.layout import Layout, find_layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.normalise import centre, scale_by_bones
from jeanie.skeleton.resample import fill_gaps, interpolate, sample_at_rate, space_evenly

__all__ = ["CANONICAL_FRAMES", "PrepareConfig", "PreparedClip", "find_layout", "prepare", "prepare_clips"]

CANONICAL_FRAMES = 32  # frames of a canonical body if the configuration has no number of frames


class PrepareConfig(Config):
    """How a motion is prepared once, before views are simulated (paper, Eq. 18).

    >>> PrepareConfig(frames=32, size="bones").frames
    32
    """

    body: Literal["recorded", "canonical"] = Field(
        default="recorded",
        description="recorded: the skeleton as recorded; canonical: 15 core joints and a path, independent of "
        "position, size and direction; of the options below, only frames and persons then have an effect",
    )
    layout: str | None = Field(
        default=None, description="layout that motions are converted to; null keeps their layout"
    )
    rate: float | None = Field(
        default=None, gt=0, description="resampling rate in frames per second, for motions with a known rate"
    )
    frames: int | None = Field(default=None, ge=1, description="number of frames after resampling")
    gaps: int = Field(default=5, ge=0, description="longest gap that is filled, in frames")
    missing: Literal["masked", "zero"] = Field(
        default="masked",
        description="missing joints are masked, or placed at the origin of the recording as in some published work",
    )
    persons: int = Field(
        default=2, ge=1, description="largest number of persons; the most active ones are used"
    )
    centre: Literal["torso", "start", "none"] = Field(
        default="torso",
        description="origin: the torso in every frame, the root in the first frame, or the recorded origin",
    )
    size: Literal["none", "bones"] = Field(
        default="none", description="unit of length: as recorded, or the bone lengths of the person"
    )
    facing: Literal["none", "frame", "clip", "travel"] = Field(
        default="none",
        description="rotate every frame or every clip to face the camera; travel: rotate the clip along the path of "
        "the torso",
    )
    flat: bool = Field(default=False, description="set the depth to 0, as for a camera without depth")


@dataclass(frozen=True)
class PreparedClip:
    """One prepared motion, and distance and elevation of the camera that recorded it, if they are known."""

    joints: Float[Tensor, "frame person joint 3"]
    valid: Bool[Tensor, "frame person joint"]
    layout: Layout
    camera: tuple[float, float] | None = None


def prepare(motion: Motion, config: PrepareConfig, dtype: torch.dtype = torch.float32) -> PreparedClip:
    """Prepare one motion: layout, persons, gaps, frames, origin, size, facing.

    Raises:
        ConfigError: If the layout is unknown.
        DataError: If the origin is the root in the first frame, and the root is never visible.
    """
    if config.body == "canonical":
        return _prepare_canonical_body(motion, config, dtype)
    if config.layout is not None:
        motion = convert(motion, find_layout(config.layout))
    if motion.persons > config.persons:
        motion = motion.select_most_active(config.persons)
    valid = motion.valid
    if config.missing == "zero":
        valid = valid.any(-1).any(0)[None, :, None].expand_as(valid)
    joints, valid = fill_gaps(motion.joints.to(dtype), valid, config.gaps)
    if config.rate is not None and motion.rate is not None:
        joints, valid = interpolate(joints, valid, sample_at_rate(len(joints), motion.rate, config.rate))
    if config.frames is not None:
        joints, valid = interpolate(joints, valid, space_evenly(len(joints), config.frames))
    bodies, is_valid = joints.transpose(0, 1), valid.transpose(0, 1)
    if config.facing == "travel":
        bodies = rotate_to_travel(bodies, motion.layout, is_valid)
    bodies = _centre_bodies(bodies, is_valid, motion, config)
    if config.size == "bones":
        bodies = scale_by_bones(bodies, motion.layout, is_valid)
    if config.facing in ("frame", "clip"):
        bodies = face(bodies, motion.layout, config.facing, is_valid)
    if config.flat:
        bodies = bodies.clone()
        bodies[..., find_depth_axis(motion.layout)] = 0.0
    return PreparedClip(bodies.transpose(0, 1), valid, motion.layout)


def _prepare_canonical_body(motion: Motion, config: PrepareConfig, dtype: torch.dtype) -> PreparedClip:
    if motion.persons > config.persons:
        motion = motion.select_most_active(config.persons)
    joints, valid = compute_canonical_body(motion, config.frames or CANONICAL_FRAMES, dtype)
    return PreparedClip(joints, valid, BODY)


def _centre_bodies(bodies: Tensor, valid: Tensor, motion: Motion, config: PrepareConfig) -> Tensor:
    if config.centre == "torso":
        return centre(bodies, motion.layout, valid)
    if config.centre == "none":
        return bodies
    root = valid[..., motion.layout.root]
    if not bool(root.any()):
        raise DataError(
            f"{motion.name or 'a motion'}: the root joint is missing in every frame; set prepare.centre to 'torso'"
        )
    person = int(root.any(1).int().argmax())
    first = bodies[person, int(root[person].int().argmax()), motion.layout.root]
    return torch.where(valid[..., None], bodies - first, 0.0)


def prepare_clips(
    motions: Sequence[Motion], config: PrepareConfig, dtype: torch.dtype = torch.float32
) -> list[PreparedClip]:
    """Prepare some motions: the clips of ``prepare``, several times faster for the usual options.

    The bodies of all motions lie one after the other along the frames, so that one operation serves all of them.

    Raises:
        ConfigError, DataError: As ``prepare``.
    """
    if config.layout is not None and config.body == "recorded":
        motions = [convert(motion, find_layout(config.layout)) for motion in motions]
    options = config.model_dump(exclude={"layout", "gaps", "persons"})
    is_one_layout = all(motion.layout is motions[0].layout for motion in motions)
    if len(motions) == 1 or not is_one_layout or options != _USUAL_OPTIONS:
        return [prepare(motion, config, dtype) for motion in motions]
    motions = [
        motion.select_most_active(config.persons) if motion.persons > config.persons else motion
        for motion in motions
    ]
    layout = motions[0].layout
    joints, valid = (
        torch.cat([body for bodies in parts for body in bodies.unbind(1)])
        for parts in ([motion.joints for motion in motions], [motion.valid for motion in motions])
    )
    joints, lengths = joints.to(dtype), [len(motion) for motion in motions for _ in range(motion.persons)]
    if not bool(valid.all()):
        _fill_short_gaps(joints, valid, lengths, config.gaps)
    _centre_bodies_together(joints, valid, lengths, layout)
    clips, start = [], 0
    for motion in motions:
        shape, count = (motion.persons, len(motion)), motion.persons * len(motion)
        part = slice(start, start + count)
        clips.append(
            PreparedClip(
                joints[part].view(*shape, *joints.shape[1:]).transpose(0, 1),
                valid[part].view(*shape, valid.shape[1]).transpose(0, 1),
                layout,
            )
        )
        start += count
    return clips


def _fill_short_gaps(
    joints: Float[Tensor, "frame joint 3"],
    valid: Bool[Tensor, "frame joint"],
    lengths: Sequence[int],
    max_gap: int,
) -> None:
    """Fill the gaps of several bodies in place, as ``fill_gaps`` does; ``lengths`` are the frames of each body.

    NumPy, because there are few missing joints, and its calls cost less than those of torch.
    """
    positions, mask = joints.numpy(), valid.numpy()
    ends = np.cumsum(lengths)
    is_first, is_last = np.zeros(len(mask), bool), np.zeros(len(mask), bool)
    is_first[0] = is_first[ends[:-1]] = is_last[ends - 1] = True
    joint, frame = np.nonzero(~mask.T)  # the missing frames of a joint in their order
    starts = is_first[frame]
    starts[1:] |= (frame[1:] != frame[:-1] + 1) | (joint[1:] != joint[:-1])
    starts[0] = True
    begin = np.flatnonzero(starts)  # the first missing frame of every gap
    size = np.diff(begin, append=len(frame))
    first, last = frame[begin], frame[begin + size - 1]
    is_short = ~is_first[first] & ~is_last[last] & (size <= max_gap)
    is_filled = np.repeat(is_short, size)
    before, after = np.repeat(first - 1, size)[is_filled], np.repeat(last + 1, size)[is_filled]
    frame, joint = frame[is_filled], joint[is_filled]
    left, right = positions[before, joint], positions[after, joint]
    weight = (frame - before).astype(np.float32) / (after - before).astype(np.float32)
    positions[frame, joint] = left + weight.astype(positions.dtype)[:, None] * (right - left)
    mask[frame, joint] = True


def _centre_bodies_together(
    joints: Float[Tensor, "frame joint 3"],
    valid: Bool[Tensor, "frame joint"],
    lengths: Sequence[int],
    layout: Layout,
) -> None:
    """Centre several bodies in place, as ``centre`` does; ``lengths`` are the frames of each body."""
    index = list(layout.centre)
    incomplete = {}  # bodies whose torso is missing in a frame
    if not bool(valid[:, index].all()):
        bodies = zip(joints.split(list(lengths)), valid.split(list(lengths)), strict=True)
        for number, (body, is_valid) in enumerate(bodies):
            if not bool(is_valid[:, index].all()):
                incomplete[number] = centre(body, layout, is_valid)
    joints -= joints[:, index].mean(-2, keepdim=True)
    joints.numpy()[~valid.numpy()] = 0
    for number, centred in incomplete.items():
        start = sum(lengths[:number])
        joints[start : start + lengths[number]] = centred


# the options that prepare_clips handles at once, apart from layout, gaps and persons
_USUAL_OPTIONS = PrepareConfig().model_dump(exclude={"layout", "gaps", "persons"})
