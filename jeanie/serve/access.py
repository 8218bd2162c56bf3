"""Who may use the service: host names, origins, access tokens and the rate of requests."""

import hashlib
import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from jeanie.recogniser.library.users import Users
from jeanie.serve.settings import ServeConfig

__all__ = ["COOKIE", "AccessRules", "Identity", "RateLimiter", "Refusal"]

COOKIE = "jeanie_session"
COOKIE_SECONDS = 12 * 3600
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_OPEN_PATHS = ("/healthz", "/readyz", "/login", "/static/page.css")
_OPERATOR_PATHS = ("/metrics",)  # they tell about all users


class Refusal(Exception):
    """A request that is not allowed, with its HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


@dataclass(frozen=True)
class Identity:
    """Who sends a request: the owner of the actions, and the id of a user's token.

    Without a user name the owner is "": whoever has the token of ``--token-file``, or anyone if no token is needed.
    """

    owner: str = ""
    token_id: str = ""


class AccessRules:
    """Decides about a request from its headers.

    Host names must be known, so a web page cannot reach the service under a name of its own (DNS rebinding).
    Requests that change something, and streams, must come from the page of the service itself.

    Args:
        config: Settings of the service.
        users: Users of the library. If there are any, every request needs a token, also after all of them were revoked.
    """

    def __init__(self, config: ServeConfig, users: Users) -> None:
        self._hash, self._users = config.token_hash, users
        self._names = {name.lower() for name in ("localhost", config.host, *config.host_names)}

    def check_origin(self, method: str, headers: Mapping[str, str], is_stream: bool) -> None:
        """Raise Refusal unless the request is sent to this service, and not by the page of another site."""
        host = headers.get("host", "")
        if not self._is_known_host(host):
            raise Refusal(421, f"unknown host name {host[:80]!r}; start jeanie serve with --allow-host NAME")
        origin = headers.get("origin")
        if origin is not None and not _is_same_origin(origin, host):
            raise Refusal(
                403, f"requests from {origin[:80]!r} are not allowed, only from this service's page"
            )
        if headers.get("sec-fetch-site") == "cross-site" and (is_stream or method not in _SAFE_METHODS):
            raise Refusal(403, "requests from other sites are not allowed, only from this service's page")

    def is_open(self, path: str) -> bool:
        """Return whether everybody may request a path."""
        return path in _OPEN_PATHS

    def identify(self, path: str, headers: Mapping[str, str]) -> Identity:
        """Return who sends a request; raise Refusal without a valid token if one is needed."""
        identity = self._find_identity(headers)
        if identity is None and (self._hash is not None or not self._users.is_empty()):
            raise Refusal(401, "needs the access token: Authorization: Bearer TOKEN, or log in at /login")
        if identity is not None and identity.token_id and path in _OPERATOR_PATHS:
            raise Refusal(403, "only for the token of --token-file, not for the token of a user")
        return identity or Identity()

    def is_valid(self, identity: Identity) -> bool:
        """Return whether the token of a user has not been revoked."""
        return not identity.token_id or self._users.find_credential(identity.token_id) is not None

    def accept_token(self, token: str) -> Identity | None:
        """Return whose token this is, or None if it is not valid."""
        token = token.strip()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        if self._hash is not None and hmac.compare_digest(digest, self._hash):
            return Identity()
        credential = self._users.find_by_token(token)
        return None if credential is None else Identity(credential.user, credential.token_id)

    def make_cookie(self, identity: Identity) -> str:
        """Return the value of a cookie that stands for a token, for a limited time."""
        text = f"{int(time.time()) + COOKIE_SECONDS}.{identity.token_id}"
        return f"{text}.{_sign(text, self._find_key(identity.token_id)[1])}"

    def _find_key(self, token_id: str) -> tuple[str, str]:
        """Return the owner and the key that signs the cookies of a token; a revoked token has no key."""
        if not token_id:
            return "", self._hash or ""
        credential = self._users.find_credential(token_id)
        return ("", "") if credential is None else (credential.user, credential.hash)

    def _find_identity(self, headers: Mapping[str, str]) -> Identity | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.accept_token(token)
        text, _, signature = _find_cookie(headers.get("cookie", "")).rpartition(".")
        end, _, token_id = text.partition(".")
        if not (end.isascii() and end.isdigit() and len(end) < 16) or len(token_id) > 32:
            return None
        owner, key = self._find_key(token_id)
        is_signed = hmac.compare_digest(signature.encode(), _sign(text, key).encode())
        return Identity(owner, token_id) if key and is_signed and int(end) > time.time() else None

    def _is_known_host(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)  # a numeric address cannot be rebound to another machine
        except ValueError:
            return False
        return True


def _find_cookie(header: str) -> str:
    """Return the value of our cookie. The cookies of other programs on this host need not follow any standard."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _sign(text: str, key: str) -> str:
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


def _is_same_origin(origin: str, host: str) -> bool:
    parts = origin.partition("://")
    return parts[0] in ("http", "https") and parts[2].lower() == host.lower()


class RateLimiter:
    """A token bucket per client address; the number of addresses in memory is bounded."""

    def __init__(self, rate: float, burst: int, clients: int = 4096) -> None:
        self._rate, self._burst, self._clients = rate, float(burst), clients
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, client: str, now: float) -> bool:
        """Count a request at a time in seconds; return whether it is within the limit."""
        left, since = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        self._buckets[client] = (max(0.0, left - 1), now)
        while len(self._buckets) > self._clients:
            self._buckets.popitem(last=False)
        return left >= 1
