"""Output that every command shares: ``--json``, progress bars, and errors as a message and an exit code."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from jeanie.errors import ConfigError, DataError, JeanieError, ShapeError

__all__ = ["AsJson", "exit_on_error", "print_report", "quantity", "show_progress", "user_folder"]

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else to standard output.")
]


@contextmanager
def exit_on_error(as_json: bool) -> Iterator[None]:
    """Report errors as a message and an exit code: 2 for wrong usage or bad input, 1 otherwise."""
    try:
        yield
    except (JeanieError, OSError) as error:
        code = 2 if isinstance(error, DataError | ConfigError | ShapeError) else 1
        message = str(error)
    except KeyboardInterrupt:
        code, message = 1, "interrupted; run the same command again to continue"
    else:
        return
    if as_json:
        typer.echo(json.dumps({"error": message}))
    else:
        typer.echo(f"jeanie: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def show_progress(shown: bool, what: str = "clips") -> Iterator[Any]:
    """Yield a function ``(done, total)`` that updates a bar on standard error, or None if not ``shown``."""
    if not shown:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def user_folder(kind: Literal["data", "cache"]) -> Path:
    """Return the folder for this user's data or cache, by the rules of the operating system."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / {"data": "Application Support", "cache": "Caches"}[kind]
    else:
        default = {"data": home / ".local" / "share", "cache": home / ".cache"}[kind]
        base = Path(os.environ.get(f"XDG_{kind.upper()}_HOME") or default)
    return base / "jeanie"


def quantity(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or the plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_report(facts: dict[str, Any], parts: Sequence[str | Table], as_json: bool) -> None:
    """Print ``facts`` as one JSON object, or ``parts`` as text and tables; empty parts are skipped."""
    if as_json:
        typer.echo(json.dumps(facts))
        return
    console = Console(highlight=False)
    for part in parts:
        if isinstance(part, Table):
            console.print(part)
        elif part:
            typer.echo(part)
