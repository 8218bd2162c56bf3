"""Make many measurements: one task per training, computed here, in worker processes or on a cluster."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jeanie._internal.digest import hash_json
from jeanie.compute.processes import use_one_thread
from jeanie.compute.tasks import check_workers, map_tasks
from jeanie.errors import DataError
from jeanie.paper.tables.cells import Cell
from jeanie.paper.tables.measure import measure_and_store, run_folder
from jeanie.paper.tables.results import is_stored

__all__ = ["Progress", "Training", "group_cells", "run_cells"]

Progress = Callable[[int, int], Any]
"""A function that is called with (finished measurements, all measurements); failed ones are finished."""

_WAIT_SECONDS = 0.5  # before looking again at what other processes do
_VISIBLE_SECONDS = 60.0  # until this machine sees a file that another one has written


@dataclass(frozen=True)
class Training:
    """A task: a training, and the measurements that use it.

    The measurements differ from ``cell`` in their ``tests``: classes per episode and limit of test episodes.
    """

    cell: Cell
    tests: tuple[tuple[int | None, int | None], ...]
    out: Path
    data: Path | None
    is_shared: bool  # with other machines, where a file lock may not work

    @property
    def cells(self) -> list[Cell]:
        """The measurements."""
        return [self.cell.with_values({"way": way, "limit": limit}) for way, limit in self.tests]

    @property
    def key(self) -> str:
        """Name of the task, the same for all callers that need this training in this folder."""
        place = None if self.data is None else str(self.data)
        return f"training-{hash_json([str(self.out), place, self.cell.run_key])[:16]}"

    def lock(self) -> FileLock:
        """Return the lock that keeps other processes of this machine from the same training."""
        folder = run_folder(self.out, self.cell)
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / "lock", timeout=0)


def run_cells(
    cells: Sequence[Cell],
    out: str | Path,
    *,
    data: str | Path | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Make every measurement that is not stored yet; measurements that failed in an earlier call are retried.

    Several calls that share ``out`` divide the work: a training runs once, on a cluster as well as on one machine. The
    call returns when all its measurements are stored or have failed. Ctrl-C keeps checkpoints, and the same call
    continues. Every process computes with one thread, so that results do not depend on ``jobs`` or ``cluster``.

    Args:
        cells: The measurements; duplicates are made once.
        out: Folder for results and trainings. The workers of a cluster need it, and the data, under the same path.
        data: Folder that holds the data sets (default: ``$JEANIE_DATA``).
        jobs: Number of worker processes; 1 works in this process.
        cluster: Address of a Dask scheduler whose workers measure.
        progress: Called with (finished measurements, all measurements).

    Raises:
        ConfigError: ``jobs`` or ``cluster`` is wrong, or there is no scheduler.
        DataError: Workers of the cluster wrote to a folder that this machine does not see.
        WorkerLost: The workers of a training were lost and measurements are missing.
    """
    check_workers(jobs, cluster)
    out, data = Path(out).resolve(), None if data is None else Path(data).resolve()
    out.mkdir(parents=True, exist_ok=True)
    unique = {cell.key: cell for cell in cells}
    finished = {key for key, cell in unique.items() if is_stored(out, cell)}

    def report_progress() -> None:
        if progress is not None:
            progress(len(finished), len(unique))

    report_progress()
    while pending := [cell for key, cell in unique.items() if key not in finished]:
        trainings = group_cells(pending, out, data, is_shared=cluster is not None)
        free = [training for training in trainings if training.is_shared or not _is_locked(training)]
        if not free:
            time.sleep(_WAIT_SECONDS)
            finished |= {key for key, cell in unique.items() if is_stored(out, cell)}
        workers = min(jobs, max(1, len(free)))
        results = map_tasks(_measure, free, jobs=workers, cluster=cluster, key=lambda training: training.key)
        for training, outcome in results:
            for cell in training.cells:
                if outcome.get(cell.key):
                    _wait_for_file(out, cell)
            finished |= outcome.keys() & unique.keys()
            report_progress()


def group_cells(cells: Sequence[Cell], out: Path, data: Path | None, is_shared: bool) -> list[Training]:
    """Return one task per training."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.run_key, []).append(cell)
    return [
        Training(group[0], tuple((cell.way, cell.limit) for cell in group), out, data, is_shared)
        for group in groups.values()
    ]


def _is_locked(training: Training) -> bool:
    """Return whether another process of this machine works on a training."""
    try:
        with training.lock():
            return False
    except Timeout:
        return True


def _measure(training: Training) -> Mapping[str, bool]:
    """Make the measurements of a training; return whether each is stored, nothing if another process makes them."""
    if training.is_shared:
        return _measure_cells(training)
    try:
        with training.lock():
            return _measure_cells(training)
    except Timeout:
        return {}


def _measure_cells(training: Training) -> Mapping[str, bool]:
    with use_one_thread():
        return {
            cell.key: is_stored(training.out, cell) or measure_and_store(cell, training.out, training.data)
            for cell in training.cells
        }


def _wait_for_file(out: Path, cell: Cell) -> None:
    """Wait until this machine sees the result that a worker has stored; network folders may take some seconds.

    Raises:
        DataError: It does not appear.
    """
    deadline = time.monotonic() + _VISIBLE_SECONDS
    while not is_stored(out, cell):
        if time.monotonic() > deadline:
            raise DataError(
                f"{out}: a worker has stored {cell.title} there, but this machine does not see it; set --out to "
                "a folder that all machines share under one path"
            )
        time.sleep(_WAIT_SECONDS)
