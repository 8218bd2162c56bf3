"""Data sets of 2-D key points with estimated depth: lifted when they are read, or once as an archive.

The network is ``jeanie.datasets.lifter``; ``jeanie.datasets.lifter_training`` trains it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from jeanie.datasets.archive.prepare import prepare
from jeanie.datasets.archive.reader import is_archive
from jeanie.datasets.archive.writer import ArchiveLocked
from jeanie.datasets.dataset import Clip, Dataset, FileDataset, LazyMotions, Tag
from jeanie.datasets.lifter import Lifter
from jeanie.datasets.lifter_training import train_lifter
from jeanie.datasets.registry import open_dataset
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["LiftedDataset", "Lifter", "lift_dataset", "provide_lifted_archive", "train_lifter"]

_WAIT_SECONDS = 1.0


def lift_dataset(dataset: Dataset, lifter: Lifter) -> "FileDataset | LiftedDataset":
    """Return a data set of key points, of files or an archive, whose motions are lifted when they are read."""
    if isinstance(dataset, FileDataset):
        read: Any = partial(_read_and_lift, dataset.read, lifter)
        layout = replace(dataset.layout, dims=3)
        return replace(dataset, name=f"{dataset.name}-3d", layout=layout, read=read)
    return LiftedDataset(dataset, lifter)


def _read_and_lift(read: Any, lifter: Lifter, clip: Clip) -> Motion:
    return lifter.lift(read(clip))


@dataclass(frozen=True, eq=False)
class LiftedDataset:
    """A data set of key points whose motions are lifted to 3-D when they are read."""

    source: Dataset
    lifter: Lifter

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Motion:
        return self.lifter.lift(self.source[index])

    @property
    def name(self) -> str:
        return f"{self.source.name}-3d"

    @property
    def layout(self) -> Layout:
        return replace(self.source.layout, dims=3)

    @property
    def motions(self) -> "LiftedMotions":
        return LiftedMotions(self)

    @property
    def names(self) -> tuple[str, ...]:
        names: Sequence[str] = getattr(self.source, "names", ())
        return tuple(names)

    @property
    def labels(self) -> Sequence[Tag]:
        return self.source.labels

    @property
    def subjects(self) -> Sequence[Tag]:
        return self.source.subjects

    @property
    def views(self) -> Sequence[Tag]:
        return self.source.views


@dataclass(frozen=True, eq=False)
class LiftedMotions(LazyMotions):
    """The motions of a lifted data set."""

    dataset: LiftedDataset

    def __len__(self) -> int:
        return len(self.dataset)

    def load(self, number: int) -> Motion:
        """Return motion ``number``, lifted."""
        return self.dataset[number]


def provide_lifted_archive(
    root: str | Path,
    name: str = "kinetics",
    *,
    lifter: Lifter | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Return the archive ``NAME-3d`` beside a data set of key points; make it first if it does not exist.

    Clips without enough key points are dropped and listed in the report of the archive. If another process is
    making the archive, wait for it.

    Args:
        root: Folder or archive of the data set.
        name: Name of the data set.
        lifter: The network (default: the one that ships).
        jobs: Number of processes.
        progress: Called with (clips done, clips in total).
    """
    root = Path(root)
    out = root.with_name(f"{name}-3d")
    while not is_archive(out):
        lifted = lift_dataset(open_dataset(name, root), Lifter.load() if lifter is None else lifter)
        try:
            prepare(lifted, out, source=root, jobs=jobs, skip_bad=True, progress=progress)
        except ArchiveLocked:
            time.sleep(_WAIT_SECONDS)
    return out
