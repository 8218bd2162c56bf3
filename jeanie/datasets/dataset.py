"""Data sets: the recordings are listed first; each one is read when it is indexed."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, overload, runtime_checkable

from jeanie.datasets.clip_names import Tags, parse_clip_name, parse_tags
from jeanie.errors import DataError, RecordingError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Clip", "Dataset", "FileDataset", "FileMotions", "LazyMotions", "find_files", "list_files"]

Tag = str | int | None


@runtime_checkable
class Dataset(Protocol):
    """The interface of every data set.

    Attributes:
        name: Name of the data set.
        layout: Layout of the motions.
        motions: The motions; each one is read when it is indexed.
        labels, subjects, views: Tags of the motions, in the same order; None if unknown.

    >>> from jeanie import open_synthetic
    >>> isinstance(open_synthetic(), Dataset)
    True
    """

    @property
    def name(self) -> str: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def motions(self) -> Sequence[Motion]: ...
    @property
    def labels(self) -> Sequence[Tag]: ...
    @property
    def subjects(self) -> Sequence[Tag]: ...
    @property
    def views(self) -> Sequence[Tag]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Motion: ...


@dataclass(frozen=True)
class Clip:
    """A recording that is not read yet: its file, its ``index`` in a file with several recordings, and its tags."""

    name: str
    source: Path
    tags: Tags = field(default_factory=Tags)
    index: int = 0


@dataclass(frozen=True, eq=False)
class FileDataset:
    """A data set of files. A motion is read each time it is indexed; nothing is cached.

    Args:
        read: Reads the motion of a clip. A function at the top level of a module lets the data set be pickled.
        dropped: (name, reason) of recordings that are not in the data set.
        root: The folder that the data set was opened from, if known.
    """

    name: str
    layout: Layout
    clips: tuple[Clip, ...]
    read: Callable[[Clip], Motion]
    dropped: tuple[tuple[str, str], ...] = ()
    root: Path | None = None

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> Motion:
        return self.motions[index]

    @property
    def motions(self) -> "FileMotions":
        return FileMotions(self)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(clip.name for clip in self.clips)

    @property
    def labels(self) -> tuple[Tag, ...]:
        return tuple(clip.tags.label for clip in self.clips)

    @property
    def subjects(self) -> tuple[Tag, ...]:
        return tuple(clip.tags.subject for clip in self.clips)

    @property
    def views(self) -> tuple[Tag, ...]:
        return tuple(clip.tags.view for clip in self.clips)

    @property
    def setups(self) -> tuple[int | None, ...]:
        return tuple(clip.tags.setup for clip in self.clips)

    @property
    def takes(self) -> tuple[int | None, ...]:
        return tuple(clip.tags.take for clip in self.clips)

    def exclude(self, reasons: Iterable[tuple[str, str]]) -> "FileDataset":
        """Return the data set without the clips in ``reasons``, pairs (name, reason); ``dropped`` lists them."""
        reason_of = dict(reasons)
        dropped = tuple((clip.name, reason_of[clip.name]) for clip in self.clips if clip.name in reason_of)
        clips = tuple(clip for clip in self.clips if clip.name not in reason_of)
        return replace(self, clips=clips, dropped=self.dropped + dropped)


@dataclass(frozen=True, eq=False)
class FileMotions(Sequence[Motion]):
    """The motions of a data set. Each one is read when it is indexed; a slice reads nothing."""

    dataset: FileDataset

    def __len__(self) -> int:
        return len(self.dataset.clips)

    @overload
    def __getitem__(self, index: int) -> Motion: ...
    @overload
    def __getitem__(self, index: slice) -> "FileMotions": ...
    def __getitem__(self, index: int | slice) -> "Motion | FileMotions":
        if isinstance(index, slice):
            return FileMotions(replace(self.dataset, clips=self.dataset.clips[index]))
        try:
            return self.dataset.read(self.dataset.clips[index])
        except DataError as error:
            raise RecordingError(str(error)) if len(self) > 1 else error from None


class LazyMotions(Sequence[Motion]):
    """A sequence of motions that ``load`` returns when they are indexed. A slice loads all of its motions."""

    @abstractmethod
    def load(self, number: int) -> Motion:
        """Return motion ``number``, counted from 0."""

    @overload
    def __getitem__(self, index: int) -> Motion: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Motion, ...]: ...
    def __getitem__(self, index: int | slice) -> Motion | tuple[Motion, ...]:
        number = range(len(self))[index]
        return tuple(map(self.load, number)) if isinstance(number, range) else self.load(number)


def find_files(root: str | Path, pattern: str, name: str) -> list[Path]:
    """Return the files below ``root`` whose names match ``pattern``, sorted by path.

    ``root`` may be such a file itself. Hidden files, such as the ``._`` files of some archivers, are ignored.

    Raises:
        DataError: There is no such file; the message names the data set ``name``.
    """
    root = Path(root)
    if root.is_file() and root.match(pattern):
        return [root]
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; give root, the folder into which {name} was unpacked")
    files = sorted(path for path in root.rglob(pattern) if not path.name.startswith("."))
    if not files:
        raise DataError(f"{root}: no file {pattern} in it or below; is this where {name} was unpacked?")
    return files


def list_files(
    name: str, layout: Layout, files: Iterable[Path], read: Callable[[Path], Motion]
) -> FileDataset:
    """Return a data set with one recording per file and tags from file names; files without an action are dropped."""
    clips = [Clip(parse_clip_name(path), path, parse_tags(path)) for path in files]
    unlabelled = [(clip.name, "its name has no action") for clip in clips if clip.tags.label is None]
    return FileDataset(name, layout, tuple(clips), partial(_read_file, read)).exclude(unlabelled)


def _read_file(read: Callable[[Path], Motion], clip: Clip) -> Motion:
    return read(clip.source)
