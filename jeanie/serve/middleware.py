"""The outer layer of the service: access, limits while reading, security headers, metrics and logs of requests."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

from anyio import to_thread
from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jeanie.errors import JeanieError
from jeanie.serve.access import AccessRules, RateLimiter, Refusal
from jeanie.serve.logs import LOGGER
from jeanie.serve.problems import MEDIA_TYPE, describe_problem
from jeanie.serve.service import Service

__all__ = ["Protection"]

_REQUEST_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_UPLOADS = re.compile(r"/api/v1/(library|[a-z]+/upload)")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_EXPLANATION = re.compile(r"/api/v1/explanations/")
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; connect-src 'self'; worker-src 'self'; frame-src 'self'; manifest-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# pages of explanations bring their own policy with the hash of their script, and are shown in a frame
_EXPLANATION_POLICY = "base-uri 'none'; form-action 'none'; connect-src 'none'; frame-ancestors 'self'"
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}


class Protection:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, service: Service, rules: AccessRules) -> None:
        self._app, self._service, self._rules = app, service, rules
        limits = service.config.limits
        self._limiter = RateLimiter(limits.requests_per_second, limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or stream."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        # the application needs no cookies, and reading a damaged one takes Python 3.11 seconds
        scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"cookie"]
        request_id = headers.get("x-request-id", "")
        scope["request_id"] = request_id if _REQUEST_ID.fullmatch(request_id) else secrets.token_hex(8)
        is_stream, refusal = scope["type"] == "websocket", None
        try:
            await self._check(scope, headers, is_stream)
        except Refusal as error:
            refusal = error
        if is_stream:
            await self._run_stream(scope, receive, send, refusal)
        elif refusal is None:
            await self._run(scope, self._limit_body(scope, receive), send, None)
        else:
            await self._run(scope, receive, send, refusal)

    async def _check(self, scope: Scope, headers: dict[str, str], is_stream: bool) -> None:
        client = (scope.get("client") or ("", 0))[0]
        if not self._limiter.allow(client, time.monotonic()):
            raise Refusal(429, "too many requests from this address; wait a second")
        self._rules.check_origin(scope.get("method", "GET"), headers, is_stream)
        if not self._rules.is_open(scope["path"]):
            try:
                scope["identity"] = await to_thread.run_sync(
                    self._rules.identify, scope["path"], headers, limiter=self._service.access_threads
                )
            except JeanieError as error:
                LOGGER.exception(
                    "no access to the users", extra={"facts": {"request_id": scope["request_id"]}}
                )
                raise Refusal(503, "the library does not answer; try again later") from error

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Return ``receive`` with limits on the size of the body, its rate, and the time between its parts."""
        limits = self._service.config.limits
        limit = limits.upload_bytes + 2**16 if _UPLOADS.fullmatch(scope["path"]) else limits.json_bytes
        size, start = 0, time.monotonic()

        async def receive_within_limits() -> Message:
            nonlocal size
            remaining_seconds = start + limits.body_seconds + size / limits.body_rate - time.monotonic()
            seconds = None if scope.get("body_is_complete") else min(remaining_seconds, limits.body_seconds)
            try:
                async with asyncio.timeout(seconds):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"the request came too slowly: {size} bytes so far; send it again"
                ) from None
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                scope["body_is_complete"] = not message.get("more_body", False)
                if size > limit:
                    raise HTTPException(
                        413, f"the request has more than {limit} bytes; send a shorter recording"
                    )
            return message

        return receive_within_limits

    async def _run_stream(self, scope: Scope, receive: Receive, send: Send, refusal: Refusal | None) -> None:
        """Serve a stream and log it when it ends."""
        start = time.monotonic()
        try:
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                self._service.metrics.dropped.labels("refused").inc()
                await _refuse_stream(receive, send, refusal)
        finally:
            _log(scope, "stream", start, {"status": 101 if refusal is None else 403})

    async def _run(self, scope: Scope, receive: Receive, send: Send, refusal: Refusal | None) -> None:
        """Answer a request; count and log it."""
        start, status = time.monotonic(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, scope)
            await send(message)

        try:
            if refusal is None:
                await self._app(scope, receive, send_with_headers)
            else:
                await _send_problem(send_with_headers, refusal, scope["path"])
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = (
                scope["method"] if scope["method"] in _METHODS else "other"
            )  # a client may invent any number
            self._service.metrics.requests.labels(method, route, str(status)).inc()
            self._service.metrics.seconds.labels(route).observe(time.monotonic() - start)
            _log(scope, "request", start, {"method": scope["method"][:20], "status": status})


def _log(scope: Scope, message: str, start: float, facts: dict[str, Any]) -> None:
    user = scope["identity"].owner if "identity" in scope else ""
    about = {"request_id": scope["request_id"], "path": scope["path"][:200], "user": user or None, **facts}
    LOGGER.info(message, extra={"facts": {**about, "seconds": round(time.monotonic() - start, 4)}})


def _add_headers(message: MutableMapping[str, Any], scope: Scope) -> None:
    path = scope["path"]
    is_page = bool(_EXPLANATION.match(path))
    extra = {
        **_HEADERS,
        "content-security-policy": _EXPLANATION_POLICY if is_page else _POLICY,
        "x-request-id": scope["request_id"],
        "cache-control": "no-cache" if path.startswith("/static/") else "no-store",
    }
    names = {name.encode() for name in extra}
    others = [(name, value) for name, value in message.get("headers", []) if name.lower() not in names]
    message["headers"] = [*others, *((name.encode(), value.encode()) for name, value in extra.items())]


async def _send_problem(send: Send, refusal: Refusal, path: str) -> None:
    is_page = refusal.status == 401 and path == "/"
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 429:
        headers.append((b"retry-after", b"1"))
    if is_page:  # the page itself: show the login form
        headers = [(b"location", b"/login")]
    status, body = refusal.status, json.dumps(describe_problem(refusal.status, refusal.detail)).encode()
    await send({"type": "http.response.start", "status": 303 if is_page else status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_page else body})


async def _refuse_stream(receive: Receive, send: Send, refusal: Refusal) -> None:
    """Close a stream before it is accepted; the client sees HTTP status 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008, "reason": refusal.detail[:120]})
