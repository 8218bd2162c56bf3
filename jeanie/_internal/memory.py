"""Memory allocation: training frees and allocates the same hundreds of megabytes in every step."""

import ctypes
import sys
from functools import cache

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)


@cache
def keep_freed_memory() -> bool:
    """Make the C library keep large freed blocks for this process, and return whether it does.

    By default, glibc maps every large block anew and unmaps it when it is freed, and the system clears each page before
    its first use. With large steps, this takes more than half of the training time. Other systems are not changed.
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
