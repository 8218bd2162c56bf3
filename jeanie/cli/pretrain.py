"""``jeanie pretrain``: the model that ships, from motion capture and procedural gestures."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from jeanie.cli.options import ClusterAddress, Jobs
from jeanie.cli.terminal import AsJson, exit_on_error
from jeanie.datasets import open_dataset
from jeanie.datasets.formats.cmu import read_cmu_descriptions
from jeanie.pretraining import SHIPPED_RECIPE, PretrainConfig, Progress, Windows
from jeanie.pretraining import pretrain as pretrain_model

__all__ = ["pretrain"]


def pretrain(
    out: Annotated[Path, typer.Argument(help="Folder to write the model to.")],
    root: Annotated[
        Path | None, typer.Option(help="Folder of the CMU data set (default: $JEANIE_DATA/cmu).")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file with settings to change.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps per ensemble member.")] = None,
    members: Annotated[int | None, typer.Option(min=1, help="Number of ensemble members.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first ensemble member.")] = None,
    jobs: Jobs = 1,
    cluster: ClusterAddress = None,
    as_json: AsJson = False,
) -> None:
    """Pretrain the general model that ships with jeanie, or one with other settings.

    Finished ensemble members are kept: run the command again to continue.
    """

    with exit_on_error(as_json):
        changed = config is not None or steps is not None or members is not None
        settings = PretrainConfig() if changed else SHIPPED_RECIPE
        if config is not None:
            settings = settings.with_file(config)
        options = {"steps": steps, "members": members, "seed": seed}
        settings = settings.with_values({name: value for name, value in options.items() if value is not None})
        dataset = open_dataset("cmu", root)
        place = Path(os.environ["JEANIE_DATA"]) / "cmu" if root is None else root
        windows = Windows.from_dataset(dataset, read_cmu_descriptions(place))
        pretrain_model(
            windows, settings, out, jobs=jobs, cluster=cluster, progress=None if as_json else _print_progress
        )
        facts = {"model": str(out), "clips": len(windows.length), "config": settings.model_dump(mode="json")}
        typer.echo(
            json.dumps(facts)
            if as_json
            else f"wrote {out}: {settings.members + settings.other_members} members"
        )


def _print_progress(progress: Progress) -> None:
    """Print a line on standard error; parallel members call this in their own processes, on a cluster in its logs."""
    typer.echo(
        f"member {progress.member}: step {progress.step} of {progress.steps}, loss {progress.loss:.3f}, "
        f"partner found {100 * progress.accuracy:.1f} %",
        err=True,
    )
