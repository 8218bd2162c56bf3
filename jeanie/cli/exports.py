"""Options that write results to files, which several commands share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from jeanie._internal.files import write_atomically
from jeanie._internal.tabular import format_csv, format_latex
from jeanie.errors import ConfigError

__all__ = ["RESULT_COLUMNS", "CsvFile", "LatexFile", "check_folders", "write_rows"]

CsvFile = Annotated[Path | None, typer.Option("--csv", help="Write the results to this CSV file.")]

LatexFile = Annotated[
    Path | None, typer.Option("--latex", help="Write the results to this file as a LaTeX table (booktabs).")
]

RESULT_COLUMNS = ("file", "start_s", "end_s", "label", "confidence", "distance")
"""The columns of every result about a recording or a part of it; docs/json.md defines them."""


def check_folders(*paths: Path | None) -> None:
    """Raise ConfigError if the folder of a file to write does not exist, before any work is done."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(f"{path}: no folder {path.absolute().parent}; create it first")


def write_rows(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], csv: Path | None, latex: Path | None
) -> dict[str, str]:
    """Write rows as CSV and LaTeX if a path is given; return the written paths by format."""
    paths = {}
    for name, path, render in (("csv", csv, format_csv), ("latex", latex, format_latex)):
        if path is not None:
            write_atomically(path, render(columns, rows).encode())
            paths[name] = str(path)
    return paths
