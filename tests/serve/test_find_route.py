"""The archive of a service is searched as by ``jeanie find``, within limits."""

import pytest
from fastapi.testclient import TestClient
from movements import open_clip
from takes import make_take

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.search.find import find
from jeanie.serve.app import make_app
from jeanie.serve.settings import ServeConfig, ServeLimits


@pytest.fixture(scope="module")
def archive():
    return open_synthetic(subjects=1, takes=1, actions=["wave", "bow"], noise=0.0, missing=0.0)


@pytest.fixture(scope="module")
def service_with_archive(shipped_model, archive, tmp_path_factory):
    with Recogniser.load(model=shipped_model) as recogniser:
        limits = ServeLimits(requests_per_second=1e6, burst=10**6)
        cache = tmp_path_factory.mktemp("cache")
        app = make_app(recogniser, ServeConfig(limits=limits), archive=archive, cache=cache)
        yield app.state.service, TestClient(app, base_url="http://localhost")


def test_hits_are_those_of_the_search(service_with_archive, shipped_model, archive):
    _, client = service_with_archive
    request = {"frames": make_take("bow"), "k": 1}
    found = client.post("/api/v1/find", json=request).json()
    example = open_clip("bow")
    expected = find(shipped_model, example, archive, 1)
    assert [one["file"] for one in found["results"]] == [match.name for match in expected]
    assert "bow" in found["results"][0]["file"]
    assert 0 < found["results"][0]["confidence"] <= 1
    assert found["windows"] == expected.windows


@pytest.mark.parametrize("k", [0, 101, "x"])
def test_the_number_of_hits_is_limited(service_with_archive, k):
    _, client = service_with_archive
    assert client.post("/api/v1/find", json={"frames": make_take("bow"), "k": k}).status_code == 422


def test_a_search_that_takes_too_long_says_to_try_again(service_with_archive, monkeypatch):
    service, client = service_with_archive
    limits = service.config.limits.model_copy(update={"search_seconds": 1e-9})
    monkeypatch.setattr(service, "config", service.config.model_copy(update={"limits": limits}))
    monkeypatch.setattr(service, "cache", None)
    answer = client.post("/api/v1/find", json={"frames": make_take("bow")})
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert "try again" in answer.json()["detail"]


def test_without_an_archive_the_answer_says_how_to_give_one(client):
    answer = client.post("/api/v1/find", json={"frames": make_take("bow")})
    assert answer.status_code == 404
    assert "--archive" in answer.json()["detail"]
