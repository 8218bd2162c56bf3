"""Worker processes of one machine: the only place that starts, feeds and stops them.

Every worker is a ``ProcessPoolExecutor`` of one spawned process (a forked torch may hang), so a killed worker breaks
no other one. Workers compute with one thread. When the call ends early, or its process is killed, a thread in each
worker sends SIGTERM to its running task: trainings write a checkpoint, other tasks raise ``KeyboardInterrupt``.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain
from multiprocessing import connection, get_context, parent_process
from types import FrameType
from typing import Any, TypeVar

import torch

from jeanie.errors import JeanieError

__all__ = ["WorkerLost", "run_parallel", "set_environment", "use_one_thread"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_WAIT_SECONDS = 0.5  # between two calls of on_wait
_STOP_SECONDS = 60.0  # that a task has to stop, for example to write a checkpoint


class WorkerLost(JeanieError):
    """Worker processes ended before their tasks were done: killed, or out of memory."""


def run_parallel(
    function: Callable[..., Result],
    tasks: Iterable[Task],
    *,
    jobs: int,
    shared: Sequence[Any] = (),
    ordered: bool = False,
    queued: int = 1,
    on_wait: Callable[[], Any] | None = None,
) -> Iterator[Result]:
    """Yield ``function(*shared, task)`` for every task, computed by ``jobs`` worker processes.

    The exception of a task stops the other tasks and is raised here, with the traceback of the worker as its cause.
    Ctrl-C and SIGTERM stop all tasks. If a worker is lost, the other workers finish the remaining tasks first.

    Args:
        function: A function of a module, so that workers can import it.
        tasks: The tasks. They are read when a worker is free.
        jobs: Number of workers. 1 runs all tasks in this process and changes no thread count.
        shared: First arguments of every call, sent once to each worker.
        ordered: Whether results come in the order of the tasks. Otherwise they come as they are completed.
        queued: Tasks sent to each worker ahead of time. More than 1 pays off for short tasks.
        on_wait: Called about every half second in this process.

    Raises:
        WorkerLost: A worker was killed and its task has no result.
    """
    if jobs == 1:
        for task in tasks:
            yield function(*shared, task)
        return
    with _interrupt_on_sigterm(), _start_workers(jobs, function, shared) as workers:
        yield from _distribute(workers, tasks, ordered, queued, on_wait)


@contextmanager
def _start_workers(
    jobs: int, function: Callable[..., Any], shared: Sequence[Any]
) -> Iterator[list[ProcessPoolExecutor]]:
    """Yield executors of one process each; on exit, all tasks are stopped and all processes have ended."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)  # nothing is sent: its end tells workers to stop
    setup = (receiver, function, shared)
    workers = [ProcessPoolExecutor(1, context, _set_up_worker, setup) for _ in range(jobs)]
    try:
        yield workers
    finally:
        sender.close()
        for worker in workers:
            worker.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.shutdown()
        receiver.close()


def _distribute(
    workers: Sequence[Executor],
    tasks: Iterable[Any],
    ordered: bool,
    queued: int,
    on_wait: Callable[[], Any] | None,
) -> Iterator[Any]:
    slots = deque([*workers] * queued)
    limit = 2 * len(slots)  # of results that wait for an earlier one
    numbered = enumerate(tasks)
    running: dict[Future[Any], tuple[int, Executor]] = {}
    results: dict[int, Any] = {}
    following = lost = 0
    while True:
        while slots and len(running) + len(results) < limit and (entry := next(numbered, None)) is not None:
            worker = slots.popleft()
            try:
                with set_environment("OMP_NUM_THREADS", "1"):  # a new process reads it when it loads torch
                    running[worker.submit(_run_task, entry[1])] = entry[0], worker
            except BrokenProcessPool:
                numbered = chain([entry], numbered)  # type: ignore[assignment]
                lost += 1
        if not running:
            break
        completed, _ = wait(running, _WAIT_SECONDS, FIRST_COMPLETED)
        if on_wait is not None:
            on_wait()
        for future in completed:
            number, worker = running.pop(future)
            try:
                results[number] = future.result()
                slots.append(worker)
            except BrokenProcessPool:
                lost += 1
        while results and (not ordered or following in results):
            yield results.pop(following if ordered else next(iter(results)))
            following += 1
    if lost:
        raise WorkerLost(
            "a worker process ended unexpectedly (killed, or out of memory); "
            "start the same command again to continue, with fewer --jobs"
        )


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


class _Worker:
    """State of a worker process."""

    function: Callable[..., Any]
    shared: Sequence[Any]

    def __init__(self) -> None:
        self.idle = threading.Event()
        self.idle.set()
        self.stopping = False


_worker = _Worker()


def _set_up_worker(stop: connection.Connection, function: Callable[..., Any], shared: Sequence[Any]) -> None:
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C reaches the parent only, which stops the workers once
    signal.signal(signal.SIGTERM, _interrupt_task)
    torch.set_num_threads(1)
    _worker.function, _worker.shared = function, shared
    threading.Thread(target=_stop_with_parent, args=(stop,), daemon=True).start()


def _run_task(task: Any) -> Any:
    """Run one task in a worker process."""
    if _worker.stopping:
        raise KeyboardInterrupt
    _worker.idle.clear()
    try:
        return _worker.function(*_worker.shared, task)
    except KeyboardInterrupt:
        if not _worker.stopping:  # someone sent a signal to this worker: the worker is lost
            os._exit(1)
        raise
    finally:
        _worker.idle.set()


def _interrupt_task(number: int, frame: FrameType | None) -> None:
    if not _worker.idle.is_set():
        raise KeyboardInterrupt
    if not _worker.stopping:
        os._exit(1)


def _stop_with_parent(stop: connection.Connection) -> None:
    """Wait until the parent closes the pipe or ends, then stop the running task."""
    parent = parent_process()
    assert parent is not None
    connection.wait([stop, parent.sentinel])
    _worker.stopping = True
    if not _worker.idle.is_set():
        os.kill(os.getpid(), signal.SIGTERM)
    stopped = _worker.idle.wait(_STOP_SECONDS)
    if not (stopped and parent.is_alive()):  # an executor ends an idle process, but not without its parent
        os._exit(1)


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Limit torch to one thread, so that sums do not depend on how many processes share a machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def set_environment(name: str, value: str | None) -> Iterator[None]:
    """Set an environment variable, also for new processes; None leaves it unchanged."""
    before = os.environ.get(name)
    if value is not None:
        os.environ[name] = value
    try:
        yield
    finally:
        if before is not None:
            os.environ[name] = before
        elif value is not None:
            del os.environ[name]
