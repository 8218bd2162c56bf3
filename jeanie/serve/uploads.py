"""Read uploaded recordings in a worker process with limits on time and memory."""

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import IO

import torch
from fastapi import HTTPException

from jeanie.compute.processes import set_environment
from jeanie.datasets.formats.files import read_chunks
from jeanie.datasets.formats.isolated_child import limit_process
from jeanie.datasets.reading import read_motion
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.recogniser.library.codec import Record, decode, encode
from jeanie.serve.settings import ServeLimits
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["UploadReader", "hide_folder", "make_upload_folder", "save_upload"]

_WAIT_FACTOR = 6  # of processor time: the machine may be busy with other work
_START_SECONDS = 120  # to import torch on a busy machine


class UploadReader:
    """A worker process that reads one file at a time. A worker that exceeds its limits or crashes is replaced."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self._places = threading.BoundedSemaphore(limits.uploads)
        self._pool: ProcessPoolExecutor | None = None

    def start(self) -> None:
        """Start the worker process, so that the first upload need not wait for it."""
        with self._lock:
            self._open_pool().submit(os.getpid)

    def stop(self) -> None:
        """End the worker process."""
        with self._lock:
            self._end_pool()

    def read(self, path: Path, form: str | None, layout: str | None) -> Motion:
        """Read a recording.

        Raises:
            DataError: The file cannot be read within the limits. Messages name the file without its folder.
            ConfigError: The format or the layout is unknown.
            HTTPException: Too many files wait.
        """
        if layout is not None and layout not in LAYOUTS:  # a path would read a file of the service
            raise ConfigError(f"no layout {layout[:40]!r}; the known ones are {', '.join(LAYOUTS)}")
        if not self._places.acquire(blocking=False):
            raise HTTPException(503, "too many files wait to be read; try again", {"retry-after": "5"})
        try:
            result = self._read_in_worker(path, form, layout)
        finally:
            self._places.release()
        if isinstance(result, Record):
            return decode(result, path.name)
        kind, message = result
        raise (ConfigError if kind == "ConfigError" else DataError)(message)

    def _read_in_worker(self, path: Path, form: str | None, layout: str | None) -> Record | tuple[str, str]:
        limits = self._limits
        with self._lock:
            pool = self._open_pool()
            try:
                pool.submit(os.getpid).result(_START_SECONDS)
                task = pool.submit(_read, path, form, layout, limits.parse_bytes, limits.parse_seconds)
                return task.result(_WAIT_FACTOR * limits.parse_seconds)
            except (BrokenProcessPool, TimeoutError):
                self._end_pool()
                raise DataError(
                    f"{path.name}: reading it took too much time or memory; the file is damaged, or cut it into clips"
                ) from None

    def _open_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            with set_environment("OMP_NUM_THREADS", "1"):
                self._pool = ProcessPoolExecutor(1, get_context("spawn"), _end_with_parent)
                self._pool.submit(os.getpid)
        return self._pool

    def _end_pool(self) -> None:
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def save_upload(content: IO[bytes], name: str, folder: str, limit: int) -> Path:
    """Write an uploaded file to a folder under a harmless name; its ending decides about the format."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(name.replace("\\", "/")).name)[-80:].lstrip(".") or "upload"
    path = Path(folder) / safe
    too_large = f"{safe}: larger than {limit} bytes, too much for one recording; cut it into clips"
    with path.open("wb") as file:
        file.writelines(read_chunks(content.read, limit, too_large))
    return path


@contextmanager
def hide_folder(folder: str) -> Iterator[None]:
    """Let errors name an uploaded file without its folder."""
    try:
        yield
    except JeanieError as error:
        raise type(error)(str(error).replace(f"{folder}{os.sep}", "")) from error.__cause__


def _end_with_parent() -> None:
    """Make a worker process end when the service is killed."""
    parent = parent_process()
    assert parent is not None

    def wait_for_parent() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()


def _read(
    path: Path, form: str | None, layout: str | None, memory: int, seconds: int
) -> Record | tuple[str, str]:
    """Read a file in the worker process; return the recording, or the kind and text of an error."""
    torch.set_num_threads(1)
    limit_process(memory, seconds)
    try:
        with hide_folder(str(path.parent)):
            motion = read_motion(path, format=form, layout=layout)
        return encode(motion.replace(name=path.name))
    except JeanieError as error:
        return type(error).__name__, str(error)
    except MemoryError:
        return "DataError", f"{path.name}: too large for one recording; cut it into clips"


def make_upload_folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a temporary folder for one upload."""
    return tempfile.TemporaryDirectory(prefix="jeanie-upload")
