"""Batches of the clips of training episodes; a thread prepares those of the next step while this one is computed."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from jeanie.fewshot.inputs import Batch, Store

__all__ = ["ClipLoader", "LoadedClips"]

Key = tuple[int, ...]


@dataclass(frozen=True)
class LoadedClips:
    """The different clips of some episodes as one batch.

    Attributes:
        clips: Numbers of the clips, each once.
        position: For each episode, the places of its clips in the batch.
        batch: The prepared clips, on the host.
    """

    clips: Int[Tensor, " unique"]
    position: tuple[Int[Tensor, " clip"], ...]
    batch: Batch


class ClipLoader:
    """Loads the clips of episodes, in the background if they are requested ahead.

    Args:
        store: Prepared clips.
        device: Device of the model. For CUDA, batches lie in pinned memory, so that they are copied while the device
            computes.
        in_background: Whether ``request`` starts a thread. By default, it does on CUDA, and on the CPU if torch leaves
            a core free; otherwise it does nothing.
    """

    def __init__(self, store: Store, device: torch.device, *, in_background: bool | None = None) -> None:
        self._store, self._is_pinned = store, device.type == "cuda"
        starts_thread = self._is_pinned or _has_free_core() if in_background is None else in_background
        self._threads = ThreadPoolExecutor(1, "clip-loader") if starts_thread else None
        self._requests: dict[Key, Future[LoadedClips]] = {}

    def request(self, key: Key, episodes: Sequence[Tensor]) -> None:
        """Start to load the clips of episodes that ``load`` will ask for with the same key."""
        if self._threads is not None and key not in self._requests:
            self._requests[key] = self._threads.submit(self._load, episodes)

    def prepare_ahead(self, episodes: Sequence[Tensor]) -> None:
        """Prepare all clips together that the next calls of ``load`` will ask for; nothing if a thread loads them."""
        if self._threads is None:
            self._store.prepare_ahead(torch.unique(torch.cat(list(episodes))).tolist())

    def load(self, key: Key, episodes: Sequence[Tensor]) -> LoadedClips:
        """Return the clips of episodes; each entry of ``episodes`` has the numbers of its clips."""
        future = self._requests.pop(key, None)
        if future is not None:
            return future.result()
        if self._threads is not None:  # the store is used by one thread at a time
            return self._threads.submit(self._load, episodes).result()
        return self._load(episodes)

    def _load(self, episodes: Sequence[Tensor]) -> LoadedClips:
        clips, position = torch.unique(torch.cat(list(episodes)), return_inverse=True)
        batch = self._store[clips]
        parts = position.split([len(numbers) for numbers in episodes])
        return LoadedClips(clips, parts, batch.pin_memory() if self._is_pinned else batch)


def _has_free_core() -> bool:
    """Return whether this process may use more cores than torch computes on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return torch.get_num_threads() < cores
