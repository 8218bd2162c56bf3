"""Connections of clients that neither send nor read are closed."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import uvicorn
from fastapi import HTTPException

from jeanie.serve.connections import LimitedProtocol, drop_unread
from jeanie.serve.metrics import Metrics
from jeanie.serve.middleware import Protection
from jeanie.serve.settings import ServeConfig, ServeLimits

pytestmark = pytest.mark.plain  # uvicorn passes its own types
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"


async def answer_at_once(scope, receive, send):
    """Stand for the service: answer without reading the body."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def serve(seconds):
    """Yield the address of a server with this limit."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        http = partial(LimitedProtocol, head_seconds=seconds)
        config = uvicorn.Config(answer_at_once, http=http, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def receive_until_closed(address, data):
    """Send data and return what the server sends until it closes the connection."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(data)
        received = b""
        try:
            while part := connection.recv(4096):
                received += part
        except ConnectionResetError:
            pass
        return received


def test_headers_and_bodies_that_never_end_close_the_connection():
    with serve(0.05) as address:
        assert receive_until_closed(address, b"") == b""
        assert receive_until_closed(address, HEAD) == b""
        for body in (
            b"",
            b"abc",
            b"abcdefghij" + HEAD,
        ):  # after an answer: the rest of a body, the next headers
            assert receive_until_closed(address, HEAD + b"\r\n" + body).count(b"200 OK") == 1


def test_a_connection_in_use_stays_open():
    request = HEAD + b"\r\nabcdefghij"
    with serve(60) as address, socket.create_connection(address, timeout=60) as connection:
        for _ in range(3):
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b"\r\n\r\nok"):
                received = connection.recv(4096)
                assert received, "the connection was closed"  # otherwise the loop would not end
                answer += received


def test_a_body_that_comes_byte_by_byte_is_refused():
    async def read_body(scope, receive, send):
        while (await receive())["more_body"]:
            pass

    async def send_byte():
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b"x", "more_body": True}

    config = ServeConfig(limits=ServeLimits(body_seconds=0.05, body_rate=1e6))
    service = SimpleNamespace(config=config, metrics=Metrics())
    protected = Protection(read_body, service, SimpleNamespace(check_origin=print, is_open=lambda path: True))
    scope = {"type": "http", "method": "POST", "path": "/login", "headers": []}
    with pytest.raises(HTTPException) as refused:
        asyncio.run(protected(scope, send_byte, None))
    assert refused.value.status_code == 408


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has this option")
def test_accepted_connections_have_the_limit_on_unread_answers():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        drop_unread(listener, 7)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000
