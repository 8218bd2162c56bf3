"""``jeanie cache``: what jeanie keeps on disk to be faster, and how to remove it."""

import contextlib
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.options import get_default_cache
from jeanie.cli.terminal import AsJson, exit_on_error, format_quantity, print_report
from jeanie.errors import ConfigError
from jeanie.recogniser.search.cache import is_cache_file, is_current
from jeanie.recogniser.search.index import is_index_file

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
    outdated: Annotated[
        bool, typer.Option("--outdated", help="With --clear: delete only files of earlier versions.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the cached features and indexes of searched recordings, or delete them. Other files are left alone."""
    with exit_on_error(as_json):
        if (older is not None or outdated) and not clear:
            raise ConfigError("--older and --outdated belong to --clear")
        place = get_default_cache() if folder is None else folder
        files = [file for file in sorted(place.glob("*")) if is_cache_file(file)] if place.is_dir() else []
        files += [file for file in sorted(place.glob("*index-*/*")) if is_index_file(file)]
        old = [file for file in files if not is_index_file(file) and not is_current(file)]
        limit = time.time() - (older or 0) * _DAY
        removed = (
            [file for file in (old if outdated else files) if file.stat().st_mtime <= limit] if clear else []
        )
        facts: dict[str, Any] = {"folder": str(place), **_count(files), "outdated": _count(old)}
        if clear:
            facts["removed"] = _count(removed)
        for file in removed:
            file.unlink(missing_ok=True)
        for empty in {file.parent for file in removed} - {place}:
            with contextlib.suppress(OSError):  # another process is writing into it
                empty.rmdir()
        print_report(facts, [_make_table(facts)], as_json)


def _count(files: list[Path]) -> dict[str, int]:
    return {
        "files": len(files),
        "entries": sum(file.suffix == ".json" for file in files),
        "bytes": sum(file.stat().st_size for file in files),
    }


def _make_table(facts: dict[str, Any]) -> Table:
    table = Table("cache", "content", "size", box=None, pad_edge=False)
    old = facts["outdated"] if facts["outdated"]["files"] else None
    for name, counts in (("search features", facts), ("outdated", old), ("removed", facts.get("removed"))):
        if counts is not None:
            place = escape(facts["folder"]) if counts is facts else name
            table.add_row(place, format_quantity(counts["files"], "file"), _format_size(counts["bytes"]))
    return table


def _format_size(count: int) -> str:
    """Return a number of bytes with its unit."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"
