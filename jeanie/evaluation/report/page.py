"""Build the HTML pages of reports, tables and searches: one file each, without network access."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from jeanie._internal.html_page import fill_page

__all__ = ["build_page", "build_section", "build_table"]


def build_page(
    title: str,
    *,
    eyebrow: str,
    lead: str,
    sections: Iterable[str],
    notes: Iterable[str],
    facts: Mapping[str, str] | None = None,
    script: str = "",
    data: Sequence[Any] = (),
) -> str:
    """Build a page. Sections are HTML; everything else is text and is escaped.

    Args:
        title: Title of the page.
        eyebrow: Kind of the page, above the title.
        lead: First paragraph.
        sections: Sections as `build_section` returns them; empty ones are left out.
        notes: Paragraphs that explain how to read the page.
        facts: Names and values below the first paragraph; empty values are left out.
        script: Name of a script of this package.
        data: Values that the script reads.
    """
    rows = {} if facts is None else facts
    return fill_page(
        "jeanie.evaluation.report",
        "report.html",
        style="report.css",
        script=script,
        data=data,
        title=escape(title),
        eyebrow=escape(eyebrow),
        lead=escape(lead),
        facts="".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
            for name, value in rows.items()
            if value
        ),
        sections="\n".join(filter(None, sections)),
        notes="".join(f"<p>{escape(note)}</p>" for note in notes),
    )


def build_section(heading: str, note: str, body: str, name: str = "") -> str:
    """Build a section of a page; the body is HTML, ``name`` is its id."""
    attribute = f' id="{name}"' if name else ""
    paragraph = f"<p>{escape(note)}</p>" if note else ""
    return f"<section{attribute}><h2>{escape(heading)}</h2>{paragraph}{body}</section>"


def build_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, kinds: Sequence[str] = (), caption: str = ""
) -> str:
    """Build a table; headings are text, cells are HTML.

    Args:
        heads: Headings of the columns.
        rows: Cells of each row.
        kinds: Style class of each column (default: "method" for the first, "number" for the others).
        caption: Title of the table.
    """
    kinds = kinds or ("method", *["number"] * (len(heads) - 1))
    top = "".join(
        f'<th scope="col" class="{kind}">{escape(head)}</th>' for kind, head in zip(kinds, heads, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{title}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )
