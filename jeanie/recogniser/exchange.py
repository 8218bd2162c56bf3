"""A library as one file: a zip of JSON and npy members, equal for equal contents, read within bounds.

``library.json`` says format, version, number of examples and settings. The n-th example is
``n.json`` (label, layout, tags, frames, persons, checksum), ``n.joints.npy`` and ``n.valid.npy``. Members are
stored, not compressed: no file unpacks to more than its own size.
"""

import json
import os
import secrets
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from jeanie.errors import DataError
from jeanie.recogniser.codec import MAX_JOINT_BYTES, MAX_TEXT, Record, as_json

__all__ = ["Export", "read_export", "write_export"]

FORMAT, VERSION = "jeanie-library", 1
_MANIFEST = "library.json"
_HEADER_BYTES = 128
_LAST_STAMP = (1980, 1, 1, 0, 0, 0)  # the same for all: a file tells its contents, not its hour
# what zipfile and JSON raise on damaged files
_BROKEN = (
    zipfile.BadZipFile, OSError, EOFError, ValueError, KeyError, TypeError, NotImplementedError, RuntimeError,
    OverflowError, AttributeError,
)  # fmt: skip


def write_export(path: Path, examples: Iterable[tuple[str, Record]], settings: Mapping[str, Any]) -> int:
    """Write labelled examples and settings to a file, which appears whole or not at all; their number."""
    try:
        with _in_place_of(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            count = 0
            for count, (label, record) in enumerate(examples, start=1):
                about = asdict(record)
                joints, valid = about.pop("joints"), about.pop("valid")
                _put(archive, f"{count}.json", as_json({"label": label, **about}, 3 * MAX_TEXT).encode())
                _put(archive, f"{count}.joints.npy", _header("<f4", len(joints) // 4) + joints)
                _put(archive, f"{count}.valid.npy", _header("|u1", len(valid)) + valid)
            about = {"format": FORMAT, "version": VERSION, "examples": count, "settings": dict(settings)}
            _put(archive, _MANIFEST, json.dumps(about, sort_keys=True, indent=1).encode())
            return count
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None


class Export:
    """An export that is being read: ``settings``, and labelled ``examples`` whose checksums are unproven."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        about = self._json(_MANIFEST)
        if about.get("format") != FORMAT or about.get("version") != VERSION:
            raise DataError(
                f"{path}: expected {FORMAT} version {VERSION}, got {str(about.get('format'))[:40]} version "
                f"{str(about.get('version'))[:40]}; export it again, or install a newer jeanie"
            )
        count, settings = about.get("examples"), about.get("settings")
        if type(count) is not int or not isinstance(settings, dict):
            raise DataError(f"{path}: {_MANIFEST} needs a number of examples and a table of settings")
        self.count: int = count
        self.settings: dict[str, Any] = settings
        there = len(archive.namelist())
        if there != 1 + 3 * self.count:
            raise DataError(f"{path}: {there} members for {self.count} examples, expected 3 each and 1")

    def examples(self) -> Iterator[tuple[str, Record]]:
        """All examples with their labels, one at a time."""
        for number in range(1, self.count + 1):
            with _told(self.path, f"example {number}"):
                about = self._json(f"{number}.json")
                about["joints"] = self._array(f"{number}.joints.npy", "<f4", 4)
                about["valid"] = self._array(f"{number}.valid.npy", "|u1", 1)
                label = about.pop("label")
                record = Record(**about)
            yield label, record

    def _json(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads(self._bytes(name, 3 * MAX_TEXT))
        except RecursionError:
            raise DataError(f"{self.path}: {name} is nested too deeply") from None
        if not isinstance(value, dict):
            raise DataError(f"{self.path}: {name} holds no table of keys")
        return value

    def _array(self, name: str, kind: str, item: int) -> bytes:
        data = self._bytes(name, MAX_JOINT_BYTES + _HEADER_BYTES)
        count = max(len(data) - _HEADER_BYTES, 0) // item
        if not data.startswith(_header(kind, count)) or len(data) != _HEADER_BYTES + item * count:
            raise DataError(f"{self.path}: {name} is no flat npy array of {kind}")
        return data[_HEADER_BYTES:]

    def _bytes(self, name: str, bound: int) -> bytes:
        info = self._archive.getinfo(name)
        if info.file_size > bound:
            raise DataError(f"{self.path}: {name} has {info.file_size} bytes, at most {bound} are read")
        return self._archive.read(info)


@contextmanager
def read_export(path: Path) -> Iterator[Export]:
    """Open an export. Damage shows as DataError, here or when its examples are read."""
    with _told(path, "not a readable export"):
        archive = zipfile.ZipFile(path)
    with archive:
        with _told(path, "not a readable export"):
            members = archive.infolist()
            if any(info.compress_type or info.file_size != info.compress_size for info in members):
                raise DataError(f"{path}: has compressed members, an export has none; export it again")
            if sum(info.file_size for info in members) > path.stat().st_size:
                raise DataError(f"{path}: its members claim more bytes than the file has")
            export = Export(path, archive)
        yield export


@contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except _BROKEN as error:
        raise DataError(f"{path}: {what}: {str(error)[:120] or type(error).__name__}") from None


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _LAST_STAMP)
    info.create_system, info.external_attr = 3, 0o644 << 16
    archive.writestr(info, data)


def _header(kind: str, count: int) -> bytes:
    """The 128 bytes in front of a flat npy array."""
    words = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({count},), }}"
    room = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + words.ljust(room - 1).encode() + b"\n"


@contextmanager
def _in_place_of(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` when it is whole and on the disk."""
    partial = path.absolute().with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if sys.platform != "win32":
        folder = os.open(partial.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
