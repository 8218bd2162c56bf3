"""Files and folders that reach the disk whole, and a folder that takes another's place in one step."""

import ctypes
import os
import shutil
import sys
from pathlib import Path
from typing import IO

from jeanie.datasets.archive import old_place

__all__ = ["clear_leftovers", "flush", "put_in_place", "sync_folder", "write_whole"]

_HERE = -100  # AT_FDCWD: paths are relative to the working folder
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def flush(file: IO[bytes]) -> None:
    """Bring what was written to the disk."""
    file.flush()
    os.fsync(file.fileno())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file and bring it to the disk."""
    with path.open("wb") as file:
        file.write(data)
        flush(file)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk (Windows does so by itself)."""
    if sys.platform != "win32":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def put_in_place(new: Path, place: Path) -> None:
    """Move folder ``new`` to ``place`` in one step and delete what was there.

    Linux and macOS swap two folders at once. Elsewhere the old one first steps aside, to a place where
    ``open_archive`` looks for it should the process end between the two steps.
    """
    trash = place.with_name(f".{place.name}.trash-{os.getpid()}")
    if not place.exists():
        os.rename(new, place)
    elif _exchanged(new, place):
        sync_folder(place.parent)
        os.rename(new, trash)
    else:
        os.rename(place, old_place(place))
        os.rename(new, place)
        sync_folder(place.parent)
        os.rename(old_place(place), trash)
    sync_folder(place.parent)
    shutil.rmtree(trash, ignore_errors=True)


def clear_leftovers(place: Path) -> None:
    """Finish what a process left undone when it ended during ``put_in_place``."""
    if old_place(place).exists():
        if place.exists():
            shutil.rmtree(old_place(place), ignore_errors=True)
        else:
            os.rename(old_place(place), place)
    for trash in place.parent.glob(f".{place.name}.trash-*"):
        shutil.rmtree(trash, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two folders atomically; False where the system or the file system cannot."""
    if sys.platform not in ("linux", "darwin"):
        return False
    system = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if sys.platform == "linux" and hasattr(system, "renameat2"):
        done: int = system.renameat2(_HERE, first, _HERE, second, _EXCHANGE)
    elif hasattr(system, "renamex_np"):
        done = system.renamex_np(first, second, _EXCHANGE)
    else:
        return False
    return done == 0
