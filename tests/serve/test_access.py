"""Who may use the service: hosts, origins, tokens, rates; and what the command line says about them."""

import hashlib
import json

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from jeanie.cli.app import app as commands
from jeanie.errors import ConfigError
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.library.users import Users
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.access import AccessRules, Identity, RateLimiter, Refusal
from jeanie.serve.app import make_app
from jeanie.serve.middleware import Protection
from jeanie.serve.settings import ServeConfig, ServeLimits, read_token

TOKEN = "0123456789abcdef0123"
HASH = hashlib.sha256(TOKEN.encode()).hexdigest()


class NoUsers:
    """The users of a library that has none."""

    def is_empty(self):
        return True

    def find_by_token(self, token):
        return None

    def find_credential(self, token_id):
        return None


@pytest.fixture
def token_client(shipped_model, tmp_path):
    """A client of a service with a token, without a warm-up."""
    with Recogniser.load(tmp_path / "library.db", model=shipped_model) as recogniser:
        config = ServeConfig(token_hash=HASH, limits=ServeLimits(requests_per_second=0.001, burst=40))
        yield TestClient(make_app(recogniser, config), base_url="http://localhost", follow_redirects=False)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000", "192.168.1.5"])
def test_known_hosts_are_accepted(client, host):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_names_of_hosts_have_no_case():
    rules = AccessRules(ServeConfig(host_names=("Jeanie.Example.org",)), NoUsers())
    rules.check_origin("GET", {"host": "jeanie.example.ORG:443"}, False)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost.evil", "a b"]
)
def test_other_hosts_are_refused(client, host):
    answer = client.get("/api/v1/actions", headers={"host": host})
    assert answer.status_code == 421
    assert "--allow-host" in answer.json()["detail"]


def test_other_origins_are_refused(client):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:81", "file://127.0.0.1"):
        assert client.delete("/api/v1/actions?label=x", headers={"origin": origin}).status_code == 403
    own = client.delete("/api/v1/actions?label=x", headers={"origin": "http://127.0.0.1"})
    assert own.status_code == 404
    assert client.post("/api/v1/recognise", headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_every_answer_has_security_headers(client):
    for path in ("/", "/healthz", "/api/v1/actions", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "connect-src 'self'" in policy
        assert "unsafe-inline" not in policy
        assert "'unsafe-eval'" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert len(headers["x-request-id"]) == 16
    assert client.get("/healthz", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"


def test_a_token_is_needed_on_every_route(token_client):
    schema = token_client.get("/api/v1/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()
    for path, methods in schema["paths"].items():
        for method in methods:
            answer = token_client.request(method, path.replace("{example}", "1").replace("{page}", "x"))
            assert answer.status_code == 401, f"{method} {path}"
    assert token_client.get("/metrics").status_code == 401
    assert token_client.get("/api/v1/actions", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert token_client.get(f"/api/v1/actions?token={TOKEN}").status_code == 401
    assert token_client.get("/healthz").status_code == 200


def test_the_login_form_gives_a_cookie(token_client):
    assert token_client.get("/").headers["location"] == "/login"
    assert "Access token" in token_client.get("/login").text
    assert token_client.post("/login", data={"token": "wrong"}).status_code == 401
    answer = token_client.post("/login", data={"token": TOKEN})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert token_client.get("/api/v1/actions").status_code == 200


def test_cookies_of_other_programs_do_no_harm(token_client):
    token_client.post("/login", data={"token": TOKEN})
    own = f"jeanie_session={token_client.cookies['jeanie_session']}"
    token_client.cookies.clear()
    for other in ('{"a": 1}', 'a="b; c', "=", "\xff\x01"):
        headers = {"cookie": f"{other}; {own};{other}".encode("latin-1")}
        assert token_client.get("/api/v1/actions", headers=headers).status_code == 200


@pytest.mark.plain  # the application is a stand-in
def test_the_application_sees_no_cookie(client):
    async def find_cookie(scope, receive, send):
        seen.extend(name for name, _ in scope["headers"])

    seen, service = [], client.app.state.service
    protected = Protection(find_cookie, service, AccessRules(service.config, service.users))
    TestClient(protected, base_url="http://localhost", raise_server_exceptions=False).get(
        "/healthz", headers={"cookie": 'a="\\'}
    )
    assert b"host" in seen
    assert b"cookie" not in seen


@pytest.mark.plain  # the users are those of a library
def test_a_service_whose_users_are_all_revoked_is_not_open_to_everyone(tmp_path):
    with Library(tmp_path / "library.db") as library:
        users = Users(library)
        rules = AccessRules(ServeConfig(), users)
        assert rules.identify("/", {}) == Identity()
        token = users.add("ann")
        assert rules.identify("/", {"authorization": f"Bearer {token}"}).owner == "ann"
        users.revoke("ann")
        for headers in ({}, {"authorization": f"Bearer {token}"}):
            with pytest.raises(Refusal):
                rules.identify("/", headers)


def test_a_client_that_asks_too_often_is_refused(token_client):
    answers = [token_client.get("/healthz") for _ in range(60)]
    assert [one.status_code for one in answers] == [200] * 40 + [429] * 20
    assert answers[-1].headers["retry-after"] == "1"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 2)), max_size=60))
def test_no_client_gets_more_than_its_burst_and_rate(steps):
    limiter, now, allowed, first = RateLimiter(2.0, 3, clients=8), 0.0, {}, {}
    for client, pause in steps:
        now += pause
        first.setdefault(client, now)
        if limiter.allow(client, now):
            allowed[client] = allowed.get(client, 0) + 1
            assert allowed[client] <= 3 + 2.0 * (now - first[client]) + 1e-6


@pytest.mark.plain  # the users are a stand-in
@given(st.text(max_size=80))
def test_no_other_text_is_a_token_or_a_cookie(text):
    rules = AccessRules(ServeConfig(token_hash=HASH), NoUsers())
    for headers in ({"authorization": f"Bearer {text}"}, {"cookie": f"jeanie_session={text}"}):
        if text.strip() != TOKEN:
            with pytest.raises(Refusal):
                rules.identify("/", headers)


def test_an_open_address_needs_a_token(tmp_path):
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(ConfigError, match="--token-file"):
            ServeConfig(host=host).check_access()
        ServeConfig(host=host, token_hash=HASH).check_access()
    for host in ("127.0.0.1", "::1", "localhost", "127.5.5.5"):
        ServeConfig(host=host).check_access()


@pytest.mark.parametrize("content", ["", "short", "has spaces in it, several", "x" * 5000])
def test_a_bad_token_file_is_refused(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(ConfigError, match="16 to 4096"):
        read_token(path)


def test_wrong_options_end_with_code_2(tmp_path):
    library = str(tmp_path / "library.db")
    for options, words in (
        (["--host", "0.0.0.0"], "--token-file"),
        (["--certificate", "missing.pem"], "both"),
        (["--token-file", "missing"], "missing"),
    ):
        result = CliRunner().invoke(commands, ["serve", "--library", library, "--json", *options])
        assert result.exit_code == 2, result.output
        assert words in json.loads(result.stdout)["error"]
