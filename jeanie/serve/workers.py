"""Worker processes with one socket: they share its connections evenly, and are replaced when they end."""

import gc
import mmap
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from jeanie._internal.files import write_atomically
from jeanie.serve.logs import LOGGER
from jeanie.serve.settings import ServeConfig

__all__ = ["AppMaker", "ConnectionCounts", "SharedListener", "Supervisor", "WorkerApp", "freeze_memory"]

AppMaker = Callable[[ServeConfig], FastAPI]
"""Makes the application. Worker processes call it, so it must be a function of a module, or a partial of one."""

_READY = "ready"  # file that a worker process writes when it has started
_COUNTS = "connections"  # file with the number of open connections of each worker process
_NUMBER = struct.Struct("q")
_GIVE_WAY_SECONDS = 0.005  # that a worker with more connections leaves a new connection to the others


class ConnectionCounts:
    """Numbers of open connections of all worker processes, in a file that they share.

    Args:
        path: The file; it is created if it does not exist.
        workers: Number of worker processes.
        index: Number of this process.
    """

    def __init__(self, path: Path, workers: int, index: int) -> None:
        self._workers, self._index = workers, index
        size = workers * _NUMBER.size
        with path.open("a+b") as file:
            file.truncate(size)
            self._numbers = mmap.mmap(file.fileno(), size)
        self._write(0)  # of a process that has ended before

    def change(self, difference: int) -> None:
        """Add to the number of open connections of this process."""
        self._write(self._read(self._index) + difference)

    def has_most(self) -> bool:
        """Return whether another process has fewer connections."""
        return self._read(self._index) > min(self._read(index) for index in range(self._workers))

    def _read(self, index: int) -> int:
        number: int = _NUMBER.unpack_from(self._numbers, index * _NUMBER.size)[0]
        return number

    def _write(self, number: int) -> None:
        _NUMBER.pack_into(self._numbers, self._index * _NUMBER.size, number)


class SharedListener(socket.socket):
    """A listening socket of several processes that leaves a new connection to the process with the fewest.

    All processes wake for a new connection. The event loop would accept all that wait at once; here it accepts one
    each time, and if another process has fewer connections, only after giving way.
    """

    def __init__(self, fileno: int, counts: ConnectionCounts) -> None:
        super().__init__(fileno=fileno)
        self._counts = counts
        self._has_accepted = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a new connection; raise BlockingIOError if there is none, and after each one."""
        if self._has_accepted:
            self._has_accepted = False
            raise BlockingIOError
        if self._counts.has_most():
            time.sleep(_GIVE_WAY_SECONDS)
        accepted, address = super().accept()
        self._has_accepted = True
        return _Connection(accepted.detach(), self._counts), address


class _Connection(socket.socket):
    """A connection that is counted until it is closed."""

    def __init__(self, fileno: int, counts: ConnectionCounts) -> None:
        super().__init__(fileno=fileno)
        self._counts: ConnectionCounts | None = counts
        counts.change(1)

    def close(self) -> None:
        """Close the connection."""
        super().close()
        if self._counts is not None:
            self._counts.change(-1)
            self._counts = None


class WorkerApp:
    """Makes the application in a worker process, and tells the supervisor when it has started.

    Args:
        make: Makes the application.
        config: Settings of the service with the folder that the processes share.
        prepare: Called first in the worker process.
    """

    def __init__(self, make: AppMaker, config: ServeConfig, prepare: Callable[[], None]) -> None:
        self._make, self._config, self._prepare = make, config, prepare

    def share(self, listener: socket.socket, index: int) -> SharedListener:
        """Return the listener of worker process number ``index``; called in this process."""
        assert self._config.folder is not None
        counts = ConnectionCounts(self._config.folder / _COUNTS, self._config.workers, index)
        return SharedListener(listener.detach(), counts)

    def __call__(self) -> Any:
        self._prepare()
        app, folder = self._make(self._config), self._config.folder
        assert folder is not None

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            async def send_and_report(message: Any) -> None:
                await send(message)
                if message["type"] == "lifespan.startup.complete":
                    freeze_memory()
                    write_atomically(folder / _READY, b"")

            await app(scope, receive, send_and_report if scope["type"] == "lifespan" else send)

        return serve


def freeze_memory() -> None:
    """Exempt what exists now from garbage collection: libraries and model are never garbage, but many objects."""
    gc.collect()
    gc.freeze()


class _Worker(Process):
    """Worker process number ``index``."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], index: int) -> None:
        self._index = index
        super().__init__(config, sockets)

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve; called in the new process."""
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        assert isinstance(self.config.app, WorkerApp)
        super().target([self.config.app.share(listener, self._index) for listener in sockets or []])


def _stop_with_parent() -> None:
    """Stop this process in order when the supervisor is killed: it could neither be stopped nor replaced."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


class Supervisor(Multiprocess):
    """Starts worker processes, and a new one for each that ends unexpectedly."""

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, folder: Path, on_start: Callable[[], None]
    ) -> None:
        super().__init__(config, sockets=[listener])
        self._ready = folder / _READY
        self._on_start: Callable[[], None] | None = on_start

    def init_processes(self) -> None:
        """Start all worker processes."""
        for index in range(self.processes_num):
            self.processes.append(_Worker(self.config, self.sockets, index))
            self.processes[index].start()

    def keep_subprocess_alive(self) -> None:
        """Replace worker processes that have ended; report the start when the first one is ready.

        Unlike the method that this replaces, it does not wait for answers of workers that are starting: a signal to
        stop is obeyed at once.
        """
        for index, process in enumerate(self.processes):
            if process.process.is_alive() or self.should_exit.is_set():
                continue
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                LOGGER.error("a worker process cannot start", extra={"facts": {"process": process.pid}})
                self.should_exit.set()
                return
            mark_process_dead(process.pid)
            LOGGER.warning(
                "a worker process ended and was replaced", extra={"facts": {"process": process.pid}}
            )
            self.processes[index] = _Worker(self.config, self.sockets, index)
            self.processes[index].start()
        if self._on_start is not None and self._ready.exists():
            self._on_start()
            self._on_start = None
