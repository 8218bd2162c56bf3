"""Block features of clips, between the encoder that makes them and the alignment that compares them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Features"]


@dataclass(frozen=True)
class Features:
    """Block features of clips; ``beside`` are those of the models whose distances are added.

    Where persons are matched, ``second`` holds the other person's, of use for clips that are ``paired``.
    Distances to a clip as a support are multiplied by its ``factor``. ``reflected`` are the same clips in a mirror.
    """

    values: Float[Tensor, "clip block *views feature"]
    counts: Int[Tensor, " clip"]
    components: "tuple[Features, ...]" = ()
    second: Float[Tensor, "clip block *views feature"] | None = None
    paired: Bool[Tensor, " clip"] | None = None
    factor: Float[Tensor, " clip"] | None = None
    mirrored: "Features | None" = None

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, index: slice | Tensor) -> "Features":
        return Features(
            self.values[index],
            self.counts[index],
            tuple(part[index] for part in self.components),
            None if self.second is None else self.second[index],
            None if self.paired is None else self.paired[index],
            None if self.factor is None else self.factor[index],
            None if self.mirrored is None else self.mirrored[index],
        )

    @classmethod
    def cat(cls, parts: "Sequence[Features]") -> "Features":
        """The clips of several, padded to the longest."""
        longest = max(part.values.shape[1] for part in parts)
        second = [part.second for part in parts if part.second is not None]
        paired = [part.paired for part in parts if part.paired is not None]
        factor = [part.factor for part in parts if part.factor is not None]
        mirrored = [part.mirrored for part in parts if part.mirrored is not None]
        return cls(
            torch.cat([_pad_blocks(part.values, longest) for part in parts]),
            torch.cat([part.counts for part in parts]),
            tuple(cls.cat(same) for same in zip(*(part.components for part in parts), strict=True)),
            torch.cat([_pad_blocks(values, longest) for values in second]) if second else None,
            torch.cat(paired) if paired else None,
            torch.cat(factor) if factor else None,
            cls.cat(mirrored) if mirrored else None,
        )

    @property
    def persons(self) -> "tuple[Features, Features]":
        """The first and the second person of every clip, each as features of their own."""
        assert self.second is not None
        return Features(self.values, self.counts), Features(self.second, self.counts)

    def person(self, index: int) -> "Features":
        """The first person of every clip, or where persons are matched and ``index`` is 1 the second."""
        return self.persons[index] if self.second is not None else self

    def select_views(self, index: slice) -> "Features":
        """Return the features of some of the views of a single view axis."""
        return Features(self.values[:, :, index], self.counts)

    def inside(self) -> Float[Tensor, "all feature"]:
        """The features of real blocks from every view, clip after clip."""
        real = torch.arange(self.values.shape[1], device=self.values.device) < self.counts[:, None]
        return self.values[real].flatten(0, -2)

    def over_views(self) -> "Features":
        """The mean over all views, block by block; of the first person's, as of those that compare alone."""
        values = self.values.flatten(2, -2).mean(2) if self.values.dim() > 3 else self.values
        return Features(values, self.counts)

    def over_time(self) -> "Features":
        """The mean over the real blocks, view by view, as one block."""
        values = self.values
        real = torch.arange(values.shape[1], device=values.device) < self.counts[:, None]
        shape = (len(values), -1, *[1] * (values.dim() - 2))
        total = torch.where(real.view(shape), values, 0.0).sum(1, keepdim=True)
        return Features(total / self.counts.view(shape), torch.ones_like(self.counts))

    def unit(self) -> "Features":
        """Every feature vector at length 1; one of length 0 stays 0."""
        return Features(torch.nn.functional.normalize(self.values, dim=-1), self.counts)


def _pad_blocks(values: Tensor, blocks: int) -> Tensor:
    missing = blocks - values.shape[1]
    return (
        values
        if not missing
        else torch.cat([values, values.new_zeros(len(values), missing, *values.shape[2:])], 1)
    )
