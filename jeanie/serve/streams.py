"""Streams over WebSocket: frames in, events out, with the frame format of ``jeanie watch -``.

A message is one frame, or a control: ``{"threshold": 0.6}`` changes the threshold, ``{"persons": "each"}`` before the
first frame makes each person get events of their own, ``{"count": "squat"}`` counts the repetitions of an action, and
``{"end": true}`` ends the stream and returns its last movement. Answers are ``{"type": "ack", "frames": n}``,
``{"type": "event", ...}``, ``{"type": "count", ...}`` and ``{"type": "problem", ...}``, which ends the stream.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.concurrency import run_in_threadpool

from jeanie.serve.access import AccessRules, Identity
from jeanie.serve.service import Service
from jeanie.serve.sessions import StreamSession

__all__ = ["make_stream_router"]

INVALID, TOO_LARGE, TRY_LATER, POLICY = 1007, 1009, 1013, 1008
_POLL_SECONDS = 0.005


class _SessionRecogniser:
    """The recogniser of the service with the threshold of one stream."""

    def __init__(self, service: Service) -> None:
        self._service, self.threshold = service, service.recogniser.threshold

    @property
    def library(self) -> Library:
        return self._service.recogniser.library

    @property
    def actions(self) -> Mapping[str, int]:
        return self._service.recogniser.actions

    def recognise_all(self, motions: Iterable[Motion]) -> list[Recognition]:
        """Recognise motions; nothing below the threshold of this stream has a label."""
        with self._service.lock:
            answers = self._service.recogniser.recognise_all(motions)
        return [self._apply_threshold(found) for found in answers]

    def _apply_threshold(self, found: Recognition) -> Recognition:
        is_known = found.nearest is not None and found.confidence >= max(self.threshold, 1e-6)
        return replace(found, label=found.nearest if is_known else None)


class StreamSession:
    """One stream. A thread reads its frames from a bounded queue, because a movement takes a while to recognise.

    Args:
        service: The service.
        loop: The event loop that sends answers.
    """

    def __init__(self, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        limits = service.config.limits
        self._service, self._loop = service, loop
        self._recogniser = _SessionRecogniser(service)
        self._lines: queue.Queue[str | None] = queue.Queue(limits.waiting)
        self.answers: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._waiting = limits.waiting
        self.is_slow = False
        self._is_cancelled = False
        self._count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def offer(self, text: str | None) -> bool:
        """Add a message, or None for the end; return False if too many are waiting."""
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            return False
        return True

    def cancel(self) -> None:
        """End the thread without further answers."""
        self._is_cancelled = True
        with suppress(queue.Full):
            self._lines.put_nowait(None)

    def _read_lines(self) -> Iterator[str]:
        while not self._is_cancelled and (text := self._lines.get()) is not None:
            control = _parse_control(text)
            if control is None:
                self._count += 1
                self._service.metrics.frames.inc()
                yield text
                self._answer({"type": "ack", "frames": self._count})
            elif "threshold" in control:
                self._recogniser.threshold = control["threshold"]
                self._answer({"type": "threshold", "threshold": control["threshold"]})
            else:
                return

    def _run(self) -> None:
        """Recognise the frames of the queue until it ends."""
        try:
            self._recognise()
        except JeanieError as error:
            self._answer({**describe_problem(422, str(error)), "type": "problem"})
        except Exception:
            self._answer({**describe_problem(500, "an unexpected error ended the stream"), "type": "problem"})
            raise
        finally:
            self._answer(None)

    def _recognise(self) -> None:
        stream: Stream | None = None
        since = 0.0
        for arrived in read_frames(self._read_lines()):
            if arrived.is_new_stream or stream is None:
                self._report(stream.finish() if stream else [], since)
                stream = Stream(self._recogniser, arrived.layout, rate=arrived.rate)
                since = arrived.start_time
            self._report(stream.push(arrived.joints), since)
        if not self._is_cancelled:
            self._report(stream.finish() if stream else [], since)

    def _report(self, events: list[Event], since: float) -> None:
        for event in events:
            start, end = event.seconds
            self._service.metrics.events.labels(str(event.label is not None).lower()).inc()
            self._answer(
                {
                    "type": "event",
                    "start": round(since + start, 3),
                    "end": round(since + end, 3),
                    "label": event.label,
                    "confidence": round(event.confidence, 4),
                    "distance": event.distance if isfinite(event.distance) else None,
                }
            )

    def _answer(self, message: dict[str, Any] | None) -> None:
        if not self._is_cancelled:
            with suppress(RuntimeError):  # the loop is closed: the service has stopped
                self._loop.call_soon_threadsafe(self._put_answer, message)

    def _put_answer(self, message: dict[str, Any] | None) -> None:
        if self.answers.qsize() >= self._waiting and message is not None:
            self.is_slow = True  # the client does not read: stop here, memory stays bounded
        else:
            self.answers.put_nowait(message)


def _parse_control(text: str) -> dict[str, Any] | None:
    """Return a control message, or None for a frame."""
    if len(text) > _CONTROL_CHARS or ("threshold" not in text and "end" not in text):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.keys() not in ({"threshold"}, {"end"}):
        return None
    threshold = values.get("threshold", 0.5)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise DataError(f"'threshold' is a confidence from 0 to 1, got {str(threshold)[:40]!r}")
    return values


def make_stream_router(service: Service) -> APIRouter:
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
    while (answer := await session.answers.get()) is not None:
        try:
            if session.is_slow:
                raise TimeoutError
            async with asyncio.timeout(seconds):
                await socket.send_text(json.dumps(answer))
        except TimeoutError:
            await _close(socket, service, POLICY, "the client reads too slowly")
            return
        if answer["type"] == "problem":
            await _close(socket, service, INVALID, answer["detail"])
            return


async def _watch_token(socket: WebSocket, service: Service, rules: AccessRules, identity: Identity) -> None:
    """End the stream soon after the token of its user was revoked."""
    while await run_in_threadpool(rules.is_valid, identity):
        await asyncio.sleep(service.config.limits.check_seconds)
    await _close(socket, service, POLICY, "the access token was revoked")


async def _close(socket: WebSocket, service: Service, code: int, reason: str) -> None:
    service.metrics.dropped.labels(str(code)).inc()
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close(code, reason.encode()[:120].decode(errors="ignore"))
