"""From a table to the measurements that fill it: one for each cell and seed, known by what it computes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from jeanie.config import Config
from jeanie.encoders import PRESETS
from jeanie.errors import ConfigError
from jeanie.experiments.methods import METHODS
from jeanie.experiments.methods import method as method_of
from jeanie.experiments.recipes import RECIPES, Recipe
from jeanie.experiments.tables.schema import UNTRAINED, Column, Preset, Row, Table

__all__ = ["Cell", "Placed", "grid", "recipe_of"]

# what the paper prints for each data set; the rest of a preset belongs to a recipe or a method
_SIZES = ("width", "features", "hidden", "heads", "head_size", "depth")


class Cell(Config):
    """One measurement: a method on a protocol under one seed.

    Its name is made of what it computes, so tables share measurements, other settings never mix, and a
    measurement that is there need not be made again.
    """

    method: str = Field(description="what is measured")
    protocol: str = Field(description="on what")
    recipe: Recipe | None = Field(
        default=None, description="model and training; none for what is not trained"
    )
    way: int | None = None
    trained_way: int | None = None
    train_classes: int | None = None
    names: tuple[str, ...] = Field(default=(), description="splits by name; none: all")
    splits: int | None = Field(default=None, description="how many of them, spread evenly; none: all")
    limit: int | None = Field(default=None, description="test episodes of each split; none: all")
    data: str = Field(default="", description="folder of the data; none: that of the data set's name")

    @property
    def run_key(self) -> str:
        """Name of the training: measurements that differ in their tests only share it."""
        return self._key({"way", "limit"} if self.trained_way is not None else {"limit"})

    @property
    def key(self) -> str:
        """Name of the measurement."""
        return self._key(set())

    def _key(self, without: set[str]) -> str:
        values = self.model_dump(mode="json", exclude=without)
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
        seed = "" if self.recipe is None else f"-seed{self.recipe.train.seed}"
        return f"{self.protocol}-{self.method}{seed}-{digest[:10]}"

    @property
    def title(self) -> str:
        """What it is, for whoever watches."""
        seed = "" if self.recipe is None else f", seed {self.recipe.train.seed}"
        return f"{self.method} on {self.protocol}{seed}"


@dataclass(frozen=True)
class Placed:
    """A measurement and the cell of a table that it fills, by numbers of row and column."""

    row: int
    column: int
    cell: Cell


def grid(
    table: Table, preset: Preset, *, seeds: Sequence[int] | None = None, base: Recipe | None = None
) -> tuple[Placed, ...]:
    """The measurements of a table under a preset; ``base`` replaces the recipe that methods change."""
    start = RECIPES[table.base] if base is None else base
    seeds = preset.seeds if seeds is None else tuple(seeds)
    if not seeds:
        raise ConfigError("a table needs at least one seed, such as 0")
    return tuple(
        Placed(r, c, cell)
        for r, row in enumerate(table.rows)
        if not preset.rows or row.method in preset.rows
        for c, column in enumerate(table.columns)
        if table.asked(row, c) and _within(column, preset)
        for cell in _cells(table, row, column, preset, seeds, start)
    )


def _within(column: Column, preset: Preset) -> bool:
    return not preset.columns or bool({column.name, column.group} & set(preset.columns))


def _cells(
    table: Table, row: Row, column: Column, preset: Preset, seeds: Sequence[int], base: Recipe
) -> list[Cell]:
    """The measurements of one cell, one a seed; what is not trained has none."""
    place: dict[str, Any] = {
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
        return [Cell(**place)]
    recipe = recipe_of(table, row, column, base).changed(preset.changes)
    return [Cell(**place, recipe=recipe.changed({"seed": seed})) for seed in seeds]


def recipe_of(table: Table, row: Row, column: Column, base: Recipe) -> Recipe:
    """Model and training of a cell: the base, its table and data set, the method, then the row and column.

    A row that names a recipe takes it as it is, and its own changes.
    """
    name = str(row.method)
    if name in RECIPES and name not in METHODS:
        return RECIPES[name].changed({**row.changes, **column.changes})
    start = base.changed({**table.changes, **_sized(column)})
    return method_of(name).recipe(start).changed({**row.changes, **column.changes})


def _sized(column: Column) -> Mapping[str, Any]:
    """The encoder sizes and the episodes that the paper has for a column's data set."""
    sizes = PRESETS[column.sizes]
    changes: dict[str, Any] = {}
    if column.sizes != "small":
        changes = {f"encoder.{name}": getattr(sizes, name) for name in _SIZES}
    return changes if column.episodes is None else {**changes, "episodes": column.episodes}
