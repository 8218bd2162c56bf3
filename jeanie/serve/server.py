"""Run the service until it is stopped."""

import ipaddress
import logging
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable

import torch
import uvicorn

from jeanie.errors import ConfigError
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.app import make_app
from jeanie.serve.middleware import LOGGER, JsonFormatter
from jeanie.serve.settings import ServeConfig

__all__ = ["run_server"]

_SHUTDOWN_SECONDS = 10
_BACKLOG = 128


class _Server(uvicorn.Server):
    """A server that calls a function when it accepts requests."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()


def run_server(
    recogniser: Recogniser, config: ServeConfig, *, browser: bool, on_start: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C or SIGTERM. Requests that have begun are finished.

    Args:
        recogniser: The enrolled actions.
        config: Settings of the service.
        browser: Whether to open the page in the browser.
        on_start: Called with the address of the page when the service accepts requests.

    Raises:
        ConfigError: The address cannot be used, or needs a token.
    """
    config.check_access()
    torch.set_num_threads(1)
    _set_up_logs()
    listener = _open_listener(config)
    scheme = "http" if config.certificate is None else "https"
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{port}/"

    def report_start() -> None:
        on_start(url)
        if browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    settings = uvicorn.Config(
        make_app(recogniser, config),
        log_config=None,
        access_log=False,
        server_header=False,
        ws_max_size=config.limits.message_bytes,
        ws_max_queue=config.limits.waiting,
        limit_concurrency=512,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        ssl_certfile=config.certificate,
        ssl_keyfile=config.key,
    )
    try:
        _Server(settings, report_start).run(sockets=[listener])
    finally:
        listener.close()


def _open_listener(config: ServeConfig) -> socket.socket:
    try:
        is_v6 = ipaddress.ip_address(config.host).version == 6
    except ValueError:
        is_v6 = False
    listener = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host, config.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {config.host} port {config.port}: {error.strerror or error}; choose another --port"
        ) from None
    return listener


def _set_up_logs() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for logger in (LOGGER, logging.getLogger("uvicorn")):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if logger is LOGGER else logging.WARNING)
