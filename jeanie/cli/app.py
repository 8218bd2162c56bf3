"""The command line: every command by name, in groups."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer

from jeanie.cli.actions import actions, forget, rename
from jeanie.cli.cache import cache
from jeanie.cli.calibrate import calibrate
from jeanie.cli.compare import align
from jeanie.cli.count import count
from jeanie.cli.enrol import enrol
from jeanie.cli.evaluate import evaluate
from jeanie.cli.export_onnx import export_onnx
from jeanie.cli.find import find
from jeanie.cli.index import index
from jeanie.cli.info import info
from jeanie.cli.label import label
from jeanie.cli.layout import layout
from jeanie.cli.lift import lift
from jeanie.cli.methods import methods
from jeanie.cli.prepare import prepare
from jeanie.cli.pretrain import pretrain
from jeanie.cli.protocols import protocols
from jeanie.cli.recognise import recognise
from jeanie.cli.record import record
from jeanie.cli.score import score
from jeanie.cli.serve import serve
from jeanie.cli.setups import setups
from jeanie.cli.tables import tables
from jeanie.cli.terminal import track_command
from jeanie.cli.train import train
from jeanie.cli.transfer import export, import_
from jeanie.cli.tune import tune
from jeanie.cli.user import user
from jeanie.cli.watch import watch

__all__ = ["COMMANDS", "app", "get_command_name", "main"]

# The help lists groups and commands in this order: the everyday ones first.
COMMANDS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Recognise": (enrol, recognise, watch, serve, record, calibrate, align, actions, rename, forget),
    "Exercise": (count, score),
    "Search and label": (find, index, label),
    "Research": (protocols, methods, train, evaluate, tables, tune, pretrain),
    "Data": (info, layout, prepare, setups),
    "Admin": (export, import_, export_onnx, cache),
}

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command line."""
    app(prog_name="jeanie")


def _print_version(is_requested: bool) -> bool:
    if is_requested:
        typer.echo(f"jeanie {version('jeanie')}")
        raise typer.Exit
    return is_requested  # the result of a callback is the value of the option


@app.callback()
def _describe_program(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Recognise actions in 3D-skeleton recordings from one example each.

    Start with: jeanie enrol LABEL FILE, then jeanie recognise FILE.
    """


def get_command_name(function: Callable[..., Any]) -> str:
    """Return the name of a command: that of its function, with hyphens."""
    return function.__name__.strip("_").replace("_", "-")


for _group, _functions in COMMANDS.items():
    for _function in _functions:
        app.command(get_command_name(_function), rich_help_panel=_group)(track_command(_function))
app.add_typer(lift, name="lift", rich_help_panel="Data")
app.add_typer(user, name="user", rich_help_panel="Admin")
