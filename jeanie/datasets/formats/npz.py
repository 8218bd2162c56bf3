"""npz files: arrays from zip containers, without pickles and within limits, and jeanie's own motion files."""

import io
import json
import lzma
import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie._internal.files import write_atomically
from jeanie.datasets.formats.files import SMALL_FILE_BYTES, check_size, get_point_limit, is_small_file
from jeanie.errors import DataError, JeanieError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = [
    "ZIP_ERRORS",
    "collect_tags",
    "open_zip",
    "parse_npy",
    "parse_tags_json",
    "read_arrays",
    "read_member",
    "read_npz",
    "unpack_mask",
    "write_npz",
]

VERSION = 1
MAX_ABOUT_BYTES = 2**22
MAX_DIRECTORY_BYTES = 2**22  # of a zip file's list of members: some 50,000 of them
MAX_POINT_BYTES = 24  # three float64
# what zipfile and numpy raise on damaged files
ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, KeyError,
    IndexError, NotImplementedError, RuntimeError, OverflowError, SyntaxError,
    tokenize.TokenError,
)  # fmt: skip
_TAGS = ("label", "subject", "view", "rate", "name", "setup", "take")


def write_npz(motion: Motion, path: str | Path) -> None:
    """Write a motion to an npz file; an existing file is replaced atomically.

    ``read_npz`` returns exactly the same motion.
    """
    about = {
        "format": "jeanie-motion",
        "version": VERSION,
        "layout": motion.layout.to_dict(),
        **collect_tags(motion),
    }
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        joints=motion.joints.cpu().numpy(),
        valid=np.packbits(motion.valid.cpu().numpy()),
        about=np.str_(json.dumps(about)),
    )
    write_atomically(path, buffer.getvalue())


def read_npz(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read a motion from an npz file: one of ``write_npz``, or any file with an array ``joints``.

    ``joints`` is [frame, joint, 3] or [frame, person, joint, 3]. Files of other programs need ``layout``. Pickled
    objects are never loaded.
    """
    path = Path(path)
    arrays = read_arrays(path, path, ("joints", "valid", "about"))
    if "joints" not in arrays:
        raise DataError(f"{path}: has no array 'joints'; expected joints [frame, joint, 3]")
    joints = arrays["joints"]
    check_size(path, len(joints) if joints.ndim else 0, 1, math.prod(joints.shape[1:-1]))
    about = _parse_about(path, arrays.get("about"))
    if about is None and layout is None:
        raise DataError(f"{path}: the file does not name its layout; give layout=")
    try:
        own_layout = layout or Layout.from_dict((about or {}).get("layout", {}))
        if about is None:
            return Motion(joints, own_layout, name=path.stem)
        valid = unpack_mask(arrays.get("valid", np.empty(0, np.uint8)), joints.shape[:-1], str(path))
        return Motion(joints, own_layout, valid=valid, **parse_tags_json(about, str(path)))
    except (JeanieError, TypeError, AttributeError) as error:
        message = str(error)
        raise DataError(message if message.startswith(str(path)) else f"{path}: {message}") from None


def read_arrays(
    source: Path | io.BytesIO, path: Path, names: Sequence[str] | None, *, max_bytes: int | None = None
) -> dict[str, NDArray[Any]]:
    """Read those of the named arrays that an npz file contains (all of them if ``names`` is None).

    Args:
        source: The file, or its content.
        path: The file, for error messages.
        names: Names of the arrays, without ".npy".
        max_bytes: Size of the largest array; by default that of the largest motion.
    """
    try:
        with open_zip(source) as archive:
            members = archive.namelist() if names is None else [f"{name}.npy" for name in names]
            present = set(members) & set(archive.namelist())
            return {
                member.removesuffix(".npy"): read_member(archive, member, path, max_bytes=max_bytes)
                for member in members
                if member in present
            }
    except ZIP_ERRORS as error:
        if isinstance(error, JeanieError):
            raise
        raise DataError(f"{path}: not a readable npz file: {_describe(error)}") from None


def open_zip(source: Path | io.BytesIO) -> zipfile.ZipFile:
    """Open a zip file. ValueError if it is small and its list of members is not."""
    if isinstance(source, Path) and is_small_file(source):
        with source.open("rb") as file:
            file.seek(max(0, source.stat().st_size - 2**16 - 22))
            tail = file.read(2**17)
        end = tail.rfind(b"PK\x05\x06")
        if end >= 0 and struct.unpack_from("<L", tail, end + 12)[0] > MAX_DIRECTORY_BYTES:
            raise ValueError("too many members for a recording")
        if b"PK\x06\x07" in tail[:end]:
            raise ValueError(f"a zip64 file of less than {SMALL_FILE_BYTES} bytes")
    return zipfile.ZipFile(source)


def read_member(
    archive: zipfile.ZipFile, name: str, path: Path, *, max_bytes: int | None = None
) -> NDArray[Any]:
    """Read one array of an open npz file. Check its size while reading, and its checksum."""
    limit = get_point_limit(path) * MAX_POINT_BYTES + 2**16 if max_bytes is None else max_bytes
    try:
        info = archive.getinfo(name)
        if info.file_size > limit:
            raise DataError(f"{path}: {name} claims {info.file_size} bytes, too many for one recording")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{path}: {name[:80]!r} uses a compression that numpy does not write")
        with archive.open(info) as file:
            return parse_npy(file.read(info.file_size))  # read() without a size would unpack beyond it
    except ZIP_ERRORS as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: {name[:80]!r} is damaged: {_describe(error)}") from None


def parse_npy(data: bytes) -> NDArray[Any]:
    """Return the array of an npy file. ValueError if the header does not agree with the bytes after it."""
    stream = io.BytesIO(data)
    npy: Any = np.lib.format
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy version {version}")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's advice about headers that Python 2 wrote
        shape, fortran, dtype = read_header(stream)
    if dtype.hasobject or dtype.names or dtype.kind not in "fiubU":
        raise ValueError(
            f"an array of {dtype}, expected numbers; save numpy.array([...], float) of one shape, NaN for gaps"
        )
    size = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape) or size != len(data) - stream.tell():
        raise ValueError(f"{len(data) - stream.tell()} bytes for shape {shape} of {dtype}")
    flat = np.frombuffer(data, dtype, offset=stream.tell()) if size else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def unpack_mask(bits: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[np.bool_]:
    """Return the mask of ``shape`` from its packed bits; ``name`` begins the error message."""
    count = math.prod(shape)
    if bits.dtype != np.uint8 or bits.shape != ((count + 7) // 8,):
        raise DataError(f"{name}: the mask needs {(count + 7) // 8} bytes, got {bits.dtype} {bits.shape}")
    return np.unpackbits(bits, count=count).view(np.bool_).reshape(shape)


def collect_tags(motion: Motion) -> dict[str, Any]:
    """Return label, subject and the other tags of a motion as JSON values."""
    return {key: getattr(motion, key) for key in _TAGS}


def parse_tags_json(about: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the tags of ``collect_tags`` from JSON, each checked; ``name`` begins the error message."""
    kinds: dict[str, tuple[type, ...]] = {
        "label": (str, int), "subject": (str, int), "view": (str, int), "rate": (float, int), "name": (str,),
        "setup": (int,), "take": (int,),
    }  # fmt: skip
    tags = {key: about.get(key) for key in _TAGS}
    for key, value in tags.items():
        if value is not None and (not isinstance(value, kinds[key]) or isinstance(value, bool)):
            raise DataError(f"{name}: {key} is {str(value)[:40]!r}, a {type(value).__name__}")
    return tags


def _parse_about(path: Path, text: NDArray[Any] | None) -> dict[str, Any] | None:
    if text is None:
        return None
    if text.nbytes > MAX_ABOUT_BYTES:
        raise DataError(f"{path}: 'about' has {text.nbytes} bytes; at most {MAX_ABOUT_BYTES} are read")
    try:
        about = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: 'about' is not JSON: {error}") from None
    if (
        not isinstance(about, dict)
        or about.get("format") != "jeanie-motion"
        or about.get("version") != VERSION
    ):
        raise DataError(
            f"{path}: expected format jeanie-motion version {VERSION} in 'about', got {str(about)[:80]}"
        )
    return about


def _describe(error: BaseException) -> str:
    return str(error)[:120] or type(error).__name__
