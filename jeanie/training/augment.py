"""Augmentation of training clips: rotation, scale and speed, and mirrored clips as additional classes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.datasets import Dataset
from jeanie.datasets.dataset import LazyMotions
from jeanie.evaluation.protocols.splits import Columns, Split
from jeanie.fewshot.episodes import Tag
from jeanie.fewshot.inputs import Batch
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion
from jeanie.views.euler import make_rotations

__all__ = ["DRAWS_PER_CLIP", "AugmentConfig", "DatasetWithMirrors", "add_mirrored_classes", "augment_batch"]

DRAWS_PER_CLIP = 5  # random numbers that the augmentation of one clip takes


class AugmentConfig(Config):
    """Strength of the augmentation; 0 disables a part of it."""

    yaw: float = Field(default=0.0, ge=0, le=180, description="largest rotation about the vertical, degrees")
    tilt: float = Field(default=0.0, ge=0, le=90, description="largest tilt of the camera, degrees")
    scale: float = Field(default=0.0, ge=0, lt=1, description="largest relative change of size")
    warp: float = Field(default=0.0, ge=0, lt=1, description="largest relative change of speed")

    @property
    def is_active(self) -> bool:
        """Whether any part is enabled."""
        return any((self.yaw, self.tilt, self.scale, self.warp))


def augment_batch(batch: Batch, config: AugmentConfig, draws: Float[Tensor, "clip 5"]) -> Batch:
    """Return a batch with every clip rotated about its origin, scaled and retimed.

    The number of frames, the first frame and the last frame stay.

    Args:
        batch: The clips.
        config: Strength of the augmentation.
        draws: Random numbers from -1 to 1: yaw, tilt, scale, and two for the speed.
    """
    if not config.is_active:
        return batch
    joints, valid = batch.joints, batch.valid
    draws = draws.to(joints)
    if config.warp:
        joints, valid = _warp_time(joints, valid, batch.frames, config.warp * draws[:, 3:5])
    turn = make_rotations(config.yaw * draws[:, 0], config.tilt * draws[:, 1])
    size = 1 + config.scale * draws[:, 2, None, None]
    joints = torch.einsum("nij,npfkj->npfki", size * turn, joints)
    components = tuple(augment_batch(part, config, draws) for part in batch.components)
    return replace(batch, joints=joints, valid=valid, components=components)


def _warp_time(
    joints: Float[Tensor, "clip person frame joint 3"],
    valid: Bool[Tensor, "clip person frame joint"],
    frames: Int[Tensor, " clip"],
    bend: Float[Tensor, "clip 2"],
) -> tuple[Float[Tensor, "clip person frame joint 3"], Bool[Tensor, "clip person frame joint"]]:
    """Interpolate the joints linearly at the times u + a sin(pi u) / (2 pi) + b sin(2 pi u) / (4 pi), u = 0..1.

    ``bend`` has a and b. The speed is 1 + (a cos(pi u) + b cos(2 pi u)) / 2.
    """
    frames = frames.to(joints.device)
    last = (frames - 1).to(joints)[:, None]
    time = torch.arange(joints.shape[2], device=joints.device)
    u = (time / last.clamp_min(1)).clamp_max(1)
    shifted = sum(
        bend[:, i, None] * torch.sin((i + 1) * math.pi * u) / (2 * (i + 1) * math.pi) for i in range(2)
    )
    place = ((u + shifted) * last).clamp_min(0).minimum(last)
    low = place.floor().long()
    share = place - low
    high = torch.where(share > 0, low + 1, low)
    clip = torch.arange(len(joints), device=joints.device)[:, None]
    # (clip, frame, person, ...), so that the two indices are next to each other
    by_clip, is_valid = joints.transpose(1, 2), valid.transpose(1, 2)
    start, end = (by_clip[clip, index].transpose(1, 2) for index in (low, high))
    inside = (time < frames[:, None])[:, None, :, None]
    present = (is_valid[clip, low] & is_valid[clip, high]).transpose(1, 2) & inside
    return torch.where(
        present[..., None], start + share[:, None, :, None, None] * (end - start), 0.0
    ), present


@dataclass(frozen=True, eq=False)
class DatasetWithMirrors:
    """A data set followed by the mirror images of all its clips, with labels of their own."""

    dataset: Dataset

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def layout(self) -> Layout:
        return self.dataset.layout

    @property
    def motions(self) -> "_MotionsWithMirrors":
        return _MotionsWithMirrors(self.dataset.motions)

    @property
    def labels(self) -> Sequence[Tag | None]:
        return _append_mirror_labels(self.dataset.labels)

    @property
    def subjects(self) -> Sequence[Tag | None]:
        return [*self.dataset.subjects, *self.dataset.subjects]

    @property
    def views(self) -> Sequence[Tag | None]:
        return [*self.dataset.views, *self.dataset.views]

    def __len__(self) -> int:
        return 2 * len(self.dataset)

    def __getitem__(self, index: int) -> Motion:
        return self.motions[index]


@dataclass(frozen=True, eq=False)
class _MotionsWithMirrors(LazyMotions):
    motions: Sequence[Motion]

    def __len__(self) -> int:
        return 2 * len(self.motions)

    def load(self, number: int) -> Motion:
        clips = len(self.motions)
        return self.motions[number] if number < clips else self.motions[number - clips].mirror()


def add_mirrored_classes(split: Split) -> Split:
    """Return the split of a ``DatasetWithMirrors``: the mirror images of training clips form additional classes."""
    columns, clips = split.columns, len(split.columns.labels)
    doubled = Columns(
        labels=_append_mirror_labels(columns.labels),
        subjects=[*columns.subjects, *columns.subjects],
        cameras=[*columns.cameras, *columns.cameras],
        usable=(*columns.usable, *(clip + clips for clip in columns.usable)),
    )
    return replace(
        split,
        train=(*split.train, *(clip + clips for clip in split.train)),
        train_classes=(*split.train_classes, *(_mirror_label(tag) for tag in split.train_classes)),
        columns=doubled,
    )


def _mirror_label(label: Tag) -> str:
    return f"{label}, mirrored"


def _append_mirror_labels(labels: Sequence[Tag | None]) -> list[Tag | None]:
    return [*labels, *(None if label is None else _mirror_label(label) for label in labels)]
