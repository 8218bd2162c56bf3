"""Cache the features of an archive's windows on disk. Several runs can share the cache.

An entry holds the windows of one duration of a few clips: the files ``KEY-0.rows``, ``KEY-1.rows``, ... of a folder
and, written last, ``KEY.json``. The key is a hash of the model, the windows and the states of the clips. Entries do not
depend on the place of the clips in the archive, so a new or changed recording changes only the entry that it is in. An
entry without its JSON file is incomplete and is computed again.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie.compute.tasks import map_tasks
from jeanie.datasets.dataset import Dataset
from jeanie.errors import DataError, JeanieError
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.recogniser.search.clip_states import group_clips
from jeanie.recogniser.search.encoding import Segments, encode_segments
from jeanie.recogniser.search.row_files import CacheEntry, RowFile
from jeanie.recogniser.search.rows import Projection, build_row_type, pack_rows
from jeanie.recogniser.search.windows import count_window_frames, cut_windows

__all__ = [
    "FeatureRecipe",
    "build_cache",
    "delete_entry",
    "is_cache_file",
    "is_current",
    "list_entries",
]

FORMAT = 3
_WINDOWS = 16384  # per file
_FILE_NAME = re.compile(r"[0-9a-f]{32}(\.json|-\d+\.(rows|safetensors))|clips\.json")


@dataclass(frozen=True, eq=False)
class FeatureRecipe:
    """How to compute rows. ``rate`` applies to clips without a frame rate.

    Without a projection the model has no lower bound, and rows have no values.
    """

    model: FewShotModel
    archive: Dataset
    folder: Path
    stride: float
    rate: float
    projection: Projection | None


def is_cache_file(path: Path) -> bool:
    """Return whether a file is one of a cache, by its name; also files of earlier versions.

    >>> is_cache_file(Path("0123456789abcdef0123456789abcdef-0.rows")), is_cache_file(Path("notes.json"))
    (True, False)
    """
    return _FILE_NAME.fullmatch(path.name) is not None


def is_current(path: Path) -> bool:
    """Return whether this version reads a file of the cache. Files of earlier versions can be deleted."""
    if path.name == "clips.json":
        return True
    try:
        about = json.loads((path.parent / f"{path.name[:32]}.json").read_bytes())
    except (OSError, ValueError):
        return path.suffix == ".rows"  # it is being written
    return isinstance(about, dict) and about.get("format") == FORMAT and path.suffix != ".safetensors"


def list_entries(
    recipe: FeatureRecipe, duration_steps: Sequence[int], states: Sequence[str]
) -> list[CacheEntry]:
    """Return the entries of all clips in all durations."""
    projection = b"" if recipe.projection is None else recipe.projection.get_bytes()
    key_parts = [FORMAT, fingerprint(recipe.model), hash_bytes(projection), recipe.stride, recipe.rate]
    start = hashlib.sha256(json.dumps(key_parts).encode())
    entries = []
    for clips in group_clips(states):
        content = start.copy()
        content.update(json.dumps([states[clip] for clip in clips]).encode())
        for duration_step in duration_steps:
            full = content.copy()
            full.update(str(duration_step).encode())
            entries.append(CacheEntry(full.hexdigest()[:32], duration_step, clips))
    return entries


def build_cache(
    recipe: FeatureRecipe,
    work: Sequence[CacheEntry],
    *,
    jobs: int = 1,
    cluster: str | None = None,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[RowFile], list[tuple[str, str]]]:
    """Return the files of all entries, in order, and (clip, reason) of unreadable clips.

    Existing files are kept; ``jobs`` worker processes, or a cluster, compute the others. An unreadable clip raises
    DataError, or is skipped with ``skip_bad``.
    """
    recipe.folder.mkdir(parents=True, exist_ok=True)
    known = {portion.key: _read_entry(recipe.folder, portion) for portion in work}
    total = sum(len(portion.clips) for portion in work)
    waiting = [portion for portion in work if known[portion.key] is None]
    done = total - sum(len(portion.clips) for portion in waiting)
    # a recording is read once for all durations
    tasks = [tuple(group) for _, group in groupby(waiting, lambda portion: portion.clips)]
    workers = min(jobs, max(1, len(tasks)))
    shared = recipe, skip_bad
    for _, clips in map_tasks(_compute_entries, tasks, shared=shared, jobs=workers, cluster=cluster):
        done += clips
        if progress is not None:
            progress(done, total)
    if progress is not None:
        progress(total, total)
    files: list[RowFile] = []
    bad: dict[str, str] = {}
    for portion in work:
        description = known[portion.key] or _read_entry(recipe.folder, portion)
        if description is None:
            raise DataError(
                f"{recipe.folder}: files of {portion.key} were deleted during the search; start again"
            )
        _check_bad(description.bad, skip_bad)
        bad |= dict(description.bad)
        files += description.files
    return files, list(bad.items())


@dataclass(frozen=True)
class _Description:
    files: list[RowFile]
    bad: list[tuple[str, str]]


def _compute_entries(recipe: FeatureRecipe, skip_bad: bool, entries: Sequence[CacheEntry]) -> int:
    """Write the files of entries of the same clips; return the number of clips in all durations.

    Memory holds the windows of at most one file per entry.
    """
    writers = {portion.duration_step: _EntryWriter(recipe.folder, portion) for portion in entries}
    clips = entries[0].clips
    bad: dict[int, str] = {}

    def note(place: int, error: Exception) -> None:
        bad.setdefault(place, str(error) or type(error).__name__)
        _check_bad([(f"clip {clips[place]}", bad[place])], skip_bad)

    def list_segments() -> Iterator[Segments]:
        for place, clip in enumerate(clips):
            try:
                motion = recipe.archive.motions[clip]
            except (JeanieError, OSError) as error:
                note(place, error)
                continue
            for step in writers:
                length = count_window_frames(step, motion.rate or recipe.rate)
                windows = cut_windows(motion, length, recipe.stride)
                yield Segments((step, place, windows), motion, windows)

    pieces = encode_segments(recipe.model, list_segments(), on_error=lambda tag, error: note(tag[1], error))
    for names, features in pieces:
        at = 0
        for step, group in groupby(names, lambda name: name[0][0]):
            windows = [(place, *cut[number]) for (_, place, cut), number in group]
            writers[step].add(features[at : at + len(windows)], torch.tensor(windows), recipe.projection)
            at += len(windows)
    for writer in writers.values():
        writer.finish(sorted(bad.items()))
    return len(clips) * len(entries)


class _EntryWriter:
    """Collects the rows of an entry and writes its files, the description last."""

    def __init__(self, folder: Path, entry: CacheEntry) -> None:
        self.folder, self.entry = folder, entry
        self.waiting: list[NDArray[Any]] = []
        self.files: list[dict[str, Any]] = []

    def add(self, features: Features, windows: torch.Tensor, projection: Projection | None) -> None:
        """Add rows; rows of another type, and rows beyond the size of a file, begin a new file."""
        rows = pack_rows(features, windows, projection)
        if self.waiting and self.waiting[0].dtype != rows.dtype:
            self._write()
        self.waiting.append(rows)
        if sum(map(len, self.waiting)) >= _WINDOWS:
            self._write()

    def finish(self, bad: Sequence[tuple[int, str]]) -> None:
        """Write the remaining rows and the description."""
        if self.waiting:
            self._write()
        about = {"format": FORMAT, "files": self.files, "bad": bad}
        write_atomically(self.folder / f"{self.entry.key}.json", json.dumps(about).encode())

    def _write(self) -> None:
        rows = np.concatenate(self.waiting)
        self.waiting.clear()
        names = rows.dtype.names or ()
        shape = list(rows["values"].shape[1:]) if "values" in names else None
        about = {"rows": len(rows), "shape": shape, "second": "second" in names, "factor": "factor" in names}
        write_atomically(_get_path(self.folder, self.entry, len(self.files)), rows.tobytes())
        self.files.append(about)


def _check_bad(bad: Sequence[Sequence[str]], skip_bad: bool) -> None:
    if bad and not skip_bad:
        raise DataError(f"{bad[0][0]}: {bad[0][1]}\n--skip-bad leaves such clips out and lists them")


def _get_path(folder: Path, portion: CacheEntry, place: int) -> Path:
    return folder / f"{portion.key}-{place}.rows"


def delete_entry(file: RowFile) -> None:
    """Delete the description of the entry of a damaged file, so that it is computed again."""
    (file.path.parent / f"{file.entry.key}.json").unlink(missing_ok=True)


def _read_entry(folder: Path, portion: CacheEntry) -> _Description | None:
    """Return the description of an entry, or None unless all its files have the right size."""
    try:
        about = json.loads((folder / f"{portion.key}.json").read_bytes())
        if about["format"] != FORMAT:
            return None
        files = []
        for place, part in enumerate(about["files"]):
            shape = None if part["shape"] is None else tuple(map(int, part["shape"]))
            kind = build_row_type(shape, has_second=bool(part["second"]), has_factor=bool(part["factor"]))
            file = RowFile(_get_path(folder, portion, place), portion, kind, int(part["rows"]))
            if file.path.stat().st_size != file.count * kind.itemsize or file.count < 1:
                return None
            files.append(file)
        bad = [(f"clip {portion.clips[int(place)]}", str(reason)) for place, reason in about["bad"]]
        return _Description(files, bad)
    except (OSError, ValueError, TypeError, KeyError, IndexError, DataError):
        return None
