"""Pairs of motions that are the same action: windows of motion capture, and performances of random gestures."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Generator, Tensor

from jeanie.experiments.pretraining.gestures import KINDS, Kinds, draw, near_misses, perform

__all__ = ["Windows", "gesture_pairs", "words"]

_VAGUE = {"", "clean", "unknown", "story", "misc", "various", "random"}  # descriptions that tell no action


def words(text: str) -> str:
    """A description without case, punctuation and numbers of takes; empty where it tells no action.

    >>> words("Walk  Forward (2)")
    'walk forward'
    """
    plain = " ".join(re.findall(r"[a-z]+", text.lower()))
    return "" if plain in _VAGUE else plain


@dataclass(frozen=True, eq=False)
class Windows:
    """Clips of core joints in one array, and for every clip its first frame, its length and its group.

    A group is what counts as one action: clips with the same words; a clip without words is its own.
    """

    joints: Float[Tensor, "frame 15 3"]
    first: NDArray[np.int64]
    length: NDArray[np.int64]
    members: tuple[NDArray[np.int64], ...]
    rate: float = 30.0

    @classmethod
    def of(
        cls, clips: Sequence[Float[Tensor, "_ 15 3"]], texts: Sequence[str], rate: float = 30.0
    ) -> "Windows":
        """From clips and their descriptions; clips of less than half a second are left out."""
        length = np.array([len(clip) for clip in clips])
        first = np.cumsum(length) - length
        groups: dict[str, list[int]] = {}
        for at, text in enumerate(texts):
            if length[at] >= rate / 2:
                groups.setdefault(words(text) or f"#{at}", []).append(at)
        members = tuple(np.array(group) for group in groups.values())
        return cls(torch.cat(list(clips)), first, length, members, rate)

    def pairs(
        self, count: int, generator: Generator, frames: int = 48, near: float = 1.0
    ) -> Float[Tensor, "{count} 2 {frames} 15 3"]:
        """Two windows of 1 to 4 seconds from each of ``count`` different groups, read at ``frames`` moments.

        Windows come from two clips of the group where it has two. In one clip, the second window starts within
        ``near`` of a window's length from the first: what is further away is likely to be another action.
        """
        rng = np.random.default_rng(int(torch.randint(0, 2**62, (1,), generator=generator)))
        groups = rng.choice(len(self.members), count, replace=count > len(self.members))
        clips = np.stack([_two(self.members[group], rng) for group in groups])
        seconds = rng.uniform(1.0, 4.0, (count, 1)) * np.exp(rng.normal(0, [0.0, 0.2], (count, 2)))
        size = np.minimum(seconds * self.rate, self.length[clips] - 1)
        free = self.length[clips] - 1 - size
        start = rng.uniform(0, 1, (count, 2)) * free
        beside = start[:, 0] + rng.uniform(-near, near, count) * size[:, 0]
        start[:, 1] = np.where(clips[:, 0] == clips[:, 1], np.clip(beside, 0, free[:, 1]), start[:, 1])
        at = start[..., None] + np.linspace(0, 1, frames) * size[..., None]
        low = np.minimum(at.astype(np.int64), self.length[clips][..., None] - 2)
        share = torch.from_numpy((at - low).astype(np.float32))[..., None, None]
        low = torch.from_numpy(low + self.first[clips][..., None])
        return self.joints[low] * (1 - share) + self.joints[low + 1] * share


def _two(members: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.choice(members, 2, replace=len(members) < 2)


def gesture_pairs(
    count: int, generator: Generator, frames: int = 48, misses: float = 0.5, kinds: Kinds = KINDS
) -> Float[Tensor, "{count} 2 {frames} 15 3"]:
    """Two performances of each of ``count`` random gestures, a share ``misses`` of which almost resembles another."""
    other = int(count * misses / 2)
    gestures = draw(count, generator, kinds)
    if other:
        close = near_misses(gestures[torch.arange(other)], generator)
        at = torch.arange(count - other, count)
        mixed = torch.arange(count)
        mixed[at] = torch.arange(other) + count
        gestures = gestures.joined(close)[mixed]
    twice = gestures[torch.arange(count).repeat_interleave(2)]
    performed: Tensor = perform(twice, generator, frames).unflatten(0, (count, 2))
    return performed
