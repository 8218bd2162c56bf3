"""Streams over WebSocket: the events of a stream of the recogniser, and damaged messages that do no harm."""

import json
import random
import threading
import time
from collections import Counter

import psutil
import pytest
from movements import open_clip
from starlette.websockets import WebSocketDisconnect
from takes import make_take, to_frames

from jeanie.recogniser.recogniser import Recogniser

URL = "ws://127.0.0.1/api/v1/stream"


@pytest.fixture(scope="module")
def taught_client(client):
    for action in ("kick_forward", "bow"):
        take = to_frames(open_clip(action))
        assert client.post("/api/v1/examples", json={"label": action, "frames": take}).status_code == 201
    return client


def wait_until_closed(client):
    """Wait until the service has forgotten all streams: it does so just after it has closed them."""
    end = time.monotonic() + 60
    while "jeanie_streams 0.0" not in client.get("/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.01)


def receive_until(socket, kind):
    """Return all answers up to the first of a kind; the stream ends if it never comes."""
    answers = []
    while not answers or answers[-1]["type"] != kind:
        answers.append(socket.receive_json())
    return answers


def receive_all(socket):
    """Return all answers until the service closes the stream, and the code of the close."""
    answers = []
    try:
        while True:
            answers.append(socket.receive_json())
    except WebSocketDisconnect as closed:
        return answers, closed.code


def test_events_are_those_of_the_recogniser(taught_client, shipped_model):
    take = make_take("kick_forward", subject=1, rest=45)
    with taught_client.websocket_connect(URL) as socket:
        for frame in take:
            socket.send_text(json.dumps(frame))
        socket.send_json({"end": True})
        answers, code = receive_all(socket)
    assert code == 1000
    events = [one for one in answers if one["type"] == "event"]
    acks = [one["frames"] for one in answers if one["type"] == "ack"]
    assert acks == sorted(acks)
    assert acks[-1] == len(take)
    assert len(acks) < len(take)  # one for a few frames
    with Recogniser.load(model=shipped_model) as recogniser:
        for action in ("kick_forward", "bow"):
            recogniser.enrol(action, open_clip(action))
        motion = open_clip("kick_forward", 1)
        stream = recogniser.stream(motion.layout, rate=30)
        first, last = motion.joints[:1], motion.joints[-1:]
        expected = stream.push(first.expand(45, -1, -1, -1)) + stream.push(motion.joints)
        expected += stream.push(last.expand(45, -1, -1, -1)) + stream.finish()
    assert [one["label"] for one in events] == [one.label for one in expected] == ["kick_forward"]
    assert events[0]["confidence"] == pytest.approx(expected[0].confidence, abs=1e-2)
    assert (events[0]["start_s"], events[0]["end_s"]) == pytest.approx(expected[0].seconds, abs=0.1)


def test_the_threshold_of_a_stream_decides_about_unknown(taught_client):
    with taught_client.websocket_connect(URL) as socket:
        socket.send_json({"threshold": 1})
        assert receive_until(socket, "threshold")[-1]["threshold"] == 1
        for frame in make_take("kick_forward", subject=1, rest=45):
            socket.send_json(frame)
        socket.send_json({"end": True})
        answers, _ = receive_all(socket)
    events = [one for one in answers if one["type"] == "event"]
    assert events
    assert {one["label"] for one in events} == {None}
    assert {one["nearest"] for one in events} == {"kick_forward"}


def damage(random, text):
    """Return a frame with one thing wrong, or something else entirely."""
    kind = random.randrange(9)
    if kind == 0:
        return text[: random.randrange(len(text))]
    if kind == 1:
        place = random.randrange(len(text))
        return text[:place] + chr(random.randrange(32, 0x2FFF)) + text[place + 1 :]
    if kind == 2:
        return text.replace("[", "[" * random.randrange(2, 3000), 1)
    if kind == 3:
        return json.dumps({**json.loads(text), "t": random.choice([None, "x", 1e308, -1e308, True, [], {}])})
    if kind == 4:
        return json.dumps(
            {**json.loads(text), "layout": random.choice([None, 3, "x", "ntu25", [], {"a": 1}])}
        )
    if kind == 5:
        return json.dumps(
            {"joints": random.choice([None, 3, {}, [[]], [[1e39, 1, 1]] * 33, "x" * 33, [None] * 33])}
        )
    if kind == 6:
        return json.dumps(
            {"persons": random.choice([None, 3, [None] * 9, [[[1, 2, 3]] * 33] * 3, [[]], {"a": 0}])}
        )
    if kind == 7:
        return random.choice(
            ['{"threshold": NaN}', '{"threshold": 2}', '{"threshold": true}', '{"end": 1, "x": 2}']
        )
    return random.choice(["", " ", "null", "[]", "0", '"x"', "{}", "\0", "\ud7ff", "{}{}", "1e999"])


def disorder(generator, take):
    """Return messages that are valid one by one: frames out of order, in the past, far ahead, twice; controls."""
    frames = generator.sample(take, len(take))
    frames[generator.randrange(len(frames))] = '{"threshold": 0.4}'
    shifted = json.loads(frames[0]) if frames[0].startswith('{"t":') else {}
    return [
        *frames,
        json.dumps({**shifted, "t": generator.choice([-1e11, 1e11, 0, 1e-9])}),
        frames[1],
        frames[1],
    ]


@pytest.mark.plain  # the hook checks the types of every call, which takes too long here
def test_ten_thousand_bad_messages_do_no_harm(taught_client):
    """Malformed, oversized and out-of-order messages: each stream ends in order, and memory stays bounded."""
    generator, process = random.Random(0), psutil.Process()
    take = [json.dumps(frame) for frame in make_take("bow")[:24]]
    codes, sent, problems, memory = Counter(), 0, 0, []
    while sent < 10_000:
        messages = disorder(generator, take) * 3
        for _ in range(generator.randrange(4)):
            messages.insert(generator.randrange(len(messages)), damage(generator, generator.choice(take)))
        if generator.random() < 0.1:
            messages.insert(generator.randrange(len(messages)), " " * (2**18 + generator.randrange(1, 2**18)))
        with taught_client.websocket_connect(URL) as socket:
            for message in messages:
                socket.send_text(message)
                sent += 1
            socket.send_json({"end": True})
            answers, code = receive_all(socket)
        details = [one["detail"] for one in answers if one["type"] == "problem"]
        assert all("unexpected" not in detail for detail in details)
        assert code == 1007 if details else code in (1000, 1009)
        codes[code] += 1
        problems += len(details)
        wait_until_closed(taught_client)
        memory.append(process.memory_info().rss)
    assert problems > 30
    assert codes[1009] > 3
    assert codes[1000] > 3
    assert memory[-1] - memory[len(memory) // 4] < 2**26
    assert threading.active_count() < 60
    assert taught_client.get("/readyz").status_code == 200


def test_bytes_and_long_messages_close_the_stream(taught_client):
    with taught_client.websocket_connect(URL) as socket:
        socket.send_bytes(b"\0" * 100)
        assert receive_all(socket)[1] == 1007
    with taught_client.websocket_connect(URL) as socket:
        socket.send_text(" " * (2**18 + 1))
        assert receive_all(socket)[1] == 1009


def test_the_number_of_streams_is_limited(taught_client):
    wait_until_closed(taught_client)
    with (
        taught_client.websocket_connect(URL) as first,
        taught_client.websocket_connect(URL) as second,
        taught_client.websocket_connect(URL) as third,
        taught_client.websocket_connect(URL) as fourth,
    ):
        assert receive_all(fourth)[1] == 1013
        third.send_json(make_take("bow")[0])
        assert third.receive_json() == {"type": "ack", "frames": 1}
        for socket in (first, second, third):
            socket.send_json({"end": True})
            assert receive_all(socket)[1] == 1000


def test_a_page_of_another_site_cannot_open_a_stream(taught_client):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:81"):
        with (
            pytest.raises(WebSocketDisconnect),
            taught_client.websocket_connect(URL, headers={"origin": origin}),
        ):
            pass
