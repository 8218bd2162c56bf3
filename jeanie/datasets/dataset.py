"""A data set: recordings that are listed at once and read one by one, each when it is asked for."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, overload, runtime_checkable

from jeanie.datasets.names import Tags, clip_name, tags_of
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Clip", "Clips", "Dataset", "Lazy", "Motions", "find_files", "list_files"]

Tag = str | int | None


@runtime_checkable
class Dataset(Protocol):
    """What every data set offers. ``labels``, ``subjects`` and ``views`` are aligned with ``motions``."""

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
    """One recording before it is read: where it lies (``index`` within a container) and its tags."""

    name: str
    source: Path
    tags: Tags = field(default_factory=Tags)
    index: int = 0


@dataclass(frozen=True, eq=False)
class Clips:
    """A data set over files. ``read`` turns a clip into its motion; ``dropped`` is (name, reason) of others.

    Nothing is read before a motion is asked for, and no motion is kept. With a ``read`` from a module's top
    level a data set can be sent to another process.
    """

    name: str
    layout: Layout
    clips: tuple[Clip, ...]
    read: Callable[[Clip], Motion]
    dropped: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> Motion:
        return self.motions[index]

    @property
    def motions(self) -> "Motions":
        return Motions(self)

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

    def without(self, reasons: Iterable[tuple[str, str]]) -> "Clips":
        """The data set without the clips that are named in (name, reason); they are listed in ``dropped``."""
        why = dict(reasons)
        dropped = tuple((clip.name, why[clip.name]) for clip in self.clips if clip.name in why)
        kept = tuple(clip for clip in self.clips if clip.name not in why)
        return replace(self, clips=kept, dropped=self.dropped + dropped)


@dataclass(frozen=True, eq=False)
class Motions(Sequence[Motion]):
    """The motions of a data set as a sequence that reads each one when it is indexed; a slice stays lazy."""

    of: Clips

    def __len__(self) -> int:
        return len(self.of.clips)

    @overload
    def __getitem__(self, index: int) -> Motion: ...
    @overload
    def __getitem__(self, index: slice) -> "Motions": ...
    def __getitem__(self, index: int | slice) -> "Motion | Motions":
        if isinstance(index, slice):
            return Motions(replace(self.of, clips=self.of.clips[index]))
        return self.of.read(self.of.clips[index])


class Lazy(Sequence[Motion]):
    """Motions of which each is made by ``one`` when it is indexed; a slice makes all of its own."""

    @abstractmethod
    def one(self, number: int) -> Motion:
        """Motion ``number``, from 0 on."""

    @overload
    def __getitem__(self, index: int) -> Motion: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Motion, ...]: ...
    def __getitem__(self, index: int | slice) -> Motion | tuple[Motion, ...]:
        number = range(len(self))[index]
        return tuple(map(self.one, number)) if isinstance(number, range) else self.one(number)


def find_files(root: str | Path, pattern: str, name: str) -> list[Path]:
    """Files below ``root`` whose names match ``pattern``, sorted by path; ``root`` may itself be such a file.

    Hidden files (such as the ``._`` twins that some archivers leave behind) are passed over.
    """
    root = Path(root)
    if root.is_file() and root.match(pattern):
        return [root]
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; give the folder that {name} was unpacked into as root")
    found = sorted(path for path in root.rglob(pattern) if not path.name.startswith("."))
    if not found:
        raise DataError(f"{root}: no file {pattern} in it or below; is this where {name} was unpacked?")
    return found


def list_files(name: str, layout: Layout, files: Iterable[Path], read: Callable[[Path], Motion]) -> Clips:
    """A data set with one recording a file and its name's tags; names that tell no action are dropped."""
    clips = [Clip(clip_name(path), path, tags_of(path)) for path in files]
    stray = [(clip.name, "its name tells no action") for clip in clips if clip.tags.label is None]
    return Clips(name, layout, tuple(clips), partial(_read_file, read)).without(stray)


def _read_file(read: Callable[[Path], Motion], clip: Clip) -> Motion:
    return read(clip.source)
