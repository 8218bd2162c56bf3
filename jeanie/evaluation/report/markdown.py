"""Text and tables in Markdown."""

from collections.abc import Iterable, Sequence

__all__ = ["escape_markdown", "format_row", "format_table"]


def escape_markdown(text: object) -> str:
    """Escape text from files, such as labels, so that Markdown shows it unchanged."""
    plain = " ".join(str(text).split())
    for sign in "\\`*_[]<>|":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def format_row(cells: Iterable[object]) -> str:
    """Format the row of a table; cells are plain text."""
    return f"| {' | '.join(map(escape_markdown, cells))} |"


def format_table(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Format a table as lines; headings and cells are plain text."""
    return [format_row(heads), "|" + "---|" * len(heads), *map(format_row, rows)]
