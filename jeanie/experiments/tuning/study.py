"""The study: an Optuna study in a database that many processes and machines share, with an exact number of trials."""

import hashlib
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

from jeanie.config import Config
from jeanie.errors import ConfigError, DataError
from jeanie.experiments.recipes import Recipe
from jeanie.experiments.seeds import seed_of
from jeanie.experiments.tuning.space import Dimension, started

__all__ = ["Tuning", "counted", "open_study", "optuna", "quiet", "wanted"]

_BEATS = 6  # signs of life of a trial while it may be silent
_TRIES = 20  # to open a database that others are setting up at the same moment
_SETTINGS = "settings"


class Tuning(Config):
    """What is searched, where, and for how long."""

    protocol: str = Field(description="experiment whose validation classes judge")
    recipe: Recipe = Field(description="what is changed")
    space: dict[str, Dimension] = Field(description="what may change, and how far")
    splits: int = Field(default=1, ge=1, description="splits whose validation accuracies are averaged")
    train_classes: int | None = None
    validation: float | None = Field(default=None, description="part of the training classes held out")
    trials: int = Field(default=50, ge=1, description="trials of the study in all, by all workers together")
    pruner: Literal["median", "hyperband", "none"] = Field(
        default="median", description="what ends trials early"
    )
    storage: str = Field(description="file of SQLite, or URL of a database")
    name: str = Field(default="", description="of the study; none: made of what is searched")
    seed: int = Field(default=0, ge=0, description="of the search; the recipe has that of the training")
    grace: int = Field(default=60, ge=1, description="seconds without a sign after which a worker is lost")

    @property
    def key(self) -> str:
        """What is searched, as text: two workers with the same may share a study."""
        return self.model_dump_json(exclude={"trials", "pruner", "storage", "name", "seed", "grace"})

    @property
    def study(self) -> str:
        """The name of the study."""
        return self.name or f"{self.protocol}-{hashlib.sha256(self.key.encode()).hexdigest()[:8]}"


def optuna() -> Any:
    """The library, loaded when it is needed."""
    try:
        return import_module("optuna")
    except ImportError:
        raise ConfigError("a search needs Optuna; pip install 'jeanie[tune]'") from None


@contextmanager
def quiet() -> Iterator[Any]:
    """Optuna without its log, and without warnings of functions that it calls experimental."""
    library = optuna()
    level = library.logging.get_verbosity()
    library.logging.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", library.exceptions.ExperimentalWarning)
            yield library
    finally:
        library.logging.set_verbosity(level)


def open_study(tuning: Tuning, worker: int = 0) -> Any:
    """The study, made where it is not there yet: then its first trial is the recipe as it is."""
    with quiet() as library:
        storage = _storage(library, tuning.storage, tuning.grace)
        study = _created(library, storage, tuning)
        known = study.user_attrs.get(_SETTINGS)
        if known is not None and known != tuning.key:
            raise ConfigError(
                f"study {tuning.study!r} of {_hidden(tuning.storage)} searches something else; give another --name, or "
                "the same protocol, recipe, space and splits"
            )
        # a worker that joins or goes on must not draw again what was drawn before it
        seed = seed_of(tuning.seed, worker, len(study.get_trials(deepcopy=False))) % 2**32
        study.sampler = library.samplers.TPESampler(seed=seed, constant_liar=True)
        return study


def _storage(library: Any, place: str, grace: int) -> Any:
    """The database; several workers may set it up at once, so a clash is tried again."""
    url = place
    options: dict[str, Any] = {"poolclass": NullPool}  # between two trials nobody needs a connection
    path = None if "://" in place else Path(place).resolve()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        url, options["connect_args"] = f"sqlite:///{path}", {"timeout": 120}
    for attempt in range(_TRIES):
        try:
            if path is not None:
                _write_ahead(path)
            storage = library.storages.RDBStorage(
                url,
                engine_kwargs=options,
                heartbeat_interval=max(1, grace // _BEATS),
                grace_period=grace,
                heartbeat_stale_trial_callback=_again,
            )
            if path is not None:
                _one_after_another(storage.engine)
            return storage
        except (
            SQLAlchemyError,
            sqlite3.Error,
            library.exceptions.StorageInternalError,
            ValueError,
            ImportError,
        ) as error:
            fault = error
            if not _clashed(error):
                break
        time.sleep(0.05 * (attempt + 1))
    told = str(fault.__cause__ or fault).splitlines()[0]
    raise DataError(f"{_hidden(place)}: no study can be kept there: {told}") from None


def _clashed(error: Exception) -> bool:
    """Whether others may have been setting up the database at the same moment; a wrong address stays wrong."""
    if isinstance(error, sqlite3.Error):
        return "locked" in str(error)
    return isinstance(error, DBAPIError) or isinstance(error.__cause__, DBAPIError)


def _hidden(place: str) -> str:
    """A URL without what stands before its @, such as a password."""
    scheme, separator, rest = place.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else place


def _write_ahead(path: Path) -> None:
    """SQLite's journal that lets others read while one writes; it stays so for the file.

    Where two switch the journal at once, SQLite does not wait for its turn, whatever the time limit, but raises.
    """
    with closing(sqlite3.connect(path, timeout=120)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def _one_after_another(engine: Any) -> None:
    """Let SQLite's transactions begin with the right to write, so that what one has read still holds when it writes.

    Optuna takes a waiting trial by reading its row for update, which SQLite ignores: two workers could take the same.
    """
    event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))


def _again(study: Any, trial: Any) -> None:
    """A trial whose worker is lost: its values are tried once more."""
    study.enqueue_trial(trial.params, user_attrs={"again": trial.number})


def _created(library: Any, storage: Any, tuning: Tuning) -> Any:
    """The study; of several workers that come at once, one makes it."""
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
    study.enqueue_trial(json.loads(json.dumps(started(tuning.recipe, tuning.space))))
    return study


def counted(trial: Any) -> bool:
    """Whether a trial counts: all but those whose worker was lost or stopped, and those that were too many."""
    return trial.state.name != "FAIL" or "error" in trial.user_attrs


def wanted(study: Any, trials: int, number: int | None = None) -> bool:
    """Whether another trial is wanted, or, with ``number``, whether that one is not one too many.

    Workers that ask at the same moment get different numbers, and all see the lower ones: so exactly ``trials``
    count, whoever came first.
    """
    known = study.get_trials(deepcopy=False)
    if number is not None:
        return sum(counted(one) for one in known if one.number < number) < trials
    waiting = any(one.state.name == "WAITING" for one in known)
    return waiting or sum(map(counted, known)) < trials
