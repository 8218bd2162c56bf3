"""Run a function on many tasks: in this process, in worker processes, or on a Dask cluster."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from time import sleep
from types import FrameType
from typing import Any, Protocol, TypeVar, runtime_checkable

from jeanie.compute.cancellation import TaskStopped
from jeanie.compute.cluster import connect_cluster
from jeanie.compute.lost import WorkerLost, is_out_of_memory
from jeanie.compute.processes import start_processes
from jeanie.errors import ConfigError

__all__ = ["Progress", "WorkerLost", "check_workers", "count_workers", "map_tasks"]

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], Any]
"""A function that is called with (finished tasks, all tasks)."""

_WAIT_SECONDS = 0.5  # between two calls of progress


@runtime_checkable
class _Pool(Protocol):
    """Workers that compute tasks, and the number of tasks that keeps them busy."""

    def submit(self, task: Any, key: str | None) -> Future[Any]: ...

    def count_wanted(self) -> int: ...


def map_tasks(
    function: Callable[..., Result],
    tasks: Iterable[Task],
    *,
    shared: Sequence[Any] = (),
    jobs: int = 1,
    cluster: str | None = None,
    key: Callable[[Task], str] | None = None,
    progress: Progress | None = None,
    ordered: bool = False,
) -> Iterator[tuple[Task, Result]]:
    """Yield tasks with ``function(*shared, task)``, computed in this process, in worker processes or on a cluster.

    Tasks travel to workers, so they hold paths and settings, not data. A task whose worker is lost (killed, out of
    memory, unplugged) runs again, at most twice in worker processes, so a task may run more than once: it has to write
    its files atomically. If it is lost every time, the other tasks finish first.

    The exception of a task stops the other tasks and is raised here, with the traceback of the worker as its cause.
    Ctrl-C, SIGTERM and closing the iterator stop all tasks: trainings write a checkpoint.

    Args:
        function: A function of a module, so that workers can import it.
        tasks: The tasks. They are read when a worker will soon be free.
        shared: First arguments of every call, sent once to each worker.
        jobs: Number of worker processes with one thread each. 1 runs the tasks in this process and changes no number
            of threads.
        cluster: Address of a Dask scheduler, ``tcp://host:8786`` or ``tls://host:8786``, whose workers run the tasks.
        key: Name of a task on a cluster. A cluster runs tasks with equal names once, also for several clients. Such
            tasks hold all they need: ``shared`` belongs to one client.
        progress: Called with (finished tasks, all tasks) after every task, and about every half second.
        ordered: Whether results come in the order of the tasks. Otherwise they come as they are completed.

    Yields:
        Pairs of a task and its result.

    Raises:
        ConfigError: ``jobs`` or ``cluster`` is wrong, or there is no scheduler at this address.
        WorkerLost: The workers of a task were lost, or the connection to the scheduler.
    """
    check_workers(jobs, cluster)
    if key is not None and shared:
        raise ConfigError(
            "tasks with a key= are the same for several clients; give them no shared= arguments"
        )
    if jobs == 1 and cluster is None:
        yield from _run_here(partial(function, *shared), tasks, progress)
        return
    with _interrupt_on_sigterm(), _open_pool(function, shared, jobs, cluster) as pool:
        yield from _distribute(pool, tasks, key, progress, ordered)


def check_workers(jobs: int, cluster: str | None) -> None:
    """Raise ConfigError unless ``jobs`` and ``cluster`` can be used together."""
    if jobs < 1:
        raise ConfigError(f"jobs is the number of worker processes, at least 1, got {jobs}")
    if cluster is not None and jobs > 1:
        raise ConfigError("jobs= starts processes on this machine and cluster= uses others; give one of them")


def count_workers(jobs: int, cluster: str | None) -> int:
    """Return the number of workers: ``jobs``, or the present workers of a cluster, at least 1."""
    if cluster is None:
        return jobs
    with connect_cluster(cluster) as pool:
        return pool.count_workers()


def _open_pool(
    function: Callable[..., Any], shared: Sequence[Any], jobs: int, cluster: str | None
) -> AbstractContextManager[_Pool]:
    if cluster is None:
        return start_processes(jobs, function, shared)
    return connect_cluster(cluster, function, shared)


def _run_here(
    function: Callable[[Task], Result], tasks: Iterable[Task], progress: Progress | None
) -> Iterator[tuple[Task, Result]]:
    lost_error: BaseException | None = None
    for number, task in enumerate(tasks, 1):
        try:
            result = function(task)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            lost_error = error
            continue
        if progress is not None:
            progress(number, _count_tasks(tasks, number))
        yield task, result
    if lost_error is not None:
        raise WorkerLost(f"a task ran out of memory: {lost_error}") from lost_error


def _count_tasks(tasks: Iterable[Any], read: int) -> int:
    """Return the number of all tasks if it is known, otherwise of those that were read."""
    return len(tasks) if isinstance(tasks, Sized) else read


def _distribute(
    pool: _Pool,
    tasks: Iterable[Any],
    key: Callable[[Any], str] | None,
    progress: Progress | None,
    ordered: bool,
) -> Iterator[tuple[Any, Any]]:
    unread: Iterator[tuple[int, Any]] = enumerate(tasks)
    running: dict[Future[Any], tuple[int, Any]] = {}
    results: dict[int, tuple[Any, Any]] = {}
    read = done = following = 0
    lost_error: WorkerLost | None = None
    while True:
        wanted = pool.count_wanted()
        while len(running) < wanted and len(running) + len(results) < 2 * wanted:
            if (entry := next(unread, None)) is None:
                break
            running[pool.submit(entry[1], None if key is None else key(entry[1]))] = entry
            read = max(read, entry[0] + 1)
        if not running:
            break
        completed, _ = wait(running, _WAIT_SECONDS, FIRST_COMPLETED)
        for future in completed:
            number, task = running.pop(future)
            try:
                results[number] = task, future.result()
                done += 1
            except TaskStopped:  # another client stopped it while we waited for it
                unread = chain([(number, task)], unread)
                sleep(_WAIT_SECONDS)
            except WorkerLost as error:
                lost_error = error
            except CancelledError:
                raise WorkerLost(
                    "the connection to the scheduler was lost; start the scheduler, then start the same command "
                    "again to continue"
                ) from None
        if progress is not None:
            progress(done, _count_tasks(tasks, read))
        while results and (not ordered or following in results):
            yield results.pop(following if ordered else next(iter(results)))
            following += 1
    if lost_error is not None:
        raise lost_error


@contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that the workers are stopped too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
