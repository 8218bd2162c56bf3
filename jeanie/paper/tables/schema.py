"""The printed tables and figures of the paper as data: rows, columns, values, and the experiments behind them.

Files in ``paper/printed`` hold the words and numbers that the paper prints. A figure is a table whose columns are
the points of its curves. Rows and columns also define the experiment: a method, a protocol, and changed values.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from jeanie.config import Config
from jeanie.errors import ConfigError
from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.paper.methods import METHODS
from jeanie.training.recipes import RECIPES

__all__ = ["UNTRAINED", "Column", "Preset", "Row", "Table", "get_table", "load_tables"]

UNTRAINED: Mapping[str, str] = MappingProxyType(
    {
        "raw": "the reference: the best model without learning",
        "shipped": "the pretrained model of the package",
    }
)
"""Methods that are measured without training, with their descriptions."""

Number = Annotated[float | None, BeforeValidator(lambda value: None if value == "-" else value)]


class Column(Config):
    """A column: a protocol and its settings, or the mean of the columns before it."""

    name: str = Field(description="as printed")
    group: str = Field(default="", description="heading above several columns, as printed")
    protocol: str | None = Field(default=None, description="protocol; null for a mean")
    way: int | None = Field(default=None, ge=2, description="classes per episode; null: that of the protocol")
    train_classes: int | None = Field(
        default=None, ge=0, description="training classes; null: those of the protocol"
    )
    trained_way: int | None = Field(
        default=None, ge=2, description="way of training and validation episodes; null: the same way"
    )
    splits: tuple[str, ...] = Field(
        default=(), description="names of splits, or their last parts if rows give the first part; empty: all"
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        description="test episodes per split at most, or queries per class of exemplars; null: all",
    )
    data: str = Field(default="", description="folder of the data; empty: the name of the data set")
    changes: dict[str, Any] = Field(default={}, description="recipe values that this column changes")
    mean: bool = Field(default=False, description="whether it is the mean of the columns before it")

    @model_validator(mode="after")
    def _check(self) -> "Column":
        if self.mean == (self.protocol is not None):
            raise ConfigError(f"column {self.name!r} needs a protocol or mean = true, and not both")
        if self.protocol is not None and self.protocol not in PROTOCOLS:
            raise ConfigError(f"column {self.name!r}: no protocol {self.protocol!r}")
        return self


class Row(Config):
    """A row: printed values, and the method that measures them, unless the values are cited."""

    name: str = Field(description="as printed")
    method: str | None = Field(default=None, description="method, recipe or model to measure")
    cited: bool = Field(default=False, description="whether the paper cites the values from other work")
    split: str = Field(default="", description="first part of the split names; the column gives the rest")
    data: str = Field(default="", description="folder of the data; empty: that of the column")
    changes: dict[str, Any] = Field(default={}, description="recipe values that this row changes")
    searches: tuple[str, ...] | None = Field(
        default=None,
        description="values that are searched on validation classes first; null: those of the method",
    )
    printed: tuple[Number, ...] = Field(
        default=(), description="one value per column; empty if none is printed"
    )
    halves: tuple[Number, ...] = Field(default=(), description="numbers after a printed ±")

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

    rows: tuple[str, ...] = Field(default=(), description="methods of the rows to run; empty: all")
    columns: tuple[str, ...] = Field(
        default=(), description="names or groups of the columns to run; empty: all"
    )
    columns_per_group: int | None = Field(
        default=None, ge=1, description="columns per heading, evenly spaced; null: all"
    )
    splits: int | None = Field(default=None, ge=1, description="splits per column, evenly spaced; null: all")
    limit: int | None = Field(
        default=None,
        ge=1,
        description="test episodes per split, or queries per class of fixed exemplars; null: all",
    )
    validation_limit: int | None = Field(
        default=None, ge=1, description="validation episodes per split; null: all"
    )
    tune_trials: int = Field(
        default=20, ge=1, description="trials of the search for angle ranges, in rows with crossval."
    )
    way: int | None = Field(
        default=None,
        ge=2,
        description="largest number of classes per episode, except in tests with fixed exemplars; null: any",
    )
    small_rivals: bool = Field(
        default=False,
        description="whether compared systems use small networks (methods NAME-small) instead of the published ones",
    )
    coarse: bool = Field(
        default=False,
        description="whether views cover their ranges in the largest steps, and transformers have two layers",
    )
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1, description="training seeds")
    changes: dict[str, Any] = Field(default={}, description="recipe values to change, such as episodes")


# Enough to check that a table can be filled; too little to compare with the printed values.
_QUICK = Preset(
    columns_per_group=1,
    splits=1,
    limit=2,
    validation_limit=2,
    tune_trials=2,
    way=5,
    small_rivals=True,
    coarse=True,
    changes={
        "episodes": 8,
        "batch": 4,
        "validate_every": 8,
        "checkpoint_every": 8,
        "inputs.prepare.frames": 32,
    },
)


class Table(Config):
    """A table or figure: rows and columns with printed values, and how they run."""

    name: str = Field(description="name on the command line")
    kind: Literal["table", "figure"] = Field(default="table", description="a figure's columns are its points")
    title: str = Field(description="content of the table")
    source: str = Field(description="place of the printed values in the paper")
    note: str = Field(default="", description="notes on the printed values or on ours")
    base: str = Field(default="authors", description="recipe that the methods change")
    changes: dict[str, Any] = Field(default={}, description="values of the base that this table sets")
    columns: tuple[Column, ...] = Field(min_length=1, description="the columns, as printed")
    rows: tuple[Row, ...] = Field(min_length=1, description="the rows, as printed")
    against: str = Field(default="", description="method that the others are compared with, query by query")
    full: Preset = Field(default=Preset(), description="what jeanie tables runs")
    quick: Preset = Field(default=_QUICK, description="what --quick runs")

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

    def printed_value(self, row: Row, column: int) -> tuple[float | None, float | None]:
        """Return the printed value of a cell and the number after its ±; None if the paper has none."""
        value = row.printed[column] if row.printed else None
        return value, row.halves[column] if row.halves else None

    def is_measurable(self, row: Row, column: int) -> bool:
        """Return whether a cell can be measured: it has a method, and the paper does not leave it out."""
        left_out = bool(row.printed) and row.printed[column] is None
        return row.method is not None and not self.columns[column].mean and not left_out

    def heading(self, column: int) -> str:
        """Return the heading of a column with that of its group, as "group: name"."""
        spec = self.columns[column]
        return f"{spec.group}: {spec.name}" if spec.group else spec.name

    def find_rows(self, text: str) -> list[int]:
        """Return the rows that a text names: by number from 1, by printed name, or by method.

        Raises:
            ConfigError: There is no such row.
        """
        names = [{row.name, row.method or "cited"} for row in self.rows]
        return _find(text, names, "row", [row.name for row in self.rows], self.name)

    def find_columns(self, text: str) -> list[int]:
        """Return the columns that a text names: by number from 1, by name, by group, or as "group: name".

        Raises:
            ConfigError: There is no such column.
        """
        headings = [self.heading(number) for number in range(len(self.columns))]
        names = [
            {column.name, column.group, heading}
            for column, heading in zip(self.columns, headings, strict=True)
        ]
        return _find(text, names, "column", headings, self.name)

    def describe(self) -> dict[str, Any]:
        """Return the table as plain values: every row with its printed values and its method or "cited"."""
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


def _find(text: str, names: Sequence[set[str]], kind: str, titles: Sequence[str], table: str) -> list[int]:
    matches = [number for number, known in enumerate(names) if text in known]
    if not matches and text.isdecimal() and 1 <= int(text) <= len(names):
        matches = [int(text) - 1]
    if not matches:
        listing = ", ".join(f"{number} {name!r}" for number, name in enumerate(titles, 1))
        raise ConfigError(f"{table} has no {kind} {text!r}; give the number or the name of one of: {listing}")
    return matches


@cache
def load_tables() -> Mapping[str, Table]:
    """Load all tables and figures by name: those of the paper and our own."""
    folder = resources.files("jeanie.paper").joinpath("printed")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    tables = [
        Table(**tomllib.loads(file.read_text(encoding="utf-8")))
        for file in files
        if file.name.endswith(".toml")
    ]
    return MappingProxyType({table.name: table for table in tables})


def get_table(name: str) -> Table:
    """Return the table or figure with this name, or the table of a TOML file.

    Raises:
        ConfigError: There is no such table.
    """
    if name.endswith(".toml"):
        return Table.from_file(name)
    if name not in load_tables():
        raise ConfigError(
            f"no table {name!r}; the known ones are {', '.join(load_tables())}, or a file NAME.toml"
        )
    return load_tables()[name]
