"""A service on a library of its own."""

import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from jeanie.fewshot import FewShotModel
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.app import make_app
from jeanie.serve.settings import ServeConfig, ServeLimits

sys.path.insert(0, str(Path(__file__).parent))  # for what is beside this file

from chromium import browser, camera_file, page, service

__all__ = ["browser", "camera_file", "page", "service"]  # fixtures


@pytest.fixture(scope="session")
def shipped_model():
    return FewShotModel.load()


@pytest.fixture(scope="module")
def client(shipped_model, tmp_path_factory):
    """A client of a service with an empty library. Tests enrol under labels of their own."""
    place = tmp_path_factory.mktemp("serve") / "library.db"
    limits = ServeLimits(
        requests_per_second=1e6, burst=10**6, json_bytes=2**21, upload_bytes=2**20, sessions=3
    )
    with Recogniser.load(place, model=shipped_model) as recogniser:
        app = make_app(recogniser, ServeConfig(limits=limits))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            yield client
