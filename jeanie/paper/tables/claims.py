"""Claims on work in a folder that several processes and machines share: each piece is done by one at a time.

A claim is a numbered file that only one process can create. Its owner touches the file while it works. A claim is
free again if its owner released it, if it was not touched for the length of a lease, or if its process on this
machine has ended. The next owner creates the next number. Numbers are never reused, so no race can give one piece
of work to two processes. No file locks are needed, which network folders may lack.
"""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LEASE_SECONDS", "hold_claim"]

LEASE_SECONDS = 300.0  # a claim that is not touched for this long is free
_TOUCHES_PER_LEASE = 5


@contextmanager
def hold_claim(folder: Path, lease: float = LEASE_SECONDS) -> Iterator[bool]:
    """Try to claim the work of a folder until the end of the block.

    Yields:
        Whether this process holds the claim.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = _create_claim(folder, lease)
    if path is None:
        yield False
        return
    released = threading.Event()
    toucher = threading.Thread(target=_touch, args=(path, released, lease / _TOUCHES_PER_LEASE), daemon=True)
    toucher.start()
    try:
        yield True
    finally:
        released.set()
        toucher.join()
        with suppress(OSError):
            os.utime(path, (0, 0))  # marks the claim as released


def _create_claim(folder: Path, lease: float) -> Path | None:
    """Create the next claim; return None if another process holds the current one."""
    numbers = [int(path.suffix[1:]) for path in folder.glob("claim.*") if path.suffix[1:].isdecimal()]
    last = max(numbers, default=-1)
    if numbers and _is_held(folder / f"claim.{last}", lease):
        return None
    path = folder / f"claim.{last + 1}"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return None
    with os.fdopen(descriptor, "w") as file:
        json.dump({"host": socket.gethostname(), "process": os.getpid()}, file)
    return path


def _is_held(path: Path, lease: float) -> bool:
    """Return whether the owner of a claim is at work: by its process on this machine, by its age elsewhere."""
    try:
        owner = json.loads(path.read_bytes())
        if owner["host"] == socket.gethostname() and not _is_running(int(owner["process"])):
            return False
    except (OSError, ValueError, KeyError, TypeError):
        pass  # the owner is writing it, or was killed while writing: only the age decides
    return _current_time(path.parent) - path.stat().st_mtime < lease


def _current_time(folder: Path) -> float:
    """Return the time by the clock of the folder's file system, which may differ from ours."""
    probe = folder / f".clock-{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _touch(path: Path, released: threading.Event, seconds: float) -> None:
    while not released.wait(seconds):
        with suppress(OSError):
            os.utime(path)
