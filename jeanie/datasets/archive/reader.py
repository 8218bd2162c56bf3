"""Read archives: a folder with all motions of a data set in one memory-mapped array, and an index.

    archive.json  format, name, counts, layouts, and the tables of labels, subjects and views
    joints.npy    float32, the joints of all clips in sequence, each [frame, person, joint, 3]
    valid.npy     uint8, the masks [frame, person, joint] as packed bits; each clip starts at a new byte
    names.npy     uint8, the names of the clips in UTF-8
    index.npy     one row of numbers per clip (``ROW``)
    report.json   the source, the published count, every dropped file and the reason

Opening reads archive.json and maps the arrays: time and memory do not grow with the number of clips.
"""

import functools
import math
import mmap
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from jeanie._internal.digest import compute_crc32
from jeanie._internal.files import get_backup_path
from jeanie.datasets.formats.json_files import expect_type, read_json
from jeanie.datasets.formats.npz import unpack_mask
from jeanie.errors import DataError, JeanieError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["ROW", "Archive", "is_archive", "open_archive"]

FORMAT, VERSION = "jeanie-archive", 1
HEADER_BYTES = 128
NO_VALUE = np.iinfo(np.int64).min  # None in the columns setup and take; in the tag columns None is -1
TABLES = ("labels", "subjects", "views")
ROW = np.dtype(
    [
        ("joints", "<i8"), ("valid", "<i8"), ("name", "<i8"), ("name_bytes", "<i4"), ("frames", "<i4"),
        ("persons", "<i4"), ("layout", "<i4"), ("labels", "<i4"), ("subjects", "<i4"), ("views", "<i4"),
        ("checksum", "<u4"), ("setup", "<i8"), ("take", "<i8"), ("rate", "<f8"),
    ]
)  # fmt: skip

Tag = str | int | None


class _Row(NamedTuple):
    """A row of the index, with the fields of ``ROW``."""

    joints: int
    valid: int
    name: int
    name_bytes: int
    frames: int
    persons: int
    layout: int
    label: int
    subject: int
    view: int
    checksum: int
    setup: int
    take: int
    rate: float


# without it the kernel may refuse to map an archive larger than memory, because every page is writable
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def is_archive(path: str | Path) -> bool:
    """Return whether a folder is an archive."""
    path = Path(path).absolute()
    return (path / "archive.json").is_file() or (
        not path.exists() and (get_backup_path(path) / "archive.json").is_file()
    )


def open_archive(path: str | Path) -> "Archive":
    """Open an archive as a data set whose motions are slices of one memory-mapped array.

    Raises:
        DataError: The folder is not an archive, or its files are damaged.
    """
    path = Path(path).absolute()
    folder = path if path.exists() or not is_archive(path) else get_backup_path(path)
    about = expect_type(folder, read_json(folder / "archive.json"), dict, "archive.json")
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise DataError(
            f"{folder}: expected {FORMAT} version {VERSION}, got {str(about.get('format'))[:40]} "
            f"{str(about.get('version'))[:40]}; prepare it again"
        )
    rows = expect_type(folder, about.get("layouts"), list, "layouts")
    try:
        layouts = tuple(Layout.from_dict(row) for row in rows)
    except (JeanieError, AttributeError, TypeError) as error:
        raise DataError(f"{folder}: {error}") from None
    tables = {key: tuple(expect_type(folder, about.get(key), list, key)) for key in TABLES}
    if not all(type(value) in (str, int) for table in tables.values() for value in table):
        raise DataError(f"{folder}: labels, subjects and views must be strings or integers")
    dtypes: dict[str, np.dtype[Any]] = {
        "joints": np.dtype("<f4"),
        "valid": np.dtype("u1"),
        "names": np.dtype("u1"),
        "index": ROW,
    }
    arrays = {key: _map_array(folder / f"{key}.npy", dtype) for key, dtype in dtypes.items()}
    if about.get("clips") != len(arrays["index"]):
        raise DataError(f"{folder}: {about.get('clips')} clips but {len(arrays['index'])} rows in index.npy")
    return Archive(path, str(about.get("name")), layouts, tables, *arrays.values())


@dataclass(frozen=True, eq=False, repr=False)
class Archive(Sequence[Motion]):
    """An open archive: a data set and a sequence of motions. A motion is read when it is indexed.

    The arrays are private mappings: writing to the memory of a motion changes neither the file nor the arrays
    of other processes.
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
    def __getitem__(self, index: slice) -> "ArchiveSlice": ...
    def __getitem__(self, index: int | slice) -> "Motion | ArchiveSlice":
        if isinstance(index, slice):
            return ArchiveSlice(self, range(len(self))[index])
        return self._read_motion(range(len(self))[index])

    @property
    def root(self) -> Path:
        """The folder of the archive."""
        return self.path

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
    def labels(self) -> "TagColumn":
        return TagColumn(self.rows["labels"], self.tables["labels"])

    @property
    def subjects(self) -> "TagColumn":
        return TagColumn(self.rows["subjects"], self.tables["subjects"])

    @property
    def views(self) -> "TagColumn":
        return TagColumn(self.rows["views"], self.tables["views"])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.get_name(index) for index in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Number of frames of each clip; reads no clip."""
        return np.array(self.rows["frames"])

    @functools.cached_property
    def report(self) -> dict[str, Any]:
        """The report of ``prepare``: source, counts, dropped files with their reasons."""
        path = self.path / "report.json"
        report: dict[str, Any] = expect_type(path, read_json(path), dict, "the report")
        return report

    def get_name(self, index: int) -> str:
        """Return the name of a clip; empty if it has none."""
        row = self.rows[index]
        text = _slice_array(
            self.names_utf8, int(row["name"]), int(row["name_bytes"]), f"{self.path}: clip {index}"
        )
        return text.tobytes().decode("utf-8", errors="replace")

    def get_joints(self, index: int) -> Float[Tensor, "frame person joint 3"]:
        """Return the joints of a clip: a slice of the mapped array, never a copy. Missing joints are 0."""
        return torch.from_numpy(self._slice_joints(index))

    def find_damaged(self) -> list[str]:
        """Return the clips with a wrong checksum, as "name (index)". Reads the whole archive."""
        return [
            f"{self.get_name(index)} ({index})"
            for index, row in enumerate(self.rows)
            if compute_checksum(self._slice_joints(index), self._slice_mask(index)) != row["checksum"]
        ]

    def _read_row(self, index: int) -> "_Row":
        return _Row(*self.rows[index].item())

    def _check_shape(self, index: int, row: "_Row") -> tuple[int, int, int, int]:
        frames, persons, layout = row.frames, row.persons, row.layout
        if frames < 1 or persons < 1 or not 0 <= layout < len(self.layouts):
            raise DataError(
                f"{self.path}: clip {index} has {frames} frames, {persons} persons, layout {layout}"
            )
        return frames, persons, len(self.layouts[layout]), 3

    def _slice_joints(self, index: int) -> NDArray[np.float32]:
        row = self._read_row(index)
        return self._slice(self.joints, index, row.joints, self._check_shape(index, row))

    def _slice_mask(self, index: int) -> NDArray[np.uint8]:
        row = self._read_row(index)
        return self._slice(self.valid, index, row.valid, (_count_bytes(self._check_shape(index, row)),))

    def _slice(self, flat: NDArray[Any], index: int, start: int, shape: tuple[int, ...]) -> NDArray[Any]:
        return _slice_array(flat, start, math.prod(shape), f"{self.path}: clip {index}").reshape(shape)

    def read_motions(self, indices: Sequence[int]) -> list[Motion]:
        """Return some clips, in half the time of reading them one by one: one check serves all.

        The joints are copies.

        Raises:
            DataError: A clip is damaged.
        """
        numbers = [range(len(self))[index] for index in indices]
        rows = [self._read_row(index) for index in numbers]
        shapes = [self._check_shape(index, row) for index, row in zip(numbers, rows, strict=True)]
        clips = list(zip(numbers, rows, shapes, strict=True))
        joints = [
            self._slice(self.joints, index, row.joints, shape).reshape(-1, 3) for index, row, shape in clips
        ]
        bits = [
            self._slice(self.valid, index, row.valid, (_count_bytes(shape),)) for index, row, shape in clips
        ]
        positions, mask = np.concatenate(joints), np.unpackbits(np.concatenate(bits)).view(np.bool_)
        # every mask starts at a new byte
        starts = np.cumsum([0, *(8 * len(part) for part in bits)])
        masks = [mask[start : start + len(part)] for start, part in zip(starts[:-1], joints, strict=True)]
        missing = ~np.concatenate(masks)
        is_finite = bool(torch.from_numpy(positions).sum().isfinite())  # a finite sum has finite terms
        is_sound = is_finite and not positions[missing].any() and all(map(np.any, masks))
        if not is_sound or not all(math.isnan(row.rate) or 0 < row.rate < math.inf for row in rows):
            return [self._read_motion(index) for index in numbers]  # with all checks of a motion
        motions, start = [], 0
        for (index, row, shape), part in zip(clips, masks, strict=True):
            clip_joints = positions[start : start + len(part)].reshape(shape)
            motions.append(
                Motion.from_checked(
                    torch.from_numpy(clip_joints), self.layouts[row.layout], torch.from_numpy(part.reshape(shape[:3])),
                    self._list_tags(index, row), None if math.isnan(row.rate) else row.rate,
                )
            )  # fmt: skip
            start += len(part)
        return motions

    def _list_tags(self, index: int, row: "_Row") -> dict[str, Any]:
        label, subject, view = (
            _look_up(number, self.tables[key], self.path)
            for key, number in zip(TABLES, (row.label, row.subject, row.view), strict=True)
        )
        return {
            "label": label, "subject": subject, "view": view,
            "name": self.get_name(index) if row.name_bytes >= 0 else None,
            "setup": None if row.setup == NO_VALUE else row.setup,
            "take": None if row.take == NO_VALUE else row.take,
        }  # fmt: skip

    def _read_motion(self, index: int) -> Motion:
        row, prefix = self._read_row(index), f"{self.path}: clip {index}"
        shape = self._check_shape(index, row)
        joints = torch.from_numpy(self._slice(self.joints, index, row.joints, shape))
        bits = self._slice(self.valid, index, row.valid, (_count_bytes(shape),))
        tags, rate = self._list_tags(index, row), None if math.isnan(row.rate) else row.rate
        try:
            valid = unpack_mask(bits, shape[:3], prefix)
            return Motion(joints, self.layouts[row.layout], valid=valid, rate=rate, **tags)
        except JeanieError as error:
            raise DataError(f"{prefix}: {error}") from None


@dataclass(frozen=True, eq=False)
class ArchiveSlice(Sequence[Motion]):
    """A slice of an archive. A motion is read when it is indexed."""

    archive: Archive
    indices: range

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> Motion: ...
    @overload
    def __getitem__(self, index: slice) -> "ArchiveSlice": ...
    def __getitem__(self, index: int | slice) -> "Motion | ArchiveSlice":
        if isinstance(index, slice):
            return ArchiveSlice(self.archive, self.indices[index])
        return self.archive[self.indices[index]]


@dataclass(frozen=True, eq=False)
class TagColumn(Sequence[Tag]):
    """The labels, subjects or views of all clips, as numbers that refer to a table of values."""

    numbers: NDArray[np.int32]
    table: tuple[str | int, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Tag: ...
    @overload
    def __getitem__(self, index: slice) -> "TagColumn": ...
    def __getitem__(self, index: int | slice) -> "Tag | TagColumn":
        if isinstance(index, slice):
            return TagColumn(self.numbers[index], self.table)
        return _look_up(int(self.numbers[index]), self.table, Path("index.npy"))

    def __iter__(self) -> Iterator[Tag]:
        for limit in (self.numbers.min(initial=0), self.numbers.max(initial=-1)):
            _look_up(int(limit), self.table, Path("index.npy"))
        values = (*self.table, None)  # -1 is None
        return (values[number] for number in self.numbers.tolist())


def compute_checksum(joints: NDArray[np.float32], bits: NDArray[np.uint8]) -> int:
    """Return the CRC-32 of the joints and the mask of a clip."""
    return compute_crc32(joints.data, bits.tobytes())


def _count_bytes(shape: tuple[int, int, int, int]) -> int:
    """Return the number of bytes of the packed mask of a clip."""
    return (math.prod(shape[:3]) + 7) // 8


def _look_up(number: int, table: tuple[str | int, ...], path: Path) -> Tag:
    if not -1 <= number < len(table):
        raise DataError(f"{path}: number {number} in a table of {len(table)}; the archive is damaged")
    return None if number < 0 else table[number]


def _slice_array(flat: NDArray[Any], start: int, size: int, prefix: str) -> NDArray[Any]:
    if start < 0 or size < 0 or start + size > len(flat):
        raise DataError(f"{prefix}: lies outside its array; the archive is damaged, prepare it again")
    return flat[start : start + size]


def format_header(dtype: np.dtype[Any], length: int) -> bytes:
    """Return the header of a flat npy array. Its size does not depend on ``length``: it can be written last."""
    npy: Any = np.lib.format
    description = npy.dtype_to_descr(dtype)
    text = f"{{'descr': {description!r}, 'fortran_order': False, 'shape': ({length},), }}"
    size = HEADER_BYTES if len(text) < HEADER_BYTES - 10 else 4 * HEADER_BYTES
    return b"\x93NUMPY\x01\x00" + (size - 10).to_bytes(2, "little") + text.ljust(size - 11).encode() + b"\n"


def _map_array(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Map the flat array of an npy file privately: writing to the memory does not change the file."""
    try:
        with path.open("rb") as file:
            if sys.platform == "win32":
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            else:
                protection = mmap.PROT_READ | mmap.PROT_WRITE
                memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE | _NORESERVE, prot=protection)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be mapped: {error}") from None
    length = len(memory)
    start = len(format_header(dtype, 0))
    count, remainder = divmod(length - start, dtype.itemsize)
    if length < start or remainder or memory[:start] != format_header(dtype, count):
        raise DataError(
            f"{path}: expected a flat npy array of {dtype} and nothing else; prepare the archive again"
        )
    return np.frombuffer(memory, dtype, count=count, offset=start)
