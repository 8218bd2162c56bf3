"""``jeanie export-onnx``: the encoder of a model for programs without torch."""

import json
from pathlib import Path
from typing import Annotated

import typer

from jeanie.cli.options import (
    ModelSource,
    accept_option_groups,
)
from jeanie.cli.terminal import AsJson, exit_on_error
from jeanie.errors import ConfigError
from jeanie.fewshot.onnx import export_onnx as write_onnx

__all__ = ["export_onnx"]


@accept_option_groups
def export_onnx(
    out: Annotated[Path, typer.Argument(metavar="OUT.onnx", help="File to write.")],
    as_json: AsJson = False,
    *,
    model: ModelSource,
) -> None:
    """Export the encoder of a model to ONNX; the metadata of the file describes its inputs."""
    with exit_on_error(as_json):
        if out.is_dir():
            raise ConfigError(f"{out}: a folder; give the name of a file, such as encoder.onnx")
        description = write_onnx(model.load(), out)
        size = out.stat().st_size
        if as_json:
            typer.echo(json.dumps({"file": str(out), "bytes": size, **description}))
            return
        typer.echo(f"{out}: {size} bytes")
        for entry in description["models"]:
            shape = ", ".join(map(str, entry["shape"]))
            typer.echo(f"{entry['input']} [{shape}] -> {entry['output']} [clip, output, {entry['features']}]")
