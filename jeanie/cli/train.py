"""``jeanie train``: train a recipe on a protocol and write a run folder."""

import json
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jeanie.cli.options import (
    Device,
    EncoderPaths,
    MetricPaths,
    Pattern,
    ProtocolName,
    Root,
    Shot,
    SkipBad,
    Way,
    accept_option_groups,
    format_again,
    list_skipped,
    open_protocol_data,
)
from jeanie.cli.terminal import AsJson, LogProgress, describe_field, exit_on_error, print_skipped
from jeanie.compute.distributed import join_process_group
from jeanie.datasets import ReadOptions
from jeanie.errors import ConfigError, JeanieError
from jeanie.evaluation.protocols import get_protocol
from jeanie.fewshot.cameras import describe_hidden_joints
from jeanie.fewshot.model import FewShotModel
from jeanie.paper.methods import get_method
from jeanie.training.config import TrainConfig
from jeanie.training.recipes import RECIPES, Recipe, get_recipe
from jeanie.training.run import Run
from jeanie.training.train import ProgressCallback, TrainingProgress
from jeanie.training.train import train as train_model

__all__ = ["train"]

_describe_option = partial(describe_field, TrainConfig)


@accept_option_groups
def train(
    protocol: ProtocolName,
    recipe: Annotated[
        str | None,
        typer.Option(help=f"Recipe: {', '.join(RECIPES)} (default: default, or finetune with --from)."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Initial weights: shipped, or a model folder.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Method of the paper, for example soft-dtw; jeanie methods lists them.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file that changes the recipe.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change one setting, for example align.gamma=0.1; repeatable."),
    ] = None,
    encoders: EncoderPaths = None,
    metrics: MetricPaths = None,
    out: Annotated[Path | None, typer.Option(help="Run folder (default: runs/PROTOCOL[-METHOD]).")] = None,
    split: Annotated[str | None, typer.Option(help="Number or name of one split (default: all).")] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help=_describe_option("episodes"))] = None,
    seed: Annotated[int | None, typer.Option(min=0, help=_describe_option("seed"))] = None,
    way: Way = None,
    shot: Shot = None,
    train_classes: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of training classes (default: the first number above 0 that the protocol offers).",
        ),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            min=0, help="Share of the training classes held out for validation; 0 keeps the last weights."
        ),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help=f"{_describe_option('precision')} One of bf16, fp16 and fp32.")
    ] = None,
    accumulate: Annotated[int | None, typer.Option(min=1, help=_describe_option("accumulate"))] = None,
    recompute: Annotated[bool, typer.Option("--recompute", help=_describe_option("recompute"))] = False,
    compile_encoder: Annotated[bool, typer.Option("--compile", help=_describe_option("compile"))] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    root: Root = None,
    pattern: Pattern = None,
    skip_bad: SkipBad = False,
    device: Device = None,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Train on all splits of a protocol, or on one. Ctrl-C keeps a checkpoint; --resume continues it."""
    with exit_on_error(as_json), join_process_group(device) as world:
        task = get_protocol(protocol)
        recipe = recipe or ("default" if start is None else "finetune")
        initial = _load_initial_model(start, recipe, encoders, metrics)
        flags = {
            "episodes": episodes, "seed": seed, "precision": precision, "accumulate": accumulate,
            "recompute": recompute or None, "compile": compile_encoder or None,
        }  # fmt: skip
        parts = _name_parts(initial, encoders, metrics)
        settings = _build_settings(recipe, initial, config, method, parts, changes or [], flags, task.dataset)
        name = task.name if method is None else f"{task.name}-{method}"
        place = Path("runs") / name if out is None else out
        dataset = open_protocol_data(task, root, pattern, options, skip_bad)
        if train_classes is None and not task.train_classes[0]:
            train_classes = next((count for count in task.train_classes if count), None)
        test_flags: dict[str, object] = {
            "--train-classes": train_classes,
            "--way": way,
            "--shot": shot,
            "--root": root,
            "--pattern": pattern,
            "--encoder": next(iter(encoders or ()), None),
            "--metric": next(iter(metrics or ()), None),
        }
        again = format_again(protocol, test_flags, options)
        is_verbose = world.is_first and not as_json
        if is_verbose:
            suffix = "" if method is None else f", method {method}"
            print_skipped(list_skipped(dataset))
            typer.echo(f"training {task.name}, recipe {recipe}{suffix}, writing to {place}", err=True)
        with _show_bars(is_verbose) as watcher:
            try:
                run = train_model(
                    settings.model if initial is None else initial.with_config(settings.model.model_dump()),
                    task,
                    config=settings.train,
                    out=place,
                    dataset=dataset,
                    split=split,
                    way=way,
                    shot=shot,
                    train_classes=train_classes,
                    validation=validation,
                    resume=resume,
                    progress=watcher,
                    device=str(world.device),
                    encoder=encoders if initial is None else None,
                    metric=metrics if initial is None else None,
                )
            except KeyboardInterrupt as stopped:
                message = (
                    str(stopped) or f"interrupted; {place} keeps the last checkpoint: continue with --resume"
                )
                raise JeanieError(message) from None
        if world.is_first:
            typer.echo(json.dumps(_run_facts(run)) if as_json else _format_summary(run, again))


def _load_initial_model(
    start: str | None, recipe: str, encoders: list[str] | None, metrics: list[str] | None
) -> FewShotModel | None:
    """Load the initial model, if any; the recipe finetune starts from the shipped model by default."""
    if start is None and recipe != "finetune":
        return None
    return FewShotModel.load(None if start in (None, "shipped") else start, encoder=encoders, metric=metrics)


def _name_parts(
    initial: FewShotModel | None, encoders: list[str] | None, metrics: list[str] | None
) -> dict[str, Any]:
    """Return the settings that --encoder and --metric change; those of an initial model stay."""
    import_paths = {"--encoder": encoders or [], "--metric": metrics or []}
    for option, paths in import_paths.items():
        if len(paths) > 1:
            raise ConfigError(f"{option} names one part of the model to train, got {', '.join(paths)}")
    if initial is not None:
        return {}
    parts: dict[str, Any] = {}
    if encoders:
        parts = {"model.encoder.kind": "custom", "model.encoder.module": encoders[0]}
    return parts | ({"model.align.metric": metrics[0]} if metrics else {})


def _build_settings(
    recipe: str,
    initial: FewShotModel | None,
    config: Path | None,
    method: str | None,
    parts: dict[str, Any],
    changes: list[str],
    flags: dict[str, Any],
    dataset: str | None = None,
) -> Recipe:
    """Return the recipe for a data set with the initial model's settings, changed in the order of the arguments."""
    settings = get_recipe(recipe, dataset)
    if initial is not None:
        settings = settings.with_values(model=initial.config)
    if config is not None:
        settings = settings.with_file(config)
    if method is not None:
        settings = get_method(method).recipe(settings)
    settings = settings.with_values(parts | dict(_parse_change(text) for text in changes))
    return settings.with_values({name: value for name, value in flags.items() if value is not None})


def _parse_change(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE. The value is TOML; strings need no quotes; null is None."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set takes NAME=VALUE, for example align.gamma=0.1, got {text!r}")
    if value.strip() == "null":
        return name.strip(), None
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


@contextmanager
def _show_bars(enabled: bool) -> Iterator[ProgressCallback | None]:
    """Yield a function that updates one progress bar per split, with loss and accuracies."""
    if not enabled:
        yield None
        return
    if not sys.stderr.isatty():
        yield _log_steps()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    text_column = TextColumn("{task.fields[text]}", markup=False)
    with Progress(*columns, TimeRemainingColumn(), text_column, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def watch(progress_now: TrainingProgress) -> None:
            if progress_now.split not in tasks:
                name = f"{progress_now.split} ({progress_now.number + 1}/{progress_now.splits})"
                tasks[progress_now.split] = bars.add_task(name, total=progress_now.episodes, text="")
            text = _describe_step(progress_now)
            bars.update(tasks[progress_now.split], completed=progress_now.episode, text=text)

        yield watch


def _log_steps() -> ProgressCallback:
    """Return a function that logs the progress of each split as lines."""
    logs: dict[str, LogProgress] = {}

    def log(step: TrainingProgress) -> None:
        name = f"{step.split} ({step.number + 1}/{step.splits}), episodes"
        logs.setdefault(step.split, LogProgress(name))(step.episode, step.episodes, _describe_step(step))

    return log


def _describe_step(step: TrainingProgress) -> str:
    best = "" if step.best is None else f", validation {step.best[0]:.1f} ± {step.best[1]:.1f} %"
    return f"loss {step.loss:.3g}, accuracy {step.accuracy:.0f} %{best}"


def _run_facts(run: Run) -> dict[str, Any]:
    seed = run.recipe.train.seed
    facts = {"run": str(run.path), "protocol": run.protocol, "seed": seed, "splits": run.summary()}
    hidden_joints = run.facts.get("hidden_joints")
    return facts if hidden_joints is None else {**facts, "hidden_joints": hidden_joints}


def _format_summary(run: Run, arguments: str) -> str:
    """Return one line per split, and the next command to run; ``again`` are its arguments after the run."""
    lines = []
    for row in run.summary():
        validation = row["validation"]
        outcome = (
            f"validation {validation['accuracy']:.1f} ± {validation['ci95']:.1f} % at episode {row['best_episode']}"
            if validation
            else "not validated, the last weights are kept"
        )
        lines.append(f"{row['split']}: {row['episodes']} episodes in {row['seconds']:.0f} s, {outcome}")
    if sentence := describe_hidden_joints(run.facts.get("hidden_joints", {})):
        lines.append(sentence)
    lines.append(f"{run.path}: evaluate it with: jeanie evaluate {run.path} {arguments}")
    return "\n".join(lines)
