"""From motions to the input tensors of a model: prepared once per clip, and padded to batches."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.batch import Batch
from jeanie.fewshot.cameras import ClipViews, HiddenJoints, check_has_depth, measure_views
from jeanie.fewshot.preparation import (
    CANONICAL_FRAMES,
    PrepareConfig,
    PreparedClip,
    find_layout,
    prepare,
    prepare_clips,
)
from jeanie.skeleton.blocks import blocks, compute_stride, count_blocks
from jeanie.skeleton.facing import face, rotate_to_travel
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.normalise import Scale, centre, scale
from jeanie.skeleton.streams import Stream, compute_streams
from jeanie.views import CameraViews

__all__ = [
    "CANONICAL_FRAMES",
    "Batch",
    "InputConfig",
    "PrepareConfig",
    "PreparedClip",
    "Store",
    "Views",
    "arrange",
    "find_layout",
    "prepare",
]

Views = Callable[[Float[Tensor, "*batch frame joint 3"]], Float[Tensor, "*views_of_batch frame joint 3"]]


class InputConfig(Config):
    """Input of an encoder: scale, streams and blocks of a prepared motion (paper, Eq. 19).

    Raises:
        ConfigError: If the gains do not fit the streams, or options contradict each other.

    >>> InputConfig(streams=("joints", "velocity")).channels
    6
    """

    prepare: PrepareConfig = Field(
        default=PrepareConfig(), description="preparation of a motion before views are simulated"
    )
    scale: Scale | Literal["none"] = Field(
        default="axis",
        description="scale to [-1, 1] per axis (as in the paper), by the whole body, or not at all",
    )
    streams: tuple[Stream, ...] = Field(
        default=("joints",), min_length=1, description="input values of every joint"
    )
    gains: tuple[float, ...] = Field(default=(), description="one factor per stream; empty: all are 1")
    block: int = Field(default=8, ge=1, description="frames per block (M)")
    stride: float = Field(default=0.6, gt=0, description="stride as a fraction of a block (p)")
    block_facing: bool = Field(default=False, description="rotate every block separately to face the camera")
    block_travel: bool = Field(
        default=False,
        description="rotate every block along the path of the torso, then centre it; needs prepare.centre 'start'",
    )

    def __init__(self, **values: object) -> None:
        super().__init__(**values)
        if self.gains and len(self.gains) != len(self.streams):
            raise ConfigError(
                f"gains needs one factor for each of the {len(self.streams)} streams, got {len(self.gains)}; "
                "leave it out to use 1 for all"
            )
        if self.block_travel and (self.block_facing or self.prepare.centre == "torso"):
            raise ConfigError(
                "block_travel needs the path of the torso: set prepare.centre to 'start' or 'none', and block_facing "
                "to false"
            )

    @property
    def channels(self) -> int:
        """Number of values per joint and frame."""
        return 3 * len(self.streams)


def _pad_clips(clips: Sequence[PreparedClip]) -> Batch:
    layout = clips[0].layout
    others = {clip.layout.name for clip in clips if clip.layout != layout}
    if others:
        raise DataError(
            f"the motions of a batch need the same layout, got {layout.name} and {', '.join(sorted(others))}; "
            "set inputs.prepare.layout, such as 'core15', to convert them"
        )
    frames, persons = ([clip.joints.shape[axis] for clip in clips] for axis in (0, 1))
    first = clips[0].joints
    padded = first.new_zeros(len(clips), max(persons), max(frames), *first.shape[2:])
    mask = torch.zeros(padded.shape[:-1], dtype=torch.bool)
    for number, clip in enumerate(clips):
        place = number, slice(persons[number]), slice(frames[number])
        padded[place], mask[place] = clip.joints.transpose(0, 1), clip.valid.transpose(0, 1)
    known_cameras = [clip.camera for clip in clips if clip.camera is not None]
    cameras = torch.tensor(known_cameras, dtype=padded.dtype) if len(known_cameras) == len(clips) else None
    return Batch(padded, mask, torch.tensor(frames), layout, cameras=cameras, persons=torch.tensor(persons))


@runtime_checkable
class _MotionReader(Protocol):
    """A sequence of motions that reads several at once, faster than one by one."""

    def read_motions(self, indices: Sequence[int]) -> list[Motion]: ...


class Store:
    """A cache of prepared motions; ``store[indices]`` is a batch.

    A motion is prepared on its first use. ``components`` are the stores of the components of the model. Threads may
    use a store at the same time; they take turns in preparing motions.

    Args:
        motions: The motions.
        config: How motions are prepared.
        dtype: The dtype of the joints.
        limit: Largest size of the cache in bytes. Motions that do not fit are prepared on every use.
        views: Settings of the simulated views; they give the position of the camera that recorded a motion.
    """

    def __init__(
        self,
        motions: Sequence[Motion],
        config: PrepareConfig,
        *,
        dtype: torch.dtype = torch.float32,
        limit: int = 2**30,
        views: ClipViews | None = None,
    ) -> None:
        self._motions, self.config, self._dtype, self._free_bytes = motions, config, dtype, limit
        self._views = views
        self._cache: dict[int, PreparedClip] = {}
        self._ahead: dict[int, PreparedClip] = {}
        self._lock = threading.Lock()
        self.components: Sequence[Store] = ()

    def __len__(self) -> int:
        return len(self._motions)

    def prepares_like(self, other: "Store") -> bool:
        """Return whether this store prepares clips as another one does."""
        return self.config == other.config and self._camera == other._camera

    @property
    def _camera(self) -> tuple[bool, ClipViews | None]:
        """Whether clips need depth, and the settings of simulated cameras."""
        views = self._views
        return views is not None, views if views is not None and views.kind == "camera" else None

    def clip(self, index: int) -> PreparedClip:
        """Return one prepared motion."""
        return self._load([index])[index]

    def prepare_ahead(self, indices: Sequence[int]) -> None:
        """Prepare the motions of the next batches together, which is faster than batch by batch.

        They are kept until the next call.
        """
        self._ahead = {}
        self._ahead = self._load(indices)
        for store in self.components:
            if store is not self:
                store.prepare_ahead(indices)

    def _load(self, indices: Sequence[int]) -> dict[int, PreparedClip]:
        """Return prepared motions by their index; those that are not in the cache are prepared together."""
        with self._lock:
            return self._find_or_prepare(indices)

    def _find_or_prepare(self, indices: Sequence[int]) -> dict[int, PreparedClip]:
        clips = {
            index: known[index] for known in (self._ahead, self._cache) for index in indices if index in known
        }
        missing = [index for index in dict.fromkeys(indices) if index not in clips]
        if not missing:
            return clips
        source = self._motions
        motions = (
            source.read_motions(missing)
            if isinstance(source, _MotionReader)
            else [source[index] for index in missing]
        )
        for index, motion, clip in zip(
            missing, motions, prepare_clips(motions, self.config, self._dtype), strict=True
        ):
            if self._views is not None:
                check_has_depth(motion.layout, self._views.kind)
                camera = self._views.find_camera(motion)
                clip = clip if camera is None else replace(clip, camera=camera)
            size = clip.joints.nbytes + clip.valid.nbytes
            if size <= self._free_bytes:
                self._free_bytes -= size
                # a copy: the memory of a part stays allocated as long as that of the whole
                self._cache[index] = replace(clip, joints=clip.joints.clone(), valid=clip.valid.clone())
            clips[index] = clip
        return clips

    def __getitem__(self, indices: Int[Tensor, " clip"] | Sequence[int]) -> Batch:
        numbers = [int(number) for number in (indices.tolist() if isinstance(indices, Tensor) else indices)]
        if not numbers:
            raise DataError("a batch needs at least one motion, got none")
        clips = self._load(numbers)
        batch = _pad_clips([clips[number] for number in numbers])
        # components that prepare motions in the same way share one batch
        components = tuple(batch if store is self else store[numbers] for store in self.components)
        return replace(batch, components=components)


def arrange(
    batch: Batch, config: InputConfig, views: Views | None, hidden: HiddenJoints | None = None
) -> tuple[Float[Tensor, "clip person *views block length joint channel"], Int[Tensor, " clip"]]:
    """Return the blocks of a batch in every view, and the number of blocks per clip.

    Views are simulated before scaling, because a recording from that view would be scaled in the same way. Blocks that
    are rotated separately are also rotated before scaling: the clip is scaled by its extent after the rotation.
    ``hidden`` counts joints that simulated cameras do not see.
    """
    joints, valid = batch.joints, batch.valid
    if isinstance(views, CameraViews):
        joints, valid = measure_views(joints, valid, views, batch.cameras, hidden)
    elif views is not None:
        axes = -joints.ndim + (joints := views(joints)).ndim
        valid = valid[(slice(None),) * 2 + (None,) * axes]
    counts = count_blocks(batch.frames, config.block, compute_stride(config.block, config.stride))
    counts = counts.to(joints.device, non_blocking=True)
    if config.block_facing or config.block_travel:
        return _arrange_rotated(joints, valid, batch, config), counts
    if config.scale != "none":
        joints = scale(joints, config.scale, batch.layout, valid)
    return _cut_blocks(_combine_streams(joints, valid, batch.layout, config), batch, config), counts


def _arrange_rotated(joints: Tensor, valid: Tensor, batch: Batch, config: InputConfig) -> Tensor:
    """Return blocks that are rotated separately, to face the camera or along the path of the torso."""
    layout = batch.layout
    joints = _cut_blocks(joints, batch, config)
    valid = _cut_blocks(valid[..., None], batch, config)[..., 0]
    if config.block_travel:
        joints = centre(rotate_to_travel(joints, layout, valid), layout, valid)
    else:
        joints = face(joints, layout, "block", valid)
    if config.scale != "none":
        frames, is_valid = joints.flatten(-4, -3), valid.flatten(-3, -2)
        joints = scale(frames, config.scale, layout, is_valid).unflatten(-3, joints.shape[-4:-2])
    return _combine_streams(joints, valid, layout, config)


def _cut_blocks(x: Tensor, batch: Batch, config: InputConfig) -> Tensor:
    has_equal_lengths = bool((batch.frames == x.shape[-3]).all())
    return blocks(x, config.block, config.stride, None if has_equal_lengths else batch.frames)


def _combine_streams(joints: Tensor, valid: Tensor, layout: Layout, config: InputConfig) -> Tensor:
    """Return the streams of all joints, multiplied by their gains."""
    streams = compute_streams(joints, layout, config.streams, valid)
    if not config.gains:
        return streams
    return streams * streams.new_tensor(config.gains).repeat_interleave(3)
