"""What every command shares: ``--json``, a progress bar, errors as a message and an exit code."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jeanie.errors import ConfigError, DataError, JeanieError, ShapeError

__all__ = ["AsJson", "progress", "reported", "user_folder"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """Turn errors into a message and an exit code: 2 where the input is to blame, 1 elsewhere."""
    try:
        yield
    except (JeanieError, OSError) as error:
        code = 2 if isinstance(error, DataError | ConfigError | ShapeError) else 1
        message = str(error)
    except KeyboardInterrupt:
        code, message = 1, "interrupted; start the same command again to go on"
    else:
        return
    if as_json:
        typer.echo(json.dumps({"error": message}))
    else:
        typer.echo(f"jeanie: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def progress(shown: bool, what: str = "clips") -> Iterator[Any]:
    """A bar on standard error that is told (done, total), or None where nothing is to be shown."""
    if not shown:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def user_folder(kind: Literal["data", "cache"]) -> Path:
    """Where the system has data of programs for this user, or what can be computed again."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / {"data": "Application Support", "cache": "Caches"}[kind]
    else:
        usual = {"data": home / ".local" / "share", "cache": home / ".cache"}[kind]
        base = Path(os.environ.get(f"XDG_{kind.upper()}_HOME") or usual)
    return base / "jeanie"
