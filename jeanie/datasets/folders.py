"""Folders of recordings: opened as a data set, or watched for new files."""

import time
from collections.abc import Iterator
from pathlib import Path

from jeanie.datasets import detect_format, read_motion
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.errors import DataError
from jeanie.skeleton.motion import Motion

__all__ = ["open_folder", "watch_folder"]


def open_folder(path: str | Path) -> FileDataset:
    """Open all recordings in and below a folder, or one file, as a data set.

    Files of an unknown format are listed in ``dropped``.
    """
    path = Path(path)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if _is_visible(file, path))
    clips, dropped = [], []
    for file in files:
        name = file.name if file == path else file.relative_to(path).as_posix()
        try:
            detect_format(file)
        except DataError as error:
            dropped.append((name, str(error)))
        else:
            clips.append(Clip(name, file))
    if not clips:
        reason = f"; the first file: {dropped[0][1]}" if dropped else ""
        raise DataError(f"{path}: contains no recording of a known format{reason}")
    first = read_motion(clips[0].source)
    return FileDataset(path.name or str(path), first.layout, tuple(clips), _read_clip, tuple(dropped))


def _read_clip(clip: Clip) -> Motion:
    return read_motion(clip.source).replace(name=clip.name)


def watch_folder(folder: str | Path, *, every: float = 1.0, once: bool = False) -> Iterator[Path]:
    """Yield the files of a folder, then new files as they appear, each when it is complete.

    A file is complete if it did not change between two checks. A file that changes later is yielded again.

    Args:
        folder: The folder; its subfolders are not watched.
        every: Seconds between two checks.
        once: Yield the present files without waiting, then stop.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; give a folder that receives recordings")
    yielded: dict[Path, tuple[int, int]] = {}
    previous: dict[Path, tuple[int, int]] = {}
    while True:
        states = ((file, _read_state(file, folder)) for file in sorted(folder.iterdir()))
        current = {file: state for file, state in states if state is not None}
        for file, state in current.items():
            if yielded.get(file) != state and (once or previous.get(file) == state):
                yielded[file] = state
                yield file
        if once:
            return
        yielded = {file: state for file, state in yielded.items() if file in current}
        previous = current
        time.sleep(every)


def _is_visible(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.is_file() and not hidden


def _read_state(file: Path, folder: Path) -> tuple[int, int] | None:
    """Return size and modification time of a file, None if it is hidden or empty."""
    try:
        state = file.stat()
        return (state.st_size, state.st_mtime_ns) if _is_visible(file, folder) and state.st_size else None
    except OSError:  # it was deleted
        return None
