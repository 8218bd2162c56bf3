"""Open the database of a library: SQLite file or PostgreSQL URL, transactions, durability, migrations."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from jeanie._internal.sqlite import enable_wal
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.recogniser.library.schema import VERSION_TABLE

__all__ = ["WAIT_SECONDS", "database_errors", "open_engine", "parse_database_url", "transaction"]

WAIT_SECONDS = 60  # timeout of a writer that waits for another writer
_CONNECT_SECONDS = 10
_MIGRATION_LOCK = 0x6A65616E6965  # key of PostgreSQL's advisory lock: "jeanie" in ASCII
# EXTRA syncs the log at every commit (like FULL) and also the folder, if the file system only allows a rollback
# journal; fullfsync makes macOS flush the cache of the disk.
_PRAGMAS = ("foreign_keys = ON", "synchronous = EXTRA", "fullfsync = ON", "checkpoint_fullfsync = ON")
_SQLITE_MAGIC = b"SQLite format 3\0"
_SUFFIXES = ("", ".db", ".sqlite", ".sqlite3")  # of files that may become a library
_MIGRATION_MUTEX = threading.Lock()  # alembic keeps the running migration in global variables
# the last four: a damaged file can return NULL, bytes or text in any column
_DATABASE_ERRORS = (
    SQLAlchemyError, sqlite3.Error, CommandError, OverflowError, TypeError, ValueError, AttributeError, LookupError
)  # fmt: skip
_ADVICE = {
    "unable to open": "its folder must exist and be writable for this user",
    "readonly": "the file and its folder must be writable for this user",
    "not a database": "give another file, or restore this one",
    "malformed": "restore it from an export or a backup",
    "locked": "another program holds the lock; try again later",
    "removed or replaced": "put it back, or start the program again",
    "lock timeout": "another program holds the lock; try again later",
}


def parse_database_url(place: str | Path) -> URL:
    """Return the database URL of a library that is given as a path or as a URL."""
    if isinstance(place, Path) or "://" not in place:
        return URL.create("sqlite", database=str(Path(place).absolute()))
    try:
        url = make_url(place)
    except (SQLAlchemyError, ValueError) as error:
        raise ConfigError(f"a library is a file or a URL such as postgresql://host/name: {error}") from None
    if url.drivername == "sqlite" and url.database and not url.query:
        return parse_database_url(Path(url.database))
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise ConfigError(
        f"a library is an SQLite file or a PostgreSQL database (postgresql://host/name), got {url.drivername}://"
    )


def open_engine(url: URL) -> Engine:
    """Connect to a database and migrate its tables to this version. An empty database gets the tables."""
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite and url.database:
        _check_is_library(Path(url.database))
    engine = _create_sqlite_engine(url) if is_sqlite else _create_postgres_engine(url)
    try:
        with database_errors(str(url.database) if is_sqlite else url.render_as_string(hide_password=True)):
            _migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _check_is_library(path: Path) -> None:
    """Raise DataError for an existing file that is not a database. SQLite would turn an empty file into one.

    A database that another program is just creating is empty too, so an empty file needs the name of a database.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_MAGIC))
    except OSError:  # it does not exist; SQLite explains other problems
        return
    if head != _SQLITE_MAGIC and (head or path.suffix not in _SUFFIXES):
        problem = "not a database" if head else "an empty file"
        raise DataError(f"{path}: {problem}; give another file, such as library.db; this one is not changed")


@contextmanager
def database_errors(place: str) -> Iterator[None]:
    """Raise DataError for every error of the database and for every damaged value."""
    try:
        yield
    except JeanieError:
        raise
    except _DATABASE_ERRORS as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        message = " ".join(str(cause).split())
        if not isinstance(error, SQLAlchemyError | sqlite3.Error | CommandError):
            message = f"the database is damaged ({type(error).__name__}: {message[:200]})"
        raise DataError(f"{place}: {message[:300]}{_advise(message, place)}") from error


@contextmanager
def transaction(engine: Engine, *, write: bool) -> Iterator[Connection]:
    """Open a transaction that commits at the end and rolls back on an error. A writer takes its lock first."""
    with engine.connect() as connection, connection.execution_options(write=write).begin():
        yield connection


def _advise(message: str, place: str) -> str:
    if os.path.isdir(place):  # Path.is_dir raises without permission
        return "; this is a folder, a library is a file"
    return next((f"; {advice}" for key, advice in _ADVICE.items() if key in message), "")


def _create_sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": WAIT_SECONDS})
    file = _DatabaseFile(url.database)

    def configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 would begin late and leave CREATE TABLE outside
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    def begin(connection: Connection) -> None:
        # a reader that becomes a writer cannot wait for the lock, so a writer takes it at the start
        options = connection.get_execution_options()
        if options.get("migrates"):  # a table that is made again would take the rows that refer to it with it
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        file.check()
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("write") else "BEGIN")

    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", begin)
    return engine


class _DatabaseFile:
    """A database file that must stay the same: what is written to a removed file is lost when it is closed."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None

    def check(self) -> None:
        """Raise an error if the file is no longer the one of the first transaction."""
        if not self._path or self._path == ":memory:":
            return
        try:
            facts = os.stat(self._path)
            identity = (facts.st_dev, facts.st_ino)
        except FileNotFoundError:
            identity = None
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            raise sqlite3.OperationalError("the file was removed or replaced while it is in use")


def _create_postgres_engine(url: URL) -> Engine:
    options = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_SECONDS}
    try:
        # READ COMMITTED: a writer that waited for the lock sees what its last holder wrote
        engine = create_engine(
            url, connect_args=options, isolation_level="READ COMMITTED", pool_pre_ping=True
        )
    except ImportError as error:
        raise ConfigError(
            f"PostgreSQL needs psycopg ({error}); install it: pip install 'jeanie[postgres]'"
        ) from None

    def set_timeout(connection: Connection) -> None:
        if connection.get_execution_options().get("write"):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")

    event.listen(engine, "begin", set_timeout)
    return engine


def _migrate(engine: Engine) -> None:
    """Migrate the tables to this version. Of several processes, one does it and the others wait."""
    config = Config()
    config.set_main_option("script_location", "jeanie.recogniser.library:migrations")
    with _MIGRATION_MUTEX:
        script = ScriptDirectory.from_config(config)
        with transaction(engine, write=False) as connection:
            is_current = _is_current(connection, script)
        if engine.dialect.name == "sqlite":
            with closing(engine.raw_connection()) as raw:
                enable_wal(raw, WAIT_SECONDS)
        if is_current:
            return
        with transaction(engine.execution_options(migrates=True), write=True) as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
            config.attributes["connection"] = connection
            command.upgrade(
                config, "head"
            )  # checks again: another process may have migrated the tables in the meantime
        engine.dispose()  # the next connection enforces foreign keys


def _is_current(connection: Connection, script: ScriptDirectory) -> bool:
    """Return whether the tables have this version; raise DataError for a foreign or newer database."""
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE not in tables:
        if tables:
            raise DataError(
                f"{connection.engine.url.database}: this database holds {', '.join(sorted(tables)[:5])}, "
                "but no library; give a new file or an empty database"
            )
        return False
    current = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    versions = current.get_current_heads()
    revisions = {migration.revision for migration in script.walk_revisions()}
    if not set(versions) <= revisions:
        raise DataError(
            f"{connection.engine.url.database}: the library has version {', '.join(versions)[:40]}, this jeanie "
            f"knows up to {script.get_current_head()}; install a newer jeanie"
        )
    return versions == (script.get_current_head(),)
