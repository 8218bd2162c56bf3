"""Many measurements: in processes of this machine, beside other machines, on from where they were stopped."""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jeanie.errors import ConfigError, JeanieError
from jeanie.experiments.processes import one_thread, setting, together
from jeanie.experiments.tables.claims import LEASE, claimed
from jeanie.experiments.tables.grid import Cell
from jeanie.experiments.tables.measure import attempt, run_folder
from jeanie.experiments.tables.results import folder_of, read_failure

__all__ = ["Shard", "Watcher", "run_cells"]

Watcher = Callable[[int, int], Any]
"""Told (measurements finished, in all); failed ones are finished."""

_PAUSE = 0.5  # seconds between two looks at what others do


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``count`` of a table, counted from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard written as ``i/n``.

        >>> Shard.parse("2/3")
        Shard(number=2, count=3)
        """
        parts = text.split("/")
        if len(parts) == 2 and all(part.isdecimal() for part in parts):
            shard = cls(*map(int, parts))
            if 1 <= shard.number <= shard.count:
                return shard
        raise ConfigError(f"a shard is i/n with i from 1 to n, such as 1/4, got {text!r}")

    def of(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells of this shard; cells that share a training stay together."""
        order = {key: place for place, key in enumerate(dict.fromkeys(cell.run_key for cell in cells))}
        return [cell for cell in cells if order[cell.run_key] % self.count == self.number - 1]


@dataclass(frozen=True)
class _Work:
    """What a process needs to know."""

    cells: tuple[Cell, ...]
    out: Path
    session: str
    lease: float

    def finished(self, cell: Cell) -> bool:
        """Whether a measurement is there, or has failed in this call."""
        if (folder_of(self.out, cell) / "result.json").exists():
            return True
        failure = read_failure(self.out, cell)
        return failure is not None and failure.session == self.session

    def count(self) -> int:
        """Number of finished measurements."""
        return sum(self.finished(cell) for cell in self.cells)


def run_cells(
    cells: Sequence[Cell],
    out: str | Path,
    *,
    data: str | Path | None = None,
    jobs: int = 1,
    shard: Shard | None = None,
    lease: float | int = LEASE,
    progress: Watcher | None = None,
) -> None:
    """Make every measurement that is not there yet; those that failed before are tried again.

    Several calls, in any number of processes and machines that see ``out``, share the work: each training
    is claimed by one of them. A call ends when all its measurements are there or have failed. Ctrl-C keeps
    checkpoints; the same call goes on. Every process computes with one thread, so that a number does not depend
    on how many there are. ``data`` is the folder that holds the data sets; ``$JEANIE_DATA`` without it.
    """
    unique = list({cell.key: cell for cell in cells}.values())
    mine = unique if shard is None else shard.of(unique)
    work = _Work(tuple(mine), Path(out).resolve(), uuid.uuid4().hex, float(lease))
    work.out.mkdir(parents=True, exist_ok=True)
    with setting("JEANIE_DATA", None if data is None else str(Path(data).resolve())):
        if jobs == 1 or len(mine) < 2:
            with one_thread():
                _share(work, progress)
        else:
            _in_processes(work, min(jobs, len(mine)), progress)


def _share(work: _Work, progress: Watcher | None = None) -> None:
    """Do what nobody else does until everything is finished."""
    pending = list(work.cells)
    while pending:
        left: list[Cell] = []
        for number, cell in enumerate(pending):
            if progress is not None:
                progress(len(work.cells) - len(pending) - len(left) + number, len(work.cells))
            if not work.finished(cell) and not _tried(work, cell):
                left.append(cell)
        if left == pending:
            time.sleep(_PAUSE)
        pending = left
    if progress is not None:
        progress(len(work.cells), len(work.cells))


def _tried(work: _Work, cell: Cell) -> bool:
    """Whether the measurement is finished now; another process may have claimed its training."""
    with claimed(run_folder(work.out, cell), work.lease) as ours:
        if ours and not work.finished(cell):
            attempt(cell, work.out, work.session)
        return ours


def _in_processes(work: _Work, jobs: int, progress: Watcher | None) -> None:
    def watch() -> None:
        if progress is not None:
            progress(work.count(), len(work.cells))

    lost = together(_share, [(work,)] * jobs, watch)
    if lost and work.count() < len(work.cells):
        raise JeanieError(
            f"{len(lost)} of {jobs} processes ended early (exit code {lost[0]}); was memory short? "
            "Start the same command again to go on, with fewer jobs"
        )
