"""``jeanie tune``: search for better settings on the validation classes of a protocol."""

import json
from pathlib import Path
from typing import Annotated

import typer

from jeanie.cli.options import (
    ClusterAddress,
    Jobs,
    Pattern,
    ProtocolName,
    Root,
    Shot,
    SkipBad,
    Way,
    accept_option_groups,
)
from jeanie.cli.terminal import AsJson, exit_on_error, show_progress
from jeanie.datasets import ReadOptions
from jeanie.errors import ConfigError
from jeanie.evaluation.protocols import get_protocol
from jeanie.paper.methods import get_method
from jeanie.paper.tuning import Dimension, Outcome, Tuning, find_outcome, read_space, select_space
from jeanie.paper.tuning import tune as tune_study
from jeanie.training.recipes import RECIPES, Recipe, get_recipe

__all__ = ["tune"]


@accept_option_groups
def tune(
    protocol: ProtocolName,
    trials: Annotated[int, typer.Option(min=1, help="Total number of trials of the study.")] = 50,
    recipe: Annotated[str, typer.Option(help=f"Recipe to start from: {', '.join(RECIPES)}.")] = "default",
    method: Annotated[
        str | None, typer.Option(help="Method of the paper; jeanie methods lists them.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file that changes the recipe.")] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Training episodes per trial.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Search only this option; repeatable.")] = None,
    space: Annotated[
        Path | None, typer.Option(help="TOML or JSON file with options and their ranges.")
    ] = None,
    splits: Annotated[
        int, typer.Option(min=1, help="Number of splits to average the validation accuracy over.")
    ] = 1,
    way: Way = None,
    shot: Shot = None,
    train_classes: Annotated[int | None, typer.Option(min=0, help="Number of training classes.")] = None,
    validation: Annotated[
        float | None, typer.Option(min=0, help="Share of the training classes held out for validation.")
    ] = None,
    pruner: Annotated[
        str, typer.Option(help="Early stopping of trials: median, hyperband or none.")
    ] = "median",
    storage: Annotated[
        str | None,
        typer.Option(
            help="Database of the study: a file or a URL such as postgresql+psycopg://... (default: OUT/study.db)."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the study (default: derived from the settings).")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    jobs: Jobs = 1,
    cluster: ClusterAddress = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results (default: tuning/PROTOCOL).")] = None,
    root: Root = None,
    pattern: Pattern = None,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Search for better settings on the validation classes. Test classes are never used.

    Run the command again to continue. Other machines join with the same settings and a shared --storage.
    """
    with exit_on_error(as_json):
        start = _build_recipe(protocol, recipe, config, method, episodes)
        place = Path("tuning") / get_protocol(protocol).name if out is None else out
        tuning = Tuning(
            protocol=protocol,
            recipe=start,
            space=select_space(start, only or ()) if space is None else _read_space(space, only),
            splits=splits,
            way=way,
            shot=shot,
            train_classes=train_classes,
            validation=validation,
            trials=trials,
            pruner=pruner,  # type: ignore[arg-type]  # checked by the configuration
            storage=str(place / "study.db") if storage is None else storage,
            name=name,
            seed=seed,
        )
        with show_progress(not as_json, "trials") as bar:
            study = tune_study(
                tuning,
                root=root,
                pattern=pattern,
                options=options,
                skip_bad=skip_bad,
                jobs=jobs,
                cluster=cluster,
                progress=bar,
            )
        outcome = find_outcome(study, tuning)
        files = {kind: str(path) for kind, path in outcome.write(place, recipe).items()}
        typer.echo(
            json.dumps({**outcome.json(), "files": files}) if as_json else _format_outcome(outcome, files)
        )


def _build_recipe(
    protocol: str, recipe: str, config: Path | None, method: str | None, episodes: int | None
) -> Recipe:
    """Return the recipe, changed by file, method and flag, in this order, as in training."""
    start = get_recipe(recipe, get_protocol(protocol).dataset)
    start = start if config is None else start.with_file(config)
    start = start if method is None else get_method(method).recipe(start)
    return start if episodes is None else start.with_values({"episodes": episodes})


def _read_space(path: Path, only: list[str] | None) -> dict[str, Dimension]:
    if only:
        raise ConfigError("--space and --only exclude each other")
    return read_space(path)


def _format_outcome(outcome: Outcome, files: dict[str, str]) -> str:
    """Return the best settings, their importances and the written files."""
    start = "" if outcome.start is None else f" (the unchanged recipe: {outcome.start:.2f} %)"
    lines = [f"best validation {outcome.accuracy:.2f} %, trial {outcome.number}{start}"]
    for name, value in outcome.changes.items():
        share = outcome.importances.get(name)
        lines.append(f"  {name:<18} {value!s:<24}" + ("" if share is None else f" importance {share:.2f}"))
    states = outcome.json()["states"]
    lines.append("trials: " + ", ".join(f"{count} {state}" for state, count in states.items()))
    lines.append(f"written: {', '.join(files.values())}")
    return "\n".join(lines)
