"""An archive: one folder with all motions of a data set in a memory-mapped array, and an index beside it.

    archive.json  format, name, counts, layouts, and the labels, subjects and views that index.npy numbers
    joints.npy    float32, all clips one after another, each [frame, person, joint, 3]
    valid.npy     uint8, the masks [frame, person, joint] as packed bits, each clip from a byte of its own
    names.npy     uint8, the names of the clips in UTF-8
    index.npy     a row of numbers for each clip (``ROW``)
    report.json   where the clips came from, the published count, every dropped file and why

Opening reads archive.json and maps the rest: time and memory do not grow with the number of clips.
"""

import functools
import math
import mmap
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from jeanie.datasets.npz import unpacked
from jeanie.datasets.text import expect, read_json
from jeanie.errors import DataError, JeanieError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["ROW", "Archive", "is_archive", "open_archive"]

FORMAT, VERSION = "jeanie-archive", 1
HEADER_BYTES = 128
NOTHING = np.iinfo(np.int64).min  # stands for None in setup and take; -1 does in the numbered columns
TABLES = ("labels", "subjects", "views")
ROW = np.dtype(
    [
        ("joints", "<i8"), ("valid", "<i8"), ("name", "<i8"), ("name_bytes", "<i4"), ("frames", "<i4"),
        ("persons", "<i4"), ("layout", "<i4"), ("labels", "<i4"), ("subjects", "<i4"), ("views", "<i4"),
        ("checksum", "<u4"), ("setup", "<i8"), ("take", "<i8"), ("rate", "<f8"),
    ]
)  # fmt: skip

Tag = str | int | None
# without it the kernel may refuse to map an archive larger than memory, as every page might be written
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def old_place(path: Path) -> Path:
    """Where an archive waits for the instant in which another takes its place, if it cannot swap."""
    return path.with_name(f".{path.name}.old")


def is_archive(path: str | Path) -> bool:
    """Whether a folder holds an archive."""
    path = Path(path).absolute()
    return (path / "archive.json").is_file() or (
        not path.exists() and (old_place(path) / "archive.json").is_file()
    )


def open_archive(path: str | Path) -> "Archive":
    """Open an archive; a data set whose motions are slices of one memory-mapped array."""
    path = Path(path).absolute()
    folder = path if path.exists() or not is_archive(path) else old_place(path)
    about = expect(folder, read_json(folder / "archive.json"), dict, "archive.json")
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise DataError(
            f"{folder}: expected {FORMAT} version {VERSION}, got {str(about.get('format'))[:40]} "
            f"{str(about.get('version'))[:40]}; prepare it again"
        )
    rows = expect(folder, about.get("layouts"), list, "layouts")
    try:
        layouts = tuple(Layout.from_dict(row) for row in rows)
    except (JeanieError, AttributeError, TypeError) as error:
        raise DataError(f"{folder}: {error}") from None
    tables = {key: tuple(expect(folder, about.get(key), list, key)) for key in TABLES}
    if not all(type(value) in (str, int) for table in tables.values() for value in table):
        raise DataError(f"{folder}: labels, subjects and views are texts or whole numbers")
    kinds: dict[str, np.dtype[Any]] = {
        "joints": np.dtype("<f4"),
        "valid": np.dtype("u1"),
        "names": np.dtype("u1"),
        "index": ROW,
    }
    arrays = {key: _mapped(folder / f"{key}.npy", dtype) for key, dtype in kinds.items()}
    if about.get("clips") != len(arrays["index"]):
        raise DataError(f"{folder}: {about.get('clips')} clips but {len(arrays['index'])} rows in index.npy")
    return Archive(path, str(about.get("name")), layouts, tables, *arrays.values())


@dataclass(frozen=True, eq=False, repr=False)
class Archive(Sequence[Motion]):
    """An open archive, a sequence of motions and a data set. Nothing is read before a motion is asked for.

    The arrays are private mappings: writing into a motion's memory changes neither the file nor what other
    processes see.
    """

    path: Path
    name: str
    layouts: tuple[Layout, ...]
    tables: dict[str, tuple[str | int, ...]]
    joints: NDArray[np.float32]
    valid: NDArray[np.uint8]
    names_utf8: NDArray[np.uint8]
    rows: NDArray[Any]

    def __repr__(self) -> str:
        return f"Archive({str(self.path)!r}, {self.name!r}, clips={len(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return open_archive, (self.path,)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Motion: ...
    @overload
    def __getitem__(self, index: slice) -> "Picked": ...
    def __getitem__(self, index: int | slice) -> "Motion | Picked":
        if isinstance(index, slice):
            return Picked(self, range(len(self))[index])
        return self._motion(range(len(self))[index])

    @property
    def motions(self) -> "Archive":
        return self

    @property
    def layout(self) -> Layout:
        """The layout of all clips."""
        if len(self.layouts) != 1:
            raise DataError(
                f"{self.path}: {len(self.layouts)} layouts in one archive; convert the motions to one"
            )
        return self.layouts[0]

    @property
    def labels(self) -> "Column":
        return Column(self.rows["labels"], self.tables["labels"])

    @property
    def subjects(self) -> "Column":
        return Column(self.rows["subjects"], self.tables["subjects"])

    @property
    def views(self) -> "Column":
        return Column(self.rows["views"], self.tables["views"])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.clip_name(index) for index in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Frames of each clip, without reading any."""
        return np.array(self.rows["frames"])

    @functools.cached_property
    def report(self) -> dict[str, Any]:
        """What ``prepare`` found: source, counts, dropped files with their reasons."""
        path = self.path / "report.json"
        report: dict[str, Any] = expect(path, read_json(path), dict, "the report")
        return report

    def clip_name(self, index: int) -> str:
        """Name of a clip."""
        row = self.rows[index]
        text = _cut(self.names_utf8, int(row["name"]), int(row["name_bytes"]), f"{self.path}: clip {index}")
        return text.tobytes().decode("utf-8", errors="replace")

    def clip(self, index: int) -> Float[Tensor, "frame person joint 3"]:
        """Joints of a clip: a slice of the mapped array, never a copy; missing joints hold 0."""
        return torch.from_numpy(self._joints(index))

    def damaged(self) -> list[str]:
        """Clips whose numbers have not the checksum they were written with (reads the whole archive)."""
        return [
            f"{self.clip_name(index)} ({index})"
            for index, row in enumerate(self.rows)
            if checksum(self._joints(index), self._bits(index)) != row["checksum"]
        ]

    def _shape(self, index: int) -> tuple[int, int, int, int]:
        row = self.rows[index]
        frames, persons, layout = int(row["frames"]), int(row["persons"]), int(row["layout"])
        if frames < 1 or persons < 1 or not 0 <= layout < len(self.layouts):
            raise DataError(
                f"{self.path}: clip {index} has {frames} frames, {persons} persons, layout {layout}"
            )
        return frames, persons, len(self.layouts[layout]), 3

    def _joints(self, index: int) -> NDArray[np.float32]:
        shape = self._shape(index)
        flat = _cut(
            self.joints, int(self.rows[index]["joints"]), math.prod(shape), f"{self.path}: clip {index}"
        )
        return flat.reshape(shape)

    def _bits(self, index: int) -> NDArray[np.uint8]:
        size = (math.prod(self._shape(index)[:3]) + 7) // 8
        return _cut(self.valid, int(self.rows[index]["valid"]), size, f"{self.path}: clip {index}")

    def _motion(self, index: int) -> Motion:
        row = self.rows[index]
        tags = {key: _decoded(int(row[key]), self.tables[key], self.path) for key in TABLES}
        setup, take, rate = int(row["setup"]), int(row["take"]), float(row["rate"])
        said = f"{self.path}: clip {index}"
        try:
            return Motion(
                self.clip(index),
                self.layouts[int(row["layout"])],
                label=tags["labels"],
                subject=tags["subjects"],
                view=tags["views"],
                rate=None if math.isnan(rate) else rate,
                name=self.clip_name(index) if row["name_bytes"] >= 0 else None,
                valid=unpacked(self._bits(index), self._shape(index)[:3], said),
                setup=None if setup == NOTHING else setup,
                take=None if take == NOTHING else take,
            )
        except JeanieError as error:
            raise DataError(f"{said}: {error}") from None


@dataclass(frozen=True, eq=False)
class Picked(Sequence[Motion]):
    """Some clips of an archive, in order, still unread."""

    of: Archive
    chosen: range

    def __len__(self) -> int:
        return len(self.chosen)

    @overload
    def __getitem__(self, index: int) -> Motion: ...
    @overload
    def __getitem__(self, index: slice) -> "Picked": ...
    def __getitem__(self, index: int | slice) -> "Motion | Picked":
        return (
            Picked(self.of, self.chosen[index]) if isinstance(index, slice) else self.of[self.chosen[index]]
        )


@dataclass(frozen=True, eq=False)
class Column(Sequence[Tag]):
    """Labels, subjects or views of all clips, looked up when asked for."""

    numbers: NDArray[np.int32]
    table: tuple[str | int, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Tag: ...
    @overload
    def __getitem__(self, index: slice) -> "Column": ...
    def __getitem__(self, index: int | slice) -> "Tag | Column":
        if isinstance(index, slice):
            return Column(self.numbers[index], self.table)
        return _decoded(int(self.numbers[index]), self.table, Path("index.npy"))

    def __iter__(self) -> Iterator[Tag]:
        for extreme in (self.numbers.min(initial=0), self.numbers.max(initial=-1)):
            _decoded(int(extreme), self.table, Path("index.npy"))
        values = (*self.table, None)  # -1 is None
        return (values[number] for number in self.numbers.tolist())


def checksum(joints: NDArray[np.float32], bits: NDArray[np.uint8]) -> int:
    """CRC-32 of a clip's joints and mask."""
    return zlib.crc32(bits.tobytes(), zlib.crc32(joints.data))


def _decoded(number: int, table: tuple[str | int, ...], path: Path) -> Tag:
    if not -1 <= number < len(table):
        raise DataError(f"{path}: number {number} in a table of {len(table)}; the archive is damaged")
    return None if number < 0 else table[number]


def _cut(flat: NDArray[Any], start: int, size: int, said: str) -> NDArray[Any]:
    if start < 0 or size < 0 or start + size > len(flat):
        raise DataError(f"{said}: lies outside its array; the archive is damaged, prepare it again")
    return flat[start : start + size]


def header(dtype: np.dtype[Any], length: int) -> bytes:
    """The 128 bytes in front of a flat npy array: always as many, so that they can be written last."""
    npy: Any = np.lib.format
    described = npy.dtype_to_descr(dtype)
    text = f"{{'descr': {described!r}, 'fortran_order': False, 'shape': ({length},), }}"
    room = HEADER_BYTES if len(text) < HEADER_BYTES - 10 else 4 * HEADER_BYTES
    return b"\x93NUMPY\x01\x00" + (room - 10).to_bytes(2, "little") + text.ljust(room - 11).encode() + b"\n"


def _mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The flat array of an npy file as a private mapping: torch may write, the file stays as it is."""
    try:
        with path.open("rb") as file:
            if sys.platform == "win32":
                whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            else:
                protection = mmap.PROT_READ | mmap.PROT_WRITE
                whole = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE | _NORESERVE, prot=protection)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be mapped: {error}") from None
    length = len(whole)
    front = header(dtype, 0)
    count, rest = divmod(length - len(front), dtype.itemsize)
    if length < len(front) or rest or whole[: len(front)] != header(dtype, count):
        raise DataError(f"{path}: expected a flat npy array of {dtype} that fills the file; prepare it again")
    return np.frombuffer(whole, dtype, count=count, offset=len(front))
