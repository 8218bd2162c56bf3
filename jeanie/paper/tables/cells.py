"""The measurements that fill a table: one per cell and seed, identified by what it computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from jeanie._internal.digest import hash_json
from jeanie.config import Config
from jeanie.encoders import PRESETS
from jeanie.errors import ConfigError
from jeanie.paper.methods import METHODS, get_method
from jeanie.paper.tables.schema import UNTRAINED, Column, Preset, Row, Table
from jeanie.training.recipes import RECIPES, Recipe

__all__ = ["Cell", "PlacedCell", "build_recipe", "list_cells"]

# sizes that the paper prints per data set; the other values of a preset belong to a recipe or a method
_SIZES = ("width", "features", "hidden", "heads", "head_size", "depth")


class Cell(Config):
    """One measurement: a method on a protocol under one seed.

    The key is derived from what the measurement computes. So tables share measurements, different settings
    never mix, and a stored measurement is not repeated.
    """

    method: str = Field(description="method, recipe or model to measure")
    protocol: str = Field(description="protocol to measure on")
    recipe: Recipe | None = Field(default=None, description="model and training; none for untrained models")
    way: int | None = None
    trained_way: int | None = None
    train_classes: int | None = None
    names: tuple[str, ...] = Field(default=(), description="names of splits; empty: all")
    splits: int | None = Field(default=None, description="number of these splits, evenly spaced; none: all")
    limit: int | None = Field(default=None, description="test episodes per split; none: all")
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
        """Short description for people."""
        seed = "" if self.recipe is None else f", seed {self.recipe.train.seed}"
        return f"{self.method} on {self.protocol}{seed}"


@dataclass(frozen=True)
class PlacedCell:
    """A measurement and the row and column of the table that it fills."""

    row: int
    column: int
    cell: Cell


def list_cells(
    table: Table, preset: Preset, *, seeds: Sequence[int] | None = None, base: Recipe | None = None
) -> tuple[PlacedCell, ...]:
    """List the measurements of a table.

    Args:
        table: The table.
        preset: How much of the table to run.
        seeds: Training seeds (default: those of the preset).
        base: Recipe that the methods change (default: that of the table).
    """
    start = RECIPES[table.base] if base is None else base
    seeds = preset.seeds if seeds is None else tuple(seeds)
    if not seeds:
        raise ConfigError("a table needs at least one seed, such as 0")
    return tuple(
        PlacedCell(r, c, cell)
        for r, row in enumerate(table.rows)
        if not preset.rows or row.method in preset.rows
        for c, column in enumerate(table.columns)
        if table.is_measurable(row, c) and _is_selected(column, preset)
        for cell in _cells_of_seeds(table, row, column, preset, seeds, start)
    )


def _is_selected(column: Column, preset: Preset) -> bool:
    return not preset.columns or bool({column.name, column.group} & set(preset.columns))


def _cells_of_seeds(
    table: Table, row: Row, column: Column, preset: Preset, seeds: Sequence[int], base: Recipe
) -> list[Cell]:
    """Return the measurements of one table cell: one per seed, or a single one if nothing is trained."""
    settings: dict[str, Any] = {
        "method": row.method,
        "protocol": column.protocol,
        "way": column.way,
        "trained_way": column.trained_way,
        "train_classes": column.train_classes,
        "names": tuple(", ".join(filter(None, (row.split, name))) for name in column.splits),
        "splits": preset.splits,
        "limit": preset.limit,
        "data": row.data or column.data,
    }
    if row.method in UNTRAINED:
        return [Cell(**settings)]
    recipe = build_recipe(table, row, column, base).with_values(preset.changes)
    return [Cell(**settings, recipe=recipe.with_values({"seed": seed})) for seed in seeds]


def build_recipe(table: Table, row: Row, column: Column, base: Recipe) -> Recipe:
    """Build the recipe of a cell.

    The base recipe is changed by the table, the data set, the method, the row and the column, in this order. A row
    that names a recipe uses that recipe and changes it only by row and column.
    """
    name = str(row.method)
    if name in RECIPES and name not in METHODS:
        return RECIPES[name].with_values({**row.changes, **column.changes})
    start = base.with_values({**table.changes, **_sizes(column)})
    return get_method(name).recipe(start).with_values({**row.changes, **column.changes})


def _sizes(column: Column) -> Mapping[str, Any]:
    """Return the encoder sizes and the number of episodes that the paper uses for a column's data set."""
    sizes = PRESETS[column.sizes]
    changes: dict[str, Any] = {}
    if column.sizes != "small":
        changes = {f"encoder.{name}": getattr(sizes, name) for name in _SIZES}
    return changes if column.episodes is None else {**changes, "episodes": column.episodes}
