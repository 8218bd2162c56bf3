"""``jeanie cache``: what jeanie keeps on disk to be faster, and how to remove it."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.find import get_default_cache
from jeanie.cli.terminal import AsJson, exit_on_error, print_report, quantity
from jeanie.errors import ConfigError
from jeanie.recogniser.search.cache import is_cache_file

__all__ = ["cache"]

_DAY = 86_400


def cache(
    folder: Annotated[
        Path | None, typer.Option("--cache", help="Cache folder (default: the user cache folder).")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the cached files.")] = False,
    older: Annotated[
        float | None, typer.Option(min=0, help="With --clear: delete only files older than this many days.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the cached features of searched recordings, or delete them. Only files of the cache are deleted."""
    with exit_on_error(as_json):
        if older is not None and not clear:
            raise ConfigError("--older belongs to --clear")
        place = get_default_cache() if folder is None else folder
        files = [file for file in sorted(place.glob("*")) if is_cache_file(file)] if place.is_dir() else []
        limit = time.time() - (older or 0) * _DAY
        removed = [file for file in files if file.stat().st_mtime <= limit] if clear else []
        facts: dict[str, Any] = {"folder": str(place), **_count(files)}
        if clear:
            facts["removed"] = _count(removed)
        for file in removed:
            file.unlink(missing_ok=True)
        print_report(facts, [_make_table(facts)], as_json)


def _count(files: list[Path]) -> dict[str, int]:
    return {
        "files": len(files),
        "entries": sum(file.suffix == ".json" for file in files),
        "bytes": sum(file.stat().st_size for file in files),
    }


def _make_table(facts: dict[str, Any]) -> Table:
    table = Table("cache", "content", "size", box=None, pad_edge=False)
    for name, counts in (("search features", facts), ("removed", facts.get("removed"))):
        if counts is not None:
            place = escape(facts["folder"]) if name != "removed" else name
            table.add_row(place, quantity(counts["files"], "file"), f"{counts['bytes'] / 1e6:.1f} MB")
    return table
