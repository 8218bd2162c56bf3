"""Variety for training: mildly turned, scaled and retimed clips, and mirrored clips as classes of their own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.datasets import Dataset
from jeanie.datasets.dataset import Lazy
from jeanie.experiments.protocols.splits import Columns, Split
from jeanie.fewshot.episodes import Tag
from jeanie.fewshot.inputs import Batch
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion
from jeanie.views.euler import rotations

__all__ = ["DRAWS", "AugmentConfig", "Mirrored", "augmented", "mirrored_split"]

DRAWS = 5  # numbers that one clip's augmentation takes


class AugmentConfig(Config):
    """How far a training clip may be changed; 0 is not at all."""

    yaw: float = Field(default=0.0, ge=0, le=180, description="turn about the vertical, degrees either way")
    tilt: float = Field(default=0.0, ge=0, le=90, description="camera lifted or lowered, degrees either way")
    scale: float = Field(default=0.0, ge=0, lt=1, description="larger or smaller by this share")
    warp: float = Field(default=0.0, ge=0, lt=1, description="locally faster or slower by this share")

    @property
    def active(self) -> bool:
        """Whether anything is changed."""
        return any((self.yaw, self.tilt, self.scale, self.warp))


def augmented(batch: Batch, config: AugmentConfig, draws: Float[Tensor, "clip 5"]) -> Batch:
    """Each clip turned about its origin, scaled and retimed as its draws, numbers from -1 to 1, tell.

    Frames stay as many as they were, the first and the last where they were.
    """
    if not config.active:
        return batch
    joints, valid = batch.joints, batch.valid
    draws = draws.to(joints)
    if config.warp:
        joints, valid = _warped(joints, valid, batch.frames, config.warp * draws[:, 3:5])
    turn = rotations(config.yaw * draws[:, 0], config.tilt * draws[:, 1])
    size = 1 + config.scale * draws[:, 2, None, None]
    joints = torch.einsum("nij,npfkj->npfki", size * turn, joints)
    beside = tuple(augmented(part, config, draws) for part in batch.beside)
    return replace(batch, joints=joints, valid=valid, beside=beside)


def _warped(
    joints: Float[Tensor, "clip person frame joint 3"],
    valid: Bool[Tensor, "clip person frame joint"],
    frames: Int[Tensor, " clip"],
    bend: Float[Tensor, "clip 2"],
) -> tuple[Float[Tensor, "clip person frame joint 3"], Bool[Tensor, "clip person frame joint"]]:
    """Joints at the times u + a sin(pi u) / (2 pi) + b sin(2 pi u) / (4 pi) of u = 0..1, linear between frames.

    The speed 1 + (a cos(pi u) + b cos(2 pi u)) / 2 stays within the share that ``bend`` allows.
    """
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
    # frames beside clips, so that the two indices stand together
    by_clip, seen = joints.transpose(1, 2), valid.transpose(1, 2)
    start, end = (by_clip[clip, index].transpose(1, 2) for index in (low, high))
    inside = (time < frames[:, None])[:, None, :, None]
    there = (seen[clip, low] & seen[clip, high]).transpose(1, 2) & inside
    return torch.where(there[..., None], start + share[:, None, :, None, None] * (end - start), 0.0), there


@dataclass(frozen=True, eq=False)
class Mirrored:
    """A data set twice: its clips, then all of them with left and right swapped, under labels of their own."""

    of: Dataset

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def layout(self) -> Layout:
        return self.of.layout

    @property
    def motions(self) -> "_MirroredMotions":
        return _MirroredMotions(self.of.motions)

    @property
    def labels(self) -> Sequence[Tag | None]:
        return _doubled_labels(self.of.labels)

    @property
    def subjects(self) -> Sequence[Tag | None]:
        return [*self.of.subjects, *self.of.subjects]

    @property
    def views(self) -> Sequence[Tag | None]:
        return [*self.of.views, *self.of.views]

    def __len__(self) -> int:
        return 2 * len(self.of)

    def __getitem__(self, index: int) -> Motion:
        return self.motions[index]


@dataclass(frozen=True, eq=False)
class _MirroredMotions(Lazy):
    of: Sequence[Motion]

    def __len__(self) -> int:
        return 2 * len(self.of)

    def one(self, number: int) -> Motion:
        clips = len(self.of)
        return self.of[number] if number < clips else self.of[number - clips].mirrored()


def mirrored_split(split: Split) -> Split:
    """The split with mirrored clips among its training clips, as further classes; for a ``Mirrored`` data set."""
    columns, clips = split.columns, len(split.columns.labels)
    doubled = Columns(
        labels=_doubled_labels(columns.labels),
        subjects=[*columns.subjects, *columns.subjects],
        cameras=[*columns.cameras, *columns.cameras],
        usable=(*columns.usable, *(clip + clips for clip in columns.usable)),
    )
    return replace(
        split,
        train=(*split.train, *(clip + clips for clip in split.train)),
        train_classes=(*split.train_classes, *(_mirrored(tag) for tag in split.train_classes)),
        columns=doubled,
    )


def _mirrored(label: Tag) -> str:
    return f"{label}, mirrored"


def _doubled_labels(labels: Sequence[Tag | None]) -> list[Tag | None]:
    return [*labels, *(None if label is None else _mirrored(label) for label in labels)]
