"""``jeanie evaluate``: test a training run or a model on the test episodes of a protocol."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from jeanie._internal.files import write_atomically
from jeanie._internal.import_path import import_object, is_import_path
from jeanie.cli.evaluation_table import build_result_table, write_result_tables
from jeanie.cli.exports import CsvFile, LatexFile, check_folders
from jeanie.cli.leaks import check_no_leak
from jeanie.cli.options import (
    ClusterAddress,
    Device,
    EncoderPaths,
    Jobs,
    MetricPaths,
    Pattern,
    ProtocolName,
    Root,
    Shot,
    SkipBad,
    Way,
    accept_option_groups,
    list_skipped,
    open_protocol_data,
)
from jeanie.cli.terminal import AsJson, exit_on_error, print_skipped, print_table, show_progress
from jeanie.compute.distributed import World, join_process_group
from jeanie.compute.tasks import check_workers
from jeanie.datasets import Dataset, ReadOptions
from jeanie.errors import ConfigError, suggest_name
from jeanie.evaluation.custom_method import DistanceMethod
from jeanie.evaluation.evaluate import Models
from jeanie.evaluation.evaluate import evaluate as evaluate_models
from jeanie.evaluation.protocols import Protocol, get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.evaluation.report.charts import Curves
from jeanie.evaluation.report.comparison import compare, render_markdown
from jeanie.evaluation.report.examples import Example, find_examples
from jeanie.evaluation.report.html import write_html
from jeanie.evaluation.report.report import UNITS, Report, pool_seeds
from jeanie.fewshot.cameras import describe_hidden_joints
from jeanie.fewshot.model import FewShotModel
from jeanie.training.run import Run

__all__ = ["evaluate"]

# models that need no folder: the reference without learning, plain DTW, and the shipped model
_KNOWN: dict[str, Callable[[], FewShotModel]] = {
    "raw": FewShotModel.raw,
    "dtw": lambda: FewShotModel.raw("dtw"),
    "shipped": FewShotModel.load,
}
_EXAMPLES, _OTHERS = 6, 3  # alignments in the report: of the first method, and of each further method


@dataclass(frozen=True)
class _Method:
    """A method under evaluation: name, models (one per seed), and the splits it has models for."""

    name: str
    models: tuple[Models, ...]
    seeds: tuple[int, ...]
    splits: frozenset[str] | None
    curves: Curves = field(default_factory=dict)


@accept_option_groups
def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            help="Folder of a training run or of a model, or raw (no learning), dtw (plain DTW), shipped, or "
            "PACKAGE.MODULE:NAME of an object with distances(queries, supports)."
        ),
    ],
    protocol: ProtocolName,
    others: Annotated[
        list[str] | None,
        typer.Option("--with", help="Further runs of the same method with other seeds; repeatable."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Method to compare with, as for MODEL (default: raw); repeatable."),
    ] = None,
    encoders: EncoderPaths = None,
    metrics: MetricPaths = None,
    alone: Annotated[bool, typer.Option("--alone", help="Do not compare with another method.")] = False,
    way: Way = None,
    shot: Shot = None,
    train_classes: Annotated[
        int | None, typer.Option(min=0, help="Number of training classes, as in training.")
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help="Class decision: nearest (the nearest support) or mean (the mean over the supports of a class)."
        ),
    ] = "nearest",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Episodes per split, or queries per class of fixed exemplars (default: all)."
        ),
    ] = None,
    root: Root = None,
    pattern: Pattern = None,
    skip_bad: SkipBad = False,
    html: Annotated[Path | None, typer.Option(help="Write an HTML report with plots and alignments.")] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables as Markdown.")
    ] = None,
    csv: CsvFile = None,
    latex: LatexFile = None,
    jobs: Jobs = 1,
    cluster: ClusterAddress = None,
    device: Device = None,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Evaluate a run or a model on a protocol: accuracy with 95 % confidence intervals."""
    with exit_on_error(as_json), join_process_group(device) as world:
        workers = _check_workers(world, jobs, cluster)
        if rule not in ("nearest", "mean"):
            raise ConfigError(f"rule is 'nearest' or 'mean', got {rule!r}")
        check_folders(csv, latex)
        task = get_protocol(protocol)
        dataset = open_protocol_data(task, root, pattern, options, skip_bad)
        splits = task.splits(dataset, way=way, shot=shot, train_classes=train_classes)
        parts = {"encoder": encoders, "metric": metrics}
        model_groups = [
            [model, *(others or [])],
            *([other] for other in _list_methods_to_compare(model, against, alone)),
        ]
        _check_parts(parts, model_groups)
        methods = _make_names_distinct(
            [_join_seeds(texts, task, splits, world, parts) for texts in model_groups], model_groups
        )
        common = _find_common_splits(methods, splits)
        reports = []
        for method in methods:
            with show_progress(world.is_first and not as_json, f"{method.name}, pairs") as bar:
                reports.append(
                    _evaluate_method(method, task, dataset, common, rule, limit, workers, bar)  # type: ignore[arg-type]
                )
        if world.is_first:
            examples = _find_example_alignments(methods, reports, dataset, common) if html is not None else ()
            curves = {method.name: method.curves for method in methods if method.curves}
            _write_files(reports, task, html, markdown_file, examples, curves)
            table_paths = write_result_tables(reports, csv, latex)
            _print_reports(reports, html, markdown_file, table_paths, list_skipped(dataset), as_json)


def _check_workers(world: World, jobs: int, cluster: str | None) -> dict[str, Any]:
    """Return the options of workers; processes of torchrun have none of their own."""
    if world.size > 1 and (jobs > 1 or cluster is not None):
        raise ConfigError("torchrun shares the queries already; leave out --jobs and --cluster")
    check_workers(jobs, cluster)
    return {"jobs": jobs, "cluster": cluster}


def _list_methods_to_compare(model: str, against: Sequence[str] | None, alone: bool) -> list[str]:
    """Return the methods to compare with: raw by default, never the method itself."""
    if alone and against:
        raise ConfigError("--alone and --against exclude each other")
    names = [] if alone else against or ["raw"]
    return [method for method in dict.fromkeys(names) if method != model]


def _check_parts(parts: dict[str, Any], model_groups: Sequence[Sequence[str]]) -> None:
    """Raise ConfigError if parts are given that no model can use."""
    saved = [text for texts in model_groups for text in texts if Path(text).is_dir()]
    if any(parts.values()) and not saved:
        names = ", ".join(f"--{name}" for name, paths in parts.items() if paths)
        raise ConfigError(
            f"{names}: only a run or a saved model has parts of your own; train one with: jeanie train {names}"
        )


def _make_names_distinct(methods: Sequence[_Method], texts: Sequence[Sequence[str]]) -> list[_Method]:
    """Return the methods with distinct names: the whole path if two folders have the same name."""
    names = [method.name for method in methods]
    return [
        method if names.count(method.name) == 1 else replace(method, name=text[0])
        for method, text in zip(methods, texts, strict=True)
    ]


def _join_seeds(
    texts: Sequence[str], protocol: Protocol, splits: Sequence[Split], world: World, parts: dict[str, Any]
) -> _Method:
    """Return a method from its runs, one run per seed; ``parts`` are permitted encoders and base distances."""
    runs = [_load_method(text, protocol, splits, world, parts) for text in texts]
    if len(runs) > 1 and not all(run.seeds for run in runs):
        raise ConfigError("--with joins training runs that differ in their seed; give runs only")
    covered = [run.splits for run in runs if run.splits is not None]
    return _Method(
        name=runs[0].name,
        models=tuple(model for run in runs for model in run.models),
        seeds=tuple(seed for run in runs for seed in run.seeds),
        splits=frozenset.intersection(*covered) if covered else None,
        curves=runs[0].curves,
    )


def _load_method(
    text: str, protocol: Protocol, splits: Sequence[Split], world: World, parts: dict[str, Any]
) -> _Method:
    path = Path(text)
    if text in _KNOWN:
        return _Method(text, (_KNOWN[text]().to(world.device),), (), None)
    if (path / "run.json").exists():
        run = Run.load(path)
        return _load_run(run, path.resolve().name, protocol, splits, world, parts)
    if (path / "model.json").exists():
        return _Method(path.resolve().name, (FewShotModel.load(path, **parts).to(world.device),), (), None)
    if is_import_path(text):
        return _import_method(text)
    raise ConfigError(
        f"{text}: neither one of {', '.join(_KNOWN)}, nor the folder of a training run (run.json) or of a model "
        f"(model.json), nor an import path PACKAGE.MODULE:NAME{suggest_name(text, _KNOWN)}"
    )


def _import_method(path: str) -> _Method:
    """Import an object with ``distances``; a class or function without arguments makes one."""
    method = import_object(path)
    if isinstance(method, type) or not isinstance(method, DistanceMethod):
        method = method() if callable(method) else method
    if not isinstance(method, DistanceMethod):
        raise ConfigError(f"{path}: {type(method).__name__} has no distances(queries, supports)")
    return _Method(str(getattr(method, "name", path.partition(":")[2])), (method,), (), None)


def _load_run(
    run: Run, name: str, protocol: Protocol, splits: Sequence[Split], world: World, parts: dict[str, Any]
) -> _Method:
    """Return the models of a run: one per split, or its only model for every split of another protocol."""
    check_no_leak(run, protocol, splits)
    seeds = (run.recipe.train.seed,)
    if run.protocol == protocol.name:
        return _Method(
            name,
            (partial(_load_split_model, run, parts, world.device),),
            seeds,
            frozenset(run.splits),
            run.curves(),
        )
    if len(run.splits) > 1:
        raise ConfigError(
            f"{run.path}: has a model for each of {len(run.splits)} splits of {run.protocol}; for {protocol.name} "
            f"give one of them, such as {run.folder(run.splits[0]) / 'model'}"
        )
    return _Method(name, (run.model(**parts).to(world.device),), seeds, None, run.curves())


def _load_split_model(run: Run, parts: dict[str, Any], device: torch.device, split: Split) -> FewShotModel:
    return run.model(split.name, **parts).to(device)


def _find_common_splits(methods: Sequence[_Method], splits: Sequence[Split]) -> list[Split]:
    """Return the splits that every method has a model for."""
    common = [
        split
        for split in splits
        if all(method.splits is None or split.name in method.splits for method in methods)
    ]
    if not common:
        raise ConfigError("no split that all methods were trained on; train them on the same splits")
    return common


def _evaluate_method(
    method: _Method,
    protocol: Protocol,
    dataset: Dataset,
    splits: Sequence[Split],
    rule: Literal["nearest", "mean"],
    limit: int | None,
    workers: dict[str, Any],
    bar: Any,
) -> Report:
    seeds = method.seeds or (None,)
    reports = [
        evaluate_models(
            models,
            protocol,
            dataset=dataset,
            splits=splits,
            method=method.name,
            rule=rule,
            seeds=() if seed is None else (seed,),
            limit=limit,
            progress=bar,
            **workers,
        )
        for models, seed in zip(method.models, seeds, strict=True)
    ]
    return pool_seeds(reports)


def _find_example_alignments(
    methods: Sequence[_Method], reports: Sequence[Report], dataset: Dataset, splits: Sequence[Split]
) -> tuple[Example, ...]:
    return tuple(
        example
        for number, (method, report) in enumerate(zip(methods, reports, strict=True))
        for example in find_examples(
            method.models[0], report, dataset, splits, count=_OTHERS if number else _EXAMPLES
        )
    )


def _write_files(
    reports: Sequence[Report],
    protocol: Protocol,
    html: Path | None,
    tables: Path | None,
    examples: Sequence[Example],
    curves: Mapping[str, Curves],
) -> None:
    if html is not None:
        write_html(reports, html, examples=examples, title=protocol.title, curves=curves)
    if tables is not None:
        tables.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(tables, render_markdown(reports).encode())


def _print_reports(
    reports: Sequence[Report],
    html: Path | None,
    tables: Path | None,
    table_paths: dict[str, str],
    skipped: list[dict[str, str]],
    as_json: bool,
) -> None:
    pairs = compare(reports)
    files = {name: str(path) for name, path in (("html", html), ("markdown", tables)) if path is not None}
    files |= table_paths
    if as_json:
        first, *others = (report.json() for report in reports)
        facts = {**first, "against": others, "comparisons": [pair.json() for pair in pairs], **files}
        typer.echo(json.dumps(facts | ({"skipped": skipped} if skipped else {})))
        return
    print_skipped(skipped)
    print_table(build_result_table(reports, pairs))
    for pair in pairs:
        if pair.second != reports[-1].method:
            gap = pair.difference
            typer.echo(
                f"{pair.first} against {pair.second}: {gap.value:+.1f} ± {min(gap.half, 100.0):.1f}, p {pair.p:.2g}"
            )
    typer.secho(f"95 % intervals: {UNITS[reports[0].over]}.", dim=True)
    for caution in dict.fromkeys(report.caution for report in reports if report.caution):
        typer.echo(caution)
    for report in reports:
        if description := describe_hidden_joints(report.hidden_joints):
            typer.echo(f"{report.method}: {description}")
    for name, path in files.items():
        typer.echo(f"{name}: {path}")
