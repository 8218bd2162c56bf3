"""Trainings use one thread, so that results are the same to the bit."""

import pytest

from jeanie.compute.processes import use_one_thread


@pytest.fixture(autouse=True)
def one_thread():
    with use_one_thread():
        yield
