"""From motions to the tensors that a model sees: prepared once a clip, batched with padding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from jeanie.config import Config
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.blocks import blocks, compute_stride, count_blocks
from jeanie.skeleton.canonical_body import BODY, compute_canonical_body
from jeanie.skeleton.convert import convert
from jeanie.skeleton.facing import depth_axis, face, rotate_to_travel
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.normalise import Scale, centre, scale, scale_by_bones
from jeanie.skeleton.resample import fill_gaps, interpolate, sample_at_rate, space_evenly
from jeanie.skeleton.streams import Stream, compute_streams

__all__ = [
    "Batch",
    "InputConfig",
    "PrepareConfig",
    "Prepared",
    "Store",
    "Views",
    "arrange",
    "find_layout",
    "prepare",
]

NORMAL_FRAMES = 32  # of a normal body, where nothing else is said

Views = Callable[[Float[Tensor, "*batch frame joint 3"]], Float[Tensor, "*views_of_batch frame joint 3"]]


class PrepareConfig(Config):
    """What is done to a motion by itself, once, before any view is simulated (METHOD 1, 2)."""

    body: Literal["recorded", "canonical"] = Field(
        default="recorded",
        description="the skeleton as recorded, or brought to 15 joints and a path of normal place, size and facing; "
        "then only frames and persons below count",
    )
    layout: str | None = Field(
        default=None, description="layout that motions are converted to; none keeps theirs"
    )
    rate: float | None = Field(default=None, gt=0, description="frames a second to resample to, where known")
    frames: int | None = Field(default=None, ge=1, description="frames to resample every motion to")
    gaps: int = Field(default=5, ge=0, description="longest gap of missing frames that is filled")
    missing: Literal["masked", "zero"] = Field(
        default="masked",
        description="a missing joint is left out, or taken at the recording's origin as some published work does",
    )
    persons: int = Field(default=2, ge=1, description="persons kept, the liveliest first")
    centre: Literal["torso", "start", "none"] = Field(
        default="torso",
        description="origin: the torso in every frame, the root in the first frame, or as recorded",
    )
    size: Literal["none", "bones"] = Field(
        default="none", description="unit: as recorded, or by bone lengths"
    )
    facing: Literal["none", "frame", "clip", "travel"] = Field(
        default="none",
        description="what is turned to face the camera: frames, motions; travel: motions by the torso's path",
    )
    flat: bool = Field(default=False, description="leave out the depth, as a camera without it would")


class InputConfig(Config):
    """What an encoder sees of a motion (METHOD 2, 3): scale, streams, blocks."""

    prepare: PrepareConfig = PrepareConfig()
    scale: Scale | Literal["none"] = Field(
        default="axis", description="to [-1, 1] by axis (the paper's), by the whole body, or not at all"
    )
    streams: tuple[Stream, ...] = Field(
        default=("joints",), min_length=1, description="what is told of every joint"
    )
    gains: tuple[float, ...] = Field(default=(), description="factor of each stream; none: 1")
    block: int = Field(default=8, ge=1, description="frames in a block (M)")
    stride: float = Field(default=0.6, gt=0, description="stride as a share of a block (p)")
    block_facing: bool = Field(default=False, description="turn every block by itself to face the camera")
    block_travel: bool = Field(
        default=False,
        description="turn every block by the torso's path in it, then centre it; needs prepare.centre 'start'",
    )

    def __init__(self, **values: object) -> None:
        super().__init__(**values)
        if self.gains and len(self.gains) != len(self.streams):
            raise ConfigError(
                f"gains: one for each of the {len(self.streams)} streams, got {len(self.gains)}; or leave them out"
            )
        if self.block_travel and (self.block_facing or self.prepare.centre == "torso"):
            raise ConfigError(
                "block_travel follows the torso: set prepare.centre to 'start' or 'none', and block_facing to false"
            )

    @property
    def channels(self) -> int:
        """Numbers a joint and frame."""
        return 3 * len(self.streams)


@dataclass(frozen=True)
class Batch:
    """Prepared motions, padded to the longest: what ``FewShotModel.features`` takes.

    Missing joints, absent persons and padding hold 0. ``beside`` are the same clips as the further branches
    of a fused model want them.
    """

    joints: Float[Tensor, "clip person frame joint 3"]
    valid: Bool[Tensor, "clip person frame joint"]
    frames: Int[Tensor, " clip"]
    layout: Layout
    components: "tuple[Batch, ...]" = ()

    def __len__(self) -> int:
        return self.joints.shape[0]

    @property
    def people(self) -> Bool[Tensor, "clip person"]:
        """Who is there at all."""
        return self.valid.any(-1).any(-1)

    def __getitem__(self, index: slice | Tensor) -> "Batch":
        components = tuple(batch[index] for batch in self.components)
        return Batch(self.joints[index], self.valid[index], self.frames[index], self.layout, components)

    def mirror(self) -> "Batch":
        """The batch in a mirror: left and right joints swapped, x negated."""
        joints, valid = (
            self.layout.mirror_joints(self.joints),
            self.valid[..., list(self.layout.mirror_indices)],
        )
        components = tuple(batch.mirror() for batch in self.components)
        return replace(self, joints=joints, valid=valid, components=components)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Batch":
        """The batch on another device, its joints in another dtype."""
        return replace(
            self,
            joints=self.joints.to(device=device, dtype=dtype),
            valid=self.valid.to(device),
            frames=self.frames.to(device),
            components=tuple(batch.to(device, dtype) for batch in self.components),
        )


@dataclass(frozen=True)
class Prepared:
    """One motion as a model wants it."""

    joints: Float[Tensor, "frame person joint 3"]
    valid: Bool[Tensor, "frame person joint"]
    layout: Layout


def prepare(motion: Motion, config: PrepareConfig, dtype: torch.dtype = torch.float32) -> Prepared:
    """One motion as ``config`` wants it: layout, persons, gaps, frames, origin, size, facing."""
    if config.body == "canonical":
        return _normal(motion, config, dtype)
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
    bodies, seen = joints.transpose(0, 1), valid.transpose(0, 1)
    if config.facing == "travel":
        bodies = rotate_to_travel(bodies, motion.layout, seen)
    bodies = _centre_bodies(bodies, seen, motion, config)
    if config.size == "bones":
        bodies = scale_by_bones(bodies, motion.layout, seen)
    if config.facing in ("frame", "clip"):
        bodies = face(bodies, motion.layout, config.facing, seen)
    if config.flat:
        bodies = bodies.clone()
        bodies[..., depth_axis(motion.layout)] = 0.0
    return Prepared(bodies.transpose(0, 1), valid, motion.layout)


def _normal(motion: Motion, config: PrepareConfig, dtype: torch.dtype) -> Prepared:
    if motion.persons > config.persons:
        motion = motion.select_most_active(config.persons)
    joints, valid = compute_canonical_body(motion, config.frames or NORMAL_FRAMES, dtype)
    return Prepared(joints, valid, BODY)


def find_layout(name: str) -> Layout:
    """A layout of the table, by its name."""
    if name not in LAYOUTS:
        raise ConfigError(f"no layout {name!r}; the known ones are {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def _centre_bodies(bodies: Tensor, seen: Tensor, motion: Motion, config: PrepareConfig) -> Tensor:
    if config.centre == "torso":
        return centre(bodies, motion.layout, seen)
    if config.centre == "none":
        return bodies
    root = seen[..., motion.layout.root]
    if not bool(root.any()):
        raise DataError(
            f"{motion.name or 'a motion'}: its root is never seen; centre it on the torso instead"
        )
    person = int(root.any(1).int().argmax())
    first = bodies[person, int(root[person].int().argmax()), motion.layout.root]
    return torch.where(seen[..., None], bodies - first, 0.0)


def _pad_clips(clips: Sequence[Prepared]) -> Batch:
    layout = clips[0].layout
    others = {clip.layout.name for clip in clips if clip.layout != layout}
    if others:
        raise DataError(
            f"motions of one batch need one layout, got {layout.name} and {', '.join(sorted(others))}; "
            "set inputs.prepare.layout, such as 'core15', to convert them"
        )
    persons = max(clip.joints.shape[1] for clip in clips)
    absent = [persons - clip.joints.shape[1] for clip in clips]
    joints = [pad(clip.joints, (0, 0, 0, 0, 0, n)) for clip, n in zip(clips, absent, strict=True)]
    valid = [pad(clip.valid, (0, 0, 0, n)) for clip, n in zip(clips, absent, strict=True)]
    frames = torch.tensor([len(clip.joints) for clip in clips])
    padded = pad_sequence(joints, batch_first=True).transpose(1, 2).contiguous()
    mask = pad_sequence(valid, batch_first=True).transpose(1, 2).contiguous()
    return Batch(padded, mask, frames, layout)


class Store:
    """Motions, each prepared when it is first asked for and then kept; ``store[indices]`` is a batch.

    At most ``limit`` bytes are kept; what does not fit is prepared anew. ``beside`` are the stores of further
    branches of a fused model.
    """

    def __init__(
        self,
        motions: Sequence[Motion],
        config: PrepareConfig,
        *,
        dtype: torch.dtype = torch.float32,
        limit: int = 4 * 2**30,
    ) -> None:
        self._motions, self.config, self._dtype, self._room = motions, config, dtype, limit
        self._kept: dict[int, Prepared] = {}
        self.components: Sequence[Store] = ()

    def __len__(self) -> int:
        return len(self._motions)

    def clip(self, index: int) -> Prepared:
        """One motion, prepared."""
        if index in self._kept:
            return self._kept[index]
        clip = prepare(self._motions[index], self.config, self._dtype)
        size = clip.joints.nbytes + clip.valid.nbytes
        if size <= self._room:
            self._room -= size
            self._kept[index] = clip
        return clip

    def __getitem__(self, indices: Int[Tensor, " clip"] | Sequence[int]) -> Batch:
        chosen = indices.tolist() if isinstance(indices, Tensor) else indices
        if not len(chosen):
            raise DataError("no motion to put into a batch; give one or more")
        batch = _pad_clips([self.clip(int(index)) for index in chosen])
        # branches that prepare alike share one batch
        components = tuple(batch if store is self else store[chosen] for store in self.components)
        return replace(batch, components=components)


def arrange(
    batch: Batch, config: InputConfig, views: Views | None
) -> tuple[Float[Tensor, "clip person *views block length joint channel"], Int[Tensor, " clip"]]:
    """Blocks of a batch from every view, and how many of them each clip has (METHOD 2 to 4).

    Views come before scaling, as a recording made from there would have been scaled, and so do blocks that are
    turned one by one: their clip is scaled by what it then spans.
    """
    joints, valid = batch.joints, batch.valid
    axes = 0
    if views is not None:
        axes = -joints.ndim + (joints := views(joints)).ndim
        valid = valid[(slice(None),) * 2 + (None,) * axes]
    counts = count_blocks(batch.frames, config.block, compute_stride(config.block, config.stride))
    if config.block_facing or config.block_travel:
        return _turned_blocks(joints, valid, batch, config), counts
    if config.scale != "none":
        joints = scale(joints, config.scale, batch.layout, valid)
    return _blocks(_streams(joints, valid, batch.layout, config), batch, config), counts


def _turned_blocks(joints: Tensor, valid: Tensor, batch: Batch, config: InputConfig) -> Tensor:
    """Streams of blocks that are turned one by one, to face the camera or along the torso's path."""
    layout = batch.layout
    joints = _blocks(joints, batch, config)
    valid = _blocks(valid[..., None], batch, config)[..., 0]
    if config.block_travel:
        joints = centre(rotate_to_travel(joints, layout, valid), layout, valid)
    else:
        joints = face(joints, layout, "block", valid)
    if config.scale != "none":
        frames, seen = joints.flatten(-4, -3), valid.flatten(-3, -2)
        joints = scale(frames, config.scale, layout, seen).unflatten(-3, joints.shape[-4:-2])
    return _streams(joints, valid, layout, config)


def _blocks(x: Tensor, batch: Batch, config: InputConfig) -> Tensor:
    even = bool((batch.frames == x.shape[-3]).all())
    return blocks(x, config.block, config.stride, None if even else batch.frames)


def _streams(joints: Tensor, valid: Tensor, layout: Layout, config: InputConfig) -> Tensor:
    seen = compute_streams(joints, layout, config.streams, valid)
    if not config.gains:
        return seen
    return seen * seen.new_tensor(config.gains).repeat_interleave(3)
