"""Streams over WebSocket: frames in, events out, with the frame format of ``jeanie watch -``.

A message is one frame, or a control: ``{"threshold": 0.6}`` changes the threshold, ``{"persons": "each"}`` before the
first frame makes each person get events of their own, ``{"count": "squat"}`` counts the repetitions of an action, and
``{"end": true}`` ends the stream and returns its last movement. Answers are ``{"type": "ack", "frames": n}``, the
number of frames received so far (one answer for a few frames), ``{"type": "event", ...}``, ``{"type": "count", ...}``
and ``{"type": "problem", ...}``, which ends the stream.
"""

import asyncio
import json
import time
from contextlib import suppress

from anyio import to_thread
from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from jeanie.serve.access import AccessRules, Identity
from jeanie.serve.service import Service
from jeanie.serve.sessions import StreamSession

__all__ = ["make_stream_router"]

INVALID, TOO_LARGE, FAILED, TRY_LATER, POLICY = 1007, 1009, 1011, 1013, 1008
_POLL_SECONDS = 0.005


def make_stream_router(service: Service, rules: AccessRules) -> APIRouter:
    """Return the route of streams."""
    router = APIRouter()
    limits = service.config.limits
    open_sessions: set[StreamSession] = set()

    @router.websocket("/api/v1/stream")
    async def stream(socket: WebSocket) -> None:
        await socket.accept()
        if len(open_sessions) >= limits.sessions or service.is_stopping:
            await _close(socket, service, TRY_LATER, "too many streams; try again later")
            return
        identity: Identity = socket.scope["identity"]
        session = StreamSession(service, identity.owner, asyncio.get_running_loop())
        open_sessions.add(session)
        service.metrics.sessions.set(len(open_sessions))
        tasks = [
            asyncio.create_task(_receive(socket, session, service)),
            asyncio.create_task(_send(socket, session, service)),
            asyncio.create_task(_watch_token(socket, service, rules, identity)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            session.cancel()
            open_sessions.discard(session)
            service.metrics.sessions.set(len(open_sessions))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(RuntimeError, WebSocketDisconnect):
                await socket.close()

    return router


async def _receive(socket: WebSocket, session: StreamSession, service: Service) -> None:
    """Pass messages to the session until the client leaves or breaks a limit."""
    limits = service.config.limits
    end = time.monotonic() + limits.session_seconds
    while True:
        try:
            async with asyncio.timeout(min(limits.idle_seconds, end - time.monotonic())):
                message = await socket.receive()
        except TimeoutError:
            await _close(socket, service, POLICY, "the stream was idle, or lasted too long")
            return
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        if text is None:
            await _close(socket, service, INVALID, "a message is text: one frame as JSON")
            return
        if len(text) > limits.message_bytes:
            await _close(
                socket, service, TOO_LARGE, f"a message has at most {limits.message_bytes} characters"
            )
            return
        while not session.offer(text):  # not reading slows the client down
            if time.monotonic() > end:
                return
            await asyncio.sleep(_POLL_SECONDS)


async def _send(socket: WebSocket, session: StreamSession, service: Service) -> None:
    """Send answers. A client that does not read them is dropped."""
    seconds = service.config.limits.send_seconds
    while (answer := await session.take_answer()) is not None:
        try:
            if session.is_slow:
                raise TimeoutError
            async with asyncio.timeout(seconds):
                await socket.send_text(json.dumps(answer))
        except TimeoutError:
            await _close(socket, service, POLICY, "the client reads too slowly")
            return
        if answer["type"] == "problem":
            code = INVALID if answer["status"] < 500 else FAILED
            await _close(socket, service, code, answer["detail"])
            return


async def _watch_token(socket: WebSocket, service: Service, rules: AccessRules, identity: Identity) -> None:
    """End the stream soon after the token of its user was revoked."""
    while await to_thread.run_sync(rules.is_valid, identity, limiter=service.access_threads):
        await asyncio.sleep(service.config.limits.check_seconds)
    await _close(socket, service, POLICY, "the access token was revoked")


async def _close(socket: WebSocket, service: Service, code: int, reason: str) -> None:
    service.metrics.dropped.labels(str(code)).inc()
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close(code, reason.encode()[:120].decode(errors="ignore"))
