"""Who may use the service: host names, origins, the access token and the rate of requests."""

import hashlib
import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from jeanie.serve.settings import ServeConfig

__all__ = ["COOKIE", "AccessRules", "RateLimiter", "Refusal"]

COOKIE = "jeanie_session"
COOKIE_SECONDS = 12 * 3600
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_OPEN_PATHS = ("/healthz", "/readyz", "/login", "/static/login.css", "/static/page.css")


class Refusal(Exception):
    """A request that is not allowed, with its HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class AccessRules:
    """Decides about a request from its headers.

    Host names must be known, so a web page cannot reach the service under a name of its own (DNS rebinding).
    Requests that change something, and streams, must come from the page of the service itself.
    """

    def __init__(self, config: ServeConfig) -> None:
        self._hash = config.token_hash
        self._names = {"localhost", config.host, *config.host_names}

    def check(self, method: str, path: str, headers: Mapping[str, str], is_stream: bool) -> None:
        """Raise Refusal unless the request is allowed."""
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
        if self._hash is not None and path not in _OPEN_PATHS and not self._has_token(headers):
            raise Refusal(401, "needs the access token: Authorization: Bearer TOKEN, or log in at /login")

    def accept_token(self, token: str) -> bool:
        """Return whether this is the access token."""
        digest = hashlib.sha256(token.strip().encode()).hexdigest()
        return self._hash is not None and hmac.compare_digest(digest, self._hash)

    def make_cookie(self) -> str:
        """Return the value of a cookie that stands for the token, for a limited time."""
        end = str(int(time.time()) + COOKIE_SECONDS)
        return f"{end}.{self._sign(end)}"

    def _sign(self, text: str) -> str:
        return hmac.new((self._hash or "").encode(), text.encode(), "sha256").hexdigest()

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.accept_token(token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        end, _, signature = (cookie.value if cookie else "").partition(".")
        if not (end.isascii() and end.isdigit() and len(end) < 16):
            return False
        return hmac.compare_digest(signature.encode(), self._sign(end).encode()) and int(end) > time.time()

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
