"""Build and update the index of an archive.

A new index is written beside the old one and replaces it in one step, so a crash leaves the old one. An update copies
the codes of all recordings that did not change. Centroids are learnt again when the archive has doubled.
"""

import contextlib
import importlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie._internal.digest import hash_bytes, hash_json
from jeanie._internal.files import (
    flush_to_disk,
    remove_leftovers,
    replace_folder,
    sync_folder,
    write_atomically,
)
from jeanie.compute.tasks import map_tasks
from jeanie.datasets.dataset import Dataset
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.cache import FeatureRecipe, build_cache, list_entries
from jeanie.recogniser.search.clip_states import read_clip_states
from jeanie.recogniser.search.index import (
    FORMAT,
    IndexDamaged,
    SearchIndex,
    compute_crc_of_cell,
    describe_file,
    find_index_path,
    get_files,
    hash_states,
    hash_table,
    open_index,
)
from jeanie.recogniser.search.recall import draw_samples, measure_recall
from jeanie.recogniser.search.row_files import RowFile, read_batches
from jeanie.recogniser.search.rows import compute_projection
from jeanie.recogniser.search.vectors import VectorCodec, average_segments_of_rows, learn_codec
from jeanie.recogniser.search.windows import select_duration_steps

__all__ = ["IndexReport", "build_index"]

_SAMPLE = 65_536  # windows that codec and centroids are learnt from, per duration
_CELLS_PER_ROOT = 2  # cells = 2 sqrt(windows)
_ROUNDS = 10  # of k-means
_GROWTH = 2  # of the archive, after which centroids are learnt again
_SEED = 0


@dataclass(frozen=True)
class IndexReport:
    """What ``build_index`` did. ``added`` and ``removed`` count windows; ``skipped`` lists unreadable clips."""

    path: Path
    windows: int
    added: int
    removed: int
    cells: int
    size: int
    recall: float | None
    skipped: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class _Learnt:
    codec: VectorCodec
    centroids: dict[int, NDArray[np.float32]]
    windows: int  # that the archive had


def build_index(
    model: FewShotModel,
    archive: Dataset,
    cache: str | Path,
    *,
    seconds: Sequence[float] = (2.0,),
    stretch: float = 1.5,
    stride: float = 0.25,
    rate: float = 30.0,
    recall: float = 0.99,
    samples: int = 60,
    jobs: int = 1,
    cluster: str | None = None,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> IndexReport:
    """Build the index of an archive, or update it after changes of the archive.

    Args:
        model: Model that measures the distances.
        archive: Data set to index.
        cache: Cache folder; the index is a folder in it.
        seconds: Durations of the examples that will be searched for.
        stretch, stride, rate: As in ``find``.
        recall: Share of the exact results that a search should find, with a confidence of 95 %. Two thirds of the
            samples select how many cells and candidates a search reads, the others measure the recall that results
            report.
        samples: Number of searches that measure the recall; 0 measures nothing. With a few, the confidence needs more
            cells and candidates, so searches are slower: 99 % needs about 50.
        jobs: Number of worker processes.
        cluster: Address of a Dask scheduler whose workers encode recordings; they need ``cache`` under the same path.
        skip_bad: Skip unreadable clips and list them.
        progress: Called with the number of encoded clips and the total, then with the number of searches that measure
            the recall and their total.

    Returns:
        What was done.

    Raises:
        ConfigError: If the model has no lower bound, the archive has no files, or ``faiss-cpu`` is missing.
        DataError: If a clip is unreadable.
    """
    if not 0 < recall <= 1 or samples < 0 or not seconds:
        raise ConfigError(
            f"recall must be in (0, 1], samples 0 or more, with at least one duration; got {recall}, {samples} and "
            f"{len(seconds)} durations"
        )
    projection = compute_projection(model)
    states = read_clip_states(archive, Path(cache))
    if projection is None or states is None:
        reason = "this model has no lower bound" if projection is None else f"{archive.name} has no files"
        raise ConfigError(f"an index needs recordings in files and a model with lower bounds; {reason}")
    steps = sorted({step for duration in seconds for step in select_duration_steps(duration, stretch)})
    recipe = FeatureRecipe(model, archive, Path(cache), float(stride), float(rate), projection)
    entries = list_entries(recipe, steps, states)
    files, bad = build_cache(
        recipe, entries, jobs=jobs, cluster=cluster, skip_bad=skip_bad, progress=progress
    )
    path = find_index_path(recipe)
    remove_leftovers(path)
    old = _open_old(path)
    total = sum(file.count for file in files)
    known = _list_known(old, steps)
    added = sum(file.count for file in files if (file.path.name, file.count) not in known)
    removed = 0 if old is None else sum(count for _, count in old.files) - (total - added)
    learnt = _reuse(old, steps, total) or _learn(files, steps, total)
    for leftover in path.parent.glob(f".{path.name}.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    new = path.with_name(f".{path.name}.new-{token_hex(4)}")
    new.mkdir(parents=True)
    try:
        codes, cells = _encode_files(new, files, old if known else None, learnt, jobs, cluster)
        _write_arrays(new, files, learnt, codes, cells)
        del codes
        (new / "all.tmp").unlink()
        _write_description(new, files, learnt, {"states": hash_states(states), "table": hash_table(archive)})
        if samples:
            index = open_index(new, path.parent)
            assert index is not None
            drawn_samples = draw_samples(recipe, index, seconds, stretch, samples, progress)
            seal_description(new, index.about | measure_recall(index, drawn_samples, recall))
        sync_folder(new)
        replace_folder(new, path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    size = sum(file.stat().st_size for file in path.iterdir())
    count = sum(map(len, learnt.centroids.values()))
    new_index = open_index(path)
    measured_recall = None if new_index is None else new_index.recall
    return IndexReport(path, total, added, removed, count, size, measured_recall, tuple(bad))


def _open_old(path: Path) -> SearchIndex | None:
    try:
        return open_index(path)
    except IndexDamaged:
        return None


def _list_known(old: SearchIndex | None, steps: Sequence[int]) -> set[tuple[str, int]]:
    return set() if old is None or list(old.cells) != list(steps) else set(old.files)


def _reuse(old: SearchIndex | None, steps: Sequence[int], total: int) -> _Learnt | None:
    """Return codec and centroids of the old index, unless the archive has grown too much or has other durations."""
    if old is None or list(old.cells) != list(steps):
        return None
    before = int(old.about["learnt_from"])
    if not before / _GROWTH <= total <= before * _GROWTH:
        return None
    return _Learnt(old.codec, {step: np.array(old.cells[step].centroids) for step in steps}, before)


def _learn(files: Sequence[RowFile], steps: Sequence[int], total: int) -> _Learnt:
    """Learn codec and centroids from a sample of the windows."""
    random = np.random.default_rng(_SEED)
    samples: dict[int, NDArray[np.float32]] = {}
    for step in steps:
        some = [file for file in files if file.entry.duration_step == step]
        share = min(1.0, _SAMPLE / max(1, sum(file.count for file in some)))
        parts = []
        for file in some:
            row_numbers = np.sort(random.permutation(file.count)[: max(1, round(share * file.count))])
            parts.append(average_segments_of_rows(file.read(row_numbers)))
        samples[step] = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
    filled = [sample for sample in samples.values() if len(sample)]
    if not filled:
        raise DataError("the archive has no windows of these durations")
    codec = learn_codec(np.concatenate(filled))
    counts = {step: sum(file.count for file in files if file.entry.duration_step == step) for step in steps}
    centroids = {
        step: _find_centroids(codec.project(sample), counts[step])
        if len(sample)
        else np.empty((0, len(codec.low)), np.float32)
        for step, sample in samples.items()
    }
    return _Learnt(codec, centroids, total)


def _find_centroids(vectors: NDArray[np.float32], windows: int) -> NDArray[np.float32]:
    """Return the centroids of k-means."""
    faiss = _import_faiss()
    count = int(min(len(vectors), max(1, round(_CELLS_PER_ROOT * windows**0.5))))
    means = faiss.Kmeans(
        vectors.shape[1],
        count,
        niter=_ROUNDS,
        seed=_SEED,
        min_points_per_centroid=1,
        max_points_per_centroid=256,
    )
    means.train(np.ascontiguousarray(vectors))
    centroids: NDArray[np.float32] = means.centroids.copy()
    return centroids


def _import_faiss() -> Any:
    # both are made by SWIG and share its table of types: neither works if faiss is loaded before ezc3d
    with contextlib.suppress(ImportError):
        importlib.import_module("ezc3d")
    try:
        import faiss  # noqa: PLC0415
    except ImportError:
        raise ConfigError("an index needs faiss-cpu: pip install 'jeanie[search]'") from None
    faiss.omp_set_num_threads(1)
    return faiss


def _encode_files(
    folder: Path,
    files: Sequence[RowFile],
    old: SearchIndex | None,
    learnt: _Learnt,
    jobs: int,
    cluster: str | None,
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return codes and cells of all windows; those of known files are copied from the old index."""
    total, width = sum(file.count for file in files), len(learnt.codec.low)
    codes = np.memmap(folder / "all.tmp", np.uint8, "w+", shape=(max(1, total), width))
    cells = np.empty(total, np.int32)
    is_same = old is not None and int(old.about["learnt_from"]) == learnt.windows
    known = _copy_known(files, old, codes, cells) if old is not None and is_same else set()
    starts = np.cumsum([0, *(file.count for file in files)])
    missing = [number for number in range(len(files)) if number not in known]
    results = map_tasks(
        _encode_file, [files[number] for number in missing], jobs=min(jobs, max(1, len(missing))),
        cluster=cluster, shared=(learnt.codec, learnt.centroids), ordered=True,
    )  # fmt: skip
    for number, (_, (some_codes, some_cells)) in zip(missing, results, strict=True):
        place = slice(starts[number], starts[number + 1])
        codes[place], cells[place] = some_codes, some_cells
    return codes, cells


def _copy_known(
    files: Sequence[RowFile], old: SearchIndex, codes: NDArray[np.uint8], cells: NDArray[np.int32]
) -> set[int]:
    """Copy what the old index has; return the numbers of these files."""
    starts = np.cumsum([0, *(file.count for file in files)])
    place = {(file.path.name, file.count): number for number, file in enumerate(files)}
    target = np.full(sum(count for _, count in old.files), -1, np.int64)
    known, first = set(), 0
    for name, count in old.files:
        number = place.get((name, count))
        if number is not None:
            known.add(number)
            target[first : first + count] = np.arange(starts[number], starts[number + 1])
        first += count
    for part in old.cells.values():
        owners = np.repeat(np.arange(len(part.centroids), dtype=np.int32), np.diff(part.offsets))
        numbers = np.asarray(part.numbers)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(target):
            return set()
        places = target[numbers]
        is_reused = places >= 0
        codes[places[is_reused]], cells[places[is_reused]] = part.codes[is_reused], owners[is_reused]
    return known


def _encode_file(
    codec: VectorCodec, centroids: dict[int, NDArray[np.float32]], file: RowFile
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return the codes and cells of the windows of a file."""
    middle = centroids[file.entry.duration_step]
    lengths = np.square(middle).sum(1)
    codes, cells = [], []
    for _, rows in read_batches([file]):
        vectors = codec.project(average_segments_of_rows(rows))
        codes.append(codec.encode(vectors))
        cells.append((lengths - 2 * vectors @ middle.T).argmin(1).astype(np.int32))
    return np.concatenate(codes), np.concatenate(cells)


def _write_arrays(
    folder: Path,
    files: Sequence[RowFile],
    learnt: _Learnt,
    codes: NDArray[np.uint8],
    cells: NDArray[np.int32],
) -> None:
    """Write the codec and, per duration, the codes and numbers of windows sorted by cell."""
    codec = learnt.codec
    small = {"mean": codec.mean, "components": codec.components, "low": codec.low, "width": codec.width}
    for name, array in small.items():
        np.save(folder / f"{name}.npy", array)
    steps = np.repeat([file.entry.duration_step for file in files], [file.count for file in files])
    for step, middle in learnt.centroids.items():
        members = np.flatnonzero(steps == step)
        numbers = members[np.argsort(cells[members], kind="stable")]
        counts = np.bincount(cells[members], minlength=len(middle))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        sorted_codes = _allocate_array(folder / f"codes-{step}.npy", (len(numbers), codes.shape[1]))
        sums = np.zeros(len(middle), np.uint32)
        for cell in range(len(middle)):
            some = slice(offsets[cell], offsets[cell + 1])
            sorted_codes[some] = codes[numbers[some]]
            sums[cell] = compute_crc_of_cell(sorted_codes[some], numbers[some])
        if isinstance(sorted_codes, np.memmap):
            sorted_codes.flush()
        arrays: dict[str, NDArray[Any]] = {
            "centroids": middle,
            "offsets": offsets,
            "sums": sums,
            "numbers": numbers,
        }
        for name, values in arrays.items():
            np.save(folder / f"{name}-{step}.npy", values)


def _allocate_array(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a new array file to be filled; an empty one cannot be memory-mapped."""
    if not shape[0]:
        np.save(path, np.empty(shape, np.uint8))
        return np.empty(shape, np.uint8)
    array: NDArray[np.uint8] = np.lib.format.open_memmap(path, "w+", np.uint8, shape)  # type: ignore[no-untyped-call]
    return array


def _write_description(
    folder: Path, files: Sequence[RowFile], learnt: _Learnt, archive: dict[str, Any]
) -> None:
    """Write ``index.json`` with the sums of all arrays, after the arrays have reached the disk."""
    arrays = {}
    for name in get_files(list(learnt.centroids)):
        path = folder / name
        with path.open("rb+") as file:
            flush_to_disk(file)
        is_large = name.startswith(("codes", "numbers"))
        arrays[name] = {
            "bytes": path.stat().st_size,
            "sum": None if is_large else hash_bytes(path.read_bytes()),
        }
    about = {
        "format": FORMAT,
        **archive,
        "steps": list(learnt.centroids),
        "learnt_from": learnt.windows,
        "files": [describe_file(file) for file in files],
        "arrays": arrays,
        "probes": 32,
        "candidates": 20_000,
        "recall": None,
    }
    seal_description(folder, about)


def seal_description(folder: Path, about: dict[str, Any]) -> None:
    """Write ``index.json``: the description and its checksum."""
    plain = json.loads(json.dumps(about))
    write_atomically(folder / "index.json", json.dumps({"about": plain, "sum": hash_json(plain)}).encode())
