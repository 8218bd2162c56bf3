"""Writing an archive: a kill at any moment leaves the old one or the new one, and work goes on after it.

Everything goes into a hidden folder beside the archive, ``.NAME.partial``. Arrays grow at their ends; a
journal, synced after them, says how far to trust them. When all is there, the folder takes the archive's
place in one step, and the old archive is deleted after that.
"""

import contextlib
import json
import numbers
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.archive import (
    FORMAT,
    HEADER_BYTES,
    NOTHING,
    ROW,
    TABLES,
    VERSION,
    checksum,
    header,
    is_archive,
)
from jeanie.datasets.npz import tags_to
from jeanie.datasets.swap import clear_leftovers, flush, put_in_place, sync_folder, write_whole
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

if sys.platform != "win32":
    import fcntl

__all__ = ["ArchiveWriter", "Record", "record", "write_archive"]

_SYNC_SECONDS = 2.0
_SYNC_CLIPS = 2000
_DTYPES: dict[str, np.dtype[Any]] = {
    "joints": np.dtype("<f4"),
    "valid": np.dtype("u1"),
    "names": np.dtype("u1"),
}


@dataclass(frozen=True)
class Record:
    """A motion as it is stored: joints, packed mask, and the rest as plain values; it can be pickled."""

    joints: NDArray[np.float32]
    bits: NDArray[np.uint8]
    layout: Layout
    tags: dict[str, Any]


def record(motion: Motion) -> Record:
    """The record of a motion."""
    joints = np.ascontiguousarray(motion.joints.cpu().numpy(), dtype="<f4")
    tags = tags_to(motion)
    tags |= {
        key: int(value)
        for key, value in tags.items()
        if key != "rate" and isinstance(value, numbers.Integral)
    }
    for key in ("setup", "take"):
        if tags[key] is not None and not NOTHING < tags[key] < -NOTHING:
            raise DataError(f"{motion.name}: {key} {tags[key]} does not fit into 64 bits")
    return Record(joints, np.packbits(motion.valid.cpu().numpy()), motion.layout, tags)


def write_archive(
    motions: Iterable[Motion], out: str | Path, *, name: str, report: dict[str, Any] | None = None
) -> None:
    """Write motions as an archive at ``out``, in place of one that may be there."""
    with ArchiveWriter(out, name) as writer:
        writer.resume((), keep_dropped=False)
        for at, motion in enumerate(motions):
            writer.add(str(at), record(motion))
        writer.commit(report or {"name": name, "kept": writer.kept, "dropped": []})


class ArchiveWriter:
    """Grows an archive clip by clip, to be used in a ``with``; call ``resume`` first.

    Every clip has a stamp: which source it came from and when that changed. ``resume`` keeps what an earlier
    run did up to the first stamp that differs, so a run that was killed goes on where its journal ends.
    """

    def __init__(self, out: str | Path, name: str) -> None:
        self.out, self.name = Path(out).absolute(), name
        self.partial = self.out.with_name(f".{self.out.name}.partial")
        self._files = contextlib.ExitStack()
        self._arrays: dict[str, IO[bytes]] = {}
        self._pending: list[dict[str, Any]] = []
        self._synced = monotonic()
        self._committed = False
        self._forget()

    def __enter__(self) -> "ArchiveWriter":
        clear_leftovers(self.out)
        strange = self.out.exists() and not is_archive(self.out)
        if strange and not (self.out.is_dir() and not any(self.out.iterdir())):
            raise ConfigError(f"{self.out}: exists and is not an archive; give another place or remove it")
        self.partial.mkdir(parents=True, exist_ok=True)
        self._journal = self._opened("journal.jsonl")
        self._lock()
        self._arrays = {key: self._opened(f"{key}.npy") for key in _DTYPES}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._files:
            if not self._committed:
                self.sync()  # a later run goes on from here

    @property
    def kept(self) -> int:
        """Number of clips that are in."""
        return len(self._rows)

    @property
    def frames(self) -> int:
        """Number of frames of all clips that are in."""
        return sum(row[4] for row in self._rows)

    @property
    def done(self) -> int:
        """Number of clips that are in or dropped."""
        return len(self._rows) + len(self.dropped)

    def resume(self, stamps: Iterable[str], *, keep_dropped: bool) -> int:
        """Take over what an earlier run did, up to the first clip whose stamp is not the next of ``stamps``.

        With ``keep_dropped`` False it ends at the first dropped clip too. Returns how many it took over.
        """
        self._forget()
        expected = iter(stamps)
        self._journal.seek(0)
        end = 0
        for number, text in enumerate(self._journal):
            line = _parsed(text)
            if number == 0 and line != self._title():
                break
            if number and not (self._fits(line) and line["stamp"] == next(expected, None)):
                break
            if "reason" in line and not keep_dropped:
                break
            if number:
                self._replay(line)
            end += len(text)
        self._cut_back(end)
        return self.done

    def add(self, stamp: str, clip: Record) -> None:
        """Append a clip."""
        name = clip.tags["name"]
        text = b"" if name is None else str(name).encode("utf-8", errors="replace")
        line = {
            "stamp": stamp,
            "shape": list(clip.joints.shape),
            "name_bytes": -1 if name is None else len(text),
            "checksum": checksum(clip.joints, clip.bits),
            "tags": clip.tags,
        }
        if clip.layout in self._layouts:
            line["layout"] = self._layouts.index(clip.layout)
        else:
            line |= {"layout": len(self._layouts), "new_layout": clip.layout.to_dict()}
        for key, data in (("joints", clip.joints.data), ("valid", clip.bits.data), ("names", text)):
            self._arrays[key].write(data)
        self._note(line)

    def drop(self, stamp: str, name: str, reason: str) -> None:
        """Note that a clip was left out, and why."""
        self._note({"stamp": stamp, "name": name, "reason": reason})

    def sync(self) -> None:
        """Bring everything so far to the disk: first the arrays, then the journal that vouches for them."""
        for file in self._arrays.values():
            flush(file)
        self._journal.write(b"".join(json.dumps(line).encode() + b"\n" for line in self._pending))
        flush(self._journal)
        self._pending.clear()
        self._synced = monotonic()

    def commit(self, report: dict[str, Any]) -> None:
        """Finish the archive and put it in its place; the old one goes after that."""
        self.sync()
        for key, file in self._arrays.items():
            file.seek(0)
            file.write(header(_DTYPES[key], self._sizes[key]))
            flush(file)
        rows = np.array(self._rows, dtype=ROW)
        about: dict[str, Any] = {**self._title(), "clips": len(rows)}
        about["layouts"] = [layout.to_dict() for layout in self._layouts]
        about |= {key: [value for _, value in self._tables[key]] for key in TABLES}
        write_whole(self.partial / "index.npy", header(ROW, len(rows)) + rows.tobytes())
        write_whole(self.partial / "report.json", json.dumps(report, indent=1).encode())
        write_whole(self.partial / "archive.json", json.dumps(about, indent=1).encode())
        sync_folder(self.partial)
        put_in_place(self.partial, self.out)
        self._committed = True
        (self.out / "journal.jsonl").unlink(missing_ok=True)

    def _forget(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self.dropped: list[tuple[str, str]] = []
        self._layouts: list[Layout] = []
        self._tables: dict[str, dict[tuple[str, Any], int]] = {key: {} for key in TABLES}
        self._sizes = dict.fromkeys(_DTYPES, 0)

    def _title(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, "name": self.name}

    def _opened(self, name: str) -> IO[bytes]:
        (self.partial / name).touch()
        return self._files.enter_context((self.partial / name).open("r+b"))

    def _lock(self) -> None:
        """Hold the journal for this process alone; the system lets go of it when the process ends."""
        if sys.platform != "win32":
            try:
                fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
                moved = not os.path.samestat(
                    os.fstat(self._journal.fileno()), os.stat(self.partial / "journal.jsonl")
                )
            except OSError:
                moved = True
            if moved:
                self._files.close()
                raise DataError(f"{self.out}: another process is writing this archive; wait for it to end")

    def _note(self, line: dict[str, Any]) -> None:
        self._pending.append(line)
        self._replay(line)
        if len(self._pending) >= _SYNC_CLIPS or monotonic() - self._synced > _SYNC_SECONDS:
            self.sync()

    def _replay(self, line: dict[str, Any]) -> None:
        """Take a journal line into the index: ``add`` and ``drop`` do so, and ``resume`` does it again."""
        if "reason" in line:
            self.dropped.append((line["name"], line["reason"]))
            return
        if "new_layout" in line:
            self._layouts.append(Layout.from_dict(line["new_layout"]))
        tags = line["tags"]
        numbered = (self._number(table, tags[table.removesuffix("s")]) for table in TABLES)
        places = (self._sizes["joints"], self._sizes["valid"], self._sizes["names"], line["name_bytes"])
        setup, take = (NOTHING if tags[key] is None else tags[key] for key in ("setup", "take"))
        rate = np.nan if tags["rate"] is None else tags["rate"]
        self._rows.append(
            (*places, *line["shape"][:2], line["layout"], *numbered, line["checksum"], setup, take, rate)
        )
        for key, more in _growth(line).items():
            self._sizes[key] += more

    def _number(self, table: str, value: str | int | None) -> int:
        """The number of a label, subject or view in its table; 1 and "1" are two."""
        if value is None:
            return -1
        known = self._tables[table]
        return known.setdefault((type(value).__name__, value), len(known))

    def _fits(self, line: dict[str, Any]) -> bool:
        """Whether a journal line is whole and the arrays reach as far as it says."""
        return "stamp" in line and all(
            HEADER_BYTES + (self._sizes[key] + more) * _DTYPES[key].itemsize
            <= os.fstat(self._arrays[key].fileno()).st_size
            for key, more in _growth(line).items()
        )

    def _cut_back(self, end: int) -> None:
        """Journal and arrays as far as they were taken over, ready to grow."""
        self._journal.seek(end)
        self._journal.truncate()
        if end == 0:
            self._journal.write(json.dumps(self._title()).encode() + b"\n")
            flush(self._journal)
        for key, file in self._arrays.items():
            file.truncate(HEADER_BYTES + self._sizes[key] * _DTYPES[key].itemsize)
            file.seek(0, os.SEEK_END)


def _growth(line: dict[str, Any]) -> dict[str, int]:
    """By how many numbers a journal line lets each array grow."""
    if "shape" not in line:
        return {}
    frames, persons, joints, axes = line["shape"]
    points = frames * persons * joints
    return {"joints": points * axes, "valid": (points + 7) // 8, "names": max(0, line["name_bytes"])}


def _parsed(text: bytes) -> dict[str, Any]:
    """A journal line, empty where the process was killed in the middle of it."""
    try:
        line = json.loads(text) if text.endswith(b"\n") else {}
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
