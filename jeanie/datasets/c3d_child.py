"""Reads one C3D file and writes its points to standard output as npz: run as a process of its own, by path.

ezc3d is native code without a defence against damaged files, so nothing else of jeanie is loaded here, and
the process limits its own time and memory.
"""

import importlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["main"]

_CPU_SECONDS = 30
_MEMORY = 2**31  # and 16 bytes for each byte of the file


def main(path: str) -> None:
    """Points [frame, point, 3], residuals [frame, point], labels, rate, unit and up axis of a C3D file."""
    ezc3d: Any = importlib.import_module("ezc3d")
    _limit(Path(path).stat().st_size)
    recording = ezc3d.c3d(path)
    group = recording["parameters"]["POINT"]
    labels = [label for number in ("", *range(2, 10)) for label in _values(group, f"LABELS{number}")]
    buffer = io.BytesIO()
    np.savez(
        buffer,
        points=recording["data"]["points"][:3].transpose(2, 1, 0),
        residuals=recording["data"]["meta_points"]["residuals"][0].T,
        labels=np.array([str(label) for label in labels], dtype=np.str_),
        rate=np.float64(next(iter(_values(group, "RATE")), 0)),
        unit=np.str_(next(iter(_values(group, "UNITS")), "")),
        up=np.str_(next(iter(_values(group, "Y_SCREEN")), "")),
    )
    sys.stdout.buffer.write(buffer.getvalue())


def _values(group: Any, key: str) -> list[Any]:
    return list(group[key]["value"]) if key in group else []


def _limit(size: int) -> None:
    if sys.platform != "win32":
        resource: Any = importlib.import_module("resource")
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY + 16 * size,) * 2)


if __name__ == "__main__":
    main(sys.argv[1])
