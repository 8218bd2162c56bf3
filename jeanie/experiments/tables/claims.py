"""Claims on work in a folder that many processes and machines see: each piece is done by one of them at a time.

A claim is a numbered file that only one process can create. Its owner touches it while at work. One that was
given up, that was not touched for the length of a lease, or whose process on this machine is gone, is nobody's,
and whoever comes first creates the next number. Numbers are never used again, so no two processes can hold one
piece of work by a race. No locks of the file system are needed, which network folders may lack.
"""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LEASE", "claimed"]

LEASE = 300.0  # seconds without a sign of life after which a claim is nobody's
_SIGNS = 5  # signs of life in a lease


@contextmanager
def claimed(folder: Path, lease: float | int = LEASE) -> Iterator[bool]:
    """Whether the folder's work is ours until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    path = _take(folder, float(lease))
    if path is None:
        yield False
        return
    over = threading.Event()
    sign = threading.Thread(target=_touch, args=(path, over, lease / _SIGNS), daemon=True)
    sign.start()
    try:
        yield True
    finally:
        over.set()
        sign.join()
        with suppress(OSError):
            os.utime(path, (0, 0))  # given up: as old as can be


def _take(folder: Path, lease: float) -> Path | None:
    """The claim that we hold now, or None where another one does."""
    numbers = [int(path.suffix[1:]) for path in folder.glob("claim.*") if path.suffix[1:].isdecimal()]
    last = max(numbers, default=-1)
    if numbers and _alive(folder / f"claim.{last}", lease):
        return None
    path = folder / f"claim.{last + 1}"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return None
    with os.fdopen(descriptor, "w") as file:
        json.dump({"host": socket.gethostname(), "process": os.getpid()}, file)
    return path


def _alive(path: Path, lease: float) -> bool:
    """Whether somebody is at work under a claim: by its process on this machine, by its age elsewhere."""
    try:
        owner = json.loads(path.read_bytes())
        if owner["host"] == socket.gethostname() and not _runs(int(owner["process"])):
            return False
    except (OSError, ValueError, KeyError, TypeError):
        pass  # being written at this moment, or cut off by a crash: only its age can tell
    return _clock(path.parent) - path.stat().st_mtime < lease


def _clock(folder: Path) -> float:
    """The time by the clock of the folder's file system, which need not be ours."""
    probe = folder / f".clock-{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _touch(path: Path, over: threading.Event, seconds: float) -> None:
    while not over.wait(seconds):
        with suppress(OSError):
            os.utime(path)
