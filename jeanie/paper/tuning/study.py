"""An Optuna study in a database that several processes and machines share, with an exact number of trials."""

import json
import logging
import sqlite3
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from jeanie._internal.digest import hash_bytes
from jeanie._internal.seeds import derive_seed
from jeanie._internal.sqlite import enable_wal
from jeanie.config import Config
from jeanie.errors import ConfigError, DataError
from jeanie.paper.tuning.space import Dimension, initial_values
from jeanie.training.recipes import Recipe

__all__ = [
    "Tuning",
    "import_optuna",
    "is_counted",
    "is_within_limit",
    "needs_trial",
    "open_study",
    "seed_sampler",
    "silence_optuna",
]

_HEARTBEATS = 6  # per grace period
_ATTEMPTS = 20  # to open a database that other workers are setting up at the same time
_WAIT_SECONDS = 120  # for another writer of an SQLite file
_SETTINGS = "settings"


class Tuning(Config):
    """The settings of a search."""

    protocol: str = Field(description="protocol whose validation classes rate the trials")
    recipe: Recipe = Field(description="recipe that the trials change")
    space: dict[str, Dimension] = Field(description="values that each option may have")
    splits: int = Field(default=1, ge=1, description="splits whose validation accuracies are averaged")
    way: int | None = Field(default=None, ge=2, description="classes per validation episode")
    shot: int | None = Field(default=None, ge=1, description="supports per class")
    train_classes: int | None = Field(default=None, description="number of training classes; null: all")
    validation: float | None = Field(default=None, description="share of the training classes held out")
    trials: int = Field(default=50, ge=1, description="total number of trials, over all workers")
    pruner: Literal["median", "hyperband", "none"] = Field(
        default="median", description="early stopping of trials"
    )
    storage: str = Field(description="SQLite file, or URL of a database")
    name: str = Field(default="", description="name of the study; empty: derived from the settings")
    seed: int = Field(default=0, ge=0, description="seed of the search; the recipe has the training seed")
    grace: int = Field(
        default=60, ge=1, description="seconds without a heartbeat after which a worker is lost"
    )

    @property
    def key(self) -> str:
        """The settings that all workers of a study share, as text."""
        return self.model_dump_json(exclude={"trials", "pruner", "storage", "name", "seed", "grace"})

    @property
    def study(self) -> str:
        """Name of the study."""
        return self.name or f"{self.protocol}-{hash_bytes(self.key)[:8]}"


def import_optuna() -> Any:
    """Import Optuna, which is an optional dependency."""
    try:
        return import_module("optuna")
    except ImportError:
        raise ConfigError("a search needs Optuna; pip install 'jeanie[tune]'") from None


@contextmanager
def silence_optuna() -> Iterator[Any]:
    """Import Optuna and silence its log and its warnings about experimental functions."""
    library = import_optuna()
    level = library.logging.get_verbosity()
    library.logging.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", library.exceptions.ExperimentalWarning)
            yield library
    finally:
        library.logging.set_verbosity(level)


def open_study(tuning: Tuning) -> Any:
    """Open the study, or create it; the first trial of a new study is the recipe without changes.

    Raises:
        ConfigError: A study of this name has other settings.
        DataError: The database cannot be used.
    """
    with silence_optuna() as library:
        storage = _open_storage(library, tuning.storage, tuning.grace)
        study = _create_study(library, storage, tuning)
        settings = study.user_attrs.get(_SETTINGS)
        if settings is not None and settings != tuning.key:
            raise ConfigError(
                f"study {tuning.study!r} of {_hide_password(tuning.storage)} has other settings; give another "
                "--name, or the same protocol, recipe, space and splits"
            )
        return study


def seed_sampler(library: Any, study: Any, tuning: Tuning, worker: int) -> None:
    """Seed the draws of the next trial by the search, the worker and the trials so far.

    A worker that joins or continues repeats no earlier draw, and the trials of a single worker do not depend on
    whether it was stopped between them.
    """
    seed = derive_seed(tuning.seed, worker, len(study.get_trials(deepcopy=False))) % 2**32
    study.sampler = library.samplers.TPESampler(seed=seed, constant_liar=True)


def _open_storage(library: Any, place: str, grace: int) -> Any:
    """Open the database; if several workers set it up at the same time, clashes are retried."""
    url = place
    options: dict[str, Any] = {"poolclass": NullPool}  # no connection is needed between two trials
    path = None if "://" in place else Path(place).resolve()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        url, options["connect_args"] = f"sqlite:///{path}", {"timeout": _WAIT_SECONDS}
    for attempt in range(_ATTEMPTS):
        try:
            if path is not None:
                with closing(sqlite3.connect(path, timeout=_WAIT_SECONDS)) as connection:
                    enable_wal(connection, _WAIT_SECONDS)
            storage = library.storages.RDBStorage(
                url,
                engine_kwargs=options,
                heartbeat_interval=max(1, grace // _HEARTBEATS),
                grace_period=grace,
                heartbeat_stale_trial_callback=_retry_trial,
            )
            if path is not None:
                _lock_on_begin(storage.engine)
            return storage
        except (
            SQLAlchemyError,
            sqlite3.Error,
            library.exceptions.StorageInternalError,
            ValueError,
            ImportError,
        ) as error:
            fault = error
            if not _is_clash(error):
                break
        time.sleep(0.05 * (attempt + 1))
    reason = str(fault.__cause__ or fault).splitlines()[0]
    raise DataError(f"{_hide_password(place)}: cannot store a study there: {reason}") from None


def _is_clash(error: Exception) -> bool:
    """Return whether other workers may have set up the database at the same time."""
    if isinstance(error, sqlite3.Error):
        return "locked" in str(error)
    return isinstance(error, DBAPIError) or isinstance(error.__cause__, DBAPIError)


def _hide_password(place: str) -> str:
    """Return a URL without user and password."""
    scheme, separator, rest = place.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else place


def _lock_on_begin(engine: Any) -> None:
    """Lock an SQLite file for writing at the start of each transaction, so that what it reads stays true.

    Optuna takes a waiting trial with SELECT ... FOR UPDATE, which SQLite ignores: two workers could take the same one.
    """
    event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))


def _retry_trial(study: Any, trial: Any) -> None:
    """Queue the values of a trial whose worker was lost."""
    study.enqueue_trial(trial.params, user_attrs={"retry_of": trial.number})


def _create_study(library: Any, storage: Any, tuning: Tuning) -> Any:
    """Create the study, or load it if another worker has created it."""
    steps = tuning.recipe.train.episodes * tuning.splits
    pruner = {
        "median": lambda: library.pruners.MedianPruner(n_startup_trials=4),
        "hyperband": lambda: library.pruners.HyperbandPruner(
            min_resource=tuning.recipe.train.validate_every, max_resource=steps
        ),
        "none": library.pruners.NopPruner,
    }[tuning.pruner]()
    options = {"study_name": tuning.study, "storage": storage, "pruner": pruner}
    try:
        study = library.create_study(direction="maximize", **options)
    except library.exceptions.DuplicatedStudyError:
        return library.load_study(**options)
    study.set_user_attr(_SETTINGS, tuning.key)
    study.enqueue_trial(json.loads(json.dumps(initial_values(tuning.recipe, tuning.space))))
    return study


def is_counted(trial: Any) -> bool:
    """Return whether a trial counts: all but trials of lost or stopped workers and superfluous trials."""
    return trial.state.name != "FAIL" or "error" in trial.user_attrs


def needs_trial(study: Any, trials: int) -> bool:
    """Return whether the study needs another trial."""
    stored_trials = study.get_trials(deepcopy=False)
    has_waiting = any(trial.state.name == "WAITING" for trial in stored_trials)
    return has_waiting or sum(map(is_counted, stored_trials)) < trials


def is_within_limit(study: Any, trials: int, number: int) -> bool:
    """Return whether trial ``number`` is among the first ``trials`` counted trials.

    Workers that ask at the same time get different numbers and see all lower ones, so exactly ``trials`` trials
    count.
    """
    stored_trials = study.get_trials(deepcopy=False)
    return sum(is_counted(trial) for trial in stored_trials if trial.number < number) < trials
