"""All commands under one name."""

import typer

from jeanie.cli.data import info, prepare
from jeanie.cli.evaluate import evaluate
from jeanie.cli.label import label
from jeanie.cli.library import app as library_app
from jeanie.cli.methods import methods
from jeanie.cli.onnx import onnx
from jeanie.cli.pretrain import pretrain
from jeanie.cli.protocols import protocols
from jeanie.cli.search import app as search_app
from jeanie.cli.setups import setups
from jeanie.cli.tables import tables
from jeanie.cli.train import train
from jeanie.cli.tune import tune

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Few-shot action recognition on skeletons: data, training, evaluation, recognition.",
)


def main() -> None:
    """Run the command line."""
    app(prog_name="jeanie")


@app.callback()
def _commands() -> None:
    """Few-shot action recognition on skeletons: data, training, evaluation, recognition."""


for _command in (prepare, info, protocols, methods, setups, train, evaluate, pretrain, label, tables, tune):
    app.command()(_command)
app.command("export-onnx")(onnx)
for _commands_of in (library_app, search_app):
    app.add_typer(_commands_of)
