"""A batch of prepared motions: the input of a model."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from jeanie.skeleton.layout import Layout

__all__ = ["Batch"]


@dataclass(frozen=True)
class Batch:
    """Prepared motions, padded to the longest one: the input of ``FewShotModel.features``.

    Missing joints, absent persons and padding are 0. ``frames`` and ``persons`` (the persons that a clip has; all if
    None) stay on the host. ``components`` are the same clips, prepared for the components of the model. ``cameras`` are
    distances (metres) and elevations (degrees) of the recording cameras, if they are known.
    """

    joints: Float[Tensor, "clip person frame joint 3"]
    valid: Bool[Tensor, "clip person frame joint"]
    frames: Int[Tensor, " clip"]
    layout: Layout
    components: "tuple[Batch, ...]" = ()
    cameras: Float[Tensor, "clip 2"] | None = None
    persons: Int[Tensor, " clip"] | None = None

    def __len__(self) -> int:
        return self.joints.shape[0]

    @property
    def people(self) -> Bool[Tensor, "clip person"]:
        """Whether a person has at least one valid joint."""
        return self.valid.any(-1).any(-1)

    def __getitem__(self, index: slice | Tensor) -> "Batch":
        components = tuple(batch[index] for batch in self.components)
        cameras, persons = (None if x is None else x[index] for x in (self.cameras, self.persons))
        return Batch(
            self.joints[index],
            self.valid[index],
            self.frames[index],
            self.layout,
            components,
            cameras,
            persons,
        )

    def mirror(self) -> "Batch":
        """Return the mirror images: left and right joints are swapped and x is negated."""
        joints, valid = (
            self.layout.mirror_joints(self.joints),
            self.valid[..., list(self.layout.mirror_indices)],
        )
        components = tuple(batch.mirror() for batch in self.components)
        return replace(self, joints=joints, valid=valid, components=components)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Batch":
        """Return the batch on a device, with joints of a dtype."""
        target = torch.device(device)
        is_async = target.type == "cuda"  # to the host, a copy must be complete
        return replace(
            self,
            joints=self.joints.to(device=target, dtype=dtype, non_blocking=is_async),
            valid=self.valid.to(target, non_blocking=is_async),
            cameras=None
            if self.cameras is None
            else self.cameras.to(device=target, dtype=dtype, non_blocking=is_async),
            components=tuple(batch.to(device, dtype) for batch in self.components),
        )

    def pin_memory(self) -> "Batch":
        """Return the batch in pinned memory, from which copies to a GPU do not wait."""
        return replace(
            self,
            joints=self.joints.pin_memory(),
            valid=self.valid.pin_memory(),
            cameras=None if self.cameras is None else self.cameras.pin_memory(),
            components=tuple(batch.pin_memory() for batch in self.components),
        )
