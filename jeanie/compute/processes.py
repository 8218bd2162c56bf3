"""Worker processes of this machine: the only place that starts and stops them.

Every worker is a ``ProcessPoolExecutor`` of one spawned process (a forked torch may hang), so a killed worker breaks
no other one. Workers compute with one thread. When the call ends early, or its process is killed, a thread in each
worker sends SIGTERM to its running task: trainings write a checkpoint, other tasks raise ``KeyboardInterrupt``.
"""

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from types import FrameType
from typing import Any

from jeanie.compute.lost import MAX_RETRIES, WorkerLost, is_out_of_memory

__all__ = ["set_environment", "start_processes", "use_one_thread"]

_STOP_SECONDS = 60.0  # that a task has to stop, for example to write a checkpoint
_QUEUED = 3  # tasks per worker that are read ahead


class Processes:
    """Worker processes with one thread each, and the queue of tasks that they share.

    Args:
        jobs: Number of processes.
        function: Computes a task.
        shared: Its first arguments.
    """

    def __init__(self, jobs: int, function: Callable[..., Any], shared: Sequence[Any]) -> None:
        self._context = get_context("spawn")
        self._receiver, self._sender = self._context.Pipe(duplex=False)  # its end tells workers to stop
        self._setup = self._receiver, function, shared
        self._queue: queue.Queue[_Call | None] = queue.Queue()
        self._is_closed = threading.Event()
        self._threads = [threading.Thread(target=self._feed_worker, daemon=True) for _ in range(jobs)]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Any, key: str | None) -> Future[Any]:
        """Queue a task. Its key is not used: all tasks of a call are different."""
        call = _Call(task)
        self._queue.put(call)
        return call.future

    def count_wanted(self) -> int:
        """Return the number of tasks that keeps the workers busy."""
        return _QUEUED * len(self._threads)

    def close(self) -> None:
        """Stop all tasks and wait until all processes have ended."""
        self._is_closed.set()
        self._sender.close()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._receiver.close()

    def _start_worker(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, self._context, _set_up_worker, self._setup)

    def _feed_worker(self) -> None:
        """Run tasks in one worker process, one at a time; replace the process if it is lost."""
        worker = self._start_worker()
        while (call := self._queue.get()) is not None and not self._is_closed.is_set():
            try:
                call.future.set_result(worker.submit(_run_task, call.task).result())
            except BaseException as error:
                is_broken = isinstance(error, BrokenProcessPool)
                if is_broken:
                    worker.shutdown(wait=False)
                    worker = self._start_worker()
                if not (is_broken or is_out_of_memory(error)):
                    call.future.set_exception(error)
                elif call.retries < MAX_RETRIES and not self._is_closed.is_set():
                    call.retries += 1
                    self._queue.put(call)
                else:
                    call.future.set_exception(
                        WorkerLost(
                            f"the worker process of a task ended unexpectedly {MAX_RETRIES + 1} times (killed, or out "
                            "of memory); start the same command again to continue, with fewer --jobs"
                        )
                    )
        worker.shutdown(cancel_futures=True)


class _Call:
    """A task in the queue."""

    def __init__(self, task: Any) -> None:
        self.task = task
        self.future: Future[Any] = Future()
        self.retries = 0


@contextmanager
def start_processes(
    jobs: int, function: Callable[..., Any], shared: Sequence[Any] = ()
) -> Iterator[Processes]:
    """Yield worker processes; on exit, all tasks are stopped and all processes have ended."""
    # a new process reads the variable when it loads torch
    with set_environment("OMP_NUM_THREADS", "1"):
        processes = Processes(jobs, function, shared)
        try:
            yield processes
        finally:
            processes.close()


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
    if (torch := _get_torch()) is not None:  # otherwise OMP_NUM_THREADS holds when the task loads it
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
    """Limit torch to one thread, so that sums do not depend on how many processes share a machine.

    A process that has not loaded torch yet loads it with one thread, and keeps that number.
    """
    torch = _get_torch()
    if torch is None:
        with set_environment("OMP_NUM_THREADS", "1"):
            yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _get_torch() -> Any:
    """Return torch if it is loaded. It takes seconds to load, and not every task needs it."""
    return sys.modules.get("torch")


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
