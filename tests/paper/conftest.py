"""Databases and processes for tables and searches."""

import multiprocessing

import pytest
from tiny_sbu import write_sbu


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of data sets with a small SBU."""
    return write_sbu(tmp_path_factory.mktemp("data"))


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request, tmp_path):
    """A place where no study is yet, in each kind of database."""
    return str(tmp_path / "study.db") if request.param == "sqlite" else request.getfixturevalue("schema")


@pytest.fixture(scope="session")
def processes():
    """Starts real processes from one that has imported us already, since torch takes seconds to import."""
    context = multiprocessing.get_context("forkserver")
    libraries = [
        "jeanie.paper.tuning",
        "jeanie.paper.tables",
        "optuna",
        "torch.utils.tensorboard",
    ]
    context.set_forkserver_preload(libraries)
    return context
