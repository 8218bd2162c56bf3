"""The compiled library: find it, load it with ctypes, check its interface, and translate its status codes.

The library has a plain C interface (``cpp/abi.h``) and knows nothing about Python or torch, so one build serves
every version of Python. No pointer reaches it before its tensor was checked here, and the library checks every size,
null pointer and enum value again.
"""

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError

__all__ = [
    "CANCELS",
    "LAYERS",
    "NOT_FINITE",
    "NO_PATH",
    "AlignJob",
    "LayerAddresses",
    "MatchedJob",
    "MlpJob",
    "NearestJob",
    "ScaleJob",
    "SquaresJob",
    "get_address",
    "get_instruction_set",
    "get_layout",
    "is_available",
    "load_library",
    "require_library",
    "run",
]

ABI_VERSION = 4  # kAbiVersion in cpp/abi.h
LAYERS = 3  # kMlpLayers in cpp/abi.h
# statuses that the caller handles; see JeanieStatus in cpp/abi.h
NOT_FINITE, NO_PATH, CANCELS = 1, 3, 6
_OUT_OF_RANGE, _NO_MEMORY, _BAD_ARGUMENTS = 2, 4, 7
_I64, _F64, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_DTYPES = {torch.float32: 0, torch.float64: 1}  # JeanieDtype


class AlignJob(ctypes.Structure):
    """Mirror of ``JeanieAlign``."""

    _fields_ = (
        *((name, _POINTER) for name in ("cost", "plan", "value", "path", "path_lengths")),
        *((name, _POINTER) for name in ("cost_offsets", "plan_offsets", "row_counts", "column_counts")),
        *((name, _I64) for name in ("cost_stride", "plan_stride", "cost_size", "plan_size")),
        *((name, _I64) for name in ("pair_size", "pairs", "rows", "columns", "axes")),
        ("grid", _I64 * 4),
        *((name, _I64) for name in ("shift", "threads")),
        *((name, _F64) for name in ("gamma", "scale_hi", "scale_lo", "unit_hi", "unit_lo", "band")),
    )


class MatchedJob(ctypes.Structure):
    """Mirror of ``JeanieMatched``."""

    _fields_ = (
        ("align", AlignJob),
        *((name, _POINTER) for name in ("x", "y", "grad_x", "grad_y")),
        *((name, _I64) for name in ("features", "metric")),
        *((name, _F64) for name in ("sigma", "repair_below")),
    )


class SquaresJob(ctypes.Structure):
    """Mirror of ``JeanieSquares``."""

    _fields_ = (
        *((name, _POINTER) for name in ("out", "x", "y")),
        *((name, _I64) for name in ("batch", "rows", "columns", "features", "threads")),
        ("repair_below", _F64),
        ("may_refuse", _I64),
    )


class ScaleJob(ctypes.Structure):
    """Mirror of ``JeanieScale``."""

    _fields_ = (
        *((name, _POINTER) for name in ("out", "x", "factors")),
        *((name, _I64) for name in ("rows", "size", "threads")),
    )


class LayerAddresses(ctypes.Structure):
    """Mirror of ``JeanieLayer``."""

    _fields_ = tuple((name, _POINTER) for name in ("weight", "bias", "scale", "shift"))


class MlpJob(ctypes.Structure):
    """Mirror of ``JeanieMlp``."""

    _fields_ = (
        *((name, _POINTER) for name in ("x", "noise", "out", "grad_out", "grad_x")),
        *((name, LayerAddresses * LAYERS) for name in ("layers", "gradients")),
        *((name, _I64) for name in ("items", "frames", "joints", "channels")),
        ("strides", _I64 * 4),
        ("x_size", _I64),
        ("sizes", _I64 * LAYERS),
        ("threads", _I64),
        ("epsilon", _F64),
    )


class NearestJob(ctypes.Structure):
    """Mirror of ``JeanieNearest``."""

    _fields_ = (
        *((name, _POINTER) for name in ("out", "values", "scales", "example")),
        *((name, _I64) for name in ("values_size", "window_stride", "windows", "blocks", "columns")),
        *((name, _I64) for name in ("images", "example_blocks", "first_column", "threads")),
        ("unit", _F64),
    )


# in the order of abi.h
_JOBS = {
    "align": AlignJob,
    "matched": MatchedJob,
    "squares": SquaresJob,
    "scale": ScaleJob,
    "mlp": MlpJob,
    "nearest": NearestJob,
}


def _list_files() -> Iterator[Path]:
    """Yield where the library may be: ``$JEANIE_KERNEL``, the package, or the build folder of an editable install."""
    if os.environ.get("JEANIE_KERNEL"):
        yield Path(os.environ["JEANIE_KERNEL"])
        return
    yield Path(__file__).parent / "_kernel.so"
    with contextlib.suppress(metadata.PackageNotFoundError):
        installed_file = metadata.distribution("jeanie").locate_file("jeanie/kernel/_kernel.so")
        yield Path(str(installed_file))


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """Return the shared library, or None for an installation without it.

    Raises:
        ConfigError: The library was built from another version of the source, or for another processor.
    """
    file = next((path for path in _list_files() if path.is_file()), None)
    if file is None:
        return None
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise ConfigError(
            f"the compiled kernel {file} cannot be loaded: {error}; reinstall jeanie"
        ) from error
    _check_interface(library, file)
    for name, job in _JOBS.items():
        function = library[f"jeanie_{name}"]
        function.argtypes, function.restype = (ctypes.POINTER(job), ctypes.c_int), ctypes.c_int
        setattr(library, name, function)
    library.jeanie_instruction_set.restype = ctypes.c_char_p
    library.jeanie_prefer_large_pages.argtypes, library.jeanie_prefer_large_pages.restype = (
        (_POINTER, _I64),
        None,
    )
    return library


def _check_interface(library: ctypes.CDLL, file: Path) -> None:
    """Raise ConfigError unless the library has the version and the struct sizes that this module mirrors."""
    expected = (ABI_VERSION, *map(ctypes.sizeof, _JOBS.values()))
    actual: tuple[int, ...] = ()
    with contextlib.suppress(AttributeError):  # a library without these functions is older than they are
        library.jeanie_abi_version.restype = library.jeanie_struct_size.restype = _I64
        library.jeanie_struct_size.argtypes = (_I64,)
        sizes = (library.jeanie_struct_size(index) for index in range(len(_JOBS)))
        actual = (library.jeanie_abi_version(), *sizes)
    if actual != expected:
        raise ConfigError(
            f"the compiled kernel {file} has interface {actual or 'unknown'}, this package needs {expected}; "
            "reinstall jeanie so that both come from the same source"
        )


def is_available() -> bool:
    """Return whether this installation has the compiled kernel."""
    return load_library() is not None


def get_instruction_set() -> str:
    """Return the build that this processor runs: ``avx2``, ``baseline`` (SSE2, NEON), or ``none`` without a kernel."""
    library = load_library()
    return library.jeanie_instruction_set().decode() if library else "none"


def require_library() -> ctypes.CDLL:
    """Return the shared library, or raise ConfigError for an installation without it."""
    library = load_library()
    if library is None:
        raise ConfigError(
            "backend 'native' needs the compiled kernel, which this installation was built without; "
            "use backend='auto' or reinstall with a C++ compiler and without JEANIE_NO_NATIVE"
        )
    return library


def get_address(x: Tensor | None, dtype: torch.dtype, size: int) -> int | None:
    """Return the address of a contiguous tensor of ``size`` numbers on the CPU; None stays None."""
    if x is None:
        return None
    if x.dtype != dtype or not x.is_cpu or x.numel() != size or not x.is_contiguous() or x.is_neg():
        raise ShapeError(
            f"the kernel needs a contiguous CPU tensor of {size} numbers of {dtype}, got shape {tuple(x.shape)}, "
            f"strides {x.stride()}, {x.dtype} on {x.device}"
        )
    return x.data_ptr()


def get_layout(x: Tensor | None, dtype: torch.dtype, row_axis: int) -> tuple[int | None, int, int]:
    """Return address, stride of ``row_axis`` and numbers up to the end of the storage of a strided CPU tensor."""
    if x is None:
        return None, 0, 0
    if x.dtype != dtype or not x.is_cpu or x.is_neg():
        raise ShapeError(f"the kernel needs a CPU tensor of {dtype}, got {x.dtype} on {x.device}")
    size = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    return x.data_ptr(), x.stride(row_axis), int(size)


def run(name: str, job: ctypes.Structure, dtype: torch.dtype) -> int:
    """Call the function ``name`` of the library and return ``0``, ``NOT_FINITE``, ``NO_PATH`` or ``CANCELS``.

    Raises:
        OverflowError: The exponents do not fit into ``dtype``; float64 may hold them.
        ShapeError: The dtype or a size is not supported.
        MemoryError: There is no memory for the workspace.
    """
    if dtype not in _DTYPES:
        raise ShapeError(f"the kernel needs float32 or float64, got {dtype}")
    status: int = getattr(require_library(), name)(ctypes.byref(job), _DTYPES[dtype])
    if status in (0, NOT_FINITE, NO_PATH, CANCELS):
        return status
    if status == _OUT_OF_RANGE:
        raise OverflowError
    if status == _NO_MEMORY:
        raise MemoryError("the compiled kernel could not allocate its workspace")
    if status == _BAD_ARGUMENTS:
        raise ShapeError(
            "the compiled kernel refused the sizes of this call: it takes at most 2^30 blocks, views and features, "
            "2^50 numbers in all, and lengths up to the padded lengths; split the batch"
        )
    raise RuntimeError(f"the compiled kernel failed with status {status}")
