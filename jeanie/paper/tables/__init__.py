"""The paper's tables and figures measured again: printed values as data, measurements, and rendered tables."""

from jeanie.paper.tables.cells import Cell, PlacedCell, list_cells
from jeanie.paper.tables.estimate import Estimate, estimate_cells
from jeanie.paper.tables.filled_table import FilledTable, fill_table
from jeanie.paper.tables.render import render_html, render_markdown, write_table
from jeanie.paper.tables.runner import run_cells
from jeanie.paper.tables.schema import Preset, Table, get_table, load_tables

__all__ = [
    "Cell",
    "Estimate",
    "FilledTable",
    "PlacedCell",
    "Preset",
    "Table",
    "estimate_cells",
    "fill_table",
    "get_table",
    "list_cells",
    "load_tables",
    "render_html",
    "render_markdown",
    "run_cells",
    "write_table",
]
