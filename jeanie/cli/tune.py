"""``jeanie tune``: a search for better settings on the validation classes of a protocol."""

import json
from pathlib import Path
from typing import Annotated

import typer

from jeanie.errors import ConfigError
from jeanie.experiments.methods import method as method_of
from jeanie.experiments.recipes import RECIPES, Recipe
from jeanie.experiments.tuning import Dimension, Outcome, Tuning, outcome, read_space, space_of
from jeanie.experiments.tuning import tune as tune_study
from jeanie.terminal import AsJson, progress, reported

__all__ = ["tune"]


def tune(
    protocol: Annotated[str, typer.Argument(help="Protocol; jeanie protocols lists them.")],
    trials: Annotated[int, typer.Option(min=1, help="Trials of the study in all.")] = 50,
    recipe: Annotated[str, typer.Option(help=f"Settings to start from: {', '.join(RECIPES)}.")] = "default",
    method: Annotated[str | None, typer.Option(help="Compared system to search for.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file that changes the recipe.")] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Training episodes of a trial.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Search this option only; may be given often.")
    ] = None,
    space: Annotated[Path | None, typer.Option(help="TOML or JSON file of options and their ranges.")] = None,
    splits: Annotated[int, typer.Option(min=1, help="Splits whose validations are averaged.")] = 1,
    train_classes: Annotated[int | None, typer.Option(min=0, help="Training classes.")] = None,
    validation: Annotated[float | None, typer.Option(min=0, help="Part of them that is held out.")] = None,
    pruner: Annotated[
        str, typer.Option(help="What ends trials early: median, hyperband or none.")
    ] = "median",
    storage: Annotated[
        str | None,
        typer.Option(help="Database of the study: a file, or a URL such as postgresql+psycopg://..."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the study; made of what is searched by default.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that search at once.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for what is found; tuning/PROTOCOL.")] = None,
    root: Annotated[Path | None, typer.Option(help="Where the data lies.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search for better settings; validation classes judge, test classes are never looked at.

    Started again, it goes on; workers on other machines join with the same settings and a common --storage.
    """
    with reported(as_json):
        start = _start(recipe, config, method, episodes)
        place = Path("tuning") / protocol if out is None else out
        tuning = Tuning(
            protocol=protocol,
            recipe=start,
            space=space_of(start, only or ()) if space is None else _read(space, only),
            splits=splits,
            train_classes=train_classes,
            validation=validation,
            trials=trials,
            pruner=pruner,  # type: ignore[arg-type]  # checked by the configuration
            storage=str(place / "study.db") if storage is None else storage,
            name=name,
            seed=seed,
        )
        with progress(not as_json, "trials") as bar:
            study = tune_study(tuning, root=root, jobs=jobs, progress=bar)
        found = outcome(study, tuning)
        files = {kind: str(path) for kind, path in found.write(place, recipe).items()}
        typer.echo(json.dumps({**found.json(), "files": files}) if as_json else _told(found, files))


def _start(recipe: str, config: Path | None, method: str | None, episodes: int | None) -> Recipe:
    """The recipe, changed by a file, then by a method and by the flag, as in training."""
    if recipe not in RECIPES:
        raise ConfigError(f"no recipe {recipe!r}; the known ones are {', '.join(RECIPES)}")
    start = RECIPES[recipe] if config is None else RECIPES[recipe].changed_by(config)
    start = start if method is None else method_of(method).recipe(start)
    return start if episodes is None else start.changed({"episodes": episodes})


def _read(path: Path, only: list[str] | None) -> dict[str, Dimension]:
    if only:
        raise ConfigError("--space names the options itself; leave --only out")
    return read_space(path)


def _told(found: Outcome, files: dict[str, str]) -> str:
    """The best values, importances, and what to do next."""
    start = "" if found.start is None else f" (the recipe as it was: {found.start:.2f} %)"
    lines = [f"best validation {found.accuracy:.2f} %, trial {found.number}{start}"]
    for name, value in found.changes.items():
        share = found.importances.get(name)
        lines.append(f"  {name:<18} {value!s:<24}" + ("" if share is None else f" importance {share:.2f}"))
    states = found.json()["states"]
    lines.append("trials: " + ", ".join(f"{count} {state}" for state, count in states.items()))
    lines.append(f"written: {', '.join(files.values())}")
    return "\n".join(lines)
