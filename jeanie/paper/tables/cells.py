"""The measurements that fill a table: one per cell and seed, identified by what it computes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from jeanie._internal.digest import hash_json
from jeanie.config import Config
from jeanie.encoders import GraphEncoderConfig
from jeanie.errors import ConfigError
from jeanie.evaluation.protocols import get_protocol
from jeanie.fewshot.config import NoViewsConfig
from jeanie.paper.methods import METHODS, get_method
from jeanie.paper.tables.schema import UNTRAINED, Column, Preset, Row, Table
from jeanie.training.recipes import RECIPES, Recipe, fit_recipe

__all__ = ["Cell", "PlacedCell", "build_recipe", "list_cells", "select_method"]


class Cell(Config):
    """One measurement: a method on a protocol under one seed.

    The key is derived from what the measurement computes. So tables share measurements, different settings
    never mix, and a stored measurement is not repeated.
    """

    method: str = Field(description="method, recipe or model to measure")
    protocol: str = Field(description="protocol to measure on")
    recipe: Recipe | None = Field(default=None, description="model and training; null for untrained models")
    way: int | None = Field(default=None, description="classes per test episode; null: those of the protocol")
    trained_way: int | None = Field(
        default=None, description="classes per training episode; null: as for the test"
    )
    train_classes: int | None = Field(default=None, description="number of training classes; null: all")
    names: tuple[str, ...] = Field(default=(), description="names of splits; empty: all")
    splits: int | None = Field(default=None, description="number of these splits, evenly spaced; null: all")
    limit: int | None = Field(
        default=None, description="test episodes per split, or queries per class of exemplars; null: all"
    )
    validation_limit: int | None = Field(default=None, description="validation episodes per split; null: all")
    searches: tuple[str, ...] = Field(
        default=(), description="values that are searched on validation classes first"
    )
    tune_trials: int | None = Field(default=None, description="trials of that search")
    data: str = Field(default="", description="folder of the data; empty: the name of the data set")

    @property
    def run_key(self) -> str:
        """Name of the training; measurements that differ only in their tests share it."""
        return self._key({"way", "limit"} if self.trained_way is not None else {"limit"})

    @property
    def key(self) -> str:
        """Name of the measurement."""
        return self._key(set())

    def _key(self, without: set[str]) -> str:
        values = self.model_dump(mode="json", exclude=without)
        seed = "" if self.recipe is None else f"-seed{self.recipe.train.seed}"
        return f"{self.protocol}-{self.method}{seed}-{hash_json(values)[:10]}"

    @property
    def title(self) -> str:
        """Short description for messages and progress."""
        seed = "" if self.recipe is None else f", seed {self.recipe.train.seed}"
        return f"{self.method} on {self.protocol}{seed}"


@dataclass(frozen=True)
class PlacedCell:
    """A measurement and the row and column of the table that it fills."""

    row: int
    column: int
    cell: Cell


def list_cells(
    table: Table,
    preset: Preset,
    *,
    seeds: Sequence[int] | None = None,
    base: Recipe | None = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> tuple[PlacedCell, ...]:
    """List the measurements of a table.

    Args:
        table: The table.
        preset: How much of the table to run.
        seeds: Training seeds (default: those of the preset).
        base: Recipe that the methods change (default: that of the table).
        rows, columns: Names or numbers of the rows and columns to list (default: those of the preset).
    """
    start = RECIPES[table.base] if base is None else base
    seeds = preset.seeds if seeds is None else tuple(seeds)
    if not seeds:
        raise ConfigError("a table needs at least one seed, such as 0")
    chosen_rows = {number for text in rows for number in table.find_rows(text)}
    chosen_columns = {number for text in columns for number in table.find_columns(text)}
    return tuple(
        PlacedCell(r, c, cell)
        for r, row in enumerate(table.rows)
        if (r in chosen_rows if rows else not preset.rows or row.method in preset.rows)
        for c in (sorted(chosen_columns) if columns else _select_columns(table, preset))
        if table.is_measurable(row, c)
        for cell in _list_cells_of_seeds(table, row, table.columns[c], preset, seeds, start)
    )


def _select_columns(table: Table, preset: Preset) -> list[int]:
    """Return the numbers of the columns of a preset."""
    groups: dict[str, list[int]] = {}
    for number, column in enumerate(table.columns):
        if not column.mean and (not preset.columns or {column.name, column.group} & set(preset.columns)):
            groups.setdefault(column.group, []).append(number)
    if preset.columns_per_group is not None:
        groups = {
            name: [members[k * len(members) // count] for k in range(count)]
            for name, members in groups.items()
            if (count := min(len(members), preset.columns_per_group))
        }
    return sorted(number for members in groups.values() for number in members)


def _list_cells_of_seeds(
    table: Table, row: Row, column: Column, preset: Preset, seeds: Sequence[int], base: Recipe
) -> list[Cell]:
    """Return the measurements of one table cell: one per seed, or a single one if nothing is trained."""
    row = row if row.method is None else row.with_values(method=select_method(row.method, preset))
    settings: dict[str, Any] = {
        "method": row.method,
        "protocol": column.protocol,
        "way": _select_way(column, preset),
        "trained_way": column.trained_way,
        "train_classes": column.train_classes,
        "names": tuple(", ".join(filter(None, (row.split, name))) for name in column.splits),
        "splits": preset.splits,
        "limit": min((limit for limit in (preset.limit, column.limit) if limit is not None), default=None),
        "validation_limit": preset.validation_limit,
        "data": row.data or column.data,
    }
    if row.method in UNTRAINED:
        return [Cell(**settings)]
    recipe = build_recipe(table, row, column, base).with_values(preset.changes)
    if preset.coarse:
        recipe = _coarsen(recipe)
    if preset.way is not None:
        classes = min(train for train, *_ in get_protocol(str(column.protocol)).counts(column.train_classes))
        recipe = recipe.with_values({"way": min(preset.way, classes)})
    method = METHODS.get(str(row.method))
    searches = row.searches if row.searches is not None or method is None else method.searches
    if searches:
        settings |= {"searches": searches, "tune_trials": preset.tune_trials}
    return [Cell(**settings, recipe=recipe.with_values({"seed": seed})) for seed in seeds]


def select_method(method: str, preset: Preset) -> str:
    """Return the method that a preset runs for a method of a table: the same, or its variant with a small network."""
    small = f"{method}-small"
    return small if preset.small_rivals and small in METHODS else method


def _select_way(column: Column, preset: Preset) -> int | None:
    """Return the classes per episode of a column, at most those of the preset."""
    protocol = get_protocol(str(column.protocol))
    if preset.way is None or protocol.rules.exemplars:
        return column.way
    return min(preset.way, column.way or protocol.way)


def _coarsen(recipe: Recipe) -> Recipe:
    """Return a recipe whose views have the same ranges in the largest common step, and two transformer layers."""
    encoder, views = recipe.model.encoder, recipe.model.views
    if isinstance(encoder, GraphEncoderConfig) and encoder.transformer:
        recipe = recipe.with_values({"encoder.depth": min(2, encoder.depth)})
    if isinstance(views, NoViewsConfig):
        return recipe
    step = math.gcd(round(views.azimuth), round(views.altitude))
    exact = step and (views.azimuth % step, views.altitude % step) == (0, 0)
    return recipe.with_values({"views.step": step}) if exact else recipe


def build_recipe(table: Table, row: Row, column: Column, base: Recipe) -> Recipe:
    """Build the recipe of a cell.

    The base recipe is changed by the data set, the table, the method, the row and the column, in this order. A row
    that names a recipe uses that recipe and changes it only by row and column.
    """
    name = str(row.method)
    if name in RECIPES and name not in METHODS:
        return RECIPES[name].with_values({**row.changes, **column.changes})
    start = base
    if column.protocol is not None:
        start = fit_recipe(base, get_protocol(column.protocol).dataset)
    start = start.with_values(table.changes)
    return get_method(name).recipe(start).with_values({**row.changes, **column.changes})
