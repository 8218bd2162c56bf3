"""``jeanie export-onnx``: the encoder of a model for programs without torch."""

import json
from pathlib import Path
from typing import Annotated

import typer

from jeanie.cli.library import ModelFolder
from jeanie.errors import ConfigError
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.onnx import export_onnx
from jeanie.terminal import AsJson, reported

__all__ = ["onnx"]


def onnx(
    out: Annotated[Path, typer.Argument(metavar="OUT.onnx", help="File to write.")],
    model: ModelFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write the encoder of a model as an ONNX file, which says in its metadata what it reads."""
    with reported(as_json):
        if out.is_dir():
            raise ConfigError(f"{out}: a folder; give the name of a file, such as encoder.onnx")
        described = export_onnx(FewShotModel.load(model), out)
        size = out.stat().st_size
        if as_json:
            typer.echo(json.dumps({"file": str(out), "bytes": size, **described}))
            return
        typer.echo(f"{out}: {size} bytes")
        for one in described["branches"]:
            shape = ", ".join(map(str, one["shape"]))
            typer.echo(f"{one['input']} [{shape}] -> {one['output']} [clip, output, {one['features']}]")
