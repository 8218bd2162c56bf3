"""A recording of one or more persons: joint positions, a mask of valid joints, and tags."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from torch import Tensor

from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.skeleton import resample
from jeanie.skeleton.layout import Layout, find_layout

__all__ = ["Motion"]

_TAGS = {"label", "subject", "view", "name", "setup", "take"}
_NO_TAGS = dict.fromkeys(_TAGS)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Motion:
    """A motion: ``joints[frame, person, joint, xyz]`` in float32. Validated on construction and immutable.

    Camera space is right-handed with +y up and +z away from the camera, in metres if the layout says so: a
    person who faces the camera has the right hand at larger x than the left. Missing joints are 0 in ``joints``
    and False in ``valid``.

    Args:
        joints: Tensor or array, ``[frame, person, joint, 3]`` or ``[frame, joint, 3]`` for one person. A float32
            tensor or a writable float32 array without missing values is used without a copy.
        layout: The joints and their order: a layout, or its name in ``LAYOUTS``.
        label, subject, view, name, setup, take: Tags; None if unknown.
        rate: Frames per second; None if unknown.
        valid: Mask of valid joints. Without it, joints at exactly (0, 0, 0) are missing; with it, a joint may
            lie at the origin, as the torso of a centred skeleton does. NaN and inf are always missing.

    Raises:
        ShapeError: ``joints`` or ``valid`` does not fit the layout.
        DataError: There is no valid joint.
        ConfigError: ``rate`` is not above 0.

    >>> import torch
    >>> from jeanie.skeleton.layout import LAYOUTS
    >>> Motion(torch.ones(60, 25, 3), LAYOUTS["ntu25"], label="wave", rate=30)
    Motion(None, ntu25, frames=60, persons=1, label='wave', rate=30.0)
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
        layout: Layout | str,
        *,
        label: str | int | None = None,
        subject: str | int | None = None,
        view: str | int | None = None,
        rate: float | None = None,
        name: str | None = None,
        valid: Tensor | ArrayLike | None = None,
        setup: int | None = None,
        take: int | None = None,
    ) -> None:
        prefix = name or "a motion"
        if rate is not None and not 0 < rate < float("inf"):
            raise ConfigError(
                f"{prefix}: rate is frames per second, above 0, got {rate!r}; leave it out if unknown"
            )
        layout = find_layout(layout)
        checked, mask = _check_joints(joints, layout, valid, prefix)
        rate = None if rate is None else float(rate)
        values = (checked, layout, label, subject, view, rate, name, mask, setup, take)
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)

    @classmethod
    def from_checked(
        cls, joints: Tensor, layout: Layout, valid: Tensor, tags: Mapping[str, Any], rate: float | None = None
    ) -> "Motion":
        """Return a motion without any check, for readers that have checked many motions at once.

        Args:
            joints: float32 ``[frame, person, joint, 3]``, finite, 0 where ``valid`` is False.
            layout: The joints and their order.
            valid: bool ``[frame, person, joint]`` with at least one valid joint.
            tags: Values of label, subject, view, name, setup and take; each is None if left out.
            rate: Frames per second, above 0; None if unknown.
        """
        motion = object.__new__(cls)
        motion.__dict__.update(_NO_TAGS, joints=joints, layout=layout, valid=valid, rate=rate, **tags)
        return motion

    def __len__(self) -> int:
        """Return the number of frames."""
        return self.joints.shape[0]

    def __repr__(self) -> str:
        values = {"label": self.label, "subject": self.subject, "view": self.view, "rate": self.rate}
        tags = "".join(f", {key}={value!r}" for key, value in values.items() if value is not None)
        return f"Motion({self.name!r}, {self.layout.name}, frames={len(self)}, persons={self.persons}{tags})"

    @property
    def persons(self) -> int:
        """Number of persons."""
        return self.joints.shape[1]

    @property
    def bodies(self) -> tuple[Float[Tensor, "person frame joint 3"], Bool[Tensor, "person frame joint"]]:
        """Joints and mask with the person axis first, as normalisation, views and blocks expect."""
        return self.joints.transpose(0, 1), self.valid.transpose(0, 1)

    def replace(self, **changes: Any) -> "Motion":
        """Return a copy with some fields changed.

        New joints of the same shape keep the mask unless ``valid`` is given.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        unknown = sorted(changes.keys() - values.keys())
        if unknown:
            raise ConfigError(f"a motion has no {', '.join(unknown)}; its fields are {', '.join(values)}")
        if changes.keys() <= _TAGS:  # nothing to validate; what was measured on the joints stays valid
            copy = object.__new__(Motion)
            copy.__dict__.update(self.__dict__ | changes)
            return copy
        if "joints" in changes and "valid" not in changes:
            shape = tuple(np.shape(changes["joints"]))[:-1]
            frames, persons, count = self.valid.shape
            same = shape == (frames, persons, count) or (persons == 1 and shape == (frames, count))
            changes = {**changes, "valid": self.valid if same else None}
        return Motion(**{**values, **changes})

    def __getitem__(self, frames: slice) -> "Motion":
        """Return the motion of a slice of frames; a step divides the frame rate."""
        if not isinstance(frames, slice):
            raise ShapeError(
                f"a motion is indexed by a slice of frames, got {frames!r}; for one frame use motion[5:6]"
            )
        numbers = range(len(self))[frames]
        if not numbers:
            raise ShapeError(
                f"{self.name or 'a motion'}: {frames} selects none of {len(self)} frames; select at least one"
            )
        rate = None if self.rate is None else self.rate / abs(numbers.step)
        if numbers.step < 0:
            index = torch.tensor(numbers, device=self.joints.device)
            return self.replace(joints=self.joints[index], valid=self.valid[index], rate=rate)
        return self.replace(joints=self.joints[frames], valid=self.valid[frames], rate=rate)

    def fill_gaps(self, max_gap: int = 5) -> "Motion":
        """Fill gaps of at most ``max_gap`` frames by linear interpolation, per joint. Gaps at the ends stay."""
        if max_gap < 0:
            raise ConfigError(f"max_gap counts frames, got {max_gap}; 0 fills nothing")
        joints, valid = resample.fill_gaps(self.joints, self.valid, max_gap)
        return self.replace(joints=joints, valid=valid)

    def resample(self, rate: float) -> "Motion":
        """Return the motion at another frame rate: linear interpolation at 0, 1/rate, 2/rate, ... seconds.

        A joint is missing if it is missing in one of the two neighbouring frames.
        """
        if self.rate is None:
            raise ConfigError(
                f"{self.name or 'a motion'} has no frame rate; give it one first: motion.replace(rate=30)"
            )
        if not 0 < rate < float("inf"):
            raise ConfigError(f"rate is frames per second, above 0, got {rate!r}")
        return self._interpolate(resample.sample_at_rate(len(self), self.rate, rate), rate)

    def to_length(self, frames: int) -> "Motion":
        """Return the motion in ``frames`` frames, evenly spaced from the first to the last."""
        if frames < 1:
            raise ConfigError(f"a motion has at least 1 frame, got frames={frames}")
        stretched = frames > 1 and len(self) > 1 and self.rate is not None
        rate = self.rate * (frames - 1) / (len(self) - 1) if stretched and self.rate else None
        return self._interpolate(resample.space_evenly(len(self), frames), rate)

    def _interpolate(self, positions: Float[Tensor, " new"], rate: float | None) -> "Motion":
        joints, valid = resample.interpolate(self.joints, self.valid, positions.to(self.joints.device))
        return self.replace(joints=joints, valid=valid, rate=rate)

    def person(self, index: int) -> "Motion":
        """Return the motion of one person."""
        if not -self.persons <= index < self.persons:
            raise ShapeError(f"{self.name or 'a motion'} has {self.persons} persons, got person {index}")
        return self._select_persons([index])

    def select_most_active(self, n: int = 1) -> "Motion":
        """Return the motion of the ``n`` most active persons, or of all if there are fewer; most active first."""
        return self._select_persons(self.find_most_active(n))

    def find_most_active(self, n: int = 1) -> list[int]:
        """Return the indices of the ``n`` most active persons, most active first.

        Activity is the sum over joints and valid frames of |x - mean position of the joint|^2: a person who is
        seen briefly or stands still has little.
        """
        if n < 1:
            raise ConfigError(f"choose at least 1 person, got n={n}")
        weight = self.valid[..., None].to(self.joints.dtype)
        mean = (self.joints * weight).sum(0) / weight.sum(0).clamp_min(1)
        energy = ((self.joints - mean).square() * weight).sum(dim=(0, 2, 3))
        present = self.valid.any(dim=2).any(dim=0)  # a still person comes before an absent one
        order = torch.argsort(torch.where(present, energy, -1.0), descending=True, stable=True)
        indices: list[int] = order[:n].tolist()
        return indices

    def mirror(self) -> "Motion":
        """Return the mirror image: left and right joints swapped, x negated."""
        valid = self.valid[..., list(self.layout.mirror_indices)]
        return self.replace(joints=self.layout.mirror_joints(self.joints), valid=valid)

    def _select_persons(self, persons: list[int]) -> "Motion":
        return self.replace(joints=self.joints[:, persons], valid=self.valid[:, persons])


def _check_joints(
    joints: Tensor | ArrayLike, layout: Layout, valid: Tensor | ArrayLike | None, prefix: str
) -> tuple[Float[Tensor, "frame person joint 3"], Bool[Tensor, "frame person joint"]]:
    """Return joints as float32 [frame, person, joint, 3], 0 if missing, and the mask of valid joints."""
    positions = _to_tensor(joints, prefix).to(torch.float32)
    positions = positions[:, None] if positions.ndim == 3 else positions
    if positions.ndim != 4 or tuple(positions.shape[2:]) != (len(layout), 3):
        raise ShapeError(
            f"{prefix}: joints need axes (frame, person, joint, 3) or (frame, joint, 3) with the {len(layout)} "
            f"joints of layout {layout.name!r}, got shape {tuple(positions.shape)}"
        )
    if 0 in positions.shape:
        raise DataError(f"{prefix}: no frames or no persons, shape {tuple(positions.shape)}; leave it out")
    # a finite sum has finite terms; the test of every number takes longer than the rest of this function
    is_finite = bool(positions.sum().isfinite())
    present = positions.isfinite().all(-1) if not is_finite else None
    if valid is None:
        at_origin = (positions == 0).all(-1)
        present = ~at_origin if present is None else present & ~at_origin
    else:
        mask = _to_tensor(valid, prefix).to(positions.device)
        mask = mask[:, None] if mask.ndim == 2 else mask
        if mask.dtype != torch.bool or mask.shape != positions.shape[:-1]:
            raise ShapeError(
                f"{prefix}: valid needs a bool for every (frame, person, joint) {tuple(positions.shape[:-1])}, "
                f"got {mask.dtype} {tuple(mask.shape)}"
            )
        present = mask.clone() if present is None else present & mask
    if not present.any():
        raise DataError(
            f"{prefix}: no valid joint in any frame (all are NaN, infinite or at the origin); leave it out"
        )
    # the slice of an archive already holds 0 for missing joints and is not copied
    if not present.all() and bool(positions[~present].ne(0).any()):
        positions = positions.masked_fill(~present[..., None], 0.0)
    return positions, present


def _to_tensor(values: Tensor | ArrayLike, prefix: str) -> Tensor:
    """Return values as a tensor, without a copy if their memory format allows it."""
    if isinstance(values, Tensor):
        tensor = values.detach()
    else:
        try:
            array = np.asarray(values)
        except (TypeError, ValueError) as error:
            raise ShapeError(f"{prefix}: needs a full array of numbers: {error}") from error
        if array.dtype.kind not in "fiub":
            raise ShapeError(f"{prefix}: needs numbers, got an array of {array.dtype}")
        if array.dtype not in (np.float32, np.bool_):
            array = array.astype(np.float64)
        # torch accepts neither read-only memory nor negative strides
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if tensor.is_complex():
        raise ShapeError(f"{prefix}: needs real numbers, got {tensor.dtype}")
    return tensor
