"""Places for the libraries of the tests: SQLite files, and schemas of a real PostgreSQL server."""

import multiprocessing

import pytest
from postgres import schema, server

__all__ = ["place", "processes", "schema", "server"]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Place for a new library, for each kind of database."""
    return tmp_path / "library.db" if request.param == "sqlite" else request.getfixturevalue("schema")


@pytest.fixture(scope="session")
def processes():
    """Context that starts processes from a server which has already imported jeanie: importing torch is slow."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jeanie.recogniser.library.library"])
    return context
