"""Files with the rows of windows, one after another. Every row that is read is checked."""

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.errors import DataError
from jeanie.recogniser.search.rows import are_intact

__all__ = ["CacheEntry", "DamagedRows", "RowFile", "read_batches", "read_numbered"]

_BATCH = 1024  # rows read at once
_JOINED = 4096  # rows read at once, by their numbers
_MANY = 8  # from one in so many rows, a file is read as a whole


@dataclass(frozen=True)
class CacheEntry:
    """Some clips of an archive in windows of one duration, and the key of their files."""

    key: str
    duration_step: int
    clips: range


@dataclass(frozen=True)
class RowFile:
    """A file with the rows of ``count`` windows of an entry."""

    path: Path
    entry: CacheEntry
    kind: np.dtype[Any]
    count: int

    def open(self) -> NDArray[Any]:
        """Return the memory-mapped rows; the first number of each window is that of its clip within the entry.

        Raises:
            DamagedRows: If the file is missing or has another size.
        """
        try:
            if self.path.stat().st_size != self.count * self.kind.itemsize:
                raise ValueError("wrong size")
            return np.memmap(self.path, self.kind, "r", shape=(self.count,))
        except (OSError, ValueError) as error:
            raise DamagedRows(self, str(error)) from None

    def read(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return a copy of some rows, after a check of their sums.

        Raises:
            DamagedRows: If the file or a row is damaged.
        """
        rows = self.copy(places, bytearray())
        _locate_rows([(self, len(rows))], rows)
        return rows

    def copy(self, places: NDArray[np.int64], buffer: bytearray) -> NDArray[Any]:
        """Return a copy of some rows without a check of their sums.

        Many rows are read through the buffer: a memory map would take longer. For a few rows, NumPy's memory map would
        take longer than the rows.

        Raises:
            DamagedRows: If the file is missing or has another size.
        """
        size = self.count * self.kind.itemsize
        if len(places) * _MANY >= self.count:
            buffer.extend(bytes(max(0, size - len(buffer))))
            whole = np.frombuffer(memoryview(buffer)[:size], self.kind)
            list(_read_into(self, whole, 0))
            return whole[places]
        try:
            with self.path.open("rb", buffering=0) as stream:
                mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            if len(mapped) != size:
                raise ValueError("wrong size")
            rows: NDArray[Any] = np.frombuffer(mapped, self.kind)[places]
            return rows
        except (OSError, ValueError) as error:
            raise DamagedRows(self, str(error)) from None


class DamagedRows(DataError):
    """A file of the cache is damaged, or was deleted during the search."""

    def __init__(self, file: RowFile, reason: str) -> None:
        super().__init__(f"{file.path}: {reason}")
        self.file = file


def read_batches(files: Sequence[RowFile]) -> Iterator[tuple[NDArray[np.int32], NDArray[Any]]]:
    """Yield the windows (clip of the archive, start, end) and rows of files, in order, after a check of their sums.

    A batch has rows of one type. The next batch overwrites it: the system needs longer to provide new memory, or a
    memory map, than to read the rows.

    Raises:
        DamagedRows: If a file or a row is damaged.
    """
    for kind, group in groupby(files, lambda file: file.kind):
        buffer = np.empty(_BATCH, kind)
        parts: list[tuple[RowFile, int]] = []
        filled = 0
        for file in group:
            for count in _read_into(file, buffer, filled):
                parts.append((file, count))
                filled += count
                if filled == _BATCH:
                    yield _locate_rows(parts, buffer), buffer
                    parts, filled = [], 0
        if filled:
            yield _locate_rows(parts, buffer[:filled]), buffer[:filled]


def _read_into(file: RowFile, buffer: NDArray[Any], filled: int) -> Iterator[int]:
    """Read a file to the buffer behind ``filled`` rows; yield the number of rows. A full buffer is filled again."""
    try:
        with file.path.open("rb") as stream:
            left = file.count
            if os.fstat(stream.fileno()).st_size != left * file.kind.itemsize:
                raise ValueError("wrong size")
            while left:
                some = buffer[filled : filled + left]
                if stream.readinto(some.view(np.uint8).data) != some.nbytes:
                    raise ValueError("wrong size")
                yield len(some)
                left -= len(some)
                filled = 0
    except (OSError, ValueError) as error:
        raise DamagedRows(file, str(error)) from None


def _locate_rows(parts: Sequence[tuple[RowFile, int]], rows: NDArray[Any]) -> NDArray[np.int32]:
    """Return clip of the archive, start and end of rows. The first part says how many of the first rows are whose.

    Raises:
        DamagedRows: If a row is damaged.
    """
    counts = [count for _, count in parts]
    first = np.repeat([file.entry.clips.start for file, _ in parts], counts)
    clips = np.repeat([len(file.entry.clips) for file, _ in parts], counts)
    windows: NDArray[np.int32] = rows["window"].copy()
    clip, start, end = windows.T
    is_good = are_intact(rows) & (clip >= 0) & (clip < clips) & (start >= 0) & (start < end)
    if not bool(is_good.all()):
        place = int(np.searchsorted(np.cumsum(counts), is_good.argmin(), "right"))
        raise DamagedRows(parts[place][0], "rows are damaged")
    windows[:, 0] += first.astype(np.int32)
    return windows


def read_numbered(
    files: Sequence[RowFile], numbers: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]]:
    """Yield rows by their numbers, which count through all files, after a check of their sums.

    A batch has rows of one type from several files: many small computations would take longer.

    Yields:
        Places in ``numbers``, their windows (clip of the archive, start, end) and their rows.

    Raises:
        DamagedRows: If a file or a row is damaged.
    """
    counts = np.array([file.count for file in files], np.int64)
    stops = np.cumsum(counts)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    owners = np.searchsorted(stops, ordered, "right")
    within = ordered - (stops - counts)[owners]
    edges = [*np.flatnonzero(np.diff(owners, prepend=-1)).tolist(), len(order)]
    buffer = bytearray()
    pieces: list[tuple[RowFile, NDArray[Any]]] = []
    begin = 0
    for first, last in pairwise(edges):
        file = files[int(owners[first])]
        if pieces and (pieces[0][1].dtype != file.kind or first - begin >= _JOINED):
            yield order[begin:first], *_join_pieces(pieces)
            pieces, begin = [], first
        pieces.append((file, file.copy(within[first:last], buffer)))
    if pieces:
        yield order[begin:], *_join_pieces(pieces)


def _join_pieces(pieces: Sequence[tuple[RowFile, NDArray[Any]]]) -> tuple[NDArray[np.int32], NDArray[Any]]:
    rows = np.concatenate([rows for _, rows in pieces])
    return _locate_rows([(file, len(some)) for file, some in pieces], rows), rows
