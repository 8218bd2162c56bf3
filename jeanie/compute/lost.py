"""The error of tasks whose workers were lost, and which errors count as such."""

from jeanie.errors import JeanieError

__all__ = ["MAX_RETRIES", "WorkerLost", "is_out_of_memory"]

MAX_RETRIES = 2  # of a task whose worker was lost or ran out of memory


class WorkerLost(JeanieError):
    """The workers of a task were lost each time: killed, out of memory, or out of reach."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception says that memory was short; torch raises a RuntimeError for it.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("can't allocate memory: you tried to"))
    (True, True)
    """
    text = str(error)
    is_from_torch = isinstance(error, RuntimeError) and ("allocate memory" in text or "out of memory" in text)
    return isinstance(error, MemoryError) or is_from_torch
