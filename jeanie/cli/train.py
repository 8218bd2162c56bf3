"""``jeanie train``: a recipe on a protocol, into a folder that a stopped run goes on from."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jeanie.errors import ConfigError, JeanieError
from jeanie.experiments.learning.distributed import joined
from jeanie.experiments.learning.settings import TrainConfig
from jeanie.experiments.methods import method as method_of
from jeanie.experiments.protocols import protocol as protocol_of
from jeanie.experiments.recipes import RECIPES, Recipe
from jeanie.experiments.runs import Run
from jeanie.experiments.training import Moment, Watcher
from jeanie.experiments.training import train as train_model
from jeanie.fewshot.model import FewShotModel
from jeanie.terminal import AsJson, reported

__all__ = ["train"]


def _said(option: str) -> str:
    """What the schema says of an option of the training."""
    text = TrainConfig.model_fields[option].description or option
    return f"{text[:1].upper()}{text[1:]}."


def train(
    protocol: Annotated[str, typer.Argument(help="Protocol; jeanie protocols lists them.")],
    recipe: Annotated[
        str | None,
        typer.Option(help=f"Settings to start from: {', '.join(RECIPES)}; with --from it is finetune."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Weights to start from: shipped, or the folder of a model.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Compared system, such as soft-dtw or prototype; see docs/methods.md.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file that changes the recipe.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change one value, such as align.gamma=0.1.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; runs/PROTOCOL[-METHOD] by default.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Number or name of one split; all by default.")] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help=_said("episodes"))] = None,
    seed: Annotated[int | None, typer.Option(min=0, help=_said("seed"))] = None,
    train_classes: Annotated[int | None, typer.Option(min=0, help="Training classes.")] = None,
    validation: Annotated[
        float | None,
        typer.Option(min=0, help="Part of the training classes held out; 0 keeps the last weights."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run was stopped.")] = False,
    root: Annotated[Path | None, typer.Option(help="Where the data lies.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cuda where there is some.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train on every split of a protocol, or on one. Ctrl-C keeps what was done; --resume goes on with it."""
    with reported(as_json), joined(device) as world:
        chosen = protocol_of(protocol)
        recipe = recipe or ("default" if start is None else "finetune")
        begun = _begun(start, recipe)
        flags = {"episodes": episodes, "seed": seed}
        settings = _settings(recipe, begun, config, method, changes or [], flags)
        name = protocol if method is None else f"{protocol}-{method}"
        place = Path("runs") / name if out is None else out
        dataset = chosen.open(root)
        shown = world.first and not as_json
        if shown:
            told = "" if method is None else f", method {method}"
            typer.echo(f"training {protocol}, recipe {recipe}{told}, writing to {place}", err=True)
        with _bar(shown) as watcher:
            try:
                run = train_model(
                    settings.model if begun is None else begun.but(settings.model.model_dump()),
                    chosen,
                    config=settings.train,
                    out=place,
                    dataset=dataset,
                    split=split,
                    train_classes=train_classes,
                    validation=validation,
                    resume=resume,
                    progress=watcher,
                    device=str(world.device),
                )
            except KeyboardInterrupt as stopped:
                said = (
                    str(stopped)
                    or f"interrupted; {place} keeps the last checkpoint: start again with --resume"
                )
                raise JeanieError(said) from None
        if world.first:
            typer.echo(json.dumps(_facts(run)) if as_json else _told(run))


def _begun(start: str | None, recipe: str) -> FewShotModel | None:
    """The model whose weights are the start; a recipe that tunes one has the shipped one if no other is named."""
    if start is None and recipe != "finetune":
        return None
    return FewShotModel.load(None if start in (None, "shipped") else start)


def _settings(
    recipe: str,
    begun: FewShotModel | None,
    config: Path | None,
    method: str | None,
    changes: list[str],
    flags: dict[str, Any],
) -> Recipe:
    """The recipe, with the settings of a model that is there, changed by a file, a method, --set and flags."""
    if recipe not in RECIPES:
        raise ConfigError(f"no recipe {recipe!r}; the known ones are {', '.join(RECIPES)}")
    settings = RECIPES[recipe]
    if begun is not None:
        settings = settings.but(model=begun.config)
    if config is not None:
        settings = settings.changed_by(config)
    if method is not None:
        settings = method_of(method).recipe(settings)
    settings = settings.changed(dict(_change(text) for text in changes))
    return settings.changed({name: value for name, value in flags.items() if value is not None})


def _change(text: str) -> tuple[str, Any]:
    """A name and its value, written as in TOML; words need no quotes, and null is no value."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set takes NAME=VALUE, such as align.gamma=0.1, got {text!r}")
    if value.strip() == "null":
        return name.strip(), None
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


@contextmanager
def _bar(shown: bool) -> Iterator[Watcher | None]:
    """A bar a split on standard error, with loss and accuracies."""
    if not shown:
        yield None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    told = TextColumn("{task.fields[told]}", markup=False)
    with Progress(*columns, TimeRemainingColumn(), told, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def watch(moment: Moment) -> None:
            if moment.split not in tasks:
                name = f"{moment.split} ({moment.number + 1}/{moment.splits})"
                tasks[moment.split] = bars.add_task(name, total=moment.episodes, told="")
            best = (
                "" if moment.best is None else f", validation {moment.best[0]:.1f} ± {moment.best[1]:.1f} %"
            )
            text = f"loss {moment.loss:.3g}, accuracy {moment.accuracy:.0f} %{best}"
            bars.update(tasks[moment.split], completed=moment.episode, told=text)

        yield watch


def _facts(run: Run) -> dict[str, Any]:
    seed = run.recipe.train.seed
    return {"run": str(run.path), "protocol": run.protocol, "seed": seed, "splits": run.summary()}


def _told(run: Run) -> str:
    """A line a split, and what to do next."""
    lines = []
    for row in run.summary():
        found = row["validation"]
        kept = (
            f"validation {found['accuracy']:.1f} ± {found['ci95']:.1f} % at episode {row['best_episode']}"
            if found
            else "not validated, the last weights are kept"
        )
        lines.append(f"{row['split']}: {row['episodes']} episodes in {row['seconds']:.0f} s, {kept}")
    lines.append(f"{run.path}: measure it with jeanie evaluate {run.path} {run.protocol}")
    return "\n".join(lines)
