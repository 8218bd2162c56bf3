"""Parse files in a child process, so that a file that crashes a native library ends in a DataError.

The parsers are in ``isolated_child``. One child process per process parses one file after another, because
starting it takes half a second. Every file has its own limits of memory and processor time; a child that exceeds
them or crashes is replaced.
"""

import atexit
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.files import is_small_file
from jeanie.datasets.formats.npz import read_arrays
from jeanie.errors import DataError

__all__ = ["decode_text", "is_installed", "parse_isolated"]

SMALL_FILE_LIMITS = {"bytes": 5 * 2**27, "seconds": 6}
MAX_CHILD_SECONDS = 30
MAX_ANSWER_BYTES = 2**31
TIMEOUT_SECONDS = 60  # of real time; the machine may be busy with other work

_lock = threading.Lock()
_child: "_Child | None" = None
_inherited: list["_Child | None"] = []


class _Child:
    """A child process that answers one request at a time."""

    def __init__(self) -> None:
        program = Path(__file__).with_name("isolated_child.py")
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Return the head and the content of the answer; EOFError if the process ended instead."""
        timer = threading.Timer(TIMEOUT_SECONDS, self.process.kill)
        timer.start()
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            head = json.loads(stdout.readline(2**16) or b"{}")
            size = head.get("size", 0)
            content = stdout.read(size) if 0 <= size <= MAX_ANSWER_BYTES else b""
            if not head or len(content) != size:
                raise EOFError
        except (OSError, ValueError) as error:
            raise EOFError from error
        finally:
            timer.cancel()
        return head, content

    def stop(self) -> int:
        """End the process and return its exit code."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # a request that the process did not read
                    continue
        return self.process.wait()


def is_installed(library: str) -> bool:
    """Return whether a library can be imported, without importing it."""
    return importlib.util.find_spec(library) is not None


def parse_isolated(parser: str, path: Path, kind: str, **arguments: Any) -> dict[str, NDArray[Any]]:
    """Parse a file in the child process and return its arrays.

    Args:
        parser: A key of ``isolated_child._PARSERS``.
        path: The file.
        kind: What the file is, for error messages ("C3D file").
        arguments: Keyword arguments of the parser, as JSON values.

    Raises:
        DataError: The parser raised an error, crashed or exceeded its limits.
    """
    global _child
    limits = SMALL_FILE_LIMITS
    if not is_small_file(path):
        limits = {"bytes": 2**31 + 16 * path.stat().st_size, "seconds": MAX_CHILD_SECONDS}
    request = {"parser": parser, "path": str(path.absolute()), "arguments": arguments, **limits}
    with _lock:
        try:
            _child = _child or _Child()
            head, content = _child.ask(request)
        except EOFError:
            code = _child.stop() if _child else 0
            _child = None
            raise DataError(f"{path}: not a readable {kind}: {_describe_exit(code)}") from None
    if "error" in head:
        raise DataError(f"{path}: not a readable {kind}: {str(head['error'])[:200]}")
    return read_arrays(io.BytesIO(content), path, None, max_bytes=MAX_ANSWER_BYTES)


def decode_text(array: NDArray[Any]) -> Any:
    """Return the JSON value that the child process sent as an array of bytes."""
    return json.loads(array.astype(np.uint8).tobytes())


def _describe_exit(code: int) -> str:
    if code == -getattr(signal, "SIGXCPU", 24):
        return "its parser took too much processor time; the file is probably damaged"
    return "its parser crashed or used too much memory or time; the file is probably damaged"


def _forget_child() -> None:
    """Make a forked process start its own child; the inherited one belongs to the parent process."""
    global _child, _lock
    _inherited.append(_child)  # a collected Popen object would warn about its running process
    _child, _lock = None, threading.Lock()


def _stop_child() -> None:
    global _child
    if _child is not None:
        _child.stop()
        _child = None


atexit.register(_stop_child)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_child)
