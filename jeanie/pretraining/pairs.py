"""Pairs of motions of the same action: windows of motion capture, and performances of random gestures."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Generator, Tensor

from jeanie.datasets import Dataset
from jeanie.errors import DataError
from jeanie.pretraining.gestures import (
    GESTURE_SHARES,
    GestureShares,
    draw_gestures,
    draw_near_misses,
    perform,
)
from jeanie.skeleton import LAYOUTS
from jeanie.skeleton.convert import convert

__all__ = ["Windows", "draw_gesture_pairs", "normalise_description"]

_VAGUE = {"", "clean", "unknown", "story", "misc", "various", "random"}  # descriptions that name no action


def normalise_description(text: str) -> str:
    """Return a description without case, punctuation and take numbers; empty if it names no action.

    >>> normalise_description("Walk  Forward (2)")
    'walk forward'
    """
    plain = " ".join(re.findall(r"[a-z]+", text.lower()))
    return "" if plain in _VAGUE else plain


@dataclass(frozen=True, eq=False)
class Windows:
    """Clips of core joints in one array, with the first frame and the length of every clip.

    A group of clips counts as one action. Clips with the same description form a group; a clip without one is a
    group of its own.
    """

    joints: Float[Tensor, "frame 15 3"]
    first: NDArray[np.int64]
    length: NDArray[np.int64]
    groups: tuple[NDArray[np.int64], ...]
    rate: float = 30.0

    @classmethod
    def from_clips(
        cls, clips: Sequence[Float[Tensor, "_ 15 3"]], texts: Sequence[str], rate: float = 30.0
    ) -> "Windows":
        """Return windows of clips, grouped by description; clips under half a second are left out."""
        length = np.array([len(clip) for clip in clips])
        first = np.cumsum(length) - length
        groups: dict[str, list[int]] = {}
        for clip, text in enumerate(texts):
            if length[clip] >= rate / 2:
                groups.setdefault(normalise_description(text) or f"#{clip}", []).append(clip)
        return cls(torch.cat(list(clips)), first, length, tuple(map(np.array, groups.values())), rate)

    @classmethod
    def from_dataset(cls, dataset: Dataset, descriptions: Mapping[str, str] | None = None) -> "Windows":
        """Return windows of all motions of a data set.

        Args:
            dataset: The motions. Each is converted to core joints; its first person counts.
            descriptions: Descriptions by motion name. Motions without one are grouped by their label.

        Raises:
            DataError: The data set is empty.
        """
        clips, texts = [], []
        for motion in dataset.motions:
            clips.append(convert(motion, LAYOUTS["core15"]).joints[:, 0])
            texts.append(str((descriptions or {}).get(motion.name or "", motion.label) or ""))
        if not clips:
            raise DataError("no motion capture to train on; give a data set with clips")
        return cls.from_clips(clips, texts, dataset.motions[0].rate or 30.0)

    def draw_pairs(
        self, count: int, generator: Generator, frames: int = 48, distance: float = 1.0
    ) -> Float[Tensor, "{count} 2 {frames} 15 3"]:
        """Draw two windows of 1 to 4 seconds from each of ``count`` different groups, sampled at ``frames`` times.

        The windows come from two clips if the group has two. Otherwise, the second window starts at most
        ``distance`` window lengths from the first, because a window further away is likely to show another action.
        """
        rng = np.random.default_rng(int(torch.randint(0, 2**62, (1,), generator=generator)))
        groups = rng.choice(len(self.groups), count, replace=count > len(self.groups))
        clips = np.stack(
            [rng.choice(self.groups[group], 2, replace=len(self.groups[group]) < 2) for group in groups]
        )
        seconds = rng.uniform(1.0, 4.0, (count, 1)) * np.exp(rng.normal(0, [0.0, 0.2], (count, 2)))
        size = np.minimum(seconds * self.rate, self.length[clips] - 1)
        free = self.length[clips] - 1 - size
        start = rng.uniform(0, 1, (count, 2)) * free
        close = start[:, 0] + rng.uniform(-distance, distance, count) * size[:, 0]
        start[:, 1] = np.where(clips[:, 0] == clips[:, 1], np.clip(close, 0, free[:, 1]), start[:, 1])
        time = start[..., None] + np.linspace(0, 1, frames) * size[..., None]
        low = np.minimum(time.astype(np.int64), self.length[clips][..., None] - 2)
        share = torch.from_numpy((time - low).astype(np.float32))[..., None, None]
        low = torch.from_numpy(low + self.first[clips][..., None])
        return self.joints[low] * (1 - share) + self.joints[low + 1] * share


def draw_gesture_pairs(
    count: int,
    generator: Generator,
    frames: int = 48,
    near_misses: float = 0.5,
    shares: GestureShares = GESTURE_SHARES,
) -> Float[Tensor, "{count} 2 {frames} 15 3"]:
    """Draw two performances of each of ``count`` random gestures; a share ``near_misses`` is similar to another."""
    replaced = int(count * near_misses / 2)
    gestures = draw_gestures(count, generator, shares)
    if replaced:
        close = draw_near_misses(gestures[torch.arange(replaced)], generator)
        gestures = gestures[torch.arange(count - replaced)].concatenate(close)
    twice = gestures[torch.arange(count).repeat_interleave(2)]
    performed: Tensor = perform(twice, generator, frames).unflatten(0, (count, 2))
    return performed
