"""Output that every command shares: ``--json``, progress bars, and errors as a message and an exit code."""

import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from typer.models import OptionInfo

from jeanie.config import Config
from jeanie.errors import ConfigError, DataError, JeanieError, RecordingError, RecordingWarning, ShapeError

__all__ = [
    "AsJson",
    "LogProgress",
    "describe_field",
    "exit_on_error",
    "format_quantity",
    "get_user_folder",
    "print_report",
    "print_skipped",
    "print_table",
    "show_progress",
    "track_command",
]

_command: ContextVar[Callable[..., None] | None] = ContextVar("command", default=None)
_LOG_SECONDS = 10.0  # between two lines of progress in a log
_WIDE = 100_000  # columns of a table that another program reads: nothing is cut or wrapped
_MAX_SKIPPED = 20  # lines about files that were left out

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else to standard output.")
]


@contextmanager
def exit_on_error(as_json: bool) -> Iterator[None]:
    """Report errors as a message and an exit code: 2 for wrong usage or bad input, 1 otherwise."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RecordingWarning)
            warnings.showwarning = _show_warning
            yield
    except BrokenPipeError:  # the reader of the output, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (JeanieError, OSError) as error:
        code = 2 if isinstance(error, DataError | ConfigError | ShapeError) else 1
        message = _name_options(str(error))
        if isinstance(error, RecordingError) and "--skip-bad" in _list_options(_command.get()):
            message += "\n--skip-bad leaves such recordings out and lists them"
    except KeyboardInterrupt:
        code, message = 1, "interrupted; run the same command again to continue"
    else:
        return
    if as_json:
        typer.echo(json.dumps({"error": message}))
    else:
        typer.echo(f"jeanie: {message}", err=True)
    raise typer.Exit(code)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"jeanie: warning: {_name_options(str(message))}", err=True)


def track_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that error messages know while it runs, so that they can name its options."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> None:
        token = _command.set(function)
        try:
            function(*arguments, **options)
        finally:
            _command.reset(token)

    return run


def _list_options(function: Callable[..., None] | None) -> dict[str, set[str]]:
    """Return the options of a command, and the names that messages of the library use for each."""
    options = {}
    for name, kind in {} if function is None else get_type_hints(function, include_extras=True).items():
        infos = [info for info in getattr(kind, "__metadata__", ()) if isinstance(info, OptionInfo)]
        for info in infos:
            names = (
                info.default,
                *(info.param_decls or ()),
            )  # in Annotated the first name takes the default's place
            long = (text for text in names if isinstance(text, str) and text.startswith("--"))
            option = next(long, "--" + name.replace("_", "-"))
            options[option] = {name, option[2:].replace("-", "_")}
    return options


def _name_options(message: str) -> str:
    """Return a message that names options of the running command, ``layout=``, as ``--layout``."""
    for option, names in _list_options(_command.get()).items():
        for name in names:
            # a message that names both, "unit='cm' (--unit cm)", keeps the option
            message = re.sub(rf"(?<![\w.-]){name}(?:=[^\s()]*)? \(({option}\b[^)]*)\)", r"\1", message)
            message = re.sub(rf"^{name}(?= must be\b)", option, message)
            message = re.sub(rf"(?<![\w.-]){name}=(?=[\w'\"-])", f"{option} ", message)
            message = re.sub(rf"(?<![\w.-]){name}=(?!=)", option, message)
            message = re.sub(rf"\bas {name}\b(?!\.\w)", f"as {option}", message)
    return message


class LogProgress:
    """Progress as lines of a log: one at most every ten seconds, and the last one.

    Args:
        unit: What is counted.
        clock: Returns the time in seconds.
    """

    def __init__(self, unit: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.unit, self._clock = unit, clock
        self._last = clock()
        self._is_quiet = True

    def __call__(self, done: int, total: int | None, text: str = "") -> None:
        """Print a line if it is due."""
        now, is_last = self._clock(), total is not None and done >= total
        if now - self._last >= _LOG_SECONDS or (is_last and not self._is_quiet):
            self._last, self._is_quiet = now, is_last
            of_total = "" if total is None else f" of {total}"
            typer.echo(f"{self.unit}: {done}{of_total}{text and f', {text}'}", err=True)


@contextmanager
def show_progress(enabled: bool, unit: str = "clips") -> Iterator[Any]:
    """Yield a function ``(done, total)`` that shows the progress on standard error, or None if not ``enabled``.

    A terminal gets a bar, a log one line every ten seconds.
    """
    if not enabled:
        yield None
        return
    if not sys.stderr.isatty():
        yield LogProgress(unit)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def get_user_folder(kind: Literal["data", "cache"]) -> Path:
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


def describe_field(config: type[Config], name: str) -> str:
    """Return the description of a field of a configuration as the help text of an option."""
    text = config.model_fields[name].description or name
    return f"{text[:1].upper()}{text[1:]}."


def format_quantity(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or the plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_table(table: Table) -> None:
    """Print a table; in a pipe or a file it is as wide as it needs, so that no name is cut."""
    width = None if sys.stdout.isatty() else _WIDE
    Console(highlight=False, width=width).print(table)


def print_report(
    facts: dict[str, Any],
    parts: Sequence[str | Table],
    as_json: bool,
    skipped: Sequence[Mapping[str, str]] = (),
) -> None:
    """Print ``facts`` as one JSON object, or ``parts`` as text and tables; empty parts are left out.

    Files in ``skipped`` are in the object, or on standard error after the text.
    """
    if as_json:
        typer.echo(json.dumps(facts | ({"skipped": skipped} if skipped else {})))
        return
    for part in parts:
        if isinstance(part, Table):
            print_table(part)
        elif part:
            typer.echo(part)
    print_skipped(skipped)


def print_skipped(skipped: Sequence[Mapping[str, str]]) -> None:
    """Print files that were left out to standard error, the first of many and how many more there are."""
    for entry in skipped[:_MAX_SKIPPED]:
        typer.echo(f"skipped {entry['file']}: {entry['reason']}", err=True)
    if len(skipped) > _MAX_SKIPPED:
        typer.echo(f"skipped {len(skipped) - _MAX_SKIPPED} more; --json lists all of them", err=True)
