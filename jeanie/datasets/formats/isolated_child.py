"""The program of the child process in ``isolated``: parse files with native libraries, within limits.

Standard input has one JSON request per line: ``{"parser", "path", "arguments", "bytes", "seconds"}``. The answer
on standard output is a JSON line, ``{"size": n}`` and an npz archive of n bytes, or ``{"error": text}``. Nothing of
jeanie is imported here, so that the process starts fast and stays small.
"""

import importlib
import io
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["limit_process", "main"]

_MATLAB_NUMBERS = (
    "double",
    "single",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_MAX_GROUPS = 2**20
Arrays = dict[str, Any]


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a native library prints must not mix with the answers
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            parse = _PARSERS[request["parser"]]
            limit_process(request["bytes"], request["seconds"])
            content = _to_npz(parse(request["path"], **request["arguments"]))
            head: dict[str, Any] = {"size": content.nbytes}
        except Exception as error:  # a damaged file makes libraries raise anything
            content = memoryview(b"")
            head = {"error": str(error)[:500] or type(error).__name__}
        answers.write(json.dumps(head).encode() + b"\n")
        answers.write(content)
        answers.flush()
        del content


def limit_process(memory: int, seconds: int) -> None:
    """Let this process use that much more memory and processor time; beyond it the system ends the process."""
    if sys.platform == "win32":
        return
    resource: Any = importlib.import_module("resource")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _set_limit(resource, resource.RLIMIT_CPU, int(time.process_time()) + 1 + seconds)
    mapped = Path("/proc/self/statm")
    if mapped.exists():
        used_bytes = int(mapped.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _set_limit(resource, resource.RLIMIT_AS, used_bytes + memory)


def _set_limit(resource: Any, limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _to_npz(arrays: Arrays) -> memoryview:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getbuffer()


def _to_text(value: Any) -> Any:
    """Encode a value as JSON in an array of bytes: an array of texts would be as wide as its longest one."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def parse_c3d(path: str, max_points: int) -> Arrays:
    """Return points [frame, point, 3], residuals [frame, point], and labels, rate, unit and up axis of a C3D file."""
    recording = importlib.import_module("ezc3d").c3d(path)
    group = recording["parameters"]["POINT"]
    labels = [label for number in ("", *range(2, 10)) for label in _values(group, f"LABELS{number}")]
    points = recording["data"]["points"]
    if points.shape[1] * points.shape[2] > max_points:
        raise ValueError(f"{points.shape[2]} frames x {points.shape[1]} points; at most {max_points} in all")
    return {
        "points": points[:3].transpose(2, 1, 0),
        "residuals": recording["data"]["meta_points"]["residuals"][0].T,
        "labels": _to_text([str(label) for label in labels]),
        "rate": np.float64(next(iter(_values(group, "RATE")), 0)),
        "unit": _to_text(str(next(iter(_values(group, "UNITS")), ""))),
        "up": _to_text(str(next(iter(_values(group, "Y_SCREEN")), ""))),
    }


def _values(group: Any, key: str) -> list[Any]:
    return list(group[key]["value"]) if key in group else []


def parse_mat(path: str, max_numbers: int) -> Arrays:
    """Return the numeric arrays of a MATLAB file up to version 7 by number, and their names."""
    matlab: Any = importlib.import_module("scipy.io")
    variables = matlab.whosmat(path, appendmat=False)
    sizes = {name: np.prod(size, dtype=object) for name, size, kind in variables if kind in _MATLAB_NUMBERS}
    names = [name for name, size in sizes.items() if size <= max_numbers]
    if sum(sizes[name] for name in names) > max_numbers:
        raise ValueError(f"more than {max_numbers} numbers")
    arrays = matlab.loadmat(path, variable_names=names, appendmat=False) if names else {}
    return _number_arrays({name: np.asarray(arrays[name]) for name in names if name in arrays}, max_numbers)


def parse_hdf5_mat(path: str, max_numbers: int) -> Arrays:
    """Return the same for a MATLAB 7.3 file; HDF5 stores the axes of MATLAB in reverse order."""
    h5py: Any = importlib.import_module("h5py")
    arrays: Arrays = {}
    with h5py.File(path, "r") as file:
        for name in file:
            node = file.get(name)
            if _is_numeric(h5py, node) and node.size <= max_numbers:
                arrays[name] = node[()].T
                if sum(array.size for array in arrays.values()) > max_numbers:
                    break
    return _number_arrays(arrays, max_numbers)


def _number_arrays(arrays: Arrays, max_numbers: int) -> Arrays:
    if sum(array.size for array in arrays.values()) > max_numbers:
        raise ValueError(f"more than {max_numbers} numbers")
    numbered = {str(index): array for index, array in enumerate(arrays.values())}
    return {"names": _to_text([name[:80] for name in arrays]), **numbered}


def parse_hdf5_groups(path: str) -> Arrays:
    """Return the names of the top-level groups of an HDF5 file."""
    h5py: Any = importlib.import_module("h5py")
    with h5py.File(path, "r") as file:
        if len(file) > _MAX_GROUPS:
            raise ValueError(f"{len(file)} groups, at most {_MAX_GROUPS} are read")
        return {"names": _to_text([key for key in file if isinstance(file.get(key), h5py.Group)])}


def parse_hdf5_skeleton(path: str, group: str, max_numbers: int) -> Arrays:
    """Return ``skeleton`` of a group as float64, and ``num_subjects`` if the group has it."""
    h5py: Any = importlib.import_module("h5py")
    with h5py.File(path, "r") as file:
        node = file[group].get("skeleton")
        if not _is_numeric(h5py, node) or node.size > max_numbers or node.ndim != 3 or node.shape[1] != 3:
            raise ValueError(
                f"{group[:80]}/skeleton must be joints x 3 x frames, at most {max_numbers} numbers"
            )
        arrays: Arrays = {"skeleton": node[()].astype(np.float64)}
        count = file[group].get("num_subjects")
        if count is not None:
            arrays["persons"] = np.int64(count[()])
    return arrays


def _is_numeric(h5py: Any, node: Any) -> bool:
    return isinstance(node, h5py.Dataset) and node.dtype.kind in "fiu" and bool(node.size)


_PARSERS: dict[str, Callable[..., Arrays]] = {
    "c3d": parse_c3d,
    "mat": parse_mat,
    "mat73": parse_hdf5_mat,
    "hdf5-groups": parse_hdf5_groups,
    "hdf5-skeleton": parse_hdf5_skeleton,
}

if __name__ == "__main__":
    main()
