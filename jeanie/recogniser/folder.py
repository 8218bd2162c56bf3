"""Folders of recordings: as a data set to search, and as a place that new recordings come into."""

import time
from collections.abc import Iterator
from pathlib import Path

from jeanie.datasets import read_motion, recognise
from jeanie.datasets.dataset import Clip, Clips
from jeanie.errors import DataError
from jeanie.skeleton.motion import Motion

__all__ = ["arrivals", "open_folder"]


def open_folder(path: str | Path) -> Clips:
    """All recordings in and below a folder, or one file, as a data set; files of no known format are dropped."""
    path = Path(path)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if _shown(file, path))
    clips, dropped = [], []
    for file in files:
        name = file.name if file == path else file.relative_to(path).as_posix()
        try:
            recognise(file)
        except DataError as error:
            dropped.append((name, str(error)))
        else:
            clips.append(Clip(name, file))
    if not clips:
        why = f"; the first: {dropped[0][1]}" if dropped else ""
        raise DataError(f"{path}: no recording of a known format in it{why}")
    first = read_motion(clips[0].source)
    return Clips(path.name or str(path), first.layout, tuple(clips), _read, tuple(dropped))


def _read(clip: Clip) -> Motion:
    motion = read_motion(clip.source)
    return motion.replace(name=clip.name)


def arrivals(folder: str | Path, *, every: float | int = 1.0, once: bool = False) -> Iterator[Path]:
    """Files of a folder, those that are there and then those that come, each when it is whole.

    A file is whole when it has not changed between two looks; one that is written anew comes again. With ``once``
    those that are there are all.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; give one that recordings come into")
    told: dict[Path, tuple[int, int]] = {}
    before: dict[Path, tuple[int, int]] = {}
    while True:
        now = {
            file: state for file in sorted(folder.iterdir()) if (state := _state(file, folder)) is not None
        }
        for file, state in now.items():
            if told.get(file) != state and (once or before.get(file) == state):
                told[file] = state
                yield file
        if once:
            return
        told = {file: state for file, state in told.items() if file in now}
        before = now
        time.sleep(every)


def _shown(file: Path, below: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(below).parts)
    return file.is_file() and not hidden


def _state(file: Path, folder: Path) -> tuple[int, int] | None:
    """Size and time of change of a file that is not hidden and not empty."""
    try:
        state = file.stat()
        return (state.st_size, state.st_mtime_ns) if _shown(file, folder) and state.st_size else None
    except OSError:  # it went away
        return None
