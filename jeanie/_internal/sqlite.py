"""Settings of SQLite databases that several processes share."""

import random
import sqlite3
import time
from typing import Any

__all__ = ["enable_wal"]


def enable_wal(connection: Any, wait_seconds: float) -> None:
    """Switch a database file to a write-ahead log, so that readers do not block the writer; the file keeps it.

    SQLite does not wait if several processes switch a new file at the same time, so a busy file is retried.

    Args:
        connection: An open connection of ``sqlite3``, or one that wraps it.
        wait_seconds: Time after which a busy file is an error.

    Raises:
        sqlite3.OperationalError: The file is still busy after ``wait_seconds``, or cannot be switched.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02 + 0.03 * random.random())
