"""``jeanie align``: how one movement differs from another."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from jeanie.cli.options import (
    ModelSource,
    accept_option_groups,
    name_motion,
)
from jeanie.cli.terminal import AsJson, exit_on_error, print_table
from jeanie.datasets import ReadOptions
from jeanie.recogniser.explain.explain import explain
from jeanie.recogniser.gallery import encode_motions

__all__ = ["align"]


@accept_option_groups
def align(
    reference: Annotated[
        Path, typer.Argument(metavar="A", help="Reference recording, for example of a teacher.")
    ],
    recording: Annotated[Path, typer.Argument(metavar="B", help="Recording to compare with A.")],
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page that plays both recordings in step.")
    ] = None,
    as_json: AsJson = False,
    *,
    model: ModelSource,
    options: ReadOptions,
) -> None:
    """Describe how movement B differs from movement A: camera, tempo and joints."""
    with exit_on_error(as_json):
        loaded, motions = model.load(), [options.read(file) for file in (recording, reference)]
        for file, motion in zip((recording, reference), motions, strict=True):
            encode_motions(loaded, [name_motion(motion, file)], "support")  # refuses a single pose
        explanation = explain(loaded, *motions)
        if html is not None:
            explanation.write_html(html)
        if as_json:
            names = {"file": str(recording), "reference": str(reference)}
            typer.echo(json.dumps(names | explanation.json() | ({} if html is None else {"page": str(html)})))
            return
        typer.echo(explanation.text)
        table = Table("joint", box=None, pad_edge=False)
        table.add_column("difference", justify="right")
        table.add_column("direction")
        for joint in explanation.joints[:5]:
            size = f"{joint.percent:.1f} %" if joint.centimetres is None else f"{joint.centimetres:.1f} cm"
            name = ("whole body" if joint.joint == "path" else joint.joint).replace("_", " ")
            table.add_row(name, size, joint.words.removeprefix(name).strip())
        print_table(table)
        if html is not None:
            typer.echo(f"{html}: comparison page")
