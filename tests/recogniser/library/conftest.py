"""A library in each kind of database, and the path of a library file."""

import pytest

from jeanie.recogniser.library.library import Library


@pytest.fixture
def library(place):
    with Library(place) as library:
        yield library


@pytest.fixture
def file(tmp_path):
    return tmp_path / "library.db"
