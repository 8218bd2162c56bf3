"""Several processes of one machine at one kind of work, ended together: each with one thread of computation."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

import torch

__all__ = ["one_thread", "orphaned", "setting", "together"]

_PAUSE = 0.5  # seconds between two looks at the processes
_PATIENCE = 60.0  # seconds that a stopped process has to write what it keeps


def together(
    target: Callable[..., Any], arguments: Sequence[Sequence[Any]], watch: Callable[[], Any]
) -> list[int]:
    """Call ``target`` with each of ``arguments`` in a process of its own; exit codes that are not 0.

    ``watch`` is called every half second. Ctrl-C, or a request to terminate, is handed on to the processes,
    which have a minute to end.
    """
    context = get_context("spawn")
    crowd: list[BaseProcess] = [context.Process(target=_begin, args=(target, *one)) for one in arguments]
    with _terminable():
        try:
            with setting("OMP_NUM_THREADS", "1"):  # read when torch is loaded
                for process in crowd:
                    process.start()
            while running := [process.sentinel for process in crowd if process.is_alive()]:
                wait(running, _PAUSE)
                watch()
        finally:
            _end([process for process in crowd if process.pid is not None])
    return [process.exitcode for process in crowd if process.exitcode]


def _begin(target: Callable[..., Any], *arguments: Any) -> None:
    """A process: in a group of its own, as its parent hands on what the terminal says."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, _interrupt)
    torch.set_num_threads(1)
    try:
        target(*arguments)
    except KeyboardInterrupt:
        raise SystemExit(1) from None


def _end(crowd: Sequence[BaseProcess]) -> None:
    """Ask processes to stop, give them time, then insist."""
    for process in crowd:
        if process.is_alive():
            process.terminate()
    for process in crowd:
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _terminable() -> Iterator[None]:
    """A request to terminate interrupts, as Ctrl-C does, so that processes started here are ended too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def orphaned() -> Callable[[], bool]:
    """Whether the process that started this one has gone since this call."""
    parent = os.getppid()
    return lambda: os.getppid() != parent


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch with one thread: sums come out the same however many processes share a machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def setting(name: str, value: str | None) -> Iterator[None]:
    """A variable of the environment, for processes that start here and for readers of data; None leaves it."""
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
