"""From a data set as it is distributed to an archive: parallel, resumable, and it says what was dropped."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import monotonic
from types import MappingProxyType
from typing import Any

import torch

from jeanie.datasets.archive_writer import ArchiveWriter, Record, record
from jeanie.datasets.dataset import Clips, Dataset
from jeanie.errors import ConfigError, DataError, JeanieError

__all__ = ["PUBLISHED", "prepare"]

# Clips that the publishers count, those without a usable skeleton included.
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

_AT_ONCE = 16  # clips a process reads before it sends them
_AHEAD = 3  # such portions a process may be ahead of the writer


@dataclass(frozen=True)
class Bad:
    """Why a clip could not be read."""

    reason: str


def prepare(
    dataset: Dataset,
    out: str | Path,
    *,
    source: str | Path | None = None,
    jobs: int = 1,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write a data set as an archive at ``out``, in place of one that may be there, and return its report.

    ``jobs`` processes read; the archive is the same for any number of them. A clip that cannot be read stops
    the work, or with ``skip_bad`` is dropped and listed. Work that was stopped or killed goes on where it was
    when called again. ``progress`` is told how many clips of how many are done.
    """
    if jobs < 1:
        raise ConfigError(f"jobs counts processes, at least 1, got {jobs}")
    if not len(dataset):
        raise DataError(f"{source or dataset.name}: no clips in it")
    started = monotonic()
    stamps = list(_stamps(dataset))
    with ArchiveWriter(out, dataset.name) as writer:
        resumed = writer.resume(stamps, keep_dropped=skip_bad)
        for index, outcome in enumerate(_outcomes(dataset, resumed, jobs), resumed):
            if progress is not None:
                progress(index, len(dataset))
            if isinstance(outcome, Record):
                writer.add(stamps[index], outcome)
            elif skip_bad:
                writer.drop(stamps[index], _name(dataset, index), outcome.reason)
            else:
                raise DataError(f"{outcome.reason}\n--skip-bad leaves such files out and lists them")
        if progress is not None:
            progress(len(dataset), len(dataset))
        report = _report(dataset, writer, source)
        seconds = monotonic() - started
        speed = (len(dataset) - resumed) / max(seconds, 1e-9)
        report |= {"resumed": resumed, "jobs": jobs, "seconds": round(seconds, 3)}
        report |= {"clips_per_second": round(speed, 1)}
        writer.commit(report)
    return report


def _report(dataset: Dataset, writer: ArchiveWriter, source: str | Path | None) -> dict[str, Any]:
    """Counts beside the published ones, and everything that is not in the archive with its reason."""
    known = dataset.dropped if isinstance(dataset, Clips) else ()
    dropped = [{"name": name, "reason": reason} for name, reason in (*known, *writer.dropped)]
    if not writer.kept:
        first = dropped[0]["reason"] if dropped else ""
        raise DataError(
            f"{source or dataset.name}: none of {len(dropped)} clips can be read; the first: {first}"
        )
    found, published = len(dataset) + len(known), PUBLISHED.get(dataset.name)
    return {
        "name": dataset.name,
        "source": None if source is None else str(source),
        "published": published,
        "found": found,
        "complete": None if published is None else found == published,
        "kept": writer.kept,
        "frames": writer.frames,
        "dropped": dropped,
    }


def _stamps(dataset: Dataset) -> Iterator[str]:
    """What each clip is made from: its name, and size and time of change of its file."""
    if not isinstance(dataset, Clips):
        yield from (f"{index} {_name(dataset, index)}" for index in range(len(dataset)))
        return
    known: dict[Path, str] = {}
    for clip in dataset.clips:
        if clip.source not in known:
            try:
                state = clip.source.stat()
                known[clip.source] = f"{state.st_size} {state.st_mtime_ns}"
            except OSError:
                known[clip.source] = "-"
        yield f"{clip.name} {clip.index} {known[clip.source]}"


def _name(dataset: Dataset, index: int) -> str:
    return dataset.clips[index].name if isinstance(dataset, Clips) else f"{dataset.name} {index}"


def _outcomes(dataset: Dataset, start: int, jobs: int) -> Iterator[Record | Bad]:
    """The clips from ``start`` on, in order, each as a record or as the reason why there is none."""
    if jobs == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # clips are small: threads cost more than they bring
        try:
            yield from (_attempt(dataset, index) for index in range(start, len(dataset)))
        finally:
            torch.set_num_threads(threads)
        return
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    portions = (range(at, min(at + _AT_ONCE, len(dataset))) for at in range(start, len(dataset), _AT_ONCE))
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(dataset,)) as pool:
        waiting: deque[Future[list[Record | Bad]]] = deque()
        try:
            for portion in portions:
                waiting.append(pool.submit(_attempts, portion))
                if len(waiting) >= _AHEAD * jobs:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BrokenProcessPool:
            raise JeanieError(
                "a reading process ended unexpectedly (killed, or out of memory); "
                "start again to go on, with fewer --jobs"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _attempt(dataset: Dataset, index: int) -> Record | Bad:
    try:
        return record(dataset.motions[index])
    except (JeanieError, OSError) as error:
        return Bad(str(error) or type(error).__name__)


_reading: list[Dataset] = []  # the data set of a reading process


def _begin(dataset: Dataset) -> None:
    """Prepare a reading process: one thread, and an end of its own when its parent was killed."""
    torch.set_num_threads(1)
    _reading[:] = [dataset]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _attempts(portion: range) -> list[Record | Bad]:
    return [_attempt(_reading[0], index) for index in portion]
