"""A worker of a study: trial after trial, each a training that validation classes judge, and nothing else."""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError, JeanieError
from jeanie.experiments.processes import one_thread, orphaned, together
from jeanie.experiments.protocols import Protocol
from jeanie.experiments.protocols import protocol as protocol_of
from jeanie.experiments.protocols.splits import Split
from jeanie.experiments.training import Moment, train
from jeanie.experiments.tuning.space import settled, suggested
from jeanie.experiments.tuning.study import Tuning, counted, open_study, quiet, wanted

__all__ = ["sealed", "tune", "work", "work_at"]

Progress = Callable[[int, int], Any]

_PAUSE = 0.5  # seconds between two looks at what other workers do


class _TooMany(Exception):
    """Raised in a trial that others have made superfluous while it was asked for."""


def tune(
    tuning: Tuning,
    *,
    protocol: Protocol | None = None,
    dataset: Dataset | None = None,
    root: str | Path | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Any:
    """Search until the study has its trials; the study, which others may be searching at the same time.

    Started again, with the same settings, it goes on. With ``jobs`` above 1 that many processes of this machine
    search; workers on other machines join by the same call with the URL of a database as storage. ``protocol``
    and ``dataset`` replace those that the settings name, in this process only.
    """
    study = open_study(tuning)
    if jobs > 1:
        if protocol is not None or dataset is not None:
            raise ConfigError("several jobs open the protocol and its data themselves; give root, or one job")
        place = None if root is None else str(Path(root).resolve())
        lost = together(
            work_at,
            [(tuning, place, number) for number in range(jobs)],
            lambda: _tell(study, tuning, progress),
        )
        if lost and wanted(study, tuning.trials):
            raise JeanieError(
                f"{len(lost)} of {jobs} workers ended early (exit code {lost[0]}); start the same command again"
            )
        return study
    chosen = protocol_of(tuning.protocol) if protocol is None else protocol
    with one_thread():
        work(study, tuning, chosen, chosen.open(root) if dataset is None else dataset, progress)
    return study


def work_at(tuning: Tuning, root: str | None, worker: int) -> None:
    """A worker in a process of its own."""
    protocol = protocol_of(tuning.protocol)
    work(open_study(tuning, worker), tuning, protocol, protocol.open(root), None)


def work(study: Any, tuning: Tuning, protocol: Protocol, dataset: Dataset, progress: Progress | None) -> None:
    """Trials until the study has enough of them."""
    splits = sealed(tuning, protocol, dataset)
    with quiet() as library:

        def objective(trial: Any) -> float:
            if not wanted(study, tuning.trials, trial.number):
                raise _TooMany
            return _judged(library, study, trial, tuning, protocol, dataset, splits)

        _tell(study, tuning, progress)
        while _more(library, study, tuning):
            study.optimize(objective, n_trials=1, catch=(Exception,))
            _tell(study, tuning, progress)


def _more(library: Any, study: Any, tuning: Tuning) -> bool:
    """Whether another trial is to be made; waits long enough to see the last ones of lost workers come back."""
    last = time.monotonic() + 2 * tuning.grace
    while not wanted(study, tuning.trials):
        running = any(one.state.name == "RUNNING" for one in study.get_trials(deepcopy=False))
        if not running or time.monotonic() > last:
            return False
        time.sleep(_PAUSE)
        library.storages.fail_stale_trials(study)
    return True


def _tell(study: Any, tuning: Tuning, progress: Progress | None) -> None:
    if progress is not None:
        done = [one for one in study.get_trials(deepcopy=False) if one.state.is_finished() and counted(one)]
        progress(len(done), tuning.trials)


def sealed(tuning: Tuning, protocol: Protocol, dataset: Dataset) -> list[Split]:
    """The splits that trials train on, without their test episodes: what is not there cannot be looked at."""
    part = None if tuning.validation is None else float(tuning.validation)
    known = protocol.splits(dataset, train_classes=tuning.train_classes, validation=part)
    count = min(tuning.splits, len(known))
    chosen = [known[number * len(known) // count] for number in range(count)]
    without = [split.name for split in chosen if not len(split.validation)]
    if without:
        raise ConfigError(
            f"{protocol.name}: split {without[0]!r} has no validation episodes to judge by; give --train-classes "
            "that the protocol offers, or --validation 0.3"
        )
    return [replace(split, test=(), test_variants={}) for split in chosen]


def _judged(
    library: Any,
    study: Any,
    trial: Any,
    tuning: Tuning,
    protocol: Protocol,
    dataset: Dataset,
    splits: Sequence[Split],
) -> float:
    """The mean over splits of a trial's best validation accuracy, in percent."""
    trial.set_user_attr("worker", os.getpid())
    changes = suggested(trial, tuning.space)
    try:
        recipe = settled(tuning.recipe, changes)
        alone, best = orphaned(), [0.0] * len(splits)

        def watch(moment: Moment) -> None:
            if alone():
                raise KeyboardInterrupt
            if moment.validation is None or moment.best is None:
                return
            best[moment.number] = moment.best[0]
            # later splits have not begun: the mean of those that have is what can be compared at this step
            trial.report(sum(best) / (moment.number + 1), moment.number * moment.episodes + moment.episode)
            if trial.should_prune():
                raise library.TrialPruned

        with tempfile.TemporaryDirectory(prefix="jeanie-trial-") as folder:
            train(
                recipe.model,
                protocol,
                config=recipe.train,
                out=Path(folder) / "run",
                dataset=dataset,
                split=splits,
                progress=watch,
            )
    except library.TrialPruned:
        raise
    except KeyboardInterrupt:
        study.enqueue_trial(trial.params, user_attrs={"again": trial.number})
        raise
    except Exception as error:
        trial.set_user_attr("error", str(error) or type(error).__name__)
        raise
    return sum(best) / len(best)
