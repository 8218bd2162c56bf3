"""Models, recognisers, and places for libraries: SQLite files, and schemas of a real PostgreSQL server."""

import multiprocessing

import pytest
import torch
from studio import ACTIONS, clip

from jeanie.fewshot import FewShotModel
from jeanie.recogniser import Recogniser, background


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


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return FewShotModel.load()


@pytest.fixture(scope="module")
def other_model():
    """The shipped model with one weight changed."""
    other = FewShotModel.load()
    with torch.no_grad():
        next(other.parameters()).view(-1)[0] += 0.01
    return other


@pytest.fixture
def small_background_sets(monkeypatch):
    """Use few generated motions, for speed."""
    monkeypatch.setattr(background, "GENERATED_MOTIONS", 12)


@pytest.fixture
def recogniser(model):
    with Recogniser.load(model=model) as made:
        yield made


@pytest.fixture
def taught(recogniser):
    for action in ACTIONS:
        recogniser.enrol(action, [clip(action, 0), clip(action, 1)])
    return recogniser
