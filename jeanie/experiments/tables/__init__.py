"""The paper's tables and figures regenerated: printed values, grids of measurements, ours beside them."""

from jeanie.experiments.tables.filled import Filled, fill
from jeanie.experiments.tables.grid import Cell, Placed, grid
from jeanie.experiments.tables.render import html, markdown, write
from jeanie.experiments.tables.runner import Shard, run_cells
from jeanie.experiments.tables.schema import Preset, Table, table, tables

__all__ = [
    "Cell",
    "Filled",
    "Placed",
    "Preset",
    "Shard",
    "Table",
    "fill",
    "grid",
    "html",
    "markdown",
    "run_cells",
    "table",
    "tables",
    "write",
]
