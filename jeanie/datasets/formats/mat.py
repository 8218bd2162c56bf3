"""MATLAB files: the numeric arrays in them, parsed in a child process."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from jeanie.datasets.formats.files import read_bytes
from jeanie.datasets.formats.hdf5 import HDF5_MAGIC, MAX_NUMBERS
from jeanie.datasets.formats.isolated import decode_text, is_installed, parse_isolated
from jeanie.errors import DataError

__all__ = ["read_mat"]

MAX_MAT_BYTES = 2**26
_HEAD_BYTES = 1024  # a file of version 7.3 is an HDF5 file that begins after 512 bytes


def read_mat(path: Path) -> dict[str, NDArray[Any]]:
    """Read the numeric arrays of a MATLAB file, up to version 7 (needs scipy) or of 7.3 (needs h5py)."""
    is_hdf5 = HDF5_MAGIC in read_bytes(path, MAX_MAT_BYTES)[:_HEAD_BYTES]
    kind, library = ("MATLAB 7.3 file", "h5py") if is_hdf5 else ("MATLAB file", "scipy")
    if not is_installed(library):
        raise DataError(f"{path}: a {kind} is read by {library}; install it: pip install {library}")
    arrays = parse_isolated("mat73" if is_hdf5 else "mat", path, kind, max_numbers=MAX_NUMBERS)
    return {name: arrays[str(index)] for index, name in enumerate(decode_text(arrays["names"]))}
