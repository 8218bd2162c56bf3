"""``jeanie serve``: the recogniser as a page for the camera and as a service."""

import importlib
import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from jeanie.cli.options import (
    Migrate,
    ModelSource,
    Place,
    Threshold,
    accept_option_groups,
    find_library,
    get_default_cache,
    open_source,
)
from jeanie.cli.terminal import exit_on_error
from jeanie.errors import ConfigError
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.library.users import Users
from jeanie.recogniser.recogniser import Recogniser

__all__ = ["serve"]


@accept_option_groups
def serve(
    library: Place = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Any address but this machine's own needs --token-file or users."
        ),
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
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Number of worker processes that answer requests.")
    ] = 1,
    archive: Annotated[
        str | None,
        typer.Option(help="Recordings that requests may search: an archive, a folder or a data set."),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open the page in the browser.")
    ] = False,
    threshold: Threshold = 0.5,
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
            workers=workers,
        )
        place = find_library(library, make=True)
        config.check_access(has_users=_has_users(place))
        make = partial(
            _make_app, place=place, model=model, threshold=threshold, migrate=migrate, archive=archive
        )
        if workers > 1:
            # here an error ends the command; in a worker process it would only be logged
            make(config).state.service.recogniser.close()

        def report_start(url: str) -> None:
            typer.echo(json.dumps({"url": url}) if as_json else f"jeanie: {url} (stop with Ctrl-C)")

        server.run_server(make, config, browser=not no_browser, on_start=report_start)


def _has_users(place: str) -> bool:
    with Library(place) as store:
        return not Users(store).is_empty()


def _make_app(
    config: Any,
    *,
    place: str,
    model: ModelSource,
    threshold: float,
    migrate: bool,
    archive: str | None,
) -> Any:
    """Return the application; worker processes call this."""
    recordings = None if archive is None else open_source(archive)
    recogniser = Recogniser.load(place, model=model.load(), threshold=threshold, migrate=migrate)
    return _import_service("app").make_app(
        recogniser, config, archive=recordings, cache=get_default_cache(), close=True
    )


def _import_service(name: str) -> Any:
    try:
        return importlib.import_module(f"jeanie.serve.{name}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"jeanie serve needs {error.name}; install it with: pip install 'jeanie[serve]'"
        ) from None
