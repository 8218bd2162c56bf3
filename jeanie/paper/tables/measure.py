"""Make one measurement of a table: train if the method is trained, test, and store the result."""

import shutil
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

from jeanie.compute.cancellation import raise_if_stopped
from jeanie.compute.lost import is_out_of_memory
from jeanie.datasets import Dataset
from jeanie.datasets.lifting import provide_lifted_archive
from jeanie.errors import ConfigError, JeanieError
from jeanie.evaluation.evaluate import Models, evaluate
from jeanie.evaluation.protocols import Protocol, get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.evaluation.report.report import Report
from jeanie.fewshot.config import NoViewsConfig
from jeanie.fewshot.model import FewShotModel
from jeanie.paper.tables.cells import Cell
from jeanie.paper.tables.results import Failure, write_failure, write_result
from jeanie.paper.tuning import SPACE, Tuning, find_outcome, tune
from jeanie.training.recipes import Recipe
from jeanie.training.run import TrainingReplaced
from jeanie.training.train import train

_ANGLES = ("views.azimuth", "views.altitude")

__all__ = ["Measurement", "measure_and_store", "measure_cell", "run_folder"]


@dataclass(frozen=True)
class Measurement:
    """A report, and the values that a search on validation classes chose before training."""

    report: Report
    searched: Mapping[str, Any]


def run_folder(out: Path, cell: Cell) -> Path:
    """Return the folder for the training of a measurement."""
    return out / "runs" / cell.run_key


def measure_and_store(cell: Cell, out: Path, data: Path | None) -> bool:
    """Make a measurement and store it, or store why it failed; return whether it is stored.

    Only an interruption, a lack of memory and another process on the same training are raised.
    """
    start = perf_counter()
    try:
        measured = measure_cell(cell, out, data)
    except TrainingReplaced:
        raise
    except (JeanieError, OSError) as error:
        write_failure(out, cell, Failure(str(error)))
    except Exception as error:  # one cell must not stop the others; the table shows what happened
        if is_out_of_memory(error):
            raise
        write_failure(out, cell, Failure(traceback.format_exc(limit=-3).strip()))
    else:
        write_result(out, cell, measured.report, perf_counter() - start, measured.searched)
        return True
    return False


def measure_cell(cell: Cell, out: Path, data: Path | None = None) -> Measurement:
    """Make a measurement; a search or a training that was stopped continues.

    Args:
        cell: The measurement.
        out: Folder of the table's results, which also holds the trainings.
        data: Folder that holds the data sets (default: ``$JEANIE_DATA``).
    """
    protocol = get_protocol(cell.protocol)
    root = _get_dataset_folder(protocol, data)
    place = root.with_name(cell.data) if root is not None and cell.data else root
    if root is not None and cell.data == f"{protocol.dataset}-3d" and protocol.available(root):
        place = provide_lifted_archive(root, protocol.dataset)
    dataset = _open_dataset(cell.protocol, place)

    def select(way: int | None) -> list[Split]:
        splits = protocol.splits(dataset, way=way, train_classes=cell.train_classes, root=root)
        return [_limit_validation(split, cell.validation_limit) for split in _select_splits(splits, cell)]

    tested = select(cell.way)
    models: Models = _load_untrained(cell)
    seeds: tuple[int, ...] = ()
    searched: Mapping[str, Any] = {}
    if cell.recipe is not None:
        trained = select(cell.way if cell.trained_way is None else cell.trained_way)
        folder = run_folder(out, cell) / "run"
        if folder.exists() and not (folder / "run.json").exists():
            shutil.rmtree(folder)  # the process was killed before the run had started
        recipe, searched = _search(cell, run_folder(out, cell), protocol, dataset, trained)
        models = train(
            recipe.model,
            protocol,
            config=recipe.train,
            out=folder,
            dataset=dataset,
            split=trained,
            resume=folder.exists(),
        )
        seeds = (cell.recipe.train.seed,)
    report = evaluate(
        models,
        protocol,
        dataset=dataset,
        splits=tested,
        method=cell.method,
        seeds=seeds,
        limit=cell.limit,
        progress=raise_if_stopped,
    )
    return Measurement(report, searched)


def _search(
    cell: Cell, folder: Path, protocol: Protocol, dataset: Dataset, splits: Sequence[Split]
) -> tuple[Recipe, Mapping[str, Any]]:
    """Return the recipe of a measurement, with the values that the search chose if it searches any.

    The study is kept in the folder of the training. It sees the training and validation clips of the splits only.
    """
    if cell.recipe is None:
        raise ConfigError(f"{cell.title}: an untrained model has nothing to search")
    if not cell.searches:
        return cell.recipe, {}
    views = cell.recipe.model.views
    step = 15.0 if isinstance(views, NoViewsConfig) else views.step
    tuning = Tuning(
        protocol=protocol.name,
        recipe=cell.recipe,
        space={
            name: SPACE[name].with_values(step=step) if name in _ANGLES else SPACE[name]
            for name in cell.searches
        },
        splits=len(splits),
        train_classes=cell.train_classes,
        trials=cell.tune_trials or 1,
        storage=str(folder / "search" / "study.db"),
        name="angles",
    )
    study = tune(tuning, protocol=protocol, dataset=dataset, splits=splits)
    try:
        outcome = find_outcome(study, tuning)
    except ConfigError:  # every trial failed; the next call tries again
        shutil.rmtree(folder / "search", ignore_errors=True)
        raise
    return outcome.recipe, outcome.changes


def _limit_validation(split: Split, limit: int | None) -> Split:
    return split if limit is None else replace(split, validation=split.validation[:limit])


def _load_untrained(cell: Cell) -> FewShotModel:
    """Return a model that is tested without training."""
    return FewShotModel.load() if cell.method == "shipped" else FewShotModel.raw()


def _get_dataset_folder(protocol: Protocol, data: Path | None) -> Path | None:
    """Return the folder of the data set; None for generated data, or if no folder is known."""
    if protocol.dataset == "synthetic":
        return None
    return protocol.place(None if data is None else data / protocol.dataset)


@lru_cache(maxsize=2)
def _open_dataset(protocol: str, place: Path | None) -> Dataset:
    return get_protocol(protocol).open(place)


def _select_splits(splits: Sequence[Split], cell: Cell) -> list[Split]:
    """Return the splits of a measurement: the named ones, at most ``cell.splits`` of them, evenly spaced."""
    selected = list(splits)
    if cell.names:
        by_name = {split.name: split for split in splits}
        missing = [name for name in cell.names if name not in by_name]
        if missing:
            raise ConfigError(
                f"{cell.protocol} has no split {missing[0]!r}; there are {', '.join(map(repr, list(by_name)[:12]))}"
            )
        selected = [by_name[name] for name in cell.names]
    count = len(selected) if cell.splits is None else min(cell.splits, len(selected))
    return [selected[number * len(selected) // count] for number in range(count)]
