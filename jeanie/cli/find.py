"""``jeanie find``: search recordings for segments like an example."""

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jeanie.cli.options import ModelFolder, open_source
from jeanie.cli.terminal import AsJson, exit_on_error, show_progress, user_folder
from jeanie.datasets import read_motion
from jeanie.errors import ConfigError
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.find import SearchResult
from jeanie.recogniser.search.find import find as find_in

__all__ = ["find"]


def find(
    example: Annotated[Path, typer.Argument(help="Recording of the movement to search for.")],
    archive: Annotated[
        str,
        typer.Argument(help="What to search: an archive, a folder of recordings, a recording or a data set."),
    ],
    k: Annotated[int, typer.Option("--k", min=1, help="Number of segments to return.")] = 10,
    part: Annotated[
        str | None,
        typer.Option("--part", help="Part of the example to search for, in seconds, for example 2.5-4."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of worker processes that read recordings.")] = 1,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Cache folder for the features of the recordings (default: the user cache folder)."
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip files that cannot be read and list them.")
    ] = False,
    model: ModelFolder = None,
    as_json: AsJson = False,
) -> None:
    """Find the segments of recordings that are most similar to an example. An interrupted search can be continued."""
    with exit_on_error(as_json):
        query = read_motion(example)
        if part is not None:
            query = query[_parse_part(part, query.rate or 30.0, len(query))]
        with show_progress(not as_json) as bar:
            result = find_in(
                FewShotModel.load(model), query, open_source(archive), k,
                jobs=jobs, cache=cache or default_cache(), skip_bad=skip_bad, progress=bar,
            )  # fmt: skip
        typer.echo(json.dumps(_result_facts(result))) if as_json else _print_result(result)


def default_cache() -> Path:
    """Return the search cache of this user."""
    return user_folder("cache") / "search"


def _parse_part(part: str, rate: float, frames: int) -> slice:
    """Return the frames of a part in seconds, such as "2.5-4"."""
    first, dash, last = part.partition("-")
    try:
        start, end = float(first or 0), float(last) if last else frames / rate
    except ValueError:
        start, end, dash = 0.0, 0.0, ""
    cut = slice(round(start * rate), round(end * rate))
    if not dash or not isfinite(start + end) or not 0 <= cut.start < min(cut.stop, frames):
        raise ConfigError(
            f"--part must be START-END in seconds within the {frames / rate:.1f} s of the example, got {part!r}"
        )
    return cut


def _result_facts(result: SearchResult) -> dict[str, Any]:
    rows = [asdict(match) | {"seconds": match.seconds} for match in result]
    skipped = [{"name": name, "reason": reason} for name, reason in result.skipped]
    return {"windows": result.windows, "compared": result.compared, "matches": rows, "skipped": skipped}


def _print_result(result: SearchResult) -> None:
    table = Table("clip", box=None, pad_edge=False)
    for name in ("from", "to", "distance"):
        table.add_column(name, justify="right")
    table.add_column("label")
    for match in result:
        unit, ends = ("s", match.seconds) if match.seconds else ("", (match.start, match.end))
        place = [f"{end:.2f} {unit}" if unit else str(end) for end in ends]
        label = "" if match.label is None else str(match.label)
        table.add_row(escape(match.name or str(match.clip)), *place, f"{match.distance:.4f}", escape(label))
    Console(highlight=False).print(table)
    share = 100 * result.compared / max(1, result.windows)
    typer.echo(f"{result.windows} windows, {share:.1f} % of them aligned", err=True)
    for name, reason in result.skipped:
        typer.echo(f"skipped {name}: {reason}", err=True)
