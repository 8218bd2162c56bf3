"""``jeanie serve``: the recogniser as a page for the camera and as a service."""

import importlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jeanie.cli.options import (
    Migrate,
    ModelSource,
    Place,
    accept_option_groups,
    find_library,
)
from jeanie.cli.terminal import exit_on_error
from jeanie.errors import ConfigError
from jeanie.recogniser.recogniser import Recogniser

__all__ = ["serve"]


@accept_option_groups
def serve(
    library: Place = None,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on. Addresses that other machines can reach need --token-file."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the access token that clients must send.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Host name under which clients connect, for example behind a proxy. Repeatable."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate file (PEM) for HTTPS.")] = None,
    key: Annotated[Path | None, typer.Option(help="Private key file (PEM) for HTTPS.")] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open the page in the browser.")
    ] = False,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Answers with a lower confidence become unknown.")
    ] = 0.5,
    migrate: Migrate = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one JSON object.")] = False,
    *,
    model: ModelSource,
) -> None:
    """Open a page that learns movements from the camera and recognises them; with a REST and WebSocket interface."""
    with exit_on_error(as_json):
        settings, server = _import_service("settings"), _import_service("server")
        config = settings.ServeConfig(
            host=host,
            port=port,
            token_hash=None if token_file is None else settings.read_token(token_file),
            host_names=tuple(allow_host or ()),
            certificate=certificate,
            key=key,
        )
        config.check_access()

        def report_start(url: str) -> None:
            typer.echo(json.dumps({"url": url}) if as_json else f"jeanie: {url} (stop with Ctrl-C)")

        with Recogniser.load(
            find_library(library, make=True),
            model=model.load(),
            threshold=threshold,
            migrate=migrate,
        ) as recogniser:
            server.run_server(recogniser, config, browser=not no_browser, on_start=report_start)


def _import_service(name: str) -> Any:
    try:
        return importlib.import_module(f"jeanie.serve.{name}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"jeanie serve needs {error.name}; install it with: pip install 'jeanie[serve]'"
        ) from None
