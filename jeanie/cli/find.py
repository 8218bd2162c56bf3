"""``jeanie find``: search recordings for segments like an example."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.example_part import ExamplePart, select_part
from jeanie.cli.exports import RESULT_COLUMNS, CsvFile, LatexFile, check_folders, write_rows
from jeanie.cli.options import ModelSource, accept_option_groups, list_skipped
from jeanie.cli.searched_archive import SearchedArchive
from jeanie.cli.terminal import AsJson, exit_on_error, print_skipped, print_table, show_progress
from jeanie.datasets import ReadOptions
from jeanie.recogniser.explain.hits_page import ANIMATED, write_hits_page
from jeanie.recogniser.hits import Hit, cut_segments, rate_matches
from jeanie.recogniser.search.find import SearchResult
from jeanie.recogniser.search.find import find as find_in

__all__ = ["find"]


@accept_option_groups
def find(
    example: Annotated[Path, typer.Argument(help="Recording of the movement to search for.")],
    archive: Annotated[
        str,
        typer.Argument(help="What to search: an archive, a folder of recordings, a recording or a data set."),
    ],
    k: Annotated[int, typer.Option("--k", min=1, help="Number of segments to return.")] = 10,
    part: ExamplePart = None,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out segments with a lower confidence.")
    ] = 0.0,
    csv: CsvFile = None,
    latex: LatexFile = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--html",
            "--page",
            help="Write an HTML page that plays the segments and exports a selection as CSV.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Compare the example with every window, even if there is an index."),
    ] = False,
    as_json: AsJson = False,
    *,
    source: SearchedArchive,
    model: ModelSource,
    options: ReadOptions,
) -> None:
    """Find the segments of recordings that are most similar to an example. An interrupted search can be continued."""
    with exit_on_error(as_json):
        check_folders(csv, latex, page)
        query = select_part(options.read(example), part)
        loaded, dataset = model.load(), source.open(archive, options)
        with show_progress(not as_json) as bar:
            result = find_in(
                loaded, query, dataset, k, exact=True if exact else None, progress=bar, **source.arguments
            )
        hits = [hit for hit in rate_matches(loaded, query, dataset, result) if hit.confidence >= threshold]
        rows = [hit.json() for hit in hits]
        files = write_rows(RESULT_COLUMNS, rows, csv, latex)
        if page is not None:
            motions = dict(cut_segments(dataset, hits[:ANIMATED]))
            segments = [motions[hit] for hit in hits[:ANIMATED]]
            write_hits_page(
                page,
                rows,
                segments,
                title=f"Segments like {example.name}",
                kind="Search results",
                threshold=threshold,
            )
            files["page"] = str(page)
        skipped = list_skipped(dataset)
        skipped += [{"file": name, "reason": reason} for name, reason in result.skipped]
        if as_json:
            facts = {
                "windows": result.windows,
                "looked_at": result.looked_at,
                "compared": result.compared,
                "exact": result.exact,
                "recall": result.recall,
                "results": rows,
                "skipped": skipped,
            }
            typer.echo(json.dumps(facts | files))
        else:
            _print_result(result, hits, files)
            print_skipped(skipped)


def _print_result(result: SearchResult, hits: list[Hit], files: dict[str, str]) -> None:
    table = Table("file", box=None, pad_edge=False)
    for name in ("from", "to", "confidence", "distance"):
        table.add_column(name, justify="right")
    table.add_column("label")
    for hit in hits:
        unit, ends = ("", (hit.start, hit.end)) if hit.seconds is None else (" s", hit.seconds)
        place = [f"{end:.2f}{unit}" if unit else str(end) for end in ends]
        cells = [f"{hit.confidence:.2f}", f"{hit.distance:.4f}"]
        table.add_row(escape(hit.file), *place, *cells, "" if hit.label is None else escape(str(hit.label)))
    print_table(table)
    share = 100 * result.compared / max(1, result.windows)
    if result.exact:
        typer.echo(f"{result.windows} windows, {share:.1f} % of them aligned", err=True)
    else:
        recall = "not measured" if result.recall is None else f"{100 * result.recall:.1f} %"
        typer.echo(
            f"{result.windows} windows, {result.looked_at} looked at, {result.compared} aligned; recall {recall} "
            "(--exact compares all)",
            err=True,
        )
    for name, path in files.items():
        typer.echo(f"{name}: {path}", err=True)
