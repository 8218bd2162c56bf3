"""``jeanie pretrain``: the model that ships, from motion capture and procedural gestures."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from jeanie.datasets import open_dataset
from jeanie.datasets.cmu import cmu_descriptions
from jeanie.experiments.pretraining import SHIPPED_RECIPE, PretrainConfig, motion_capture
from jeanie.experiments.pretraining import pretrain as pretrain_model
from jeanie.experiments.pretraining.training import Progress
from jeanie.terminal import AsJson, reported

__all__ = ["pretrain"]


def pretrain(
    out: Annotated[Path, typer.Argument(help="Folder to write the model into.")],
    root: Annotated[Path | None, typer.Option(help="CMU's folder; $JEANIE_DATA/cmu by default.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file with other settings.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps for each member.")] = None,
    members: Annotated[int | None, typer.Option(min=1, help="Networks side by side.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first member.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Members trained at once.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Train the general encoder: as the one that ships, or with other settings, members or steps.

    A member that is done is kept: started again, the command goes on.
    """

    with reported(as_json):
        changed = config is not None or steps is not None or members is not None
        settings = PretrainConfig() if changed else SHIPPED_RECIPE
        if config is not None:
            settings = settings.changed_by(config)
        given = {"steps": steps, "members": members, "seed": seed}
        settings = settings.but({name: value for name, value in given.items() if value is not None})
        dataset = open_dataset("cmu", root)
        place = Path(os.environ["JEANIE_DATA"]) / "cmu" if root is None else root
        windows = motion_capture(dataset, cmu_descriptions(place))
        pretrain_model(windows, settings, out, jobs=jobs, report=None if as_json else _tell)
        facts = {"model": str(out), "clips": len(windows.length), "config": settings.model_dump(mode="json")}
        typer.echo(
            json.dumps(facts) if as_json else f"wrote {out}: {settings.members + settings.others} members"
        )


def _tell(progress: Progress) -> None:
    """A line on standard error; members that train at once call it in processes of their own."""
    typer.echo(
        f"network {progress.network}: step {progress.step} of {progress.steps}, loss {progress.loss:.3f}, "
        f"partner found {100 * progress.accuracy:.1f} %",
        err=True,
    )
