"""Limits while data is read: lying headers, slow clients, uploads that use up time or memory; TLS and shutdown."""

import datetime
import ipaddress
import json
import socket
import ssl
import threading
import time
from contextlib import suppress

import httpx2
import pytest
from fastapi import HTTPException
from running import run_service
from takes import make_take
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from jeanie.errors import DataError
from jeanie.recogniser.library.library import Library
from jeanie.serve import uploads
from jeanie.serve.settings import ServeLimits

pytestmark = pytest.mark.processes
PATIENCE = 240  # seconds; a busy machine is slow


def make_certificate(folder):
    """Write a certificate for 127.0.0.1, signed by itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jeanie test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(certificate.public_bytes(encoding))
    (folder / "key.pem").write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service over HTTPS with a token; it is stopped by the last test."""
    folder = tmp_path_factory.mktemp("limits")
    certificate, key = make_certificate(folder)
    (folder / "token").write_text("0123456789abcdef0123")
    options = ["--certificate", certificate, "--key", key, "--token-file", folder / "token"]
    with run_service(folder / "library.db", *options) as process:
        process.place = folder / "library.db"
        process.context = ssl.create_default_context(cafile=certificate)
        process.headers = {"authorization": "Bearer 0123456789abcdef0123"}
        process.address = process.url.removeprefix("https://").rstrip("/")
        yield process


def open_client(service):
    return httpx2.Client(
        base_url=service.url, headers=service.headers, verify=service.context, timeout=PATIENCE
    )


def open_stream(service, **headers):
    address = service.url.replace("https:", "wss:") + "api/v1/stream"
    return connect(address, ssl=service.context, additional_headers=service.headers | headers, max_queue=None)


def open_socket(service):
    """Open a plain connection over TLS, to send what no client library would send."""
    host, port = service.address.split(":")
    return service.context.wrap_socket(
        socket.create_connection((host, int(port)), timeout=PATIENCE), server_hostname=host
    )


def test_the_service_answers_over_tls_only(service):
    assert service.url.startswith("https://")
    with open_client(service) as client:
        assert client.get("readyz", params={"token": "0123456789abcdef0123"}).text == "ready"
    with pytest.raises(httpx2.TransportError):
        httpx2.get(service.url.replace("https:", "http:") + "healthz", timeout=PATIENCE)
    with pytest.raises(httpx2.TransportError):  # the certificate is verified
        httpx2.get(service.url + "healthz", timeout=PATIENCE)


def test_the_cookie_of_the_login_is_for_this_site_over_https_only(service):
    with open_client(service) as client:
        answer = client.post("login", data={"token": "0123456789abcdef0123"})
        cookie = answer.headers["set-cookie"].lower()
        assert {"httponly", "secure", "samesite=strict", "path=/"} <= set(cookie.split("; "))
        assert "domain" not in cookie
        with httpx2.Client(base_url=service.url, verify=service.context, timeout=PATIENCE) as other:
            other.cookies.update(client.cookies)
            assert other.get("api/v1/actions").status_code == 200


@pytest.mark.parametrize(
    "changed", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}]
)
def test_another_host_or_origin_gets_neither_rest_nor_a_stream(service, changed):
    with open_client(service) as client:
        assert client.post("api/v1/recognise", headers=changed, json={}).status_code in (403, 421)
    if "Origin" in changed:
        with pytest.raises(InvalidStatus), open_stream(service, **changed):
            pass
        return
    with open_socket(service) as raw:
        raw.sendall(
            b"GET /api/v1/stream HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            b"Authorization: Bearer 0123456789abcdef0123\r\n\r\n"
        )
        assert b" 403 " in raw.recv(4096).split(b"\r\n")[0]


def send_raw(service, head, parts):
    """Send a request with headers as given; return the status of the answer, None if the connection was cut."""
    with open_socket(service) as raw:
        raw.sendall(head.encode())
        try:
            for part in parts:
                raw.sendall(part)
        except OSError:
            pass  # the service has answered and closed
        try:
            answer = raw.recv(4096)
        except OSError:
            return None
    return int(answer.split()[1]) if answer else None


@pytest.mark.parametrize(
    "length", ["Content-Length: 10\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked"]
)
def test_a_chunked_body_is_limited_whatever_its_headers_say(service, length):
    head = (
        f"POST /api/v1/recognise HTTP/1.1\r\nHost: {service.address}\r\n{length}\r\n"
        "Authorization: Bearer 0123456789abcdef0123\r\nContent-Type: application/json\r\n\r\n"
    )
    chunk = b"10000\r\n" + b" " * 2**16 + b"\r\n"
    parts = [chunk] * (2 * ServeLimits().json_bytes // 2**16)
    assert send_raw(service, head, parts) in (400, 413, None)  # None: both headers are an attack, and end it
    with open_client(service) as client:
        assert client.get("healthz").text == "ok"


def test_a_client_that_does_not_read_is_dropped(service):
    """Such a client sends messages, but leaves the answers in its socket. Long answers fill the buffers soon."""
    label = "\N{SNOWMAN}" * 300  # not enrolled; the answer repeats it in escapes
    payload = json.dumps({"count": label}, ensure_ascii=False).encode()
    message = bytes([0x81, 0xFE]) + len(payload).to_bytes(2, "big") + bytes(4) + payload  # the mask is zero
    end, rest = time.monotonic() + PATIENCE, b""
    is_open = True
    with open_client(service) as client, open_socket(service) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.sendall(
            f"GET /api/v1/stream HTTP/1.1\r\nHost: {service.address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            "Authorization: Bearer 0123456789abcdef0123\r\n\r\n".encode()
        )
        raw.settimeout(1)
        # by the limit on waiting answers, or by unanswered pings if the buffers of the system fill slowly
        while is_open and 'jeanie_dropped_streams_total{reason="1008"}' not in client.get("metrics").text:
            assert time.monotonic() < end, "still there"
            try:
                for _ in range(500):
                    rest = rest or message
                    rest = rest[raw.send(rest) :]  # a message that was sent in part is continued
            except TimeoutError:  # the service no longer reads
                time.sleep(0.1)
            except OSError:
                is_open = False
        assert client.get("healthz").text == "ok"


def read_for_ever(path, form, layout, memory, seconds):
    """Stand for a reader that computes for ever."""
    uploads.limit_process(memory, seconds)
    while True:
        pass


def wait_for_ever(path, form, layout, memory, seconds):
    """Stand for a reader that waits for ever; it uses no processor time."""
    time.sleep(10 * PATIENCE)


def read_too_much(path, form, layout, memory, seconds):
    """Stand for a reader that needs more memory than allowed."""
    uploads.limit_process(memory, seconds)
    try:
        return [bytes(2**24) for _ in range(10_000)]
    except MemoryError:
        return "DataError", f"{path.name}: too large"


def test_uploads_beyond_the_limit_are_refused(tmp_path, monkeypatch):
    reader = uploads.UploadReader(ServeLimits(uploads=1))

    def read_another(path, form, layout):
        with pytest.raises(HTTPException, match="503"):
            reader.read(path, form, layout)
        return "DataError", "read"

    monkeypatch.setattr(reader, "_read_in_worker", read_another)
    for _ in range(2):
        with pytest.raises(DataError, match="read"):
            reader.read(tmp_path / "a.bvh", None, None)


@pytest.mark.parametrize(
    ("stand_in", "wait_factor", "words"),
    [
        (read_for_ever, PATIENCE, "too much time"),  # processor time decides, however busy the machine is
        (wait_for_ever, 1, "too much time"),
        (read_too_much, PATIENCE, "too large"),
    ],
)
def test_a_worker_that_exceeds_its_limits_is_ended_and_replaced(
    stand_in, wait_factor, words, tmp_path, monkeypatch
):
    reader = uploads.UploadReader(ServeLimits(parse_seconds=1, parse_bytes=2**31))
    path = tmp_path / "bad.bvh"
    path.write_bytes(b"HIERARCHY")
    monkeypatch.setattr(uploads, "_WAIT_FACTOR", wait_factor)
    start = time.monotonic()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(uploads, "_read", stand_in)
            with pytest.raises(DataError, match=words):
                reader.read(path, None, None)
        assert time.monotonic() - start < PATIENCE  # not the wait, but the processor time ended it
        monkeypatch.setattr(uploads, "_WAIT_FACTOR", PATIENCE)
        with pytest.raises(DataError, match=r"^bad\.bvh, line 1"):  # a new worker reads the next file
            reader.read(path, None, None)
    finally:
        reader.stop()


def test_a_shutdown_finishes_requests_and_keeps_what_was_acknowledged(service):
    answers = []

    def enrol():
        with open_client(service) as client:
            for number in range(1000):
                body = {"label": f"action {number}", "frames": make_take("wave")}
                try:
                    answers.append(client.post("api/v1/examples", json=body).status_code)
                except httpx2.TransportError:
                    return

    writer = threading.Thread(target=enrol)
    with open_stream(service) as stream:
        stream.send(json.dumps({"threshold": 0.5}))
        assert json.loads(stream.recv())["type"] == "threshold"
        writer.start()
        end = time.monotonic() + PATIENCE
        while len(answers) < 3:
            assert time.monotonic() < end
            time.sleep(0.01)
        service.terminate()
        with suppress(ConnectionClosed):
            while stream.recv():
                assert time.monotonic() < end
    writer.join(PATIENCE)
    assert service.wait(PATIENCE) in (0, -15)  # of the signal
    assert set(answers) == {201}
    log = service.read_log()
    assert "0123456789abcdef0123" not in "".join(log)
    requests = [one for one in map(json.loads, log) if one["message"] == "request"]
    assert {"/readyz", "/login", "/api/v1/examples"} <= {one["path"] for one in requests}
    assert all(one["request_id"] for one in requests)
    assert any(json.loads(one)["message"] == "stream" for one in log)
    with Library(service.place) as library:
        assert {f"action {number}" for number in range(len(answers))} <= set(library.labels)
