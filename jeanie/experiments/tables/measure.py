"""One measurement of a table: train where there is something to train, test, keep the result."""

import shutil
import traceback
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from time import perf_counter

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError, JeanieError
from jeanie.experiments.evaluation import Models, evaluate
from jeanie.experiments.processes import orphaned
from jeanie.experiments.protocols import Protocol
from jeanie.experiments.protocols import protocol as protocol_of
from jeanie.experiments.protocols.splits import Split
from jeanie.experiments.reports.report import Report
from jeanie.experiments.tables.grid import Cell
from jeanie.experiments.tables.results import Failure, write_failure, write_result
from jeanie.experiments.training import Moment, Watcher, train
from jeanie.fewshot.model import FewShotModel

__all__ = ["attempt", "measured", "run_folder"]


def run_folder(out: Path, cell: Cell) -> Path:
    """Where a measurement's training and the claim on it lie."""
    return out / "runs" / cell.run_key


def attempt(cell: Cell, out: Path, session: str) -> None:
    """Make a measurement and keep it, or keep why it cannot be made; only an interruption is raised."""
    began = perf_counter()
    try:
        report = measured(cell, out)
    except (JeanieError, OSError) as error:
        write_failure(out, cell, Failure(str(error), session))
    except Exception:  # one cell must not take the others with it; the table shows what happened
        write_failure(out, cell, Failure(traceback.format_exc(limit=-3).strip(), session))
    else:
        write_result(out, cell, report, perf_counter() - began)


def measured(cell: Cell, out: Path) -> Report:
    """The report of a measurement; training goes on from where it was stopped."""
    protocol = protocol_of(cell.protocol)
    dataset = _opened(cell.protocol, _place(protocol, cell))
    tested = _chosen(protocol.splits(dataset, way=cell.way, train_classes=cell.train_classes), cell)
    models: Models = _untrained(cell)
    seeds: tuple[int, ...] = ()
    if cell.recipe is not None:
        trained_way = cell.way if cell.trained_way is None else cell.trained_way
        known = protocol.splits(dataset, way=trained_way, train_classes=cell.train_classes)
        folder = run_folder(out, cell) / "run"
        if folder.exists() and not (folder / "run.json").exists():
            shutil.rmtree(folder)  # a crash came before the run had begun
        models = train(
            cell.recipe.model,
            protocol,
            config=cell.recipe.train,
            out=folder,
            dataset=dataset,
            split=_chosen(known, cell),
            resume=folder.exists(),
            progress=_watching(),
        )
        seeds = (cell.recipe.train.seed,)
    return evaluate(
        models, protocol, dataset=dataset, splits=tested, method=cell.method, seeds=seeds, limit=cell.limit
    )


def _untrained(cell: Cell) -> FewShotModel:
    """A model that is tested as it is."""
    return FewShotModel.load() if cell.method == "shipped" else FewShotModel.raw()


def _place(protocol: Protocol, cell: Cell) -> Path | None:
    """Folder of the data; None where nothing says, or for data that is generated."""
    usual = protocol.place()
    return usual if usual is None or not cell.data else usual.with_name(cell.data)


@lru_cache(maxsize=2)
def _opened(protocol: str, place: Path | None) -> Dataset:
    return protocol_of(protocol).open(place)


def _chosen(splits: Sequence[Split], cell: Cell) -> list[Split]:
    """The splits of a measurement: those named, and of them as many as wanted, spread evenly."""
    chosen = list(splits)
    if cell.names:
        by_name = {split.name: split for split in splits}
        missing = [name for name in cell.names if name not in by_name]
        if missing:
            raise ConfigError(
                f"{cell.protocol} has no split {missing[0]!r}; there are {', '.join(map(repr, list(by_name)[:12]))}"
            )
        chosen = [by_name[name] for name in cell.names]
    count = len(chosen) if cell.splits is None else min(cell.splits, len(chosen))
    return [chosen[number * len(chosen) // count] for number in range(count)]


def _watching() -> Watcher:
    """Told of every step; stops where the process that started this one was killed, lest nobody collects."""
    alone = orphaned()

    def watch(moment: Moment) -> None:
        if alone():
            raise KeyboardInterrupt("the process that started this one is gone")

    return watch
