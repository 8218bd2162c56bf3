"""Make many measurements in worker processes; several machines may share the work, and a stopped run continues."""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jeanie.compute.processes import use_one_thread
from jeanie.compute.tasks import WorkerLost, run_parallel
from jeanie.errors import ConfigError
from jeanie.paper.tables.cells import Cell
from jeanie.paper.tables.claims import LEASE_SECONDS, hold_claim
from jeanie.paper.tables.measure import measure_and_store, run_folder
from jeanie.paper.tables.results import folder_of, read_failure

__all__ = ["Progress", "Shard", "run_cells"]

Progress = Callable[[int, int], Any]
"""A function that is called with (finished measurements, all measurements); failed ones are finished."""

_WAIT_SECONDS = 0.5  # before looking again at what other processes do


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``count`` of a table, counted from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse a shard written as ``i/n``.

        >>> Shard.parse("2/3")
        Shard(number=2, count=3)
        """
        parts = text.split("/")
        if len(parts) == 2 and all(part.isdecimal() for part in parts):
            shard = cls(*map(int, parts))
            if 1 <= shard.number <= shard.count:
                return shard
        raise ConfigError(f"a shard is i/n with i from 1 to n, such as 1/4, got {text!r}")

    def select(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells of this shard; cells that share a training stay together."""
        order = {key: number for number, key in enumerate(dict.fromkeys(cell.run_key for cell in cells))}
        return [cell for cell in cells if order[cell.run_key] % self.count == self.number - 1]


@dataclass(frozen=True)
class _Work:
    """The measurements of one call and where they are stored."""

    cells: tuple[Cell, ...]
    out: Path
    data: Path | None
    session: str
    lease: float

    def is_finished(self, cell: Cell) -> bool:
        """Return whether a measurement is stored or has failed in this call."""
        if (folder_of(self.out, cell) / "result.json").exists():
            return True
        failure = read_failure(self.out, cell)
        return failure is not None and failure.session == self.session

    def count_finished(self) -> int:
        """Return the number of finished measurements."""
        return sum(self.is_finished(cell) for cell in self.cells)


def run_cells(
    cells: Sequence[Cell],
    out: str | Path,
    *,
    data: str | Path | None = None,
    jobs: int = 1,
    shard: Shard | None = None,
    lease: float = LEASE_SECONDS,
    progress: Progress | None = None,
) -> None:
    """Make every measurement that is not stored yet; measurements that failed in an earlier call are retried.

    Several calls, in any number of processes and machines that share ``out``, divide the work: each training is
    claimed by one of them. The call returns when all its measurements are stored or have failed. Ctrl-C keeps
    checkpoints, and the same call continues. Every process computes with one thread, so that results do not
    depend on the number of processes.

    Args:
        cells: The measurements; duplicates are made once.
        out: Folder for results and trainings.
        data: Folder that holds the data sets (default: ``$JEANIE_DATA``).
        jobs: Number of worker processes; 1 works in this process.
        shard: Part of the measurements to make (default: all).
        lease: Seconds after which the claim of a silent process on another machine is free.
        progress: Called with (finished measurements, all measurements).

    Raises:
        WorkerLost: A worker process was killed and measurements are missing.
    """
    unique = list({cell.key: cell for cell in cells}.values())
    selected = unique if shard is None else shard.select(unique)
    root = None if data is None else Path(data).resolve()
    work = _Work(tuple(selected), Path(out).resolve(), root, uuid.uuid4().hex, lease)
    work.out.mkdir(parents=True, exist_ok=True)
    if jobs == 1 or len(selected) < 2:
        with use_one_thread():
            _measure_pending(work, progress)
        return

    def report_progress() -> None:
        if progress is not None:
            progress(work.count_finished(), len(work.cells))

    jobs = min(jobs, len(selected))
    try:
        list(run_parallel(_run_worker, range(jobs), jobs=jobs, shared=(work,), on_wait=report_progress))
    except WorkerLost:
        if work.count_finished() < len(work.cells):
            raise
    report_progress()


def _run_worker(work: _Work, number: int) -> None:
    """Measure in a worker process; all workers share the same list of measurements."""
    _measure_pending(work)


def _measure_pending(work: _Work, progress: Progress | None = None) -> None:
    """Measure whatever no other process is measuring, until all measurements are finished."""
    pending = list(work.cells)
    while pending:
        remaining: list[Cell] = []
        for number, cell in enumerate(pending):
            if progress is not None:
                progress(len(work.cells) - len(pending) - len(remaining) + number, len(work.cells))
            if not work.is_finished(cell) and not _try_measure(work, cell):
                remaining.append(cell)
        if remaining == pending:
            time.sleep(_WAIT_SECONDS)
        pending = remaining
    if progress is not None:
        progress(len(work.cells), len(work.cells))


def _try_measure(work: _Work, cell: Cell) -> bool:
    """Make a measurement unless another process has claimed its training; return whether it is finished."""
    with hold_claim(run_folder(work.out, cell), work.lease) as is_ours:
        if is_ours and not work.is_finished(cell):
            measure_and_store(cell, work.out, work.data, work.session)
        return is_ours
