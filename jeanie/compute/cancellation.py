"""How a running task learns that it has to stop.

Worker processes of this machine get a signal, which the main thread of a process handles. Tasks on a cluster run in
another thread, so they ask: trainings after every step, evaluations after every batch.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["TaskStopped", "is_stop_requested", "raise_if_stopped", "watch_for_stop"]

_is_stopped: ContextVar[Callable[[], bool] | None] = ContextVar("is_stopped", default=None)


class TaskStopped(Exception):
    """A task on a cluster stopped because no client wanted it any more."""


def is_stop_requested() -> bool:
    """Return whether the task that runs in this thread has to stop; False outside tasks of a cluster."""
    is_stopped = _is_stopped.get()
    return is_stopped is not None and is_stopped()


def raise_if_stopped(*_: object) -> None:
    """Raise KeyboardInterrupt if the task that runs in this thread has to stop. Arguments are ignored."""
    if is_stop_requested():
        raise KeyboardInterrupt("the task was stopped")


@contextmanager
def watch_for_stop(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """Let ``is_stop_requested`` return ``is_stopped()`` in this thread."""
    token = _is_stopped.set(is_stopped)
    try:
        yield
    finally:
        _is_stopped.reset(token)
