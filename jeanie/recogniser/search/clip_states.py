"""The state of each clip of an archive: it changes if the content changes, and a folder and its archive share it.

The state is a hash of the content: joints, mask, layout and frame rate. An archive stores a checksum of each clip. A
file is read once; ``clips.json`` in the cache keeps its state together with the path, size and modification time.
"""

import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie.datasets.archive.reader import Archive, compute_checksum
from jeanie.datasets.dataset import Dataset, FileDataset
from jeanie.errors import JeanieError
from jeanie.skeleton.motion import Motion

__all__ = ["group_clips", "read_clip_states"]

_INDEX = "clips.json"
_ROW_FIELDS = ("frames", "persons", "rate", "layout", "checksum")
_MAX_BYTES = 2**28
_last_digests: list[tuple[ref[FileDataset], tuple[str, ...]]] = []  # at most one
_CLIPS = 64  # per entry of a cache at most, and half as many on average


def read_clip_states(archive: Dataset, cache: Path | None = None) -> list[str] | None:
    """Return the state of each clip, or None if it is unknown, for example for generated motions.

    Args:
        archive: The data set.
        cache: Folder that keeps the states of files. Without it, the state of a file is its path, size and
            modification time, and nothing is read.
    """
    if isinstance(archive, Archive):
        layouts = [json.dumps(layout.to_dict(), sort_keys=True) for layout in archive.layouts]
        return [_hash_row(row, layouts) for row in archive.rows[list(_ROW_FIELDS)].tolist()]
    if not isinstance(archive, FileDataset):
        return None
    files = _read_file_states(archive)
    return files if files is None or cache is None else _read_contents(archive, files, cache)


def _hash_content(checksum: int, motion_facts: tuple[int, int, float | None], layout: str) -> str:
    facts = json.dumps([checksum, *motion_facts])
    return hash_bytes(f"{facts[:-1]}, {layout}]")[:32]


def _hash_row(row: tuple[Any, ...], layouts: list[str]) -> str:
    frames, persons, rate, number, checksum = row
    layout = layouts[number] if 0 <= number < len(layouts) else "{}"
    return _hash_content(checksum, (frames, persons, None if np.isnan(rate) else rate), layout)


def _hash_motion(motion: Motion) -> str:
    joints = np.ascontiguousarray(motion.joints.numpy())
    checksum = compute_checksum(joints, np.packbits(motion.valid.numpy()))
    layout = json.dumps(motion.layout.to_dict(), sort_keys=True)
    return _hash_content(checksum, (len(motion), motion.persons, motion.rate), layout)


def _read_file_states(archive: FileDataset) -> list[str] | None:
    """Return name, path, size and modification time of each clip; None if a file is gone."""
    known: dict[Path, str] = {}
    source, state, states = None, "", []
    for clip in archive.clips:
        if clip.source is not source:  # the hash of a path takes longer than the rest
            source = clip.source
            if source not in known:
                try:
                    facts = source.stat()
                except OSError:
                    return None
                known[source] = f"{source.resolve()} {facts.st_size} {facts.st_mtime_ns}"
            state = known[source]
        states.append(f"{clip.name} {clip.index} {state}")
    return states


def _hash_clips(archive: FileDataset) -> tuple[str, ...]:
    """Return a hash per clip of how it is read; those of the last archive are kept, because searches repeat."""
    for reference, digests in _last_digests:
        if reference() is archive:
            return digests
    digests = tuple(hash_bytes(pickle.dumps((archive.read, clip)))[:16] for clip in archive.clips)
    _last_digests[:] = [(ref(archive), digests)]
    return digests


def _read_contents(archive: FileDataset, files: list[str], cache: Path) -> list[str]:
    """Return the hash of the content of each clip; an unreadable clip keeps the state of its file.

    How a file is read, such as its unit, is part of the key in the index, because it changes the content.
    """
    index = _read_index(cache)
    known_count = len(index)
    keys = [f"{digest} {file}" for digest, file in zip(_hash_clips(archive), files, strict=True)]
    states = []
    for clip, file in enumerate(keys):
        if file not in index:
            try:
                index[file] = _hash_motion(archive.motions[clip])
            except (JeanieError, OSError):
                states.append(file)
                continue
        states.append(index[file])
    if len(index) > known_count:
        cache.mkdir(parents=True, exist_ok=True)
        write_atomically(cache / _INDEX, json.dumps(_read_index(cache) | index).encode())
    return states


def _read_index(cache: Path) -> dict[str, str]:
    """Return the known states by file; a damaged index is empty."""
    path = cache / _INDEX
    try:
        if path.stat().st_size > _MAX_BYTES:
            return {}
        states = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(states, dict) or not all(isinstance(value, str) for value in states.values()):
        return {}
    return states


def group_clips(states: Sequence[str]) -> Iterator[range]:
    """Yield ranges of clips. Where a range ends depends on its last clip, so that other ranges stay as they are."""
    start, share = 0, max(1, _CLIPS // 2)
    for clip, state in enumerate(states):
        is_end = int(hash_bytes(state)[:8], 16) % share == 0
        if is_end or clip + 1 - start == _CLIPS or clip + 1 == len(states):
            yield range(start, clip + 1)
            start = clip + 1
