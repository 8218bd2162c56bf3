"""Shared set-up of the tests."""

import importlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for oracles

settings.register_profile("jeanie", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.load_profile("jeanie")


@pytest.fixture(scope="module")
def script(request):
    """The script of the folder benchmarks that a module of tests names as its SCRIPT."""
    folder = str(Path(__file__).resolve().parents[1] / "benchmarks")
    sys.path.insert(0, folder)  # as where it is run
    try:
        return importlib.import_module(request.module.SCRIPT)
    finally:
        sys.path.remove(folder)
