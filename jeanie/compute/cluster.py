"""Workers on other machines: a Dask cluster, through the interface of ``concurrent.futures``.

A task asks its worker whether any client still wants it. So it stops when its clients cancel it, end or are killed,
but not while another client waits for a task of the same name.
"""

import os
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import chdir, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from time import monotonic
from typing import Any

from jeanie._internal.provenance import get_versions
from jeanie.compute.cancellation import TaskStopped, watch_for_stop
from jeanie.compute.lost import MAX_RETRIES, WorkerLost, is_out_of_memory
from jeanie.compute.processes import use_one_thread
from jeanie.errors import ConfigError

__all__ = ["connect_cluster"]

_COUNT_SECONDS = 2.0  # between two requests for the number of workers
_QUEUED = 3  # tasks per worker that the scheduler knows
_MIN_QUEUED = 16  # before workers have joined


class RemoteTraceback(Exception):
    """The traceback of a worker, as the cause of the exception that a task raised there."""


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a task: a result, an exception with its traceback, or nothing because it was stopped.

    Dask repeats a task that raises, so exceptions travel as values.
    """

    result: Any = None
    error: Exception | None = None
    traceback: str = ""
    is_stopped: bool = False

    def get_result(self) -> Any:
        """Return the result, or raise the exception."""
        if self.is_stopped:
            raise TaskStopped
        if self.error is not None:
            raise self.error from RemoteTraceback(f"\n{self.traceback}")
        return self.result


@dataclass(frozen=True)
class _Call:
    """What all tasks of a client have in common.

    Args:
        version: Version of jeanie.
        folder: Working folder, where relative paths start.
        function: Computes a task.
        shared: Name of the plugin that holds its first arguments; empty if it has none.
    """

    version: str
    folder: str
    function: Callable[..., Any]
    shared: str


class Cluster:
    """A connection to a scheduler.

    Args:
        library: The module ``distributed``.
        client: Its client.
        function: Computes a task.
        shared: Its first arguments.
    """

    def __init__(
        self, library: Any, client: Any, function: Callable[..., Any], shared: Sequence[Any]
    ) -> None:
        self._library, self._client = library, client
        self._shared = ""
        if shared:
            self._shared = f"jeanie-{uuid.uuid4().hex}"
            client.register_plugin(_make_plugin(shared), name=self._shared)
        self._call = _Call(_get_version(), os.getcwd(), function, self._shared)
        self._executor = client.get_executor(retries=MAX_RETRIES)
        self._workers, self._counted = 0, -_COUNT_SECONDS

    def submit(self, task: Any, key: str | None) -> Future[Any]:
        """Send a task to the cluster; the future raises what the task raised."""
        options = {"pure": False} if key is None else {"key": f"jeanie-{key}"}
        future = self._executor.submit(_run_task, self._call, task, **options)
        outcome: Future[Any] = Future()
        future.add_done_callback(partial(self._pass_on, outcome))
        return outcome

    def _pass_on(self, outcome: Future[Any], future: Future[_Outcome]) -> None:
        """Give the outcome of a task on the cluster to the future that the caller has."""
        if future.cancelled():
            outcome.cancel()
            outcome.set_running_or_notify_cancel()
            return
        try:
            result = future.result()
            del future  # so that a stopped task can be sent again under its key
            outcome.set_result(result.get_result())
        except (self._library.KilledWorker, MemoryError) as error:
            outcome.set_exception(
                WorkerLost(
                    f"the workers of a task ended each time (killed, out of memory or out of reach): {error}; start "
                    "the same command again to continue, with more memory per worker"
                )
            )
        except BaseException as error:
            outcome.set_exception(error)

    def count_workers(self) -> int:
        """Return the number of workers that are present, at least 1."""
        return max(1, len(self._client.nthreads()))

    def count_wanted(self) -> int:
        """Return the number of tasks that keeps the workers busy; workers may join at any time."""
        if monotonic() - self._counted > _COUNT_SECONDS and self._client.status == "running":
            with suppress(OSError):  # the scheduler is gone: the futures say so
                self._workers, self._counted = self.count_workers(), monotonic()
        return max(_MIN_QUEUED, _QUEUED * self._workers)

    def close(self) -> None:
        """Cancel all tasks, so that running ones stop, and disconnect."""
        with suppress(OSError):  # the scheduler is gone
            self._executor.shutdown(wait=False)
            if self._shared and self._client.status == "running":
                self._client.unregister_worker_plugin(self._shared)
        self._client.close()


@contextmanager
def connect_cluster(
    address: str, function: Callable[..., Any] = print, shared: Sequence[Any] = ()
) -> Iterator[Cluster]:
    """Connect to the Dask scheduler at ``tcp://host:port`` or ``tls://host:port``, to compute one function there.

    Certificates (``distributed.comm.tls``) and the time limit of the connection (``distributed.comm.timeouts.connect``)
    come from Dask's own configuration.

    Raises:
        ConfigError: Dask is not installed, certificates are missing, or no scheduler answers.
    """
    try:
        library: Any = import_module("distributed")
    except ImportError:
        raise ConfigError("a cluster needs Dask; pip install 'jeanie[cluster]'") from None
    if not address.startswith(("tcp://", "tls://")):
        raise ConfigError(
            f"cluster={address!r}: expected the address of a Dask scheduler such as tcp://host:8786 or tls://host:8786"
        )
    security = library.Security().get_connection_args("client")
    if address.startswith("tls://") and security["ssl_context"] is None:
        raise ConfigError(
            f"cluster={address!r}: a TLS connection needs certificates; set distributed.comm.tls.ca-file, client.cert "
            "and client.key in Dask's configuration"
        )
    if address.startswith("tcp://") and security["require_encryption"]:
        raise ConfigError(
            f"cluster={address!r}: Dask's configuration requires encryption (distributed.comm.require-encryption); "
            "use the tls:// address of the scheduler"
        )
    try:
        client = library.Client(address, set_as_default=False)
    except (OSError, ValueError, TypeError, library.comm.CommClosedError) as error:
        raise ConfigError(
            f"cluster={address!r}: no Dask scheduler answers there: {error}; start one with: dask scheduler"
        ) from None
    cluster = Cluster(library, client, function, shared)
    try:
        yield cluster
    finally:
        cluster.close()


def _make_plugin(shared: Sequence[Any]) -> Any:
    """Return a plugin, which every present and future worker gets, that holds shared arguments."""
    plugin = import_module("distributed").WorkerPlugin()
    plugin.shared = shared
    return plugin


def _run_task(call: _Call, task: Any) -> _Outcome:
    """Run a task in a worker of a cluster."""
    library: Any = import_module("distributed")
    worker = library.get_worker()
    if worker.state.nthreads != 1:
        return _Outcome(
            error=ConfigError(
                f"worker {worker.address} has {worker.state.nthreads} threads; start it with --nthreads 1"
            )
        )
    if _get_version() != call.version:
        return _Outcome(
            error=ConfigError(
                f"worker {worker.address} has jeanie {_get_version()}, the client {call.version}"
            )
        )
    shared = worker.plugins[call.shared].shared if call.shared else ()
    key = worker.get_current_task()

    def is_stopped() -> bool:
        state = worker.state.tasks.get(key)
        return state is None or state.state == "cancelled"

    try:
        with use_one_thread(), watch_for_stop(is_stopped), _use_folder(call.folder):
            return _Outcome(call.function(*shared, task))
    except KeyboardInterrupt:
        return _Outcome(is_stopped=True)
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryError(str(error)) from None  # Dask tries again
        return _Outcome(error=error, traceback=traceback.format_exc())


@contextmanager
def _use_folder(folder: str) -> Iterator[None]:
    """Work in the folder of the client if this machine has it."""
    with chdir(folder) if os.path.isdir(folder) else nullcontext():
        yield


@cache
def _get_version() -> str:
    """Return the version of this package, which the client and all workers have in common."""
    return get_versions().get("jeanie", "")
