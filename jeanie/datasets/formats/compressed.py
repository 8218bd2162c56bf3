"""Recordings that are compressed with gzip."""

import gzip
import zlib
from pathlib import Path

from jeanie.datasets.formats.files import open_errors, read_chunks
from jeanie.errors import DataError

__all__ = ["GZIP_MAGIC", "decompress", "is_compressed", "read_compressed_head"]

GZIP_MAGIC = b"\x1f\x8b"
MAX_BYTES = 2**28


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed with gzip."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def read_compressed_head(path: Path, size: int) -> bytes:
    """Return the first bytes of the content of a compressed file."""
    with open_errors(path):
        try:
            with gzip.open(path) as file:
                return file.read(size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path}: not a readable gzip file: {error}") from None


def decompress(path: Path, folder: Path) -> Path:
    """Write the content of a compressed file into a folder, under its name without .gz; return the new file.

    Raises:
        DataError: The file is damaged, or its content is too large.
    """
    copy = folder / (path.name[:-3] if path.name.lower().endswith(".gz") else path.name)
    too_large = f"{path}: more than {MAX_BYTES} bytes after decompression; cut it into clips"
    with open_errors(path):
        try:
            with gzip.open(path) as source, copy.open("wb") as target:
                target.writelines(read_chunks(source.read, MAX_BYTES, too_large))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path}: not a readable gzip file: {error}") from None
    return copy
