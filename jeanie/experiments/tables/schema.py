"""The printed tables and figures of the paper as data: which rows, which columns, which values, and what runs.

Files in ``experiments/printed`` hold what the paper prints, word for word and number for number. A figure is a
table whose columns are the points of its curves. What a row and a column mean as an experiment stands beside
the printed values: a method, a protocol, and the few values that a grid changes.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from jeanie.config import Config
from jeanie.encoders import PRESETS
from jeanie.errors import ConfigError
from jeanie.experiments.methods import METHODS
from jeanie.experiments.protocols import PROTOCOLS
from jeanie.experiments.recipes import RECIPES

__all__ = ["UNTRAINED", "Column", "Preset", "Row", "Table", "table", "tables"]

UNTRAINED: Mapping[str, str] = MappingProxyType(
    {
        "raw": "the strongest model without learning",
        "shipped": "the model that ships, not trained here",
    }
)
"""Methods that are measured without training, with what they are."""

Number = Annotated[float | None, BeforeValidator(lambda value: None if value == "-" else value)]


class Column(Config):
    """A column: a protocol with its numbers, or the mean of the columns before it."""

    name: str = Field(description="as printed")
    group: str = Field(default="", description="heading above several columns, as printed")
    protocol: str | None = Field(default=None, description="experiment; none for a mean")
    way: int | None = Field(default=None, ge=2, description="classes an episode; none: the protocol's")
    train_classes: int | None = Field(default=None, ge=0, description="none: the protocol's")
    trained_way: int | None = Field(
        default=None, ge=2, description="way of the splits that are trained and validated; none: the same way"
    )
    splits: tuple[str, ...] = Field(
        default=(), description="names of splits, or their last parts where rows have the first; none: all"
    )
    data: str = Field(default="", description="folder of the data; none: that of the data set's name")
    sizes: str = Field(default="small", description="encoder sizes that the paper has for this data set")
    episodes: int | None = Field(default=None, ge=1, description="training episodes; none: the base's")
    changes: dict[str, Any] = Field(default={}, description="values of the recipe that this column sets")
    mean: bool = Field(default=False, description="whether it is the mean of the columns before it")

    @model_validator(mode="after")
    def _check(self) -> "Column":
        if self.mean == (self.protocol is not None):
            raise ConfigError(f"column {self.name!r} needs a protocol or mean = true, and not both")
        if self.protocol is not None and self.protocol not in PROTOCOLS:
            raise ConfigError(f"column {self.name!r}: no protocol {self.protocol!r}")
        if self.sizes not in PRESETS:
            raise ConfigError(
                f"column {self.name!r}: no sizes {self.sizes!r}; known are {', '.join(PRESETS)}"
            )
        return self


class Row(Config):
    """A row: what is printed, and the method that regenerates it, or that it is cited."""

    name: str = Field(description="as printed")
    method: str | None = Field(default=None, description="what regenerates it: a method, recipe or model")
    cited: bool = Field(default=False, description="whether the paper takes it from others, and so do we")
    split: str = Field(default="", description="first part of a split's name; the column has the rest")
    data: str = Field(default="", description="folder of the data, where it is not the column's")
    changes: dict[str, Any] = Field(default={}, description="values of the recipe that this row sets")
    printed: tuple[Number, ...] = Field(default=(), description="one a column; none where none is printed")
    halves: tuple[Number, ...] = Field(default=(), description="what follows a printed ±")

    @model_validator(mode="after")
    def _check(self) -> "Row":
        if self.cited == (self.method is not None):
            raise ConfigError(f"row {self.name!r} needs a method or cited = true, and not both")
        known = METHODS.keys() | RECIPES.keys() | UNTRAINED.keys()
        if self.method is not None and self.method not in known:
            raise ConfigError(
                f"row {self.name!r}: no method {self.method!r}; known are {', '.join(sorted(known))}"
            )
        if self.halves and len(self.halves) != len(self.printed):
            raise ConfigError(f"row {self.name!r}: {len(self.printed)} values and {len(self.halves)} halves")
        return self


class Preset(Config):
    """How much of a table is run."""

    rows: tuple[str, ...] = Field(default=(), description="methods of the rows that run; none: all")
    columns: tuple[str, ...] = Field(default=(), description="names or groups of columns; none: all")
    splits: int | None = Field(default=None, ge=1, description="splits of a column, spread evenly; none: all")
    limit: int | None = Field(default=None, ge=1, description="test episodes of a split; none: all")
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1, description="seeds of the training")
    changes: dict[str, Any] = Field(default={}, description="values of the recipe, such as episodes")


# Enough to see a table filled, not to compare it with what is printed.
_QUICK = Preset(splits=1, limit=20, changes={"episodes": 200, "validate_every": 100, "checkpoint_every": 100})


class Table(Config):
    """A table or figure: rows and columns with printed values, and how they run."""

    name: str = Field(description="what it is called on the command line")
    kind: Literal["table", "figure"] = Field(default="table", description="a figure's columns are its points")
    title: str = Field(description="what it shows")
    source: str = Field(description="where the printed values stand")
    note: str = Field(default="", description="what a reader must know of the printed values, or of ours")
    base: str = Field(default="authors", description="recipe that the methods change")
    changes: dict[str, Any] = Field(default={}, description="values of the base that this table sets")
    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[Row, ...] = Field(min_length=1)
    against: str = Field(default="", description="method that the others are compared with, query by query")
    full: Preset = Preset()
    quick: Preset = _QUICK

    @model_validator(mode="after")
    def _check(self) -> "Table":
        if self.base not in RECIPES:
            raise ConfigError(f"{self.name}: no recipe {self.base!r}; known are {', '.join(RECIPES)}")
        for row in self.rows:
            if row.printed and len(row.printed) != len(self.columns):
                raise ConfigError(
                    f"{self.name}: row {row.name!r} has {len(row.printed)} printed values for "
                    f"{len(self.columns)} columns"
                )
        return self

    def printed(self, row: Row, column: int) -> tuple[float | None, float | None]:
        """The printed value of a cell and what follows its ±; None where the paper has none."""
        value = row.printed[column] if row.printed else None
        return value, row.halves[column] if row.halves else None

    def asked(self, row: Row, column: int) -> bool:
        """Whether a cell can be run: it has a method, and the paper does not leave it out of a printed row."""
        left_out = bool(row.printed) and row.printed[column] is None
        return row.method is not None and not self.columns[column].mean and not left_out

    def listed(self) -> dict[str, Any]:
        """The table in plain values: every row with its printed values and its method or "cited"."""
        return {
            "name": self.name,
            "kind": self.kind,
            "title": self.title,
            "source": self.source,
            "note": self.note,
            "base": self.base,
            "columns": [column.model_dump(mode="json") for column in self.columns],
            "rows": [
                {
                    "name": row.name,
                    "method": row.method or "cited",
                    "changes": row.changes,
                    "printed": list(row.printed) or [None] * len(self.columns),
                    "halves": list(row.halves) or [None] * len(self.columns),
                }
                for row in self.rows
            ],
        }


@cache
def tables() -> Mapping[str, Table]:
    """All tables and figures by name, those of the paper and our own."""
    folder = resources.files("jeanie.experiments").joinpath("printed")
    found = {}
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".toml"):
            one = Table(**tomllib.loads(file.read_text(encoding="utf-8")))
            found[one.name] = one
    return MappingProxyType(found)


def table(name: str) -> Table:
    """The table or figure of this name, or that of a TOML file of one's own."""
    if name.endswith(".toml"):
        return Table.read(name)
    if name not in tables():
        raise ConfigError(f"no table {name!r}; the known ones are {', '.join(tables())}, or a file NAME.toml")
    return tables()[name]
