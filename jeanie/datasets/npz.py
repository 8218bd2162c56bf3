"""npz files: arrays out of zip containers without pickles and within bounds, and our own exchange format."""

import io
import json
import lzma
import math
import os
import struct
import tempfile
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.table import MAX_POINTS
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = [
    "BROKEN",
    "array_from_bytes",
    "arrays_of",
    "member",
    "read_npz",
    "tags_from",
    "tags_to",
    "unpacked",
    "write_npz",
]

VERSION = 1
MAX_ARRAY_BYTES = MAX_POINTS * 12
# what zipfile and numpy raise on damaged files
BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, KeyError,
    IndexError, NotImplementedError, RuntimeError, OverflowError, SyntaxError,
    tokenize.TokenError,
)  # fmt: skip
_TAGS = ("label", "subject", "view", "rate", "name", "setup", "take")


def write_npz(motion: Motion, path: str | Path) -> None:
    """Write a motion to an npz file that ``read_npz`` gives back bit for bit; it replaces an old one."""
    path = Path(path)
    about = {
        "format": "jeanie-motion",
        "version": VERSION,
        "layout": motion.layout.to_dict(),
        **tags_to(motion),
    }
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        joints=motion.joints.cpu().numpy(),
        valid=np.packbits(motion.valid.cpu().numpy()),
        about=np.str_(json.dumps(about)),
    )
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_npz(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """A motion from an npz file: our exchange format, or any with an array ``joints`` if ``layout`` is given.

    ``joints`` is [frame, joint, 3] or [frame, person, joint, 3]. Never unpickles.
    """
    path = Path(path)
    found = arrays_of(path, path, ("joints", "valid", "about"))
    if "joints" not in found:
        raise DataError(f"{path}: no array 'joints' in it; expected joints [frame, joint, 3]")
    joints = found["joints"]
    about = _about(path, found.get("about"))
    if layout is None and about is None:
        raise DataError(f"{path}: does not say which joints it holds; give layout=")
    valid = None
    if about is not None:
        valid = unpacked(found.get("valid", np.empty(0, np.uint8)), joints.shape[:-1], str(path))
    try:
        own = Layout.from_dict(about.get("layout", {})) if about is not None else None
        tags = tags_from(about, str(path)) if about is not None else {"name": path.stem}
        return Motion(joints, layout or _given(own), valid=valid, **tags)
    except (JeanieError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: {error}") from None


def arrays_of(source: Path | io.BytesIO, path: Path, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Those of the wanted arrays that an npz file holds, without pickles; messages name ``path``."""
    try:
        with zipfile.ZipFile(source) as archive:
            there = [name for name in wanted if f"{name}.npy" in archive.namelist()]
            return {name: member(archive, f"{name}.npy", path) for name in there}
    except BROKEN as error:
        if isinstance(error, JeanieError):
            raise
        raise DataError(f"{path}: not a readable npz file: {_cause(error)}") from None


def member(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    """One array of an open npz file, checked by its size and checksum before it is believed."""
    try:
        info = archive.getinfo(name)
        if info.file_size > MAX_ARRAY_BYTES:
            raise DataError(f"{path}: {name} claims {info.file_size} bytes, too many for one recording")
        return array_from_bytes(archive.read(info))
    except BROKEN as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: {name[:80]!r} is damaged: {_cause(error)}") from None


def array_from_bytes(data: bytes) -> NDArray[Any]:
    """The array of an npy file; ValueError unless its header and the bytes that follow agree."""
    stream = io.BytesIO(data)
    npy: Any = np.lib.format
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy version {version}")
    reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's advice about headers that Python 2 wrote
        shape, fortran, dtype = reader(stream)
    if dtype.hasobject or dtype.names or dtype.kind not in "fiubU":
        raise ValueError(f"an array of {dtype}, expected numbers or text")
    size = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape) or size != len(data) - stream.tell():
        raise ValueError(f"{len(data) - stream.tell()} bytes for shape {shape} of {dtype}")
    flat = np.frombuffer(data, dtype, offset=stream.tell()) if size else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def unpacked(bits: NDArray[Any], shape: tuple[int, ...], said: str) -> NDArray[np.bool_]:
    """A mask of ``shape`` from its packed bits."""
    count = math.prod(shape)
    if bits.dtype != np.uint8 or bits.shape != ((count + 7) // 8,):
        raise DataError(f"{said}: the mask needs {(count + 7) // 8} bytes, got {bits.dtype} {bits.shape}")
    return np.unpackbits(bits, count=count).astype(np.bool_).reshape(shape)


def tags_to(motion: Motion) -> dict[str, Any]:
    """What is known about a motion beside its joints, ready for JSON."""
    return {key: getattr(motion, key) for key in _TAGS}


def tags_from(about: Mapping[str, Any], said: str) -> dict[str, Any]:
    """The same out of JSON, each value of its own type."""
    kinds: dict[str, tuple[type, ...]] = {
        "label": (str, int), "subject": (str, int), "view": (str, int), "rate": (float, int), "name": (str,),
        "setup": (int,), "take": (int,),
    }  # fmt: skip
    tags = {key: about.get(key) for key in _TAGS}
    for key, value in tags.items():
        if value is not None and (not isinstance(value, kinds[key]) or isinstance(value, bool)):
            raise DataError(f"{said}: {key} is {str(value)[:40]!r}, a {type(value).__name__}")
    return tags


def _about(path: Path, text: NDArray[Any] | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        about = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: its 'about' is not JSON: {error}") from None
    if (
        not isinstance(about, dict)
        or about.get("format") != "jeanie-motion"
        or about.get("version") != VERSION
    ):
        raise DataError(
            f"{path}: expected format jeanie-motion version {VERSION} in 'about', got {str(about)[:80]}"
        )
    return about


def _given(layout: Layout | None) -> Layout:
    if layout is None:
        raise ConfigError("no layout")
    return layout


def _cause(error: BaseException) -> str:
    return f"{str(error)[:120] or type(error).__name__}"
