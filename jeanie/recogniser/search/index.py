"""An index of the windows of a large archive: it proposes candidates, which the search then compares as always.

The index is a folder of NumPy arrays and ``index.json``, which has their sizes and SHA-256 sums. Windows of each
duration are sorted into cells around centroids. A query reads the cells nearest to it; each cell has its own checksum.
The arrays are memory-mapped. No file is read by a native parser, so a damaged or foreign file can only be refused.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from jeanie._internal.digest import compute_crc32, hash_bytes, hash_json
from jeanie._internal.files import get_backup_path
from jeanie.datasets.archive.reader import Archive
from jeanie.datasets.dataset import Dataset
from jeanie.errors import DataError
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.recogniser.search.bounds import BoundedQuery
from jeanie.recogniser.search.cache import FeatureRecipe
from jeanie.recogniser.search.clip_states import read_clip_states
from jeanie.recogniser.search.row_files import CacheEntry, RowFile, read_numbered
from jeanie.recogniser.search.rows import build_row_type
from jeanie.recogniser.search.vectors import VectorCodec, average_segments

__all__ = [
    "FORMAT",
    "Cells",
    "IndexDamaged",
    "Proposal",
    "SearchIndex",
    "compute_crc_of_cell",
    "describe_file",
    "find_index_path",
    "get_files",
    "hash_states",
    "hash_table",
    "is_index_file",
    "open_index",
]

FORMAT = 1
_SMALL = ("mean", "components", "low", "width")
_MAX_JSON = 2**28
_FOLDER_NAME = re.compile(r"\.?index-[0-9a-f]{32}(\.new-[0-9a-f]{8}|\.old|\.trash-\d+)?")
_FILE_NAME = re.compile(r"index\.json|all\.tmp|[a-z]+(--?\d+)?\.npy")


class IndexDamaged(DataError):
    """An index does not fit its checksums."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The windows of one duration: codes and numbers of windows, cell after cell."""

    centroids: NDArray[np.float32]
    offsets: NDArray[np.int64]
    sums: NDArray[np.uint32]
    codes: NDArray[np.uint8]
    numbers: NDArray[np.int64]


@dataclass(frozen=True)
class Proposal:
    """Numbers of the windows to compare, nearest first, and how many were looked at to find them."""

    numbers: NDArray[np.int64]
    looked_at: int


@dataclass(frozen=True, eq=False)
class SearchIndex:
    """An open index. ``about`` is the content of ``index.json``, ``cache`` the folder with the rows."""

    path: Path
    about: dict[str, Any]
    codec: VectorCodec
    cells: dict[int, Cells]
    cache: Path

    @cached_property
    def row_files(self) -> list[RowFile]:
        """The files of the cache, in the order of the windows' numbers."""
        return [_restore_file(self.cache, row) for row in self.about["files"]]

    @property
    def files(self) -> list[tuple[str, int]]:
        """Name and number of rows of every file of the cache, in the order of the windows' numbers."""
        return [(str(name), int(count)) for name, count, *_ in self.about["files"]]

    @property
    def recall(self) -> float | None:
        """Share of the exact results that this index found in a sample of searches."""
        value = self.about.get("recall")
        return None if value is None else float(value)

    def covers(self, archive: Dataset, duration_steps: Sequence[int]) -> bool:
        """Return whether the index has these durations and was built from the archive as it is now."""
        if not set(duration_steps) <= set(self.cells):
            return False
        table = hash_table(archive)
        if table is not None and table == self.about["table"]:
            return True
        states = read_clip_states(archive, self.cache)
        return states is not None and hash_states(states) == self.about["states"]

    def count_windows(self, duration_steps: Sequence[int]) -> int:
        """Return the number of windows of some durations."""
        return sum(len(self.cells[step].numbers) for step in duration_steps)

    def read_rows(
        self, numbers: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]]:
        """Yield the rows of windows as ``read_numbered`` does, after a check of their sums.

        Raises:
            IndexDamaged: If there is no such window.
            DamagedRows: If a file or a row is damaged.
        """
        files = self.row_files
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < sum(file.count for file in files):
            raise IndexDamaged(f"{self.path}: a window outside the archive; run jeanie index again")
        yield from read_numbered(files, numbers)

    def propose(
        self,
        query: BoundedQuery,
        duration_steps: Sequence[int],
        *,
        probes: int | None = None,
        most: int | None = None,
    ) -> Proposal:
        """Return candidates: the windows in the nearest cells whose vectors are nearest to the example.

        Args:
            query: The example.
            duration_steps: Durations of the windows.
            probes: Cells per duration that are read; by default as many as the recall needs.
            most: Largest number of candidates; by default as many as the recall needs.

        Raises:
            IndexDamaged: If a cell does not fit its checksum.
        """
        probes, most = probes or int(self.about["probes"]), most or int(self.about["candidates"])
        numbers, near, _ = self.read_nearest_cells(query, duration_steps, probes)
        nearest = np.argpartition(near, most - 1)[:most] if len(near) > most else np.arange(len(near))
        order = nearest[np.lexsort((numbers[nearest], near[nearest]))]
        return Proposal(numbers[order], len(numbers))

    def read_nearest_cells(
        self, query: BoundedQuery, duration_steps: Sequence[int], probes: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int32]]:
        """Return the windows in the nearest cells of each duration.

        Returns:
            The numbers of the windows, the squared distances of their vectors to the example, and the places of their
            cells: 0 is the nearest cell of a duration.

        Raises:
            IndexDamaged: If a cell does not fit its checksum.
        """
        sides = (query.features, query.features.mirrored)
        vectors = self.codec.project(
            torch.cat([average_segments(side) for side in sides if side is not None]).numpy()
        )
        numbers, distances = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        places = [np.empty(0, np.int32)]
        for step in duration_steps:
            cells = self.cells[step]
            order = np.argsort(_measure_distances(cells.centroids, vectors), kind="stable")[:probes]
            for place in np.argsort(order).tolist():  # by cell: neighbours on the disk
                cell = int(order[place])
                some = slice(int(cells.offsets[cell]), int(cells.offsets[cell + 1]))
                codes, members = cells.codes[some], cells.numbers[some]
                if compute_crc_of_cell(codes, members) != cells.sums[cell]:
                    raise IndexDamaged(f"{self.path}: a cell of the index is damaged; run jeanie index again")
                numbers.append(np.asarray(members))
                distances.append(_measure_distances(self.codec.decode(codes), vectors))
                places.append(np.full(len(members), place, np.int32))
        return np.concatenate(numbers), np.concatenate(distances), np.concatenate(places)


def _measure_distances(vectors: NDArray[np.float32], queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the squared distance of every vector to the nearest of a few queries."""
    least = np.full(len(vectors), np.inf, np.float32)
    squares = np.square(vectors).sum(1)
    for query in queries:
        least = np.minimum(least, squares - 2 * (vectors @ query) + np.square(query).sum())
    return least


def compute_crc_of_cell(codes: NDArray[np.uint8], numbers: NDArray[np.int64]) -> int:
    """Return the CRC-32 of the codes and numbers of a cell."""
    return compute_crc32(np.ascontiguousarray(codes).data.cast("B") if len(codes) else b"",
                         np.ascontiguousarray(numbers).data.cast("B") if len(numbers) else b"")  # fmt: skip


def find_index_path(recipe: FeatureRecipe) -> Path:
    """Return the folder of the index of an archive: it depends on the model, the windows and the archive's place."""
    archive = recipe.archive
    place = str(getattr(archive, "root", None) or archive.name)
    key = hash_json([FORMAT, fingerprint(recipe.model), recipe.stride, recipe.rate, archive.name, place])
    return recipe.folder / f"index-{key[:32]}"


def is_index_file(path: Path) -> bool:
    """Return whether a file is one of an index, by its name and folder; also of an interrupted ``jeanie index``."""
    return bool(_FOLDER_NAME.fullmatch(path.parent.name) and _FILE_NAME.fullmatch(path.name))


def hash_table(archive: Dataset) -> str | None:
    """Return a hash of the table of an archive, which has a checksum of every clip; None for other data sets."""
    if not isinstance(archive, Archive):
        return None
    layouts = hash_json([layout.to_dict() for layout in archive.layouts])
    return hash_bytes(layouts, np.ascontiguousarray(archive.rows).tobytes())


def describe_file(file: RowFile) -> list[Any]:
    """Return a file of the cache as plain values."""
    names = file.kind.names or ()
    shape = list(file.kind["values"].shape) if "values" in names else None
    clips = file.entry.clips
    flags = ["second" in names, "factor" in names]
    return [file.path.name, file.count, clips.start, clips.stop, file.entry.duration_step, shape, *flags]


def _restore_file(folder: Path, row: Sequence[Any]) -> RowFile:
    """Return the file that ``describe_file`` described."""
    name, count, start, stop, step, shape, has_second, has_factor = row
    if Path(name).name != name:
        raise IndexDamaged(f"{name} is not the name of a file in the cache")
    kind = build_row_type(
        None if shape is None else tuple(shape), has_second=bool(has_second), has_factor=bool(has_factor)
    )
    return RowFile(folder / name, CacheEntry(name[:32], int(step), range(start, stop)), kind, int(count))


def hash_states(states: Sequence[str]) -> str:
    """Return a hash of the states of all clips."""
    return hash_bytes("\n".join(states))


def get_files(steps: Sequence[int]) -> list[str]:
    """Return the names of the arrays of an index."""
    parts = (f"{name}-{step}" for step in steps for name in Cells.__dataclass_fields__)
    return [f"{name}.npy" for name in (*_SMALL, *parts)]


def open_index(path: Path, cache: Path | None = None) -> SearchIndex | None:
    """Return an index, or None if the folder has none.

    Args:
        path: The folder of the index.
        cache: The folder with the rows; by default the one that the index is in.

    Raises:
        IndexDamaged: If a file is damaged or missing. Cells are checked when they are read.
    """
    folder = path if path.exists() else get_backup_path(path)
    file = folder / "index.json"
    if not file.is_file():
        return None
    try:
        if file.stat().st_size > _MAX_JSON:
            raise ValueError("index.json is too large")
        sealed = json.loads(file.read_bytes())
        about = sealed["about"]
        if sealed["sum"] != hash_json(about):
            raise ValueError("index.json does not fit its checksum")
        return _open_arrays(folder, about, cache or path.parent) if about["format"] == FORMAT else None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise IndexDamaged(f"{folder}: damaged: {error}; run jeanie index again") from None


def _open_arrays(folder: Path, about: dict[str, Any], cache: Path) -> SearchIndex:
    steps = [int(step) for step in about["steps"]]
    arrays = {name: _open_array(folder / name, about["arrays"][name]) for name in get_files(steps)}
    names = Cells.__dataclass_fields__
    cells = {step: Cells(*(arrays[f"{name}-{step}.npy"] for name in names)) for step in steps}
    codec = VectorCodec(*(arrays[f"{name}.npy"] for name in _SMALL))
    index = SearchIndex(folder, about, codec, cells, cache)
    _check_shapes(index)
    return index


def _open_array(path: Path, about: dict[str, Any]) -> NDArray[Any]:
    """Return a memory-mapped array; arrays with a SHA-256 sum are checked, those in cells when a cell is read."""
    if path.stat().st_size != about["bytes"]:
        raise ValueError(f"{path.name} has another size")
    if about["sum"] is not None and hash_bytes(path.read_bytes()) != about["sum"]:
        raise ValueError(f"{path.name} does not fit its checksum")
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _check_shapes(index: SearchIndex) -> None:
    """Raise ValueError unless all arrays fit together."""
    codec, total = index.codec, sum(count for _, count in index.files)
    width = len(codec.low)
    if codec.components.shape != (len(codec.mean), width) or codec.width.shape != (width,):
        raise ValueError("the codec has another shape")
    for cells in index.cells.values():
        count, windows = len(cells.centroids), len(cells.numbers)
        fits = (
            cells.centroids.shape == (count, width)
            and cells.offsets.shape == (count + 1,)
            and cells.sums.shape == (count,)
            and cells.codes.shape == (windows, width)
            and cells.numbers.ndim == 1
            and cells.codes.dtype == np.uint8
            and cells.numbers.dtype == np.int64
        )
        if (
            not fits
            or cells.offsets[0] != 0
            or cells.offsets[-1] != windows
            or (np.diff(cells.offsets) < 0).any()
        ):
            raise ValueError("the cells have another shape")
        if windows > total:
            raise ValueError("more windows than the cache has")
