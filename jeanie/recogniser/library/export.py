"""Export a library to one file: a zip of JSON and npy members. Equal libraries give equal bytes.

``library.json`` holds format, version, number of examples and settings. Example n is stored as ``n.json`` (label,
layout, tags, frames, persons, checksum), ``n.joints.npy`` and ``n.valid.npy``; the calibration recordings have the
numbers after the examples and no label. Members are not compressed, so a file never unpacks to more than its own size.
"""

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jeanie._internal.files import open_atomically
from jeanie.errors import DataError, JeanieError
from jeanie.recogniser.library.codec import MAX_JOINT_BYTES, MAX_TEXT, Record, to_json

__all__ = ["Export", "file_errors", "read_export", "write_export"]

FORMAT, VERSION = "jeanie-library", 1
_MANIFEST = "library.json"
_HEADER_BYTES = 128
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)  # constant: equal libraries give equal files
# what zipfile and json raise for damaged files
_READ_ERRORS = (
    zipfile.BadZipFile, OSError, EOFError, ValueError, LookupError, TypeError, NotImplementedError, RuntimeError,
    OverflowError, AttributeError,
)  # fmt: skip


def write_export(
    path: Path,
    examples: Iterable[tuple[str, Record]],
    settings: Mapping[str, Any],
    calibration: Sequence[Record] = (),
) -> int:
    """Write labelled examples, settings and calibration recordings to a file atomically.

    Returns the number of examples.
    """
    try:
        with open_atomically(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            count = 0
            for count, (label, record) in enumerate(examples, start=1):
                _write_record(archive, count, record, {"label": label})
            for number, record in enumerate(calibration, start=count + 1):
                _write_record(archive, number, record, {})
            manifest = {"format": FORMAT, "version": VERSION, "examples": count, "settings": dict(settings)}
            manifest |= {"calibration": len(calibration)} if calibration else {}
            _write_member(archive, _MANIFEST, json.dumps(manifest, sort_keys=True, indent=1).encode())
            return count
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None


class Export:
    """An open export: ``settings``, labelled ``examples`` and ``calibration``; checksums are not verified."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        manifest = self._read_json(_MANIFEST)
        if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
            raise DataError(
                f"{path}: expected {FORMAT} version {VERSION}, got {str(manifest.get('format'))[:40]} version "
                f"{str(manifest.get('version'))[:40]}; export it again, or install a newer jeanie"
            )
        count, settings = manifest.get("examples"), manifest.get("settings")
        if type(count) is not int or not isinstance(settings, dict):
            raise DataError(f"{path}: {_MANIFEST} needs a number of examples and a table of settings")
        self.count: int = count
        self.settings: dict[str, Any] = settings
        recordings = manifest.get("calibration", 0)
        if type(recordings) is not int or not 0 <= recordings <= len(archive.namelist()):
            raise DataError(f"{path}: {_MANIFEST} needs a number of calibration recordings")
        self._recordings: int = recordings
        members = len(archive.namelist())
        if members != 1 + 3 * (self.count + recordings):
            raise DataError(
                f"{path}: {members} members for {self.count} examples and {recordings} calibration recordings, "
                "expected 3 each and 1"
            )

    def examples(self) -> Iterator[tuple[str, Record]]:
        """Yield the label and the record of each example."""
        for number in range(1, self.count + 1):
            with _read_errors(self.path, f"example {number}"):
                values = self._read_record(number)
                label = values.pop("label")
                record = Record(**values)
            yield label, record

    def calibration(self) -> Iterator[Record]:
        """Yield the calibration recordings."""
        for number in range(self.count + 1, self.count + self._recordings + 1):
            with _read_errors(self.path, f"calibration recording {number - self.count}"):
                record = Record(**self._read_record(number))
            yield record

    def _read_record(self, number: int) -> dict[str, Any]:
        values = self._read_json(f"{number}.json")
        values["joints"] = self._read_array(f"{number}.joints.npy", "<f4", 4)
        values["valid"] = self._read_array(f"{number}.valid.npy", "|u1", 1)
        return values

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads(self._read_bytes(name, 3 * MAX_TEXT))
        except RecursionError:
            raise DataError(f"{self.path}: {name} is nested too deeply") from None
        if not isinstance(value, dict):
            raise DataError(f"{self.path}: {name} is not a table of keys")
        return value

    def _read_array(self, name: str, dtype: str, item_bytes: int) -> bytes:
        data = self._read_bytes(name, MAX_JOINT_BYTES + _HEADER_BYTES)
        count = max(len(data) - _HEADER_BYTES, 0) // item_bytes
        if (
            not data.startswith(_format_npy_header(dtype, count))
            or len(data) != _HEADER_BYTES + item_bytes * count
        ):
            raise DataError(f"{self.path}: {name} is not a flat npy array of {dtype}")
        return data[_HEADER_BYTES:]

    def _read_bytes(self, name: str, limit: int) -> bytes:
        info = self._archive.getinfo(name)
        if info.file_size > limit:
            raise DataError(f"{self.path}: {name} has {info.file_size} bytes, at most {limit} are allowed")
        return self._archive.read(info)


@contextmanager
def read_export(path: Path) -> Iterator[Export]:
    """Open an export. A damaged file raises DataError, here or while its examples are read."""
    with _read_errors(path, "not a readable export"):
        archive = zipfile.ZipFile(path)
    with archive:
        with _read_errors(path, "not a readable export"):
            members = archive.infolist()
            if any(info.compress_type or info.file_size != info.compress_size for info in members):
                raise DataError(f"{path}: has compressed members, an export has none; export it again")
            if sum(info.file_size for info in members) > path.stat().st_size:
                raise DataError(f"{path}: its members claim more bytes than the file has")
            export = Export(path, archive)
        yield export


@contextmanager
def file_errors(source: str) -> Iterator[None]:
    """Raise DataError for invalid values of a file."""
    try:
        yield
    except (JeanieError, ValueError) as error:
        raise DataError(f"{source}: {error}") from None


@contextmanager
def _read_errors(path: Path, context: str) -> Iterator[None]:
    """Raise DataError for every error of a damaged file."""
    try:
        yield
    except DataError:
        raise
    except _READ_ERRORS as error:
        raise DataError(f"{path}: {context}: {str(error)[:120] or type(error).__name__}") from None


def _write_record(archive: zipfile.ZipFile, number: int, record: Record, tags: Mapping[str, str]) -> None:
    values = asdict(record)
    joints, valid = values.pop("joints"), values.pop("valid")
    _write_member(archive, f"{number}.json", to_json({**tags, **values}, 3 * MAX_TEXT).encode())
    _write_member(archive, f"{number}.joints.npy", _format_npy_header("<f4", len(joints) // 4) + joints)
    _write_member(archive, f"{number}.valid.npy", _format_npy_header("|u1", len(valid)) + valid)


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _TIMESTAMP)
    info.create_system, info.external_attr = 3, 0o644 << 16
    archive.writestr(info, data)


def _format_npy_header(dtype: str, count: int) -> bytes:
    """Return the 128 bytes in front of a flat npy array."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({count},), }}"
    size = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + size.to_bytes(2, "little") + text.ljust(size - 1).encode() + b"\n"
