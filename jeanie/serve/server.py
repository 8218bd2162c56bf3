"""Run the service until it is stopped, in one process or in several."""

import ipaddress
import os
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import uvicorn

from jeanie._internal.memory import share_freed_memory
from jeanie.errors import ConfigError
from jeanie.serve.connections import LimitedProtocol, drop_unread
from jeanie.serve.logs import set_up_logs
from jeanie.serve.metrics import METRICS_VARIABLE
from jeanie.serve.settings import ServeConfig
from jeanie.serve.workers import AppMaker, Supervisor, WorkerApp, freeze_memory

__all__ = ["run_server"]

_SHUTDOWN_SECONDS = 10
_BACKLOG = 128
_SWITCH_SECONDS = 0.001  # that a thread computes while the event loop waits; Python's 5 ms delay every answer


class _Server(uvicorn.Server):
    """A server that calls a function when it accepts requests."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            freeze_memory()
            self._on_start()


def run_server(
    make: AppMaker, config: ServeConfig, *, browser: bool, on_start: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C or SIGTERM. Requests that have begun are finished.

    Args:
        make: Makes the application from the settings.
        config: Settings of the service. With several worker processes, each of them makes the application, and all
            of them accept connections of the same socket.
        browser: Whether to open the page in the browser.
        on_start: Called with the address of the page when the service accepts requests.

    Raises:
        ConfigError: The address cannot be used.
    """
    _set_up_process()
    listener = _open_listener(config)
    scheme = "http" if config.certificate is None else "https"
    host, port = listener.getsockname()[:2]
    url_host = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{url_host}:{port}/"

    def report_start() -> None:
        on_start(url)
        if browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    try:
        if config.workers == 1:
            _Server(_configure(make(config), config), report_start).run(sockets=[listener])
        else:
            _run_workers(make, config, listener, report_start)
    finally:
        listener.close()


def _run_workers(
    make: AppMaker, config: ServeConfig, listener: socket.socket, on_start: Callable[[], None]
) -> None:
    with tempfile.TemporaryDirectory(prefix="jeanie-serve") as name:
        folder = Path(name)
        (folder / "metrics").mkdir()
        os.environ[METRICS_VARIABLE] = str(folder / "metrics")  # worker processes inherit it
        config = config.model_copy(update={"folder": folder})
        settings = _configure(WorkerApp(make, config, _set_up_process), config)
        Supervisor(settings, listener, folder, on_start).run()


def _configure(app: Any, config: ServeConfig) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, WorkerApp),
        workers=config.workers,
        log_config=None,
        access_log=False,
        server_header=False,
        http=cast("type[LimitedProtocol]", partial(LimitedProtocol, head_seconds=config.limits.head_seconds)),
        ws_max_size=config.limits.message_bytes,
        ws_max_queue=config.limits.waiting,
        ws_per_message_deflate=False,  # it costs more time and memory per frame than everything else here
        limit_concurrency=512,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        ssl_certfile=config.certificate,
        ssl_keyfile=config.key,
    )


def _open_listener(config: ServeConfig) -> socket.socket:
    try:
        is_v6 = ipaddress.ip_address(config.host).version == 6
    except ValueError:
        is_v6 = False
    listener = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        drop_unread(listener, config.limits.unread_seconds)
        listener.bind((config.host, config.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {config.host} port {config.port}: {error.strerror or error}; choose another --port"
        ) from None
    return listener


def _set_up_process() -> None:
    share_freed_memory()
    torch.set_num_threads(1)
    sys.setswitchinterval(_SWITCH_SECONDS)
    set_up_logs()
