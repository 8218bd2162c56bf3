"""``jeanie tables``: the paper's tables and figures, regenerated and set beside the printed values."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from jeanie.errors import ConfigError
from jeanie.experiments.recipes import RECIPES, Recipe
from jeanie.experiments.tables import Filled, Preset, Shard, Table, fill, grid, markdown, run_cells, write
from jeanie.experiments.tables import table as table_of
from jeanie.experiments.tables import tables as all_tables
from jeanie.terminal import AsJson, progress, reported

__all__ = ["tables"]


def tables(
    name: Annotated[
        str | None, typer.Argument(help="Table or figure, or a TOML file; --list shows them.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List all tables, rows and printed values.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the data sets; $JEANIE_DATA by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to work in; tables by default.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small part, to see that it runs.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores by default.")] = None,
    shard: Annotated[str | None, typer.Option(help="Only part i of n, such as 1/4.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds of the training, such as 0,1,2.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help=f"What the methods start from: {', '.join(RECIPES)}.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file that changes that recipe.")] = None,
    render: Annotated[bool, typer.Option("--render", help="Measure nothing, show what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Regenerate a table: every row that has a method is trained and tested, ours stand beside the printed values.

    What was measured is kept: started again, here or on other machines that see the folder, it goes on.
    """
    with reported(as_json):
        if listed:
            every = [one.listed() for one in all_tables().values()]
            typer.echo(
                json.dumps({"tables": every}) if as_json else "\n\n".join(map(_told, all_tables().values()))
            )
            return
        if name is None:
            raise ConfigError(f"give a table, or --list; there are {', '.join(all_tables())}")
        table, place = table_of(name), Path("tables") if out is None else out
        preset = _preset(table, quick, seeds)
        placed = grid(table, preset, base=_base(table, recipe, config))
        if not render:
            with progress(not as_json, "measurements") as bar:
                run_cells(
                    [one.cell for one in placed],
                    place,
                    data=data,
                    jobs=jobs or os.cpu_count() or 1,
                    shard=None if shard is None else Shard.parse(shard),
                    progress=bar,
                )
        _show(fill(table, preset, placed, place, quick=quick), place, as_json)


def _preset(table: Table, quick: bool, seeds: str | None) -> Preset:
    """How much is run; seeds that are asked for replace those of the preset."""
    preset = table.quick if quick else table.full
    if seeds is None:
        return preset
    numbers = [part.strip() for part in seeds.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise ConfigError(f"seeds are whole numbers with commas between them, such as 0,1,2, got {seeds!r}")
    return preset.but(seeds=tuple(dict.fromkeys(map(int, numbers))))


def _base(table: Table, recipe: str | None, config: Path | None) -> Recipe:
    """The recipe that methods change."""
    name = table.base if recipe is None else recipe
    if name not in RECIPES:
        raise ConfigError(f"no recipe {name!r}; the known ones are {', '.join(RECIPES)}")
    return RECIPES[name] if config is None else RECIPES[name].changed_by(config)


def _show(filled: Filled, place: Path, as_json: bool) -> None:
    """Write the files of a table and tell it."""
    paths = {kind: str(path) for kind, path in write(filled, place).items()}
    if as_json:
        typer.echo(json.dumps({**filled.json(), "files": paths}))
        return
    typer.echo(markdown(filled))
    typer.echo(f"written: {', '.join(paths.values())}", err=True)


def _told(table: Table) -> str:
    """A table of the list: its rows with their methods and printed values."""
    lines = [f"{table.name} ({table.kind}, {table.source}): {table.title}"]
    for row in table.rows:
        printed = " ".join("-" if value is None else f"{value:.1f}" for value in row.printed)
        lines.append(f"  {row.method or 'cited':<28} {row.name:<52} {printed or 'no printed numbers'}")
    return "\n".join(lines)
