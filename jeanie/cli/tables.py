"""``jeanie tables``: the tables and figures of the paper, measured again and compared with the printed values."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from jeanie.cli.exports import CsvFile, LatexFile, write_rows
from jeanie.cli.options import ClusterAddress
from jeanie.cli.terminal import AsJson, exit_on_error, show_progress
from jeanie.compute.tasks import count_workers
from jeanie.errors import ConfigError
from jeanie.paper.tables import (
    Cell,
    FilledTable,
    Preset,
    Table,
    estimate_cells,
    fill_table,
    get_table,
    list_cells,
    load_tables,
    render_markdown,
    run_cells,
    write_table,
)
from jeanie.paper.tables.results import read_failure, read_result
from jeanie.paper.tables.runner import Progress
from jeanie.training.recipes import RECIPES, Recipe

__all__ = ["tables"]

_COLUMNS = ("method", "column", "status", "accuracy", "ci95", "printed")


def tables(
    name: Annotated[
        str | None, typer.Argument(help="Name of a table or figure (see --list), or a TOML file.")
    ] = None,
    listed: Annotated[
        bool,
        typer.Option("--list", help="List all tables, or only NAME, with rows, columns and printed values."),
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets (default: $JEANIE_DATA).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results (default: tables).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a small part, as a quick check.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of worker processes with one thread each (default: number of cores)."
        ),
    ] = None,
    cluster: ClusterAddress = None,
    row: Annotated[
        list[str] | None,
        typer.Option(help="Measure only this row: its number, name or method in --list; repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Measure only this column: its number, name or heading in --list; repeatable."),
    ] = None,
    tune_trials: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of trials that search for angle ranges, in the rows called crossval (default: 20; with "
            "--quick 2).",
        ),
    ] = None,
    small_rivals: Annotated[
        bool,
        typer.Option(
            "--small-rivals",
            help="Use small networks for the compared systems instead of the published ones (default in --quick).",
        ),
    ] = False,
    seeds: Annotated[str | None, typer.Option(help="Training seeds, for example 0,1,2.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help=f"Base recipe of the methods: {', '.join(RECIPES)}.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML or JSON file that changes the base recipe.")
    ] = None,
    render: Annotated[bool, typer.Option("--render", help="Run nothing; write the results so far.")] = False,
    csv: CsvFile = None,
    latex: LatexFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure a table of the paper again and compare the results with the printed values.

    Results are kept: run the command again to continue. The exit code is 1 if a measurement failed.
    """
    with exit_on_error(as_json):
        if listed:
            selected = list(load_tables().values()) if name is None else [get_table(name)]
            facts = {"tables": [entry.describe() for entry in selected]}
            typer.echo(json.dumps(facts) if as_json else "\n\n".join(map(_format_listing, selected)))
            return
        if name is None:
            raise ConfigError(
                f"give the name of a table, or --list; the tables are {', '.join(load_tables())}"
            )
        table, place = get_table(name), Path("tables") if out is None else out
        preset = _build_preset(table, quick, seeds, tune_trials, small_rivals)
        base = _load_base(table, recipe, config)
        placed_cells = list_cells(table, preset, base=base, rows=row or (), columns=column or ())
        if not placed_cells:
            raise ConfigError(f"{table.name}: these rows and columns have no cell to measure; see --list")

        def fill() -> FilledTable:
            return fill_table(table, preset, placed_cells, place, quick=quick)

        if not render:
            cells = [entry.cell for entry in placed_cells]
            default = os.cpu_count() or 1 if cluster is None else 1
            workers = default if jobs is None else jobs
            if not as_json:
                _announce(cells, place, count_workers(workers, cluster))
            with show_progress(not as_json, "measurements") as bar:
                watcher = _Watcher(fill, place, bar)
                run_cells(cells, place, data=data, jobs=workers, cluster=cluster, progress=watcher)
        filled = fill()
        table_paths = write_rows(_COLUMNS, _list_rows(filled), csv, latex)
        _write_and_print(filled, place, table_paths, as_json)
        if not render and any(read_failure(place, entry.cell) for entry in placed_cells):
            raise typer.Exit(1)


def _announce(cells: Sequence[Cell], place: Path, jobs: int) -> None:
    """Print how long the missing measurements may take, and how much memory they need."""
    missing = [cell for cell in cells if read_result(place, cell) is None]
    if missing:
        jobs = min(jobs, len(missing))
        text = estimate_cells(missing).describe(jobs)
        typer.echo(f"{len(missing)} of {len(cells)} measurements to make: {text}", err=True)


class _Watcher:
    """Writes the table whenever a measurement has finished, and moves the bar."""

    def __init__(self, fill: Callable[[], FilledTable], place: Path, bar: Progress | None) -> None:
        self.fill, self.place, self.bar = fill, place, bar
        self.done = 0

    def __call__(self, done: int, total: int) -> None:
        if done > self.done:
            write_table(self.fill(), self.place)
        self.done = done
        if self.bar is not None:
            self.bar(done, total)


def _build_preset(
    table: Table, quick: bool, seeds: str | None, tune_trials: int | None, small_rivals: bool
) -> Preset:
    """Return the preset of a table, with other seeds and trials if given."""
    preset = table.quick if quick else table.full
    if small_rivals:
        preset = preset.with_values(small_rivals=True)
    if tune_trials is not None:
        preset = preset.with_values(tune_trials=tune_trials)
    if seeds is None:
        return preset
    numbers = [part.strip() for part in seeds.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise ConfigError(f"--seeds takes comma-separated whole numbers such as 0,1,2, got {seeds!r}")
    return preset.with_values(seeds=tuple(dict.fromkeys(map(int, numbers))))


def _load_base(table: Table, recipe: str | None, config: Path | None) -> Recipe:
    """Return the recipe that the methods change."""
    name = table.base if recipe is None else recipe
    if name not in RECIPES:
        raise ConfigError(f"no recipe {name!r}; the known ones are {', '.join(RECIPES)}")
    return RECIPES[name] if config is None else RECIPES[name].with_file(config)


def _list_rows(filled: FilledTable) -> list[dict[str, Any]]:
    """Return one row per cell of a table: our value with half its interval, and the printed value."""
    return [
        {
            "method": filled.table.rows[r].name,
            "column": f"{column.group}: {column.name}" if column.group else column.name,
            "status": entry.status,
            "accuracy": entry.ours,
            "ci95": entry.half,
            "printed": entry.printed,
        }
        for r in filled.rows
        for column, entry in zip(filled.table.columns, filled.entries[r], strict=True)
    ]


def _write_and_print(filled: FilledTable, place: Path, table_paths: dict[str, str], as_json: bool) -> None:
    """Write the files of a table and print it."""
    paths = {kind: str(path) for kind, path in write_table(filled, place).items()} | table_paths
    if as_json:
        typer.echo(json.dumps({**filled.json(), "files": paths}))
        return
    typer.echo(render_markdown(filled))
    typer.echo(f"written: {', '.join(paths.values())}", err=True)


def _format_listing(table: Table) -> str:
    """Return the columns and rows of a table, with methods and printed values."""
    lines = [f"{table.name} ({table.kind}, {table.source}): {table.title}", "  columns:"]
    lines += [f"    {number + 1:>2} {table.heading(number)}" for number in range(len(table.columns))]
    lines.append("  rows:")
    for number, row in enumerate(table.rows, 1):
        printed = " ".join("-" if value is None else f"{value:.1f}" for value in row.printed)
        lines.append(
            f"    {number:>2} {row.method or 'cited':<38} {row.name:<56} {printed or 'no printed numbers'}"
        )
    return "\n".join(lines)
