"""Memory allocation of the C library: what training and the service need differs from its defaults."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import cast

__all__ = ["keep_freed_memory", "share_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of mallopt(3)
_ARENAS = 2


@cache
def keep_freed_memory() -> bool:
    """Make the C library keep large freed blocks for this process, and return whether it does.

    By default, glibc maps every large block anew and unmaps it when it is freed, and the system clears each page before
    its first use. With large steps, this takes more than half of the training time. Other systems are not changed.
    """
    mallopt = _find_mallopt()
    if mallopt is None:
        return False
    # older versions refuse more than 2^25
    mapped = any(mallopt(_MMAP_THRESHOLD, size) for size in (2**30, 2**25))
    return bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1)) and mapped


def share_freed_memory() -> bool:
    """Make all threads of this process allocate from the same memory, and return whether they do.

    By default, glibc gives up to eight areas per core to the threads, and each keeps the memory of the largest
    computation that its thread has made. The service computes in many threads, but in one at a time: shared areas halve
    its memory. Call it before threads start. Other systems are not changed.
    """
    mallopt = _find_mallopt()
    return mallopt is not None and bool(mallopt(_ARENA_MAX, _ARENAS))


def _find_mallopt() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        return cast("Callable[[int, int], int]", ctypes.CDLL(None).mallopt)
    except (OSError, AttributeError):  # another C library
        return None
