"""Folders of recordings: opened as a data set, or watched for new files."""

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.datasets.format_table import detect_format
from jeanie.datasets.formats.frame_folders import is_frame_folder
from jeanie.datasets.path_patterns import PathPattern
from jeanie.datasets.reading import ReadOptions
from jeanie.datasets.sheets import is_sheet, read_sheet
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.motion import Motion

__all__ = ["drop_unreadable", "list_recordings", "open_folder", "watch_folder"]

_FRAME_FILE = re.compile(r"_keypoints\.json$")
Cut = tuple[float | None, float | None]  # seconds


def open_folder(
    path: str | Path, *, pattern: str | Path | None = None, options: ReadOptions | None = None
) -> FileDataset:
    """Open all recordings in and below a folder, or one file, as a data set.

    Files of an unknown format, and files that do not match the pattern, are listed in ``dropped``.

    Args:
        path: The folder; a recording; or a sheet that lists recordings beside it.
        pattern: Names of the files below the folder, without their endings, such as ``"{label}/{subject}_{take}"``.
            The fields are label, subject, camera, setup and take; ``{}`` is any text, and a part of a path that is not
            in the pattern must not exist. Or the path of a CSV or Excel sheet with the columns file, label, subject,
            camera, take, start and end (seconds); only file is required.
        options: How recordings are read.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("wave/anna_1", "wave/ben_1", "clap/anna_1"):
    ...     (folder / name).parent.mkdir(exist_ok=True)
    ...     _ = (folder / f"{name}.csv").write_text("frame,head_x,head_y,head_z\\n0,0,1.7,3\\n1,0,1.7,3\\n")
    >>> dataset = open_folder(folder, pattern="{label}/{subject}_{take}")
    >>> dataset.labels, dataset.subjects, dataset.takes
    (('clap', 'wave', 'wave'), ('anna', 'anna', 'ben'), (1, 1, 1))
    """
    path, options = Path(path), options or ReadOptions()
    sheet = next(
        (Path(candidate) for candidate in (pattern, path) if candidate is not None and is_sheet(candidate)),
        None,
    )
    if pattern is not None and Path(pattern).is_file():
        sheet = Path(pattern)
    if sheet is not None:
        return _open_sheet(path, sheet, options)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; give a folder of recordings")
    parse = None if pattern is None else PathPattern(str(pattern)).parse
    files = list_recordings(path)
    clips, dropped = [], []
    for file in files:
        name = file.name if file == path else file.relative_to(path).as_posix()
        tags = Tags() if parse is None else parse(name)
        try:
            detect_format(file)
        except DataError as error:
            dropped.append((name, str(error)))
        else:
            if tags is None:
                dropped.append((name, f"its name does not match {pattern}"))
            else:
                clips.append(Clip(name, file, tags))
    if not clips:
        reason = f"; the first file, {dropped[0][0]}: {dropped[0][1]}" if dropped else ""
        raise DataError(f"{path}: contains no recording of a known format{reason}")
    return _make_dataset(path, tuple(clips), (), options, tuple(dropped))


def list_recordings(path: str | Path) -> list[Path]:
    """Return the files in and below a folder, sorted; a folder with one JSON file per frame is one recording."""
    path = Path(path)
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if _is_visible(file, path))
    folders = {file.parent for file in files if file.suffix.lower() == ".json"}
    frames = {folder for folder in folders if is_frame_folder(folder)}
    return list(
        dict.fromkeys(
            file.parent if _FRAME_FILE.search(file.name) or file.parent in frames else file for file in files
        )
    )


def _open_sheet(path: Path, sheet: Path, options: ReadOptions) -> FileDataset:
    """Open the recordings that a sheet lists; their paths are relative to ``path``, or to the sheet."""
    root = path if path.is_dir() else sheet.parent
    clips: list[Clip] = []
    cuts: list[Cut] = [(None, None)]
    dropped: list[tuple[str, str]] = []
    for row in read_sheet(sheet):
        file = root / row.file
        if not file.exists() and "\\" in row.file:  # written on Windows
            file = root / row.file.replace("\\", "/")
        name = row.file if row.cut == (None, None) else f"{row.file}:{row.cut[0] or 0:g}-{row.cut[1] or '':}"
        if not file.exists():
            dropped.append((name, f"{file}: no such file, listed in {sheet.name}"))
            continue
        is_cut = row.cut != (None, None)
        clips.append(Clip(name, file, row.tags, len(cuts) if is_cut else 0))
        cuts += [row.cut] if is_cut else []
    if not clips:
        raise DataError(
            f"{sheet}: none of its {len(dropped)} files exists in {root}, the first is {dropped[0][0]}; paths are "
            "relative to the folder"
        )
    return _make_dataset(root, tuple(clips), tuple(cuts), options, tuple(dropped))


def _make_dataset(
    path: Path,
    clips: tuple[Clip, ...],
    cuts: tuple[Cut, ...],
    options: ReadOptions,
    dropped: tuple[tuple[str, str], ...],
) -> FileDataset:
    layout = None
    reasons = []
    for clip in clips:
        try:
            layout = options.read(clip.source).layout
            break
        except DataError as error:
            reasons.append(str(error))
    if layout is None:
        raise DataError(reasons[0])
    return FileDataset(
        path.resolve().name or str(path), layout, clips, partial(_read_clip, options, cuts), dropped
    )


def _read_clip(options: ReadOptions, cuts: tuple[Cut, ...], clip: Clip) -> Motion:
    motion = options.read(clip.source)
    if clip.index:
        motion = _cut(motion, *cuts[clip.index], clip.name)
    tags = {
        key: value
        for key in ("label", "subject", "view", "setup", "take")
        if (value := getattr(clip.tags, key)) is not None
    }
    return motion.replace(name=clip.name, **tags)


def _cut(motion: Motion, start: float | None, end: float | None, name: str) -> Motion:
    if motion.rate is None:
        raise DataError(
            f"{name}: start and end are seconds, but the recording has no frame rate; declare it (--rate)"
        )
    first = round((start or 0.0) * motion.rate)
    last = len(motion) if end is None else round(end * motion.rate)
    if not 0 <= first < min(last, len(motion)):
        raise DataError(
            f"{name}: start and end are not within the {len(motion) / motion.rate:.2f} s of the recording"
        )
    return motion[first:last]


def drop_unreadable(dataset: FileDataset) -> FileDataset:
    """Return the data set without the recordings that cannot be read; ``dropped`` lists them. Reads all of them."""
    reasons = []
    for clip in dataset.clips:
        try:
            dataset.read(clip)
        except (DataError, ConfigError) as error:
            reasons.append((clip.name, str(error)))
    return dataset.exclude(reasons)


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
    states_by_file: dict[Path, tuple[int, int]] = {}
    previous: dict[Path, tuple[int, int]] = {}
    while True:
        states = ((file, _read_state(file, folder)) for file in sorted(folder.iterdir()))
        current = {file: state for file, state in states if state is not None}
        for file, state in current.items():
            if states_by_file.get(file) != state and (once or previous.get(file) == state):
                states_by_file[file] = state
                yield file
        if once:
            return
        states_by_file = {file: state for file, state in states_by_file.items() if file in current}
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
