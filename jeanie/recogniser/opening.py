"""Opening a library's database: SQLite file or PostgreSQL by URL, locks, durability, migrations."""

import os
import random
import sqlite3
import threading
import time
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

from jeanie.errors import ConfigError, DataError
from jeanie.recogniser.schema import VERSION_TABLE

__all__ = ["WAIT_SECONDS", "began", "opened", "place_of", "told"]

WAIT_SECONDS = 60  # for another writer to finish
_CONNECT_SECONDS = 10
_MIGRATION_LOCK = 0x6A65616E6965  # "jeanie": a number for PostgreSQL's advisory lock
# EXTRA is FULL, which syncs the log at every commit, and also syncs the folder where a file system gives us
# a rollback journal instead of a log; fullfsync makes macOS sync the disk's own cache too.
_PRAGMAS = ("foreign_keys = ON", "synchronous = EXTRA", "fullfsync = ON", "checkpoint_fullfsync = ON")
_ONE_AT_A_TIME = threading.Lock()  # alembic keeps the migration that runs in globals


def place_of(place: str | Path) -> URL:
    """The database's URL from a path or a URL."""
    if isinstance(place, Path) or "://" not in place:
        return URL.create("sqlite", database=str(Path(place).absolute()))
    try:
        url = make_url(place)
    except (SQLAlchemyError, ValueError) as error:
        raise ConfigError(f"a library is a file or a URL such as postgresql://host/name: {error}") from None
    kind = url.drivername
    if kind == "sqlite" and url.database and not url.query:
        return place_of(Path(url.database))
    if kind in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise ConfigError(
        f"a library is an SQLite file or a database of PostgreSQL (postgresql://host/name), got {kind}://"
    )


def opened(url: URL) -> Engine:
    """The database behind a URL, with the tables of this version; a new one gets them."""
    engine = _sqlite(url) if url.get_backend_name() == "sqlite" else _postgres(url)
    shown = url.database if engine.dialect.name == "sqlite" else url.render_as_string(hide_password=True)
    try:
        with told(str(shown)):
            _prepare(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def told(place: str) -> Iterator[None]:
    """Turn what the database complains about into DataError."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, CommandError, OverflowError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        said = " ".join(str(cause).split())
        raise DataError(f"{place}: {said[:300]}{_advice(said, place)}") from error


@contextmanager
def began(engine: Engine, *, write: bool) -> Iterator[Connection]:
    """A transaction: committed at the end, rolled back on an error. One that writes takes its lock first."""
    with engine.connect() as connection, connection.execution_options(write=write).begin():
        yield connection


def _advice(said: str, place: str) -> str:
    if os.path.isdir(place):  # Path.is_dir raises where we may not look
        return "; this is a folder, a library is a file"
    advice = {
        "unable to open": "its folder must exist, and this user be allowed to write there",
        "readonly": "this user must be allowed to write the file and its folder",
        "not a database": "give another file, or restore this one",
        "malformed": "restore it from an export or a backup",
        "locked": "another program holds it; try again when that has finished",
        "lock timeout": "another program holds it; try again when that has finished",
    }
    return next((f"; {what}" for key, what in advice.items() if key in said), "")


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": WAIT_SECONDS})

    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 would begin late and leave CREATE TABLE outside
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    def begun(connection: Connection) -> None:
        # a reader that turned writer could not wait for the lock, so writers take it at once
        write = connection.get_execution_options().get("write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    return engine


def _postgres(url: URL) -> Engine:
    bounds = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_SECONDS}
    try:
        # READ COMMITTED: who has waited for the lock sees what its last holder wrote
        engine = create_engine(url, connect_args=bounds, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except ImportError as error:
        raise ConfigError(
            f"PostgreSQL needs psycopg ({error}); install it: pip install 'jeanie[postgres]'"
        ) from None

    def begun(connection: Connection) -> None:
        if connection.get_execution_options().get("write"):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")

    event.listen(engine, "begin", begun)
    return engine


def _prepare(engine: Engine) -> None:
    """Bring the tables to this version. Whoever comes first does it, all others wait and find it done."""
    config = Config()
    config.set_main_option("script_location", "jeanie.recogniser:migrations")
    with _ONE_AT_A_TIME:
        script = ScriptDirectory.from_config(config)
        with began(engine, write=False) as connection:
            done = _is_current(connection, script)
        if engine.dialect.name == "sqlite":
            _log_ahead(engine)
        if done:
            return
        with began(engine, write=True) as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")  # looks again, and does nothing where it was done meanwhile


def _is_current(connection: Connection, script: ScriptDirectory) -> bool:
    """Whether the tables are those of this version; DataError where they are no library's, or a newer one's."""
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE not in tables:
        if tables:
            raise DataError(
                f"{connection.engine.url.database}: a database that holds {', '.join(sorted(tables)[:5])}, "
                "but no library; give a new file or an empty database"
            )
        return False
    current = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    versions = current.get_current_heads()
    known = {migration.revision for migration in script.walk_revisions()}
    if not set(versions) <= known:
        raise DataError(
            f"{connection.engine.url.database}: a library of version {', '.join(versions)[:40]}, this jeanie "
            f"knows up to {script.get_current_head()}; install a newer jeanie"
        )
    return versions == (script.get_current_head(),)


def _log_ahead(engine: Engine) -> None:
    """Switch to a write-ahead log, which readers and a writer share; the file remembers it.

    SQLite does not wait by itself when several processes switch a new file at once.
    """
    last = time.monotonic() + WAIT_SECONDS
    with closing(engine.raw_connection()) as connection:
        while True:
            try:
                connection.cursor().execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                    raise
                time.sleep(0.02 + 0.03 * random.random())
