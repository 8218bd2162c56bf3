"""Write archives. After a crash, the folder holds the old or the new archive, and the work can be resumed.

The writer works in a hidden folder beside the archive, ``.NAME.partial``. It appends clips to the arrays, then to
a journal: arrays are valid as far as the journal says. ``commit`` replaces the old archive by this folder.
"""

import contextlib
import json
import numbers
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from jeanie._internal.files import flush_to_disk, remove_leftovers, replace_folder, sync_folder, write_to_disk
from jeanie.datasets.archive.reader import (
    FORMAT,
    HEADER_BYTES,
    NO_VALUE,
    ROW,
    TABLES,
    VERSION,
    compute_checksum,
    format_header,
    is_archive,
)
from jeanie.datasets.formats.npz import collect_tags
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

if sys.platform != "win32":
    import fcntl

__all__ = ["ArchiveLocked", "ArchiveWriter", "Record", "make_record", "write_archive"]

_SYNC_SECONDS = 2.0
_SYNC_CLIPS = 2000
_DTYPES: dict[str, np.dtype[Any]] = {
    "joints": np.dtype("<f4"),
    "valid": np.dtype("u1"),
    "names": np.dtype("u1"),
}
_JOURNAL = "journal.jsonl"
_FILES = {*(f"{key}.npy" for key in _DTYPES), "index.npy", "report.json", "archive.json", _JOURNAL}


class ArchiveLocked(DataError):
    """Another process is writing the archive."""


@dataclass(frozen=True)
class Record:
    """A motion as it is stored: joints, packed mask, layout and plain tags. It can be pickled."""

    joints: NDArray[np.float32]
    bits: NDArray[np.uint8]
    layout: Layout
    tags: dict[str, Any]


def make_record(motion: Motion) -> Record:
    """Return the record of a motion."""
    joints = np.ascontiguousarray(motion.joints.cpu().numpy(), dtype="<f4")
    tags = collect_tags(motion)
    tags |= {
        key: int(value)
        for key, value in tags.items()
        if key != "rate" and isinstance(value, numbers.Integral)
    }
    for key in ("setup", "take"):
        if tags[key] is not None and not NO_VALUE < tags[key] < -NO_VALUE:
            raise DataError(f"{motion.name}: {key} {tags[key]} does not fit in 64 bits")
    return Record(joints, np.packbits(motion.valid.cpu().numpy()), motion.layout, tags)


def write_archive(
    motions: Iterable[Motion], out: str | Path, *, name: str, report: dict[str, Any] | None = None
) -> None:
    """Write motions as an archive to the folder ``out``. An existing archive is replaced."""
    with ArchiveWriter(out, name) as writer:
        writer.resume((), keep_dropped=False)
        for number, motion in enumerate(motions):
            writer.add(str(number), make_record(motion))
        writer.commit(report or {"name": name, "kept": writer.clip_count, "dropped": []})


class ArchiveWriter:
    """Write an archive clip by clip. Use it in a ``with`` statement and call ``resume`` first.

    Every clip has a stamp that identifies its source and the state of the source. ``resume`` keeps the clips of
    an interrupted run up to the first stamp that differs.

    Raises:
        ConfigError: ``out`` exists and is not an archive.
        ArchiveLocked: Another process writes this archive.
    """

    def __init__(self, out: str | Path, name: str) -> None:
        self.out, self.name = Path(out).absolute(), name
        self.partial = self.out.with_name(f".{self.out.name}.partial")
        self._files = contextlib.ExitStack()
        self._arrays: dict[str, IO[bytes]] = {}
        self._pending: list[dict[str, Any]] = []
        self._sync_time = monotonic()
        self._is_committed = False
        self._reset()

    def __enter__(self) -> "ArchiveWriter":
        remove_leftovers(self.out)
        is_other = self.out.exists() and not is_archive(self.out)
        if is_other and not (self.out.is_dir() and not any(self.out.iterdir())):
            raise ConfigError(f"{self.out}: exists and is not an archive; choose another path or remove it")
        self.partial.mkdir(parents=True, exist_ok=True)
        self._journal = self._open_file(_JOURNAL)
        self._lock()
        self._arrays = {key: self._open_file(f"{key}.npy") for key in _DTYPES}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._files:
            if not self._is_committed:
                self.sync()  # a later run resumes from here

    @property
    def clip_count(self) -> int:
        """Number of clips in the archive."""
        return len(self._rows)

    @property
    def frames(self) -> int:
        """Number of frames of all clips in the archive."""
        return sum(row[4] for row in self._rows)

    @property
    def processed_count(self) -> int:
        """Number of clips in the archive plus dropped clips."""
        return len(self._rows) + len(self.dropped)

    def resume(self, stamps: Iterable[str], *, keep_dropped: bool) -> int:
        """Keep the clips of an interrupted run as long as their stamps equal ``stamps``.

        Without ``keep_dropped``, the first dropped clip ends them too.

        Returns:
            The number of clips kept, dropped ones included.
        """
        self._reset()
        expected = iter(stamps)
        self._journal.seek(0)
        end = 0
        for number, text in enumerate(self._journal):
            line = _parse_line(text)
            if number == 0 and line != self._make_header():
                break
            if number and not (self._is_stored(line) and line["stamp"] == next(expected, None)):
                break
            if "reason" in line and not keep_dropped:
                break
            if number:
                self._replay(line)
            end += len(text)
        self._truncate_files(end)
        return self.processed_count

    def add(self, stamp: str, clip: Record) -> None:
        """Append a clip."""
        name = clip.tags["name"]
        text = b"" if name is None else str(name).encode("utf-8", errors="replace")
        line = {
            "stamp": stamp,
            "shape": list(clip.joints.shape),
            "name_bytes": -1 if name is None else len(text),
            "checksum": compute_checksum(clip.joints, clip.bits),
            "tags": clip.tags,
        }
        if clip.layout in self._layouts:
            line["layout"] = self._layouts.index(clip.layout)
        else:
            line |= {"layout": len(self._layouts), "new_layout": clip.layout.to_dict()}
        for key, data in (("joints", clip.joints.data), ("valid", clip.bits.data), ("names", text)):
            self._arrays[key].write(data)
        self._append_line(line)

    def drop(self, stamp: str, name: str, reason: str) -> None:
        """Record that a clip was dropped, and the reason."""
        self._append_line({"stamp": stamp, "name": name, "reason": reason})

    def sync(self) -> None:
        """Write everything to the disk: first the arrays, then the journal that refers to them."""
        for file in self._arrays.values():
            flush_to_disk(file)
        self._journal.write(b"".join(json.dumps(line).encode() + b"\n" for line in self._pending))
        flush_to_disk(self._journal)
        self._pending.clear()
        self._sync_time = monotonic()

    def commit(self, report: dict[str, Any]) -> None:
        """Complete the archive and replace the old one; other files in its folder are kept."""
        self.sync()
        for key, file in self._arrays.items():
            file.seek(0)
            file.write(format_header(_DTYPES[key], self._sizes[key]))
            flush_to_disk(file)
        rows = np.array(self._rows, dtype=ROW)
        about: dict[str, Any] = {**self._make_header(), "clips": len(rows)}
        about["layouts"] = [layout.to_dict() for layout in self._layouts]
        about |= {key: [value for _, value in self._tables[key]] for key in TABLES}
        write_to_disk(self.partial / "index.npy", format_header(ROW, len(rows)) + rows.tobytes())
        write_to_disk(self.partial / "report.json", json.dumps(report, indent=1).encode())
        write_to_disk(self.partial / "archive.json", json.dumps(about, indent=1).encode())
        self._copy_other_files()
        sync_folder(self.partial)
        replace_folder(self.partial, self.out)
        self._is_committed = True
        (self.out / _JOURNAL).unlink(missing_ok=True)

    def _copy_other_files(self) -> None:
        """Copy files that are not part of the archive, such as a ``setups.csv`` of the user, from its old folder."""
        for path in self.out.iterdir() if self.out.exists() else ():
            copy = self.partial / path.name
            if path.name in _FILES:
                continue
            if path.is_dir():
                shutil.copytree(path, copy, dirs_exist_ok=True)
            elif path.is_file():
                shutil.copy2(path, copy)

    def _reset(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self.dropped: list[tuple[str, str]] = []
        self._layouts: list[Layout] = []
        self._tables: dict[str, dict[tuple[str, Any], int]] = {key: {} for key in TABLES}
        self._sizes = dict.fromkeys(_DTYPES, 0)

    def _make_header(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, "name": self.name}

    def _open_file(self, name: str) -> IO[bytes]:
        (self.partial / name).touch()
        return self._files.enter_context((self.partial / name).open("r+b"))

    def _lock(self) -> None:
        """Lock the journal for this process. The system releases the lock when the process ends."""
        if sys.platform != "win32":
            try:
                fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
                was_replaced = not os.path.samestat(
                    os.fstat(self._journal.fileno()), os.stat(self.partial / _JOURNAL)
                )
            except OSError:
                was_replaced = True
            if was_replaced:
                self._files.close()
                raise ArchiveLocked(
                    f"{self.out}: another process is writing this archive; wait until it ends"
                )

    def _append_line(self, line: dict[str, Any]) -> None:
        self._pending.append(line)
        self._replay(line)
        if len(self._pending) >= _SYNC_CLIPS or monotonic() - self._sync_time > _SYNC_SECONDS:
            self.sync()

    def _replay(self, line: dict[str, Any]) -> None:
        """Add a journal line to the index: a new one of ``add`` or ``drop``, or an old one of ``resume``."""
        if "reason" in line:
            self.dropped.append((line["name"], line["reason"]))
            return
        if "new_layout" in line:
            self._layouts.append(Layout.from_dict(line["new_layout"]))
        tags = line["tags"]
        numbered = (self._number_value(table, tags[table.removesuffix("s")]) for table in TABLES)
        offsets = (self._sizes["joints"], self._sizes["valid"], self._sizes["names"], line["name_bytes"])
        setup, take = (NO_VALUE if tags[key] is None else tags[key] for key in ("setup", "take"))
        rate = np.nan if tags["rate"] is None else tags["rate"]
        self._rows.append(
            (*offsets, *line["shape"][:2], line["layout"], *numbered, line["checksum"], setup, take, rate)
        )
        for key, count in _count_values(line).items():
            self._sizes[key] += count

    def _number_value(self, table: str, value: str | int | None) -> int:
        """Return the number of a label, subject or view in its table; 1 and "1" are different values."""
        if value is None:
            return -1
        numbers_of = self._tables[table]
        return numbers_of.setdefault((type(value).__name__, value), len(numbers_of))

    def _is_stored(self, line: dict[str, Any]) -> bool:
        """Return whether a journal line is complete and the arrays hold its clip."""
        return "stamp" in line and all(
            HEADER_BYTES + (self._sizes[key] + count) * _DTYPES[key].itemsize
            <= os.fstat(self._arrays[key].fileno()).st_size
            for key, count in _count_values(line).items()
        )

    def _truncate_files(self, end: int) -> None:
        """Truncate the journal and the arrays after the clips that are kept."""
        self._journal.seek(end)
        self._journal.truncate()
        if end == 0:
            self._journal.write(json.dumps(self._make_header()).encode() + b"\n")
            flush_to_disk(self._journal)
        for key, file in self._arrays.items():
            file.truncate(HEADER_BYTES + self._sizes[key] * _DTYPES[key].itemsize)
            file.seek(0, os.SEEK_END)


def _count_values(line: dict[str, Any]) -> dict[str, int]:
    """Return how many values the clip of a journal line adds to each array."""
    if "shape" not in line:
        return {}
    frames, persons, joints, axes = line["shape"]
    points = frames * persons * joints
    return {"joints": points * axes, "valid": (points + 7) // 8, "names": max(0, line["name_bytes"])}


def _parse_line(text: bytes) -> dict[str, Any]:
    """Parse a journal line; {} for a line that a crash cut off."""
    try:
        line = json.loads(text) if text.endswith(b"\n") else {}
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
