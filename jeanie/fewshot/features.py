"""Block features of clips: the output of an encoder and the input of an alignment."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Features"]


@dataclass(frozen=True)
class Features:
    """Block features of clips.

    Attributes:
        values: Features of every block; blocks from ``counts`` on are padding.
        counts: Number of blocks per clip.
        components: Features for the models whose distances are added.
        second: Features of the second person, if persons are matched; meaningful for clips that are ``paired``.
        paired: Whether a clip has two persons.
        factor: Hubness factor of every clip; distances to the clip as a support are multiplied by it.
        mirrored: Features of the mirror images of the clips.
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
        """Return the clips of all parts, padded to the longest one."""
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
        """The features of the first and of the second person of every clip."""
        assert self.second is not None
        return Features(self.values, self.counts), Features(self.second, self.counts)

    def person(self, index: int) -> "Features":
        """Return the features of one person (0 or 1) of every clip; all features if persons are not matched."""
        return self.persons[index] if self.second is not None else self

    def select_views(self, index: slice) -> "Features":
        """Return the features of some of the views of a single view axis."""
        return Features(self.values[:, :, index], self.counts)

    def flatten_blocks(self) -> Float[Tensor, "all feature"]:
        """Return the features of all blocks that are not padding, in all views, clip after clip."""
        return self.values[self._is_real()].flatten(0, -2)

    def average_all(self) -> tuple[Float[Tensor, " feature"], Float[Tensor, ""]]:
        """Return the mean vector and the mean squared length of all blocks that are not padding, in float64."""
        values = self.values.double()
        is_real = self._is_real().view(*self.values.shape[:2], *[1] * (values.dim() - 2))
        values = torch.where(is_real, values, 0.0).flatten(0, -2)
        views = self.values[0, 0].numel() // self.values.shape[-1]
        count = self.counts.sum() * views
        return values.sum(0) / count, values.square().sum() / count

    def _is_real(self) -> Bool[Tensor, "clip block"]:
        """Return which blocks are not padding."""
        return torch.arange(self.values.shape[1], device=self.values.device) < self.counts[:, None]

    def average_views(self) -> "Features":
        """Return the mean over all views per block; only of the first person."""
        values = self.values.flatten(2, -2).mean(2) if self.values.dim() > 3 else self.values
        return Features(values, self.counts)

    def average_blocks(self) -> "Features":
        """Return the mean over the blocks that are not padding, per view, as one block."""
        values = self.values
        shape = (len(values), -1, *[1] * (values.dim() - 2))
        total = torch.where(self._is_real().view(shape), values, 0.0).sum(1, keepdim=True)
        return Features(total / self.counts.view(shape), torch.ones_like(self.counts))

    def normalise(self) -> "Features":
        """Return every feature vector divided by its length; a vector of length 0 stays 0."""
        return Features(torch.nn.functional.normalize(self.values, dim=-1), self.counts)


def _pad_blocks(values: Tensor, blocks: int) -> Tensor:
    missing = blocks - values.shape[1]
    return (
        values
        if not missing
        else torch.cat([values, values.new_zeros(len(values), missing, *values.shape[2:])], 1)
    )
