"""Size limits of recordings, and errors that name the file.

A file of up to ``SMALL_FILE_BYTES`` is read within about 1 GB of memory, whatever it contains: every reader
checks sizes while it reads, not only those that the file declares.
"""

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jeanie.errors import DataError, JeanieError

__all__ = [
    "MAX_POINTS",
    "SMALL_FILE_BYTES",
    "check_size",
    "get_frame_limit",
    "get_point_limit",
    "is_small_file",
    "open_errors",
    "parser_errors",
    "read_bytes",
    "read_chunks",
]

SMALL_FILE_BYTES = 2**26
# joints x frames x persons of one motion; 2**26 is 2.5 hours of 60 joints at 120 frames per second
MAX_POINTS = 2**26
MAX_SMALL_FILE_POINTS = 2**23
_MIN_JOINTS = 8  # a skeleton with fewer joints may have as many frames as one with 8
_CHUNK_BYTES = 2**16


def is_small_file(path: Path) -> bool:
    """Return whether the limits for small files apply. They also apply to a missing file and to a folder."""
    return not path.is_file() or path.stat().st_size <= SMALL_FILE_BYTES


def get_point_limit(path: Path) -> int:
    """Return how many joints x frames x persons a motion from this file may have."""
    return MAX_SMALL_FILE_POINTS if is_small_file(path) else MAX_POINTS


def get_frame_limit(path: Path) -> int:
    """Return how many frames a motion from this file may have."""
    return get_point_limit(path) // _MIN_JOINTS


def check_size(path: Path, frames: int, persons: int, joints: int) -> None:
    """Raise DataError if a motion of this size would not fit into memory."""
    limit = get_point_limit(path)
    if frames * persons * max(joints, _MIN_JOINTS) > limit:
        raise DataError(
            f"{path}: {frames} frames x {persons} persons x {joints} joints is more than one motion "
            f"may hold ({limit} points); cut the recording into clips"
        )


def read_bytes(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes."""
    with open_errors(path), path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise DataError(f"{path}: larger than {limit} bytes, too much for one recording; cut it into clips")
    return data


def read_chunks(read: Callable[[int], bytes], limit: int, too_large: str) -> Iterator[bytes]:
    """Yield what ``read`` returns, in chunks; more than ``limit`` bytes are a DataError with the text ``too_large``."""
    size = 0
    while chunk := read(_CHUNK_BYTES):
        size += len(chunk)
        if size > limit:
            raise DataError(too_large)
        yield chunk


@contextmanager
def open_errors(path: Path) -> Iterator[None]:
    """Raise DataError if ``path`` is not a regular file, or if it cannot be opened or read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(f"{path}: not a regular file; give the path of a recording")
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        if isinstance(error, JeanieError):
            raise
        raise DataError(f"{str(path)!r}: cannot be read: {error}") from error  # the path contains a NUL


@contextmanager
def parser_errors(path: Path, kind: str) -> Iterator[None]:
    """Turn every error of another library into a DataError that names the file."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{path}: not a readable {kind}: {str(error)[:200]}") from None
