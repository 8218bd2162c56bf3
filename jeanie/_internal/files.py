"""Atomic file and folder replacement: after a crash, a path holds its old content or its new content."""

import contextlib
import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = [
    "flush_to_disk",
    "get_backup_path",
    "open_atomically",
    "remove_leftovers",
    "replace_folder",
    "sync_folder",
    "write_atomically",
    "write_to_disk",
]

_CURRENT_FOLDER = -100  # AT_FDCWD: paths are relative to the working folder
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def write_atomically(path: str | Path, content: bytes) -> None:
    """Replace the file at ``path`` by ``content``; see ``open_atomically``."""
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces ``path`` at the end of the ``with`` block.

    The content reaches the disk before the replacement. If the block raises, the temporary file is deleted and
    ``path`` keeps its old content.
    """
    path = Path(path).absolute()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
            flush_to_disk(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # the file is complete; some network file systems cannot sync folders
        sync_folder(path.parent)


def write_to_disk(path: Path, content: bytes) -> None:
    """Write a new file and wait until the disk has it. A crash may leave a part of it."""
    with path.open("wb") as file:
        file.write(content)
        flush_to_disk(file)


def flush_to_disk(file: IO[bytes]) -> None:
    """Wait until the disk has everything that was written to an open file."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the disk has the names in a folder. Windows does not need this."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def get_backup_path(target: Path) -> Path:
    """Return the path of the old folder during ``replace_folder`` on systems without an atomic swap."""
    return target.with_name(f".{target.name}.old")


def replace_folder(new: Path, target: Path) -> None:
    """Move folder ``new`` to ``target`` and delete the old folder there.

    Linux and macOS swap the two folders atomically. Other systems first rename the old folder to
    ``get_backup_path(target)``; readers must look there if ``target`` is missing.
    """
    trash = target.with_name(f".{target.name}.trash-{os.getpid()}")
    if not target.exists():
        os.rename(new, target)
    elif _swap(new, target):
        sync_folder(target.parent)
        os.rename(new, trash)
    else:
        os.rename(target, get_backup_path(target))
        os.rename(new, target)
        sync_folder(target.parent)
        os.rename(get_backup_path(target), trash)
    sync_folder(target.parent)
    shutil.rmtree(trash, ignore_errors=True)


def remove_leftovers(target: Path) -> None:
    """Finish or undo a ``replace_folder`` that a crash interrupted."""
    if get_backup_path(target).exists():
        if target.exists():
            shutil.rmtree(get_backup_path(target), ignore_errors=True)
        else:
            os.rename(get_backup_path(target), target)
    for trash in target.parent.glob(f".{target.name}.trash-*"):
        shutil.rmtree(trash, ignore_errors=True)


def _swap(first: Path, second: Path) -> bool:
    """Swap two folders atomically. Return False if the system or the file system cannot."""
    if sys.platform not in ("linux", "darwin"):
        return False
    system = ctypes.CDLL(None, use_errno=True)
    first_name, second_name = os.fsencode(first), os.fsencode(second)
    if sys.platform == "linux" and hasattr(system, "renameat2"):
        status: int = system.renameat2(_CURRENT_FOLDER, first_name, _CURRENT_FOLDER, second_name, _EXCHANGE)
    elif hasattr(system, "renamex_np"):
        status = system.renamex_np(first_name, second_name, _EXCHANGE)
    else:
        return False
    return status == 0
