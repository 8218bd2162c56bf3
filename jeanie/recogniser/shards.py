"""Features of an archive's windows on disk: computed once, in parallel, by any number of runs, and read in slices.

A portion of clips is the files ``KEY-0.safetensors``, ``KEY-1.safetensors``, ... of a folder and, written last,
``KEY.json``. The key is a hash of the model, the windows and the state of the clips: what has changed is computed
anew, what is there is not computed twice, and what was interrupted counts as not there.
"""

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from jeanie.datasets.archive import Archive
from jeanie.datasets.dataset import Clips, Dataset
from jeanie.errors import DataError, JeanieError
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.fewshot.saving import write_atomically
from jeanie.recogniser.bank import fingerprint
from jeanie.recogniser.windows import projected, spans, window_features, window_frames

__all__ = ["Part", "Portion", "Recipe", "build", "portions", "stamps"]

FORMAT = 1
_WINDOWS = 2048  # in a file
_CLIPS = 16  # in a portion


@dataclass(frozen=True, eq=False)
class Recipe:
    """How features are made. ``rate`` is that of clips that do not say theirs, ``basis`` gives coarse features."""

    model: FewShotModel
    archive: Dataset
    folder: Path
    stride: float
    rate: float
    basis: Tensor | None


@dataclass(frozen=True)
class Portion:
    """Some clips of an archive in windows of one rung, and the key of their files."""

    key: str
    rung: int
    clips: range


@dataclass(frozen=True)
class Part:
    """A file with the features of ``count`` windows, opened only while it is read."""

    path: Path
    count: int

    def windows(self, rows: slice) -> Int[Tensor, "window 3"]:
        """Clip, first frame and behind-last frame of some windows."""
        with safe_open(self.path, framework="pt") as file:
            found: Tensor = file.get_slice("windows")[rows]
        return found

    def features(self, rows: slice, prefix: str = "fine.") -> Features:
        """Features of some windows; with the prefix "coarse." in a few directions."""
        with safe_open(self.path, framework="pt") as file:
            return _read(file, set(file.keys()), rows, prefix)


def stamps(archive: Dataset) -> list[str] | None:
    """The state of each clip: of an archive its checksums, of files their size and time of change.

    None where it cannot be told, as of motions that come from no file.
    """
    if isinstance(archive, Archive):
        return [hashlib.sha256(row.tobytes()).hexdigest() for row in archive.rows]
    if not isinstance(archive, Clips):
        return None
    known: dict[Path, str] = {}
    for clip in archive.clips:
        if clip.source not in known:
            try:
                state = clip.source.stat()
            except OSError:
                return None
            known[clip.source] = f"{clip.source.resolve()} {state.st_size} {state.st_mtime_ns}"
    return [f"{clip.name} {clip.index} {known[clip.source]}" for clip in archive.clips]


def portions(recipe: Recipe, rungs: Sequence[int], states: Sequence[str]) -> list[Portion]:
    """All the work: every clip in every rung."""
    basis = b"" if recipe.basis is None else np.ascontiguousarray(recipe.basis.cpu().numpy()).tobytes()
    about = [FORMAT, fingerprint(recipe.model), hashlib.sha256(basis).hexdigest(), recipe.stride, recipe.rate]
    found = []
    for rung in rungs:
        for at in range(0, len(states), _CLIPS):
            clips = range(at, min(at + _CLIPS, len(states)))
            text = json.dumps([*about, rung, at, [states[clip] for clip in clips]])
            found.append(Portion(hashlib.sha256(text.encode()).hexdigest()[:32], rung, clips))
    return found


def build(
    recipe: Recipe,
    work: Sequence[Portion],
    *,
    jobs: int = 1,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Part], list[tuple[str, str]]]:
    """The files of all portions, in order, and (clip, reason) of clips that cannot be read.

    Files that are there are kept; ``jobs`` processes make the others. A clip that cannot be read is an error
    unless ``skip_bad``, in which case it is left out.
    """
    recipe.folder.mkdir(parents=True, exist_ok=True)
    total = sum(len(portion.clips) for portion in work)
    waiting = [portion for portion in work if _finished(recipe.folder, portion) is None]
    done = total - sum(len(portion.clips) for portion in waiting)
    for portion in _made(recipe, waiting, jobs, skip_bad):
        done += len(portion.clips)
        if progress is not None:
            progress(done, total)
    if progress is not None:
        progress(total, total)
    parts: list[Part] = []
    bad: dict[str, str] = {}
    for portion in work:
        told = _finished(recipe.folder, portion)
        if told is None:
            raise DataError(f"{recipe.folder}: files of {portion.key} went away; start again")
        _check_bad(told["bad"], skip_bad)
        bad |= dict(told["bad"])
        counts = enumerate(told["windows"])
        parts += [Part(_file(recipe.folder, portion, place), count) for place, count in counts]
    return parts, list(bad.items())


def _made(recipe: Recipe, waiting: Sequence[Portion], jobs: int, skip_bad: bool) -> Iterator[Portion]:
    """The portions as they are finished."""
    if jobs == 1 or len(waiting) < 2:
        for portion in waiting:
            _make(recipe, portion, skip_bad)
            yield portion
        return
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(recipe, skip_bad))
    with pool:
        running: set[Future[Portion]] = {pool.submit(_make_here, portion) for portion in waiting}
        try:
            while running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in ended)
        except BrokenProcessPool:
            raise JeanieError(
                "a process ended unexpectedly (killed, or out of memory); start again to go on, with fewer --jobs"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_working: list[tuple[Recipe, bool]] = []  # what a process of the pool works on


def _begin(recipe: Recipe, skip_bad: bool) -> None:
    """Prepare a process: one thread, and an end of its own when its parent was killed."""
    torch.set_num_threads(1)
    _working[:] = [(recipe, skip_bad)]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make_here(portion: Portion) -> Portion:
    recipe, skip_bad = _working[0]
    _make(recipe, portion, skip_bad)
    return portion


def _make(recipe: Recipe, portion: Portion, skip_bad: bool) -> None:
    """Write the files of a portion, with never more than one file's windows in memory, and last what they are."""
    held: list[tuple[Tensor, Features]] = []
    counts: list[int] = []
    bad: list[tuple[str, str]] = []

    def write() -> None:
        windows = torch.cat([one for one, _ in held])
        fine = Features.cat([one for _, one in held])
        tensors = {"windows": windows} | _flat(fine, "fine.")
        if recipe.basis is not None:
            tensors |= _flat(projected(fine, recipe.basis), "coarse.")
        content = save(
            {
                name: tensor.cpu().clone(memory_format=torch.contiguous_format)
                for name, tensor in tensors.items()
            }
        )
        write_atomically(_file(recipe.folder, portion, len(counts)), content)
        counts.append(len(windows))
        held.clear()

    for clip in portion.clips:
        try:
            for windows, features in _clip(recipe, portion.rung, clip):
                held.append((windows, features))
                if sum(len(one) for one, _ in held) >= _WINDOWS:
                    write()
        except (JeanieError, OSError) as error:
            bad.append((f"clip {clip}", str(error) or type(error).__name__))
            _check_bad(bad, skip_bad)
    if held:
        write()
    told = json.dumps({"windows": counts, "bad": bad})
    write_atomically(recipe.folder / f"{portion.key}.json", told.encode())


def _clip(recipe: Recipe, rung: int, clip: int) -> Iterator[tuple[Tensor, Features]]:
    """Windows of a clip with their features, some at a time."""
    motion = recipe.archive.motions[clip]
    cut = spans(motion, window_frames(rung, motion.rate or recipe.rate), recipe.stride)
    done = 0
    for features in window_features(recipe.model, motion, cut):
        some = cut[done : done + len(features)]
        done += len(features)
        yield torch.tensor([(clip, start, end) for start, end in some]), features


def _check_bad(bad: Sequence[Sequence[str]], skip_bad: bool) -> None:
    if bad and not skip_bad:
        raise DataError(f"{bad[0][0]}: {bad[0][1]}\n--skip-bad leaves such clips out and lists them")


def _file(folder: Path, portion: Portion, place: int) -> Path:
    return folder / f"{portion.key}-{place}.safetensors"


def _finished(folder: Path, portion: Portion) -> dict[str, Any] | None:
    """What was written about a portion, if all its files are there and whole."""
    try:
        told = json.loads((folder / f"{portion.key}.json").read_bytes())
        for place, count in enumerate(told["windows"]):
            with safe_open(_file(folder, portion, place), framework="pt") as file:
                if file.get_slice("windows").get_shape() != [count, 3]:
                    return None
        return {"windows": told["windows"], "bad": [(str(clip), str(why)) for clip, why in told["bad"]]}
    except (OSError, ValueError, TypeError, KeyError, SafetensorError):
        return None


def _flat(features: Features, prefix: str) -> dict[str, Tensor]:
    """Features as named tensors; who has no partner needs no second person."""
    found = {f"{prefix}values": features.values, f"{prefix}counts": features.counts}
    if features.paired is not None and features.second is not None:
        found[f"{prefix}paired"] = features.paired
        if bool(features.paired.any()):
            found[f"{prefix}second"] = features.second
    if features.factor is not None:
        found[f"{prefix}factor"] = features.factor
    for place, part in enumerate(features.beside):
        found |= _flat(part, f"{prefix}beside{place}.")
    return found


def _read(file: Any, names: set[str], rows: slice, prefix: str) -> Features:
    def tensor(name: str) -> Tensor | None:
        return file.get_slice(prefix + name)[rows] if prefix + name in names else None

    values, counts, paired = tensor("values"), tensor("counts"), tensor("paired")
    assert values is not None
    assert counts is not None
    second = tensor("second")
    beside: list[Features] = []
    while f"{prefix}beside{len(beside)}.values" in names:
        beside.append(_read(file, names, rows, f"{prefix}beside{len(beside)}."))
    if paired is not None and second is None:
        second = values
    return Features(values, counts, tuple(beside), second, paired, tensor("factor"))
