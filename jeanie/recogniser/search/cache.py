"""Cache the features of an archive's windows on disk. Several runs can share the cache.

The entry of a group of clips is the files ``KEY-0.safetensors``, ``KEY-1.safetensors``, ... of a folder and,
written last, ``KEY.json``. The key is a hash of the model, the windows and the state of the clips, so a changed clip
gets a new entry. An entry without its JSON file is incomplete and is computed again.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie.compute.tasks import run_parallel
from jeanie.datasets.dataset import Dataset
from jeanie.errors import DataError, JeanieError
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.recogniser.search.windows import (
    count_window_frames,
    cut_windows,
    encode_windows,
    project_features,
)

__all__ = [
    "CacheEntry",
    "FeatureFile",
    "FeatureRecipe",
    "build_cache",
    "is_cache_file",
    "list_entries",
]

FORMAT = 2
_WINDOWS = 2048  # per file
_CLIPS = 16  # per entry
_FILE_NAME = re.compile(r"[0-9a-f]{32}(\.json|-\d+\.safetensors)|clips\.json")


@dataclass(frozen=True, eq=False)
class FeatureRecipe:
    """How to compute features. ``rate`` applies to clips without a frame rate, ``basis`` gives coarse features."""

    model: FewShotModel
    archive: Dataset
    folder: Path
    stride: float
    rate: float
    basis: Tensor | None


@dataclass(frozen=True)
class CacheEntry:
    """Some clips of an archive in windows of one duration, and the key of their files."""

    key: str
    duration_step: int
    clips: range


@dataclass(frozen=True)
class FeatureFile:
    """A file with the features of ``count`` windows. It is open only during a read."""

    path: Path
    count: int

    def read_windows(self, rows: slice) -> Int[Tensor, "window 3"]:
        """Return clip, first frame and end frame (exclusive) of some windows."""
        with safe_open(self.path, framework="pt") as file:
            windows: Tensor = file.get_slice("windows")[rows]
        return windows

    def read_features(self, rows: slice, prefix: str = "fine.") -> Features:
        """Return features of some windows; the prefix "coarse." gives the projected features."""
        with safe_open(self.path, framework="pt") as file:
            return _read_features(file, set(file.keys()), rows, prefix)


def is_cache_file(path: Path) -> bool:
    """Return whether a file is one of a cache, by its name.

    >>> is_cache_file(Path("0123456789abcdef0123456789abcdef-0.safetensors")), is_cache_file(Path("notes.json"))
    (True, False)
    """
    return _FILE_NAME.fullmatch(path.name) is not None


def list_entries(
    recipe: FeatureRecipe, duration_steps: Sequence[int], states: Sequence[str]
) -> list[CacheEntry]:
    """Return the entries of all clips in all durations."""
    basis = b"" if recipe.basis is None else np.ascontiguousarray(recipe.basis.cpu().numpy()).tobytes()
    key_parts = [FORMAT, fingerprint(recipe.model), hash_bytes(basis), recipe.stride, recipe.rate]
    entries = []
    for duration_step in duration_steps:
        for at in range(0, len(states), _CLIPS):
            clips = range(at, min(at + _CLIPS, len(states)))
            text = json.dumps([*key_parts, duration_step, at, [states[clip] for clip in clips]])
            entries.append(CacheEntry(hash_bytes(text)[:32], duration_step, clips))
    return entries


def build_cache(
    recipe: FeatureRecipe,
    work: Sequence[CacheEntry],
    *,
    jobs: int = 1,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[FeatureFile], list[tuple[str, str]]]:
    """Return the files of all entries, in order, and (clip, reason) of unreadable clips.

    Existing files are kept; ``jobs`` worker processes compute the others. An unreadable clip raises DataError, or is
    skipped with ``skip_bad``.
    """
    recipe.folder.mkdir(parents=True, exist_ok=True)
    total = sum(len(portion.clips) for portion in work)
    waiting = [portion for portion in work if _read_entry(recipe.folder, portion) is None]
    done = total - sum(len(portion.clips) for portion in waiting)
    workers = min(jobs, max(1, len(waiting)))
    for clips in run_parallel(_compute_entry, waiting, jobs=workers, shared=(recipe, skip_bad)):
        done += clips
        if progress is not None:
            progress(done, total)
    if progress is not None:
        progress(total, total)
    parts: list[FeatureFile] = []
    bad: dict[str, str] = {}
    for portion in work:
        description = _read_entry(recipe.folder, portion)
        if description is None:
            raise DataError(
                f"{recipe.folder}: files of {portion.key} were deleted during the search; start again"
            )
        _check_bad(description["bad"], skip_bad)
        bad |= dict(description["bad"])
        counts = enumerate(description["windows"])
        parts += [FeatureFile(_get_path(recipe.folder, portion, place), count) for place, count in counts]
    return parts, list(bad.items())


def _compute_entry(recipe: FeatureRecipe, skip_bad: bool, portion: CacheEntry) -> int:
    """Write the files of an entry and return its number of clips. Memory holds the windows of at most one file."""
    batches: list[tuple[Tensor, Features]] = []
    counts: list[int] = []
    bad: list[tuple[str, str]] = []

    def write() -> None:
        windows = torch.cat([part for part, _ in batches])
        fine = Features.cat([part for _, part in batches])
        tensors = {"windows": windows} | _flatten_features(fine, "fine.")
        if recipe.basis is not None:
            tensors |= _flatten_features(project_features(fine, recipe.basis), "coarse.")
        content = save(
            {
                name: tensor.cpu().clone(memory_format=torch.contiguous_format)
                for name, tensor in tensors.items()
            }
        )
        write_atomically(_get_path(recipe.folder, portion, len(counts)), content)
        counts.append(len(windows))
        batches.clear()

    for clip in portion.clips:
        try:
            for windows, features in _compute_clip(recipe, portion.duration_step, clip):
                batches.append((windows, features))
                if sum(len(part) for part, _ in batches) >= _WINDOWS:
                    write()
        except (JeanieError, OSError) as error:
            bad.append((f"clip {clip}", str(error) or type(error).__name__))
            _check_bad(bad, skip_bad)
    if batches:
        write()
    description = json.dumps({"windows": counts, "bad": bad})
    write_atomically(recipe.folder / f"{portion.key}.json", description.encode())
    return len(portion.clips)


def _compute_clip(recipe: FeatureRecipe, duration_step: int, clip: int) -> Iterator[tuple[Tensor, Features]]:
    """Yield windows of a clip with their features, in batches."""
    motion = recipe.archive.motions[clip]
    cut = cut_windows(motion, count_window_frames(duration_step, motion.rate or recipe.rate), recipe.stride)
    done = 0
    for features in encode_windows(recipe.model, motion, cut):
        some = cut[done : done + len(features)]
        done += len(features)
        yield torch.tensor([(clip, start, end) for start, end in some]), features


def _check_bad(bad: Sequence[Sequence[str]], skip_bad: bool) -> None:
    if bad and not skip_bad:
        raise DataError(f"{bad[0][0]}: {bad[0][1]}\n--skip-bad leaves such clips out and lists them")


def _get_path(folder: Path, portion: CacheEntry, place: int) -> Path:
    return folder / f"{portion.key}-{place}.safetensors"


def _read_entry(folder: Path, portion: CacheEntry) -> dict[str, Any] | None:
    """Return the description of an entry, or None unless all its files are complete."""
    try:
        description = json.loads((folder / f"{portion.key}.json").read_bytes())
        for place, count in enumerate(description["windows"]):
            with safe_open(_get_path(folder, portion, place), framework="pt") as file:
                if file.get_slice("windows").get_shape() != [count, 3]:
                    return None
        return {
            "windows": description["windows"],
            "bad": [(str(clip), str(why)) for clip, why in description["bad"]],
        }
    except (OSError, ValueError, TypeError, KeyError, SafetensorError):
        return None


def _flatten_features(features: Features, prefix: str) -> dict[str, Tensor]:
    """Return features as named tensors; the second person is stored only if there is one."""
    tensors = {f"{prefix}values": features.values, f"{prefix}counts": features.counts}
    if features.paired is not None and features.second is not None:
        tensors[f"{prefix}paired"] = features.paired
        if bool(features.paired.any()):
            tensors[f"{prefix}second"] = features.second
    if features.factor is not None:
        tensors[f"{prefix}factor"] = features.factor
    for place, part in enumerate(features.components):
        tensors |= _flatten_features(part, f"{prefix}component{place}.")
    return tensors


def _read_features(file: Any, names: set[str], rows: slice, prefix: str) -> Features:
    def tensor(name: str) -> Tensor | None:
        return file.get_slice(prefix + name)[rows] if prefix + name in names else None

    values, counts, paired = tensor("values"), tensor("counts"), tensor("paired")
    assert values is not None
    assert counts is not None
    second = tensor("second")
    components: list[Features] = []
    while f"{prefix}component{len(components)}.values" in names:
        components.append(_read_features(file, names, rows, f"{prefix}component{len(components)}."))
    if paired is not None and second is None:
        second = values
    return Features(values, counts, tuple(components), second, paired, tensor("factor"))
