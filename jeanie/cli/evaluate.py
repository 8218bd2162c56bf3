"""``jeanie evaluate``: a training run, a saved model, or none at all, on the test episodes of a protocol."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError
from jeanie.experiments.evaluation import Models
from jeanie.experiments.evaluation import evaluate as evaluate_models
from jeanie.experiments.learning.distributed import World, joined
from jeanie.experiments.protocols import Protocol
from jeanie.experiments.protocols import protocol as protocol_of
from jeanie.experiments.protocols.splits import Split
from jeanie.experiments.reports.comparison import Paired, compare, markdown
from jeanie.experiments.reports.examples import Example, examples
from jeanie.experiments.reports.html import write_html
from jeanie.experiments.reports.report import UNITS, Report, estimate, pooled
from jeanie.experiments.runs import Run
from jeanie.fewshot.model import FewShotModel
from jeanie.fewshot.saving import write_atomically
from jeanie.terminal import AsJson, progress, reported

__all__ = ["evaluate", "result_table"]

# models that need no folder: the strongest without learning, plain DTW, and the one that ships
_KNOWN: dict[str, Callable[[], FewShotModel]] = {
    "raw": FewShotModel.raw,
    "dtw": lambda: FewShotModel.raw("dtw"),
    "shipped": FewShotModel.load,
}
_EXAMPLES, _OTHERS = 6, 3  # alignments that a page shows of the first method, and of each other one


@dataclass(frozen=True)
class _Method:
    """What is evaluated: its name, its models (one a seed), and the splits that it has models for."""

    name: str
    models: tuple[Models, ...]
    seeds: tuple[int, ...]
    splits: frozenset[str] | None


def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            help="Folder of a training run or of a model; or raw: no learning, dtw: plain DTW, shipped: as it comes."
        ),
    ],
    protocol: Annotated[str, typer.Argument(help="Protocol; jeanie protocols lists them.")],
    others: Annotated[
        list[str] | None, typer.Option("--with", help="Further runs of the same method, with other seeds.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Compare with this: raw (the default), dtw, shipped, a run, or a model."),
    ] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Compare with nothing.")] = False,
    way: Annotated[int | None, typer.Option(min=2, help="Classes an episode.")] = None,
    train_classes: Annotated[
        int | None, typer.Option(min=0, help="Training classes, as in training.")
    ] = None,
    rule: Annotated[str, typer.Option(help="nearest support, or mean over a class's supports.")] = "nearest",
    limit: Annotated[int | None, typer.Option(min=1, help="Episodes of each split; all by default.")] = None,
    root: Annotated[Path | None, typer.Option(help="Where the data lies.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with plots and alignments.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Write tables.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cuda where there is some.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a run, a model, or no learning at all, on a protocol: accuracy with 95 % interval."""
    with reported(as_json), joined(device) as world:
        if rule not in ("nearest", "mean"):
            raise ConfigError(f"rule is 'nearest' or 'mean', got {rule!r}")
        chosen = protocol_of(protocol)
        dataset = chosen.open(root)
        splits = chosen.splits(dataset, way=way, train_classes=train_classes)
        wanted = [[model, *(others or [])], *([one] for one in _rivals(model, against, alone))]
        methods = _apart([_method(texts, chosen, splits, world) for texts in wanted], wanted)
        common = _common(methods, splits)
        reports = []
        for method in methods:
            with progress(world.first and not as_json, f"{method.name}, pairs") as bar:
                reports.append(_report(method, chosen, dataset, common, rule, limit, bar))  # type: ignore[arg-type]
        if world.first:
            shown = _examples(methods, reports, dataset, common) if html is not None else ()
            _write(reports, chosen, html, markdown_file, shown)
            _tell(reports, html, markdown_file, as_json)


def _rivals(model: str, against: Sequence[str] | None, alone: bool) -> list[str]:
    """What to compare with: raw unless something else is said, and nothing with itself."""
    if alone and against:
        raise ConfigError("--alone compares with nothing; leave it out to compare --against something")
    wanted = [] if alone else against or ["raw"]
    return [one for one in dict.fromkeys(wanted) if one != model]


def _apart(methods: Sequence[_Method], texts: Sequence[Sequence[str]]) -> list[_Method]:
    """The methods under names that differ: the whole path where two folders have one name."""
    names = [method.name for method in methods]
    return [
        method if names.count(method.name) == 1 else replace(method, name=text[0])
        for method, text in zip(methods, texts, strict=True)
    ]


def _method(texts: Sequence[str], protocol: Protocol, splits: Sequence[Split], world: World) -> _Method:
    """A method from the names of its runs, one a seed."""
    parts = [_loaded(text, protocol, splits, world) for text in texts]
    if len(parts) > 1 and not all(part.seeds for part in parts):
        raise ConfigError("--with joins training runs that differ in their seed; give runs only")
    covered = [part.splits for part in parts if part.splits is not None]
    return _Method(
        name=parts[0].name,
        models=tuple(model for part in parts for model in part.models),
        seeds=tuple(seed for part in parts for seed in part.seeds),
        splits=frozenset.intersection(*covered) if covered else None,
    )


def _loaded(text: str, protocol: Protocol, splits: Sequence[Split], world: World) -> _Method:
    path = Path(text)
    if text in _KNOWN:
        return _Method(text, (_KNOWN[text]().to(world.device),), (), None)
    if (path / "run.json").exists():
        run = Run.load(path)
        return _of_run(run, path.resolve().name, protocol, splits, world)
    if (path / "model.json").exists():
        return _Method(path.resolve().name, (FewShotModel.load(path).to(world.device),), (), None)
    raise ConfigError(
        f"{text}: neither one of {', '.join(_KNOWN)}, nor the folder of a training run (run.json) or of a model "
        "(model.json)"
    )


def _of_run(run: Run, name: str, protocol: Protocol, splits: Sequence[Split], world: World) -> _Method:
    """A run's models: each on its own split, or, on another protocol, its only one on all splits."""
    _check_no_leak(run, protocol, splits)
    seeds = (run.recipe.train.seed,)
    if run.protocol == protocol.name:
        return _Method(name, (lambda split: run(split).to(world.device),), seeds, frozenset(run.splits))
    if len(run.splits) > 1:
        raise ConfigError(
            f"{run.path}: has a model for each of {len(run.splits)} splits of {run.protocol}; for {protocol.name} "
            f"give one of them, such as {run.folder(run.splits[0]) / 'model'}"
        )
    return _Method(name, (run.model().to(world.device),), seeds, None)


def _check_no_leak(run: Run, protocol: Protocol, splits: Sequence[Split]) -> None:
    """Raise where a class that a run has learnt would be tested as a novel one."""
    if protocol_of(run.protocol).dataset != protocol.dataset:
        return
    by_name = {split.name: split for split in splits}
    for row in run.facts["splits"]:
        seen = set(row["train_classes"]) | set(row["validation_classes"])
        tested = [by_name.get(row["name"])] if run.protocol == protocol.name else list(splits)
        for split in tested:
            if split is None or (
                split.name == row["name"] and set(split.test_classes) == set(row["test_classes"])
            ):
                continue
            if seen & set(split.test_classes):
                raise ConfigError(
                    f"{run.path}: was trained on classes that split {split.name!r} of {protocol.name} tests; "
                    "evaluate it with the same protocol and --train-classes as in training"
                )


def _common(methods: Sequence[_Method], splits: Sequence[Split]) -> list[Split]:
    """The splits that every method has a model for."""
    common = [
        split for split in splits if all(one.splits is None or split.name in one.splits for one in methods)
    ]
    if not common:
        raise ConfigError("no split that all methods were trained on; train them on the same splits")
    return common


def _report(
    method: _Method,
    protocol: Protocol,
    dataset: Dataset,
    splits: Sequence[Split],
    rule: Literal["nearest", "mean"],
    limit: int | None,
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
        )
        for models, seed in zip(method.models, seeds, strict=True)
    ]
    return pooled(reports)


def _examples(
    methods: Sequence[_Method], reports: Sequence[Report], dataset: Dataset, splits: Sequence[Split]
) -> tuple[Example, ...]:
    return tuple(
        example
        for number, (method, report) in enumerate(zip(methods, reports, strict=True))
        for example in examples(
            method.models[0], report, dataset, splits, count=_OTHERS if number else _EXAMPLES
        )
    )


def _write(
    reports: Sequence[Report],
    protocol: Protocol,
    html: Path | None,
    tables: Path | None,
    shown: Sequence[Example],
) -> None:
    if html is not None:
        write_html(reports, html, examples=shown, title=protocol.title)
    if tables is not None:
        tables.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(tables, markdown(reports).encode())


def _tell(reports: Sequence[Report], html: Path | None, tables: Path | None, as_json: bool) -> None:
    pairs = compare(reports)
    files = {name: str(path) for name, path in (("html", html), ("markdown", tables)) if path is not None}
    if as_json:
        first, *rest = (report.json() for report in reports)
        told = {**first, "against": rest, "comparisons": [pair.json() for pair in pairs], **files}
        typer.echo(json.dumps(told))
        return
    console = Console(highlight=False)
    console.print(result_table(reports, pairs))
    console.print(f"95 % intervals: {UNITS[reports[0].over]}.", style="dim")
    for name, path in files.items():
        console.print(f"{name}: {path}", markup=False)


def result_table(reports: Sequence[Report], pairs: Sequence[Paired]) -> Table:
    """Accuracy of each method and its difference to the last one, for a terminal."""
    first = reports[0]
    table = Table(
        title=f"{escape(first.protocol)}: {first.way}-way {first.shot}-shot, {first.queries:,} queries"
    )
    table.add_column("method")
    compared = [f"against {escape(reports[-1].method)}", "p"] if pairs else []
    for heading in ("accuracy, %", "95 % interval", *compared):
        table.add_column(heading, justify="right")
    against = {pair.first: pair for pair in pairs if pair.second == reports[-1].method}
    for report in reports:
        low, high = report.interval
        cells = [
            escape(report.method),
            f"{report.accuracy:.1f} ± {report.ci95:.1f}",
            f"{low:.1f} to {high:.1f}",
        ]
        if report is not reports[-1]:
            pair = against[report.method]
            cells += [f"{pair.difference.value:+.1f} ± {pair.difference.half:.1f}", f"{pair.p:.2g}"]
        table.add_row(*cells)
        for name, rows in report.variants.items():
            found, _ = estimate(rows)
            table.add_row(
                f"  {escape(name)}",
                f"{found.value:.1f} ± {found.half:.1f}",
                f"{found.low:.1f} to {found.high:.1f}",
            )
    return table
