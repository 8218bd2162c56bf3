"""Prepare an archive from the files of a data set: parallel, resumable, with a report of dropped files."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

from jeanie.compute.processes import use_one_thread
from jeanie.compute.tasks import check_workers, map_tasks
from jeanie.datasets.archive.writer import ArchiveWriter, Record, make_record
from jeanie.datasets.dataset import Dataset, FileDataset
from jeanie.errors import DataError, JeanieError, RecordingError

__all__ = ["PUBLISHED", "prepare"]

# Number of clips according to the publisher, including clips without a usable skeleton.
PUBLISHED: Mapping[str, int] = MappingProxyType(
    {
        "msraction3d": 567,
        "action-pairs": 360,
        "uwa3d": 701,
        "uwa3d-multiview": 1070,
        "ntu60": 56_880,
        "ntu120": 114_480,
        "kinetics": 260_232,
        "nw-ucla": 1484,
        "sbu": 282,
        "cmu": 2425,
    }
)

_CLIPS_PER_TASK = 16


@dataclass(frozen=True)
class ReadFailure:
    """The reason why a clip could not be read."""

    reason: str


def prepare(
    dataset: Dataset,
    out: str | Path,
    *,
    source: str | Path | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write a data set as an archive to the folder ``out``. An existing archive is replaced.

    After an interruption, call it again to resume.

    Args:
        source: Where the clips come from, for the report.
        jobs: Number of processes that read clips. The archive does not depend on it.
        cluster: Address of a Dask scheduler whose workers read clips; they need the files under the same paths.
        skip_bad: Drop clips that cannot be read and list them in the report; otherwise they raise.
        progress: Called with (clips done, clips in total).

    Returns:
        The report, which is also stored in the archive.

    Raises:
        DataError: A clip cannot be read, or the data set has no clips.
        ConfigError: ``jobs`` or ``cluster`` is wrong.
    """
    check_workers(jobs, cluster)
    if not len(dataset):
        raise DataError(f"{source or dataset.name}: contains no clips")
    started = monotonic()
    stamps = list(_list_stamps(dataset))
    with ArchiveWriter(out, dataset.name) as writer:
        resumed = writer.resume(stamps, keep_dropped=skip_bad)
        for index, outcome in enumerate(_read_clips(dataset, resumed, jobs, cluster), resumed):
            if progress is not None:
                progress(index, len(dataset))
            if isinstance(outcome, Record):
                writer.add(stamps[index], outcome)
            elif skip_bad:
                writer.drop(stamps[index], _get_name(dataset, index), outcome.reason)
            else:
                raise RecordingError(outcome.reason)
        if progress is not None:
            progress(len(dataset), len(dataset))
        report = _make_report(dataset, writer, source)
        seconds = monotonic() - started
        speed = (len(dataset) - resumed) / max(seconds, 1e-9)
        report |= {"resumed": resumed, "jobs": jobs, "seconds": round(seconds, 3)}
        report |= {"clips_per_second": round(speed, 1)}
        writer.commit(report)
    return report


def _make_report(dataset: Dataset, writer: ArchiveWriter, source: str | Path | None) -> dict[str, Any]:
    """Return the counts, the published count, and all dropped clips with their reasons."""
    excluded = dataset.dropped if isinstance(dataset, FileDataset) else ()
    dropped = [{"name": name, "reason": reason} for name, reason in (*excluded, *writer.dropped)]
    if not writer.clip_count:
        first = dropped[0]["reason"] if dropped else ""
        raise DataError(
            f"{source or dataset.name}: none of {len(dropped)} clips can be read; the first: {first}"
        )
    clip_count, published = len(dataset) + len(excluded), PUBLISHED.get(dataset.name)
    return {
        "name": dataset.name,
        "source": None if source is None else str(source),
        "published": published,
        "found": clip_count,
        "complete": None if published is None else clip_count == published,
        "kept": writer.clip_count,
        "frames": writer.frames,
        "dropped": dropped,
    }


def _list_stamps(dataset: Dataset) -> Iterator[str]:
    """Yield a stamp per clip: its name, and the size and modification time of its file."""
    if not isinstance(dataset, FileDataset):
        yield from (f"{index} {_get_name(dataset, index)}" for index in range(len(dataset)))
        return
    states: dict[Path, str] = {}
    for clip in dataset.clips:
        if clip.source not in states:
            try:
                status = clip.source.stat()
                states[clip.source] = f"{status.st_size} {status.st_mtime_ns}"
            except OSError:
                states[clip.source] = "-"
        yield f"{clip.name} {clip.index} {states[clip.source]}"


def _get_name(dataset: Dataset, index: int) -> str:
    return dataset.clips[index].name if isinstance(dataset, FileDataset) else f"{dataset.name} {index}"


def _read_clips(
    dataset: Dataset, start: int, jobs: int, cluster: str | None
) -> Iterator[Record | ReadFailure]:
    """Yield the clips from ``start`` on, in order: a record, or the reason why the clip cannot be read."""
    is_alone = jobs == 1 and cluster is None
    parts = _split_dataset(dataset, start, 1 if is_alone else _CLIPS_PER_TASK)
    with use_one_thread():  # clips are small: threads cost more than they bring
        for _, clips in map_tasks(_read_part, parts, jobs=jobs, cluster=cluster, ordered=True):
            yield from clips


def _split_dataset(dataset: Dataset, start: int, size: int) -> Iterator[tuple[Dataset, range]]:
    """Yield tasks: a data set of files is cut, so that a task names its own files alone."""
    for first in range(start, len(dataset), size):
        clips = range(first, min(first + size, len(dataset)))
        if isinstance(dataset, FileDataset):
            part = replace(dataset, clips=dataset.clips[clips.start : clips.stop], dropped=())
            yield part, range(len(clips))
        else:
            yield dataset, clips


def _read_part(part: tuple[Dataset, range]) -> list[Record | ReadFailure]:
    dataset, clips = part
    return [_read_clip(dataset, index) for index in clips]


def _read_clip(dataset: Dataset, index: int) -> Record | ReadFailure:
    try:
        return make_record(dataset.motions[index])
    except (JeanieError, OSError) as error:
        return ReadFailure(str(error) or type(error).__name__)
