"""``jeanie index``: prepare a large archive for fast searches."""

from typing import Annotated

import typer
from rich.table import Table

from jeanie.cli.options import ModelSource, accept_option_groups, list_skipped
from jeanie.cli.searched_archive import SearchedArchive
from jeanie.cli.terminal import AsJson, exit_on_error, print_report, show_progress
from jeanie.datasets import ReadOptions
from jeanie.recogniser.search.build_index import build_index

__all__ = ["index"]


@accept_option_groups
def index(
    archive: Annotated[
        str, typer.Argument(help="What to index: an archive, a folder of recordings or a data set.")
    ],
    seconds: Annotated[
        list[float] | None,
        typer.Option(help="Duration of the examples to search for, in seconds; repeatable (default: 2)."),
    ] = None,
    recall: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of the exact results that a search should find.")
    ] = 0.99,
    samples: Annotated[
        int, typer.Option(min=0, help="Number of exact searches that measure the recall; 0 measures nothing.")
    ] = 60,
    as_json: AsJson = False,
    *,
    source: SearchedArchive,
    model: ModelSource,
    options: ReadOptions,
) -> None:
    """Build or update the index of a large archive for jeanie find. Only new and changed recordings are encoded."""
    with exit_on_error(as_json):
        dataset = source.open(archive, options)
        with show_progress(not as_json, "clips, then sample searches") as bar:
            report = build_index(
                model.load(), dataset, seconds=seconds or (2.0,), recall=recall, samples=samples, progress=bar,
                **source.arguments,
            )  # fmt: skip
        skipped = list_skipped(dataset)
        skipped += [{"file": name, "reason": reason} for name, reason in report.skipped]
        facts = {
            "index": str(report.path),
            "windows": report.windows,
            "added": report.added,
            "removed": report.removed,
            "cells": report.cells,
            "bytes": report.size,
            "recall": report.recall,
            "skipped": skipped,
        }
        table = Table("windows", "added", "removed", "size", "recall", box=None, pad_edge=False)
        measured = "not measured" if report.recall is None else f"{100 * report.recall:.1f} %"
        counts = (str(count) for count in (report.windows, report.added, report.removed))
        table.add_row(*counts, f"{report.size / 1e6:.1f} MB", measured)
        print_report(facts, [table], as_json, skipped)
