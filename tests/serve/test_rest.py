"""The REST interface: it stores and answers as the recogniser does, and its errors are those of the command line."""

import io
import json
import zipfile

import numpy as np
import pytest
from fastapi.testclient import TestClient
from movements import open_clip
from takes import make_take, to_frames

from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.app import make_app

API = "/api/v1"


def enrol(client, label, take, **options):
    return client.post(f"{API}/examples", json={"label": label, "frames": take, **options})


def forget(client, label):
    return client.delete(f"{API}/actions", params={"label": label})


@pytest.fixture(scope="module")
def taught_client(client):
    """The client after two actions were taught_client."""
    for action in ("squat", "bow"):
        assert enrol(client, action, make_take(action)).status_code == 201
    yield client
    for action in ("squat", "bow"):
        forget(client, action)


def test_an_enrolled_action_is_recognised_as_by_the_recogniser(taught_client, shipped_model):
    answer = taught_client.post(f"{API}/recognise", json={"frames": make_take("bow", subject=1)}).json()
    with Recogniser.load(model=shipped_model) as recogniser:
        for action in ("squat", "bow"):
            recogniser.enrol(action, open_clip(action))
        expected = recogniser.recognise(open_clip("bow", 1))
    assert answer["label"] == expected.label == "bow"
    assert answer["confidence"] == pytest.approx(expected.confidence, abs=1e-3)
    assert answer["scores"] == pytest.approx(dict(expected.scores), rel=1e-3)


def test_the_threshold_of_a_request_decides_about_unknown(taught_client):
    take = make_take("bow", subject=1)
    sure = taught_client.post(f"{API}/recognise", json={"frames": take, "threshold": 0}).json()
    unsure = taught_client.post(f"{API}/recognise", json={"frames": take, "threshold": 1}).json()
    assert sure["label"] == "bow"
    assert unsure["label"] is None
    assert unsure["nearest"] == "bow"


def test_rest_at_both_ends_is_left_out(client):
    take = make_take("bow", rest=60)
    found = client.post(f"{API}/preview", json={"frames": take, "trim": True}).json()
    assert found["frames"] == len(take)
    assert 30 < found["start"] < 90
    assert len(take) - 90 < found["end"] < len(take) - 30
    whole = client.post(f"{API}/preview", json={"frames": take}).json()
    assert (whole["start"], whole["end"]) == (0, len(take))
    assert len(whole["poses"][0][0]) == 15


def test_a_take_without_movement_is_kept_whole(client):
    still = make_take("bow")[:1] * 40
    still = [{**frame, "t": number / 30} for number, frame in enumerate(still)]
    found = client.post(f"{API}/preview", json={"frames": still, "trim": True}).json()
    assert (found["start"], found["end"]) == (0, 40)


def test_the_same_recording_is_enrolled_once(client):
    first = enrol(client, "once", make_take()).json()
    second = enrol(client, "once", make_take()).json()
    assert (first["new"], second["new"], second["examples"]) == (True, False, 1)
    assert forget(client, "once").json() == {"removed": 1}


def test_a_label_may_contain_any_characters(client):
    label = "left/right ü ✓ %2F?#"
    number = enrol(client, label, make_take()).json()["example"]
    assert label in [one["label"] for one in client.get(f"{API}/actions").json()["actions"]]
    assert client.get(f"{API}/examples", params={"label": label}).json()["examples"] == [number]
    renamed = client.patch(f"{API}/actions", params={"label": label}, json={"label": ".."})
    assert renamed.json() == {"label": "..", "examples": 1, "negative": 0}
    assert forget(client, "..").status_code == 200


def test_an_action_is_deleted_with_its_last_example(client):
    number = enrol(client, "short", make_take()).json()["example"]
    example = client.get(f"{API}/examples/{number}").json()
    assert example["label"] == "short"
    assert len(example["poses"]) > 10
    assert client.delete(f"{API}/examples/{number}").status_code == 200
    assert client.get(f"{API}/examples/{number}").status_code == 404
    assert client.get(f"{API}/examples", params={"label": "short"}).status_code == 404


def test_renaming_to_an_existing_action_needs_merge(taught_client):
    enrol(taught_client, "other", make_take("clap"))
    refused = taught_client.patch(f"{API}/actions", params={"label": "other"}, json={"label": "bow"})
    assert refused.status_code == 409
    assert "exists already" in refused.json()["detail"]
    enrol(taught_client, "new bow", make_take("bow", subject=2))
    merged = taught_client.patch(
        f"{API}/actions", params={"label": "new bow"}, json={"label": "other", "merge": True}
    )
    assert merged.json()["examples"] == 2
    forget(taught_client, "other")


def test_a_negative_example_changes_the_answer(taught_client):
    take = make_take("sit_down")
    added = enrol(taught_client, "squat", take, negative=True)
    assert added.status_code == 201
    assert taught_client.post(f"{API}/recognise", json={"frames": take}).json()["label"] != "squat"
    listed = taught_client.get(f"{API}/examples", params={"label": "squat"}).json()
    assert len(listed["negative"]) == 1
    taught_client.delete(f"{API}/examples/{listed['negative'][0]}")


def test_a_negative_example_needs_its_action(client):
    refused = enrol(client, "nobody", make_take(), negative=True)
    assert refused.status_code == 404
    assert refused.json()["detail"].startswith(
        "the library: no action 'nobody'"
    )  # its place is not for clients


def test_an_explanation_has_data_and_a_page(taught_client):
    found = taught_client.post(f"{API}/explain", json={"frames": make_take("bow", subject=1)}).json()
    assert found["answer"]["label"] == "bow"
    assert "bow" in found["explanation"]["text"] or found["explanation"]["likeness"]
    page = taught_client.get(found["page"])
    assert page.headers["content-type"].startswith("text/html")
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
    assert taught_client.get(f"{API}/explanations/missing").status_code == 404


@pytest.mark.plain  # FastAPI passes an UploadFile of Starlette
def test_the_library_is_exported_and_imported(taught_client):
    export = taught_client.get(f"{API}/library")
    assert zipfile.is_zipfile(io.BytesIO(export.content))
    forget(taught_client, "bow")
    imported = taught_client.post(f"{API}/library", files={"file": ("x.jeanie", export.content)})
    assert imported.json()["new"] == 1
    assert "bow" in [one["label"] for one in taught_client.get(f"{API}/actions").json()["actions"]]
    damaged = taught_client.post(f"{API}/library", files={"file": ("x.jeanie", export.content[:100])})
    assert damaged.status_code == 422
    assert damaged.json()["detail"].startswith("x.jeanie: ")


@pytest.mark.plain  # FastAPI passes an UploadFile of Starlette
def test_a_file_is_enrolled_and_recognised(client, tmp_path):
    motion = open_clip("clap")
    buffer = io.BytesIO()
    np.savez(buffer, joints=motion.joints.numpy())
    form = {"label": "clapping", "layout": motion.layout.name}
    added = client.post(
        f"{API}/examples/upload", data=form, files={"file": ("../../clap.npz", buffer.getvalue())}
    )
    assert added.status_code == 201, added.text
    found = client.post(
        f"{API}/recognise/upload",
        data={"layout": motion.layout.name},
        files={"file": ("clap.npz", buffer.getvalue())},
    )
    assert found.json()["nearest"] == "clapping"
    assert found.json()["distance"] == pytest.approx(0, abs=1e-4)
    forget(client, "clapping")


@pytest.mark.plain  # FastAPI passes an UploadFile of Starlette
def test_a_layout_is_a_known_name_never_a_file(client, tmp_path):
    (tmp_path / "layout.toml").write_text("secret")
    answer = client.post(
        f"{API}/recognise/upload",
        data={"layout": str(tmp_path / "layout.toml")},
        files={"file": ("x.npz", b"PK")},
    )
    assert answer.status_code == 400
    assert "no layout" in answer.json()["detail"]
    assert "secret" not in answer.text


def test_repetitions_are_counted_and_scored_as_by_the_recogniser(taught_client, shipped_model):
    take = make_take("squat", subject=1)
    request = {"label": "squat", "frames": take}
    found = taught_client.post(f"{API}/count", json=request).json()
    scored = taught_client.post(f"{API}/score", json=request).json()
    with Recogniser.load(model=shipped_model) as recogniser:
        recogniser.enrol("squat", open_clip("squat"))
        assert found["count"] == recogniser.count("squat", open_clip("squat", 1)).count
        assert scored["score"] == pytest.approx(recogniser.score("squat", open_clip("squat", 1)).value, abs=1)
    assert taught_client.post(f"{API}/count", json={**request, "label": "none"}).status_code == 404


@pytest.mark.plain  # FastAPI passes an UploadFile of Starlette
def test_a_bad_file_gives_the_text_of_the_command_line_without_a_folder(client):
    answer = client.post(f"{API}/recognise/upload", files={"file": ("bad.bvh", b"HIERARCHY\nROOT")})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("bad.bvh")
    assert "/tmp" not in answer.text
    unknown = client.post(f"{API}/recognise/upload", files={"file": ("x.unknown", b"\0\1\2")})
    assert "unknown format" in unknown.json()["detail"]


INVALID_FRAMES = [
    [],
    [{}],
    [{"joints": []}] * 3,
    [{"t": 0, "layout": "nothing", "joints": []}] * 3,
    [{"t": number, "layout": "mediapipe33", "joints": [[0, 0]]} for number in range(3)],
    [{"t": number / 30, "layout": "mediapipe33", "joints": []} for number in range(30)],
    [  # a gap of five seconds
        {"t": number / 30 + 5 * (number > 20), "layout": "mediapipe33", "joints": [[1, 2, 3]] * 33}
        for number in range(40)
    ],
    "text",
    None,
]


@pytest.mark.parametrize("frames", INVALID_FRAMES)
@pytest.mark.parametrize("route", ["recognise", "explain", "preview", "examples"])
def test_invalid_frames_are_a_problem(client, route, frames):
    body = {"frames": frames} | ({"label": "x"} if route == "examples" else {})
    answer = client.post(f"{API}/{route}", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    assert answer.json()["detail"]


def test_a_body_is_limited_while_it_is_read(client):
    sent = 0

    def send_parts():
        nonlocal sent
        for _ in range(200):
            sent += 2**16
            yield b" " * 2**16

    answer = client.post(
        f"{API}/recognise", content=send_parts(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413
    assert "more than 2097152 bytes" in answer.json()["detail"]


@pytest.mark.plain  # FastAPI passes an UploadFile of Starlette
def test_an_upload_is_limited(client):
    answer = client.post(f"{API}/recognise/upload", files={"file": ("big.bvh", b" " * (2**20 + 1))})
    assert answer.status_code in (413, 422)
    assert "1048576 bytes" in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b'{"frames": NaN}', b"\xff\xfe", b"null", b"[]"])
def test_a_damaged_body_is_a_problem(client, body):
    answer = client.post(f"{API}/recognise", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_nothing_to_explain_says_what_to_do(shipped_model, tmp_path):
    with Recogniser.load(tmp_path / "empty.db", model=shipped_model) as recogniser:
        client = TestClient(make_app(recogniser), base_url="http://127.0.0.1")  # not started: no warm-up
        answer = client.post(f"{API}/explain", json={"frames": make_take()})
        assert answer.status_code == 400
        assert "enrol an action first" in answer.json()["detail"]
        assert client.get("/readyz").status_code == 503


def test_a_library_that_fails_is_no_fault_of_the_request(client, shipped_model, tmp_path):
    place = tmp_path / "library.db"
    with Recogniser.load(place, model=shipped_model) as recogniser:
        removed = TestClient(make_app(recogniser), base_url="http://127.0.0.1", raise_server_exceptions=False)
        assert removed.get(f"{API}/actions").status_code == 200
        place.unlink()
        for answer in (removed.get(f"{API}/actions"), enrol(removed, "lost", make_take())):
            assert answer.status_code == 503  # nothing is acknowledged that would be lost
            assert str(tmp_path) not in answer.text


def test_operations(client):
    assert client.get("/healthz").text == "ok"
    assert client.get("/readyz").text == "ready"
    assert client.request("BREW", "/healthz").status_code == 405
    metrics = client.get("/metrics").text
    assert "BREW" not in metrics  # invented methods would fill the memory
    assert 'jeanie_requests_total{method="GET",route="/healthz",status="200"}' in metrics
    assert client.get("/nothing").json()["status"] == 404
    assert client.put(f"{API}/actions").status_code == 405


def test_openapi_describes_every_route_and_its_problems(client):
    schema = client.get(f"{API}/openapi.json").json()
    assert {"/api/v1/actions", "/api/v1/examples", "/api/v1/recognise", "/api/v1/explain"} <= schema[
        "paths"
    ].keys()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], f"{method} {path}"
            problem = operation["responses"]["422"]["content"]["application/problem+json"]
            assert problem["schema"]["$ref"].endswith("/Problem")
    assert "Problem" in schema["components"]["schemas"]
    assert json.dumps(schema)


def test_frames_keep_missing_joints_missing(client):
    motion = open_clip("wave")
    take = to_frames(motion)
    for frame in take:
        frame["joints"] = [None if index % 4 == 3 else joint for index, joint in enumerate(frame["joints"])]
    assert client.post(f"{API}/preview", json={"frames": take}).status_code == 200
