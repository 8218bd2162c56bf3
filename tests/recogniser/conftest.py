"""Where libraries of the tests live: files of SQLite, and schemas of a real PostgreSQL server."""

import multiprocessing

import pytest
from postgres import schema, server

__all__ = ["place", "processes", "schema", "server"]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """A place where no library is yet, in each kind of database."""
    return tmp_path / "library.db" if request.param == "sqlite" else request.getfixturevalue("schema")


@pytest.fixture(scope="session")
def processes():
    """Starts real processes from one that has imported us already, since torch takes seconds to import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jeanie.recogniser.library"])
    return context
