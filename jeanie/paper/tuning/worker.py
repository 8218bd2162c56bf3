"""The workers of a study: each runs trials, and each trial trains a recipe that validation classes rate."""

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jeanie.compute.cancellation import raise_if_stopped
from jeanie.compute.processes import use_one_thread
from jeanie.compute.tasks import WorkerLost, check_workers, count_workers, map_tasks
from jeanie.datasets import Dataset, ReadOptions
from jeanie.datasets.dataset import FileDataset
from jeanie.datasets.folders import drop_unreadable
from jeanie.errors import ConfigError
from jeanie.evaluation.protocols import Protocol, get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.paper.tuning.space import apply_changes, suggest_changes
from jeanie.paper.tuning.study import (
    Tuning,
    is_counted,
    is_within_limit,
    needs_trial,
    open_study,
    seed_sampler,
    silence_optuna,
)
from jeanie.training.train import TrainingProgress, train

__all__ = ["run_trials", "select_splits", "tune"]

Progress = Callable[[int, int], Any]
"""A function that is called with (finished trials, all trials)."""

_WAIT_SECONDS = 0.5  # before looking again at what other workers do


class _SuperfluousTrial(Exception):
    """Raised in a trial if other workers have started enough trials."""


def tune(
    tuning: Tuning,
    *,
    protocol: Protocol | None = None,
    dataset: Dataset | None = None,
    splits: Sequence[Split] | None = None,
    root: str | Path | None = None,
    pattern: str | None = None,
    options: ReadOptions | None = None,
    skip_bad: bool = False,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """Search until the study has its trials; the same call continues a search that was stopped.

    Workers on other machines need the URL of a database as storage. They also join by the same call.

    Args:
        tuning: The settings.
        protocol, dataset, splits: Replace those that the settings name; only for one job in this process.
        root: Folder of the data set (default: the folder of its name in ``$JEANIE_DATA``).
        pattern, options: For a folder of one's own: names of its files, and how they are read.
        skip_bad: Whether recordings that cannot be read are left out.
        jobs: Number of worker processes; 1 works in this process.
        cluster: Address of a Dask scheduler. Each worker that it has at the start of the call runs trials.
        progress: Called with (finished trials, all trials).

    Returns:
        The Optuna study.

    Raises:
        ConfigError: ``jobs`` or ``cluster`` is wrong, or several workers cannot share the storage or the data.
        WorkerLost: Workers were killed and trials are missing.
    """
    check_workers(jobs, cluster)
    if cluster is not None and "://" not in tuning.storage:
        raise ConfigError(
            f"storage={tuning.storage!r} is a file of this machine; a cluster needs the URL of a database, such as "
            "postgresql+psycopg://..."
        )
    study = open_study(tuning)
    if jobs == 1 and cluster is None:
        protocol = get_protocol(tuning.protocol) if protocol is None else protocol
        with use_one_thread():
            if dataset is None:
                dataset = _open_data(protocol, root, pattern, options, skip_bad)
            run_trials(study, tuning, protocol, dataset, progress, splits)
        return study
    if protocol is not None or dataset is not None or splits is not None:
        raise ConfigError("several workers open the protocol and its data themselves; give root, or one job")
    place = None if root is None else str(Path(root).resolve())

    shared = tuning, place, pattern, options, skip_bad
    workers = range(count_workers(jobs, cluster))
    results = map_tasks(
        _run_worker,
        workers,
        shared=shared,
        jobs=jobs,
        cluster=cluster,
        progress=lambda *_: _report_progress(study, tuning, progress),
    )
    try:
        deque(results, maxlen=0)
    except WorkerLost:
        if needs_trial(study, tuning.trials):
            raise
    _report_progress(study, tuning, progress)
    return study


def _run_worker(
    tuning: Tuning,
    root: str | None,
    pattern: str | None,
    options: ReadOptions | None,
    skip_bad: bool,
    worker: int,
) -> None:
    """Run trials in a worker process."""
    protocol = get_protocol(tuning.protocol)
    dataset = _open_data(protocol, root, pattern, options, skip_bad)
    run_trials(open_study(tuning), tuning, protocol, dataset, None, worker=worker)


def _open_data(
    protocol: Protocol,
    root: str | Path | None,
    pattern: str | None,
    options: ReadOptions | None,
    skip_bad: bool,
) -> Dataset:
    dataset = protocol.open(root, pattern=pattern, options=options)
    return drop_unreadable(dataset) if skip_bad and isinstance(dataset, FileDataset) else dataset


def run_trials(
    study: Any,
    tuning: Tuning,
    protocol: Protocol,
    dataset: Dataset,
    progress: Progress | None,
    splits: Sequence[Split] | None = None,
    worker: int = 0,
) -> None:
    """Run trials until the study has enough of them."""
    splits = select_splits(tuning, protocol, dataset) if splits is None else _hide_tests(protocol, splits)
    with silence_optuna() as library:

        def objective(trial: Any) -> float:
            if not is_within_limit(study, tuning.trials, trial.number):
                raise _SuperfluousTrial
            return _Trial(library, study, trial, tuning).run(protocol, dataset, splits)

        _report_progress(study, tuning, progress)
        while _wait_for_need(library, study, tuning):
            seed_sampler(library, study, tuning, worker)
            study.optimize(objective, n_trials=1, catch=(Exception,))
            _report_progress(study, tuning, progress)


def _wait_for_need(library: Any, study: Any, tuning: Tuning) -> bool:
    """Return whether another trial is needed; wait for running trials, whose workers may be lost."""
    deadline = time.monotonic() + 2 * tuning.grace
    while not needs_trial(study, tuning.trials):
        raise_if_stopped()
        is_last = time.monotonic() > deadline
        library.storages.fail_stale_trials(study)  # queues the trials of lost workers again
        if needs_trial(study, tuning.trials):
            break
        is_running = any(trial.state.name == "RUNNING" for trial in study.get_trials(deepcopy=False))
        if is_last or not is_running:
            return False
        time.sleep(_WAIT_SECONDS)
    return True


def _report_progress(study: Any, tuning: Tuning, progress: Progress | None) -> None:
    if progress is not None:
        trials = study.get_trials(deepcopy=False)
        done = sum(trial.state.is_finished() and is_counted(trial) for trial in trials)
        progress(done, tuning.trials)


def select_splits(tuning: Tuning, protocol: Protocol, dataset: Dataset) -> list[Split]:
    """Return the splits that trials train on, without their test episodes, so that no trial can read them.

    Raises:
        ConfigError: A split has no validation episodes.
    """
    splits = protocol.splits(
        dataset,
        way=tuning.way,
        shot=tuning.shot,
        train_classes=tuning.train_classes,
        validation=tuning.validation,
    )
    count = min(tuning.splits, len(splits))
    return _hide_tests(protocol, [splits[number * len(splits) // count] for number in range(count)])


def _hide_tests(protocol: Protocol, splits: Sequence[Split]) -> list[Split]:
    """Return splits without their test episodes; raise ConfigError if one has no validation episodes."""
    unrated = [split.name for split in splits if not len(split.validation)]
    if unrated:
        raise ConfigError(
            f"{protocol.name}: split {unrated[0]!r} has no validation episodes; give --train-classes that the "
            "protocol offers, or --validation 0.3"
        )
    return [replace(split, test=(), test_variants={}) for split in splits]


@dataclass(frozen=True)
class _Trial:
    """One trial: a recipe with suggested changes."""

    library: Any
    study: Any
    trial: Any
    tuning: Tuning

    def run(self, protocol: Protocol, dataset: Dataset, splits: Sequence[Split]) -> float:
        """Train and return the mean over splits of the best validation accuracy, in percent."""
        self.trial.set_user_attr("worker", os.getpid())
        changes = suggest_changes(self.trial, self.tuning.space)
        best = [0.0] * len(splits)
        try:
            recipe = apply_changes(self.tuning.recipe, changes)
            with tempfile.TemporaryDirectory(prefix="jeanie-trial-") as folder:
                train(
                    recipe.model,
                    protocol,
                    config=recipe.train,
                    out=Path(folder) / "run",
                    dataset=dataset,
                    split=splits,
                    progress=lambda progress: self._report(progress, best),
                )
        except self.library.TrialPruned:
            raise
        except KeyboardInterrupt:
            self.study.enqueue_trial(self.trial.params, user_attrs={"retry_of": self.trial.number})
            raise
        except Exception as error:
            self.trial.set_user_attr("error", str(error) or type(error).__name__)
            raise
        return sum(best) / len(best)

    def _report(self, progress: TrainingProgress, best: list[float]) -> None:
        """Report the validation accuracy of a training step; end the trial early if the pruner says so."""
        raise_if_stopped()
        if progress.validation is None or progress.best is None:
            return
        best[progress.number] = progress.best[0]
        # the mean over the splits that have started, since later splits have no value at this step
        step = progress.number * progress.episodes + progress.episode
        self.trial.report(sum(best) / (progress.number + 1), step)
        if self.trial.should_prune():
            raise self.library.TrialPruned
