"""Connections that keep the service waiting are closed, so that few clients cannot use up all connections."""

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["LimitedProtocol", "drop_unread"]


class LimitedProtocol(H11Protocol):
    """HTTP with a limit on the time until a client has sent the headers of a request.

    Args:
        head_seconds: This time.
        options: What the server gives to every protocol.
    """

    def __init__(self, *, head_seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = head_seconds
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what a client has sent."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of a closed connection."""
        self._stop()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Leave the connection to the protocol of streams, which has limits of its own."""
        self._stop()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the timer when headers are expected, or the rest of a body after its answer; else stop it."""
        is_answered = self.conn.our_state in (h11.DONE, h11.MUST_CLOSE)
        is_waiting = self.conn.their_state is h11.IDLE or (
            self.conn.their_state is h11.SEND_BODY and is_answered
        )
        if not is_waiting or self.transport.get_protocol() is not self:
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def drop_unread(listener: socket.socket, seconds: int) -> None:
    """Make the system close accepted connections whose client does not read for some seconds (Linux only)."""
    option: Any = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, 1000 * seconds)
