"""A recording of one or more persons: joint positions, what is missing, and what is known about it."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from torch import Tensor

from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.timing import at_rate, between, evenly, fill_gaps

__all__ = ["Motion"]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Motion:
    """A motion: ``joints[frame, person, joint, xyz]``, float32, validated at birth and never changed.

    Camera space: metres where known, +y up, +z away from the camera, right-handed: someone who faces the
    camera has the right hand at larger x than the left. Missing joints hold 0 and ``valid`` False. Without
    ``valid``, joints with NaN or inf and joints at exactly (0, 0, 0) are missing; with it, NaN and inf stay
    missing but a joint may lie at the origin (as the torso of a centred skeleton does).

    ``joints`` may be a tensor or an array, ``[frame, joint, 3]`` for one person. A float32 tensor, or a
    writable float32 array, without missing values is kept without a copy.
    """

    joints: Float[Tensor, "frame person joint 3"]
    layout: Layout
    label: str | int | None
    subject: str | int | None
    view: str | int | None
    rate: float | None
    name: str | None
    valid: Bool[Tensor, "frame person joint"]
    setup: int | None
    take: int | None

    def __init__(
        self,
        joints: Tensor | ArrayLike,
        layout: Layout,
        *,
        label: str | int | None = None,
        subject: str | int | None = None,
        view: str | int | None = None,
        rate: float | int | None = None,
        name: str | None = None,
        valid: Tensor | ArrayLike | None = None,
        setup: int | None = None,
        take: int | None = None,
    ) -> None:
        said = name or "a motion"
        if rate is not None and not 0 < rate < float("inf"):
            raise ConfigError(
                f"{said}: rate is frames a second, above 0, got {rate!r}; leave it out if unknown"
            )
        clean, mask = _checked(joints, layout, valid, said)
        rate = None if rate is None else float(rate)
        values = (clean, layout, label, subject, view, rate, name, mask, setup, take)
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)

    def __len__(self) -> int:
        """Number of frames."""
        return self.joints.shape[0]

    def __repr__(self) -> str:
        known = {"label": self.label, "subject": self.subject, "view": self.view, "rate": self.rate}
        said = "".join(f", {key}={value!r}" for key, value in known.items() if value is not None)
        return f"Motion({self.name!r}, {self.layout.name}, frames={len(self)}, persons={self.persons}{said})"

    @property
    def persons(self) -> int:
        """Number of persons."""
        return self.joints.shape[1]

    @property
    def bodies(self) -> tuple[Float[Tensor, "person frame joint 3"], Bool[Tensor, "person frame joint"]]:
        """Joints and mask with the person first, as preprocessing, views and blocks take them."""
        return self.joints.transpose(0, 1), self.valid.transpose(0, 1)

    def replace(self, **changes: Any) -> "Motion":
        """A copy with some fields changed. New joints of the same shape keep the mask unless one is given."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        unknown = sorted(changes.keys() - known.keys())
        if unknown:
            raise ConfigError(f"a motion has no {', '.join(unknown)}; its fields are {', '.join(known)}")
        if "joints" in changes and "valid" not in changes:
            shape = tuple(np.shape(changes["joints"]))[:-1]
            ours = tuple(self.valid.shape)
            same = shape == ours or (self.persons == 1 and shape == (ours[0], ours[2]))
            changes = {**changes, "valid": self.valid if same else None}
        return Motion(**{**known, **changes})

    def __getitem__(self, frames: slice) -> "Motion":
        """The motion of some frames; a step divides the frame rate."""
        if not isinstance(frames, slice):
            raise ShapeError(
                f"a motion is cut by a slice of frames, got {frames!r}; for one frame use motion[5:6]"
            )
        chosen = range(len(self))[frames]
        if not chosen:
            raise ShapeError(
                f"{self.name or 'a motion'}: frames {frames} of {len(self)} are none; cut at least one"
            )
        rate = None if self.rate is None else self.rate / abs(chosen.step)
        if chosen.step < 0:
            index = torch.tensor(chosen, device=self.joints.device)
            return self.replace(joints=self.joints[index], valid=self.valid[index], rate=rate)
        return self.replace(joints=self.joints[frames], valid=self.valid[frames], rate=rate)

    def filled(self, max_gap: int = 5) -> "Motion":
        """Gaps of at most ``max_gap`` frames filled by straight lines, joint by joint, within the ends."""
        if max_gap < 0:
            raise ConfigError(f"max_gap counts frames, got {max_gap}; 0 fills nothing")
        joints, valid = fill_gaps(self.joints, self.valid, max_gap)
        return self.replace(joints=joints, valid=valid)

    def resampled(self, rate: float | int) -> "Motion":
        """The motion at another frame rate: straight lines between frames, at 0, 1/rate, 2/rate, ... seconds.

        A joint is missing where one of the frames it lies between is.
        """
        if self.rate is None:
            raise ConfigError(
                f"{self.name or 'a motion'} has no frame rate; give it one first: motion.replace(rate=30)"
            )
        if not 0 < rate < float("inf"):
            raise ConfigError(f"rate is frames a second, above 0, got {rate!r}")
        return self._at(at_rate(len(self), self.rate, rate), rate)

    def to_length(self, frames: int) -> "Motion":
        """The motion in ``frames`` frames, evenly from its first to its last, on lines between frames."""
        if frames < 1:
            raise ConfigError(f"a motion has at least 1 frame, got frames={frames}")
        stretched = frames > 1 and len(self) > 1 and self.rate is not None
        rate = self.rate * (frames - 1) / (len(self) - 1) if stretched and self.rate else None
        return self._at(evenly(len(self), frames), rate)

    def _at(self, positions: Float[Tensor, " new"], rate: float | int | None) -> "Motion":
        joints, valid = between(self.joints, self.valid, positions.to(self.joints.device))
        return self.replace(joints=joints, valid=valid, rate=rate)

    def person(self, index: int) -> "Motion":
        """The motion of one person."""
        if not -self.persons <= index < self.persons:
            raise ShapeError(f"{self.name or 'a motion'} has {self.persons} persons, got person {index}")
        return self._of([index])

    def most_moving(self, n: int = 1) -> "Motion":
        """The ``n`` persons who move most, the liveliest first (all of them where there are fewer)."""
        return self._of(self.liveliest(n))

    def liveliest(self, n: int = 1) -> list[int]:
        """Numbers of the ``n`` persons who move most, the liveliest first.

        Motion is the sum over joints and valid frames of |x - the joint's mean position|^2: who is seen
        briefly or stands still counts little.
        """
        if n < 1:
            raise ConfigError(f"choose at least 1 person, got n={n}")
        seen = self.valid[..., None].to(self.joints.dtype)
        mean = (self.joints * seen).sum(0) / seen.sum(0).clamp_min(1)
        energy = ((self.joints - mean).square() * seen).sum(dim=(0, 2, 3))
        present = self.valid.any(dim=2).any(dim=0)  # a still person goes before one who is not there at all
        order = torch.argsort(torch.where(present, energy, -1.0), descending=True, stable=True)
        chosen: list[int] = order[:n].tolist()
        return chosen

    def mirrored(self) -> "Motion":
        """The motion in a mirror: left and right joints swapped, x negated."""
        valid = self.valid[..., list(self.layout.mirror)]
        return self.replace(joints=self.layout.mirrored(self.joints), valid=valid)

    def _of(self, persons: list[int]) -> "Motion":
        return self.replace(joints=self.joints[:, persons], valid=self.valid[:, persons])


def _checked(
    joints: Tensor | ArrayLike, layout: Layout, valid: Tensor | ArrayLike | None, said: str
) -> tuple[Float[Tensor, "frame person joint 3"], Bool[Tensor, "frame person joint"]]:
    """Joints as float32 [frame, person, joint, 3] with 0 where missing, and the mask of what is there."""
    positions = _tensor(joints, said).to(torch.float32)
    positions = positions[:, None] if positions.ndim == 3 else positions
    if positions.ndim != 4 or tuple(positions.shape[2:]) != (len(layout), 3):
        raise ShapeError(
            f"{said}: joints need axes (frame, person, joint, 3) or (frame, joint, 3) with the {len(layout)} "
            f"joints of layout {layout.name!r}, got shape {tuple(positions.shape)}"
        )
    if 0 in positions.shape:
        raise DataError(f"{said}: no frames or no persons, shape {tuple(positions.shape)}; drop it")
    there = positions.isfinite().all(-1)
    if valid is None:
        there = there & (positions != 0).any(-1)
    else:
        mask = _tensor(valid, said).to(positions.device)
        mask = mask[:, None] if mask.ndim == 2 else mask
        if mask.dtype != torch.bool or mask.shape != there.shape:
            raise ShapeError(
                f"{said}: valid needs a bool for every (frame, person, joint) {tuple(there.shape)}, "
                f"got {mask.dtype} {tuple(mask.shape)}"
            )
        there = there & mask
    if not there.any():
        raise DataError(
            f"{said}: no valid joint in any frame (all are NaN, infinite or at the origin); drop it"
        )
    if not there.all() and bool(
        positions[~there].ne(0).any()
    ):  # an archive's slice holds 0 there and is not copied
        positions = positions.masked_fill(~there[..., None], 0.0)
    return positions, there


def _tensor(values: Tensor | ArrayLike, said: str) -> Tensor:
    """Values as a tensor, without a copy where they already are one or share its memory format."""
    if isinstance(values, Tensor):
        tensor = values.detach()
    else:
        try:
            array = np.asarray(values)
        except (TypeError, ValueError) as error:
            raise ShapeError(f"{said}: needs a full array of numbers: {error}") from error
        if array.dtype.kind not in "fiub":
            raise ShapeError(f"{said}: needs numbers, got an array of {array.dtype}")
        if array.dtype not in (np.float32, np.bool_):
            array = array.astype(np.float64)
        # torch takes neither read-only memory nor negative strides
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if tensor.is_complex():
        raise ShapeError(f"{said}: needs real numbers, got {tensor.dtype}")
    return tensor
