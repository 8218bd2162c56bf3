"""One user's actions, examples, events, calibration and explanations are never visible to another, on every route."""

import io
import json
import zipfile

import pytest
from fastapi.testclient import TestClient
from movements import open_clip
from starlette.websockets import WebSocketDisconnect
from takes import make_take

from jeanie.recogniser.library.users import Users
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.app import make_app
from jeanie.serve.settings import ServeConfig, ServeLimits

API = "/api/v1"
STREAM = "ws://localhost/api/v1/stream"
SECRET = "secret wave of Ann"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def people(request, shipped_model, tmp_path_factory):
    """Clients of two users of one service; Ann has taught an action, Bob nothing."""
    if request.param == "sqlite":
        place = tmp_path_factory.mktemp("owners") / "library.db"
    else:
        place = make_schema(request.getfixturevalue("postgres_server"))
    limits = ServeLimits(requests_per_second=1e6, burst=10**6, check_seconds=0.05)
    with Recogniser.load(place, model=shipped_model) as recogniser:
        users = Users(recogniser.library)
        app = make_app(recogniser, ServeConfig(limits=limits))
        tokens = {name: users.add(name) for name in ("ann", "bob")}
        people = {
            name: TestClient(app, base_url="http://localhost", headers={"authorization": f"Bearer {token}"})
            for name, token in tokens.items()
        }
        app.state.service.uploads.read = lambda path, form, layout: open_clip("wave", 1)
        yield people["ann"], people["bob"], users


def make_schema(server):
    import psycopg

    with psycopg.connect(server.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA owners")
    return f"{server}&options=-csearch_path%3Downers"


@pytest.fixture(scope="module")
def facts(people):
    """What Ann has: an action, its example, a calibration recording and an explanation."""
    ann, _, _ = people
    added = ann.post(f"{API}/examples", json={"label": SECRET, "frames": make_take("wave")}).json()
    again = ann.post(f"{API}/calibration", json={"frames": make_take("clap")})
    assert again.json() == {"recordings": 1}
    page = ann.post(f"{API}/explain", json={"frames": make_take("wave", 1)}).json()["page"]
    return {"example": added["example"], "page": page, "frames": make_take("wave", 1)}


def upload(client, path, frames, **form):
    return client.post(f"{API}/{path}", data=form, files={"file": ("take.json", b"a recording")})


def check_recognise(answer):
    assert answer.json()["nearest"] is None
    assert answer.json()["scores"] == {}


def check_missing(answer):
    assert answer.status_code == 404


def check_nothing(answer):
    assert answer.status_code == 400
    assert "enrol an action first" in answer.json()["detail"]


def check_export(answer):
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert json.loads(archive.read("library.json"))["examples"] == 0


def check_same(*values):
    return lambda answer: answer.json() == dict(values)


# Every route of the service: how Bob calls it, and what he must get. A new route needs a row here.
CHECKS = {
    "get /status": (
        lambda bob, facts: bob.get(f"{API}/status"),
        lambda answer: answer.json()["user"] == "bob",
    ),
    "get /actions": (lambda bob, facts: bob.get(f"{API}/actions"), check_same(("actions", []))),
    "patch /actions": (
        lambda bob, facts: bob.patch(f"{API}/actions", params={"label": SECRET}, json={"label": "x"}),
        check_missing,
    ),
    "delete /actions": (
        lambda bob, facts: bob.delete(f"{API}/actions", params={"label": SECRET}),
        check_missing,
    ),
    "get /library": (lambda bob, facts: bob.get(f"{API}/library"), check_export),
    "post /library": (
        lambda bob, facts: bob.post(
            f"{API}/library", files={"file": ("x", bob.get(f"{API}/library").content)}
        ),
        check_same(("new", 0), ("already", 0)),
    ),
    "get /examples": (
        lambda bob, facts: bob.get(f"{API}/examples", params={"label": SECRET}),
        check_missing,
    ),
    "post /examples": (
        lambda bob, facts: bob.post(
            f"{API}/examples", json={"label": SECRET, "frames": facts["frames"], "negative": True}
        ),
        check_missing,
    ),
    "post /examples/upload": (
        lambda bob, facts: upload(bob, "examples/upload", facts["frames"], label=SECRET, negative="true"),
        check_missing,
    ),
    "get /examples/{example}": (
        lambda bob, facts: bob.get(f"{API}/examples/{facts['example']}"),
        check_missing,
    ),
    "delete /examples/{example}": (
        lambda bob, facts: bob.delete(f"{API}/examples/{facts['example']}"),
        check_missing,
    ),
    "get /calibration": (lambda bob, facts: bob.get(f"{API}/calibration"), check_same(("recordings", 0))),
    "post /calibration": (
        lambda bob, facts: bob.post(f"{API}/calibration", json={"frames": facts["frames"], "replace": True}),
        check_same(("recordings", 1)),
    ),
    "post /preview": (  # depends on the request alone
        lambda bob, facts: bob.post(f"{API}/preview", json={"frames": facts["frames"]}),
        lambda answer: answer.status_code == 200,
    ),
    "post /recognise": (
        lambda bob, facts: bob.post(f"{API}/recognise", json={"frames": facts["frames"]}),
        check_recognise,
    ),
    "post /recognise/upload": (
        lambda bob, facts: upload(bob, "recognise/upload", facts["frames"]),
        check_recognise,
    ),
    "post /explain": (
        lambda bob, facts: bob.post(f"{API}/explain", json={"frames": facts["frames"]}),
        check_nothing,
    ),
    "post /explain/upload": (
        lambda bob, facts: upload(bob, "explain/upload", facts["frames"]),
        check_nothing,
    ),
    "get /explanations/{page}": (lambda bob, facts: bob.get(facts["page"]), check_missing),
    "post /count": (
        lambda bob, facts: bob.post(f"{API}/count", json={"label": SECRET, "frames": facts["frames"]}),
        check_missing,
    ),
    "post /count/upload": (
        lambda bob, facts: upload(bob, "count/upload", facts["frames"], label=SECRET),
        check_missing,
    ),
    "post /score": (
        lambda bob, facts: bob.post(f"{API}/score", json={"label": SECRET, "frames": facts["frames"]}),
        check_missing,
    ),
    "post /score/upload": (
        lambda bob, facts: upload(bob, "score/upload", facts["frames"], label=SECRET),
        check_missing,
    ),
    "post /find": (  # the archive belongs to all users; this service has none
        lambda bob, facts: bob.post(f"{API}/find", json={"frames": facts["frames"]}),
        check_missing,
    ),
    "post /find/upload": (lambda bob, facts: upload(bob, "find/upload", facts["frames"]), check_missing),
}
STREAMS = {"/api/v1/stream"}


def list_routes(client):
    paths = client.get(f"{API}/openapi.json").json()["paths"]
    return {f"{method} {path.removeprefix(API)}" for path, methods in paths.items() for method in methods}


def test_every_route_has_a_check_of_its_owner(people):
    ann, _, _ = people
    assert list_routes(ann) == set(CHECKS)
    found = {route.path for route in ann.app.routes if type(route).__name__ == "APIWebSocketRoute"}
    for router in (getattr(route, "original_router", None) for route in ann.app.routes):
        found |= {one.path for one in getattr(router, "routes", ()) if "WebSocket" in type(one).__name__}
    assert found == STREAMS


@pytest.mark.plain  # FastAPI passes an UploadFile of Starlette
@pytest.mark.parametrize("route", CHECKS)
def test_a_route_shows_nothing_of_another_user(people, facts, route):
    ann, bob, _ = people
    call, check = CHECKS[route]
    answer = call(bob, facts)
    assert answer.status_code != 401
    assert SECRET not in answer.text.replace(f"no action {SECRET!r}", "")
    assert check(answer) is not False, answer.text
    counts = ann.get(f"{API}/actions").json()["actions"]
    assert counts == [{"label": SECRET, "examples": 1, "negative": 0}]
    assert ann.get(f"{API}/calibration").json() == {"recordings": 1}
    assert ann.get(facts["page"]).status_code == 200


def receive_events(client, frames):
    with client.websocket_connect(STREAM) as socket:
        for frame in frames:
            socket.send_json(frame)
        socket.send_json({"end": True})
        events = []
        try:
            while True:
                answer = socket.receive_json()
                events += [answer] if answer["type"] == "event" else []
        except WebSocketDisconnect:
            return events


def test_a_stream_recognises_only_the_own_actions(people, facts):
    ann, bob, _ = people
    frames = make_take("wave", 1, rest=45)
    assert [one["label"] for one in receive_events(ann, frames)] == [SECRET]
    assert {one["label"] for one in receive_events(bob, frames)} == {None}


def test_without_a_token_nothing_is_visible(people, facts):
    ann, _, _ = people
    stranger = TestClient(ann.app, base_url="http://localhost")
    for method, path in (route.split() for route in CHECKS):
        address = API + path.format(example=facts["example"], page=facts["page"].rsplit("/", 1)[1])
        assert stranger.request(method, address).status_code == 401
    with pytest.raises(WebSocketDisconnect), stranger.websocket_connect(STREAM):
        pass
    assert stranger.get("/metrics").status_code == 401
    assert ann.get("/metrics").status_code == 403  # it tells about all users


def test_a_cookie_and_a_stream_end_with_the_token(people):
    ann, _, users = people
    token = users.add("carla")
    carla = TestClient(ann.app, base_url="http://localhost", follow_redirects=False)
    assert carla.post("/login", data={"token": token}).status_code == 303
    assert carla.get(f"{API}/status").json()["user"] == "carla"
    forged = carla.cookies["jeanie_session"].split(".")
    other = users.find_by_token(ann.headers["authorization"].removeprefix("Bearer ")).token_id
    stranger = TestClient(ann.app, base_url="http://localhost")
    stranger.cookies.set("jeanie_session", ".".join([forged[0], other, forged[2]]))
    assert stranger.get(f"{API}/status").status_code == 401
    with carla.websocket_connect(STREAM) as socket:
        users.revoke("carla")
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == 1008
    assert carla.get(f"{API}/status").status_code == 401
