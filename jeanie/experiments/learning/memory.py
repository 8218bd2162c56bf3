"""Memory that a process keeps: training frees and asks for the same hundreds of megabytes at every step."""

import ctypes
import sys
from functools import cache

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)


@cache
def keep_freed_memory() -> bool:
    """Have the C library keep large blocks that were freed, for this process; whether it does.

    glibc maps every large block anew and gives it back when it is freed, and the system clears each page of it
    before its first use: with large steps more than half of the time of training. Elsewhere nothing is done.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    # older versions refuse more than 2^25
    mapped = any(mallopt(_MMAP_THRESHOLD, size) for size in (2**30, 2**25))
    return bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1)) and mapped
