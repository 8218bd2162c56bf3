"""One HTML page of sections and tables that needs nothing else: no script, no network, opened from a file."""

from collections.abc import Sequence
from html import escape
from importlib import resources

__all__ = ["html_table", "page", "section"]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
</head>
<body>
<header>
<p class="eyebrow">{eyebrow}</p>
<h1>{title}</h1>
<p class="lead">{lead}</p>
</header>
<main>
{sections}
</main>
<footer>
{notes}
</footer>
</body>
</html>
"""


def page(title: str, *, eyebrow: str, lead: str, sections: Sequence[str], notes: Sequence[str] = ()) -> str:
    """The page; sections are HTML, everything else is text and shown as it is."""
    style = resources.files("jeanie.experiments.reports").joinpath("report.css").read_text(encoding="utf-8")
    return _PAGE.format(
        title=escape(title),
        eyebrow=escape(eyebrow),
        lead=escape(lead),
        style=style,
        sections="\n".join(sections),
        notes="".join(f"<p>{escape(note)}</p>" for note in notes),
    )


def section(heading: str, note: str, body: str) -> str:
    """A section of a page; the body is HTML."""
    said = f"<p>{escape(note)}</p>" if note else ""
    return f"<section><h2>{escape(heading)}</h2>{said}{body}</section>"


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names its rows; headings are text, cells are HTML."""
    first, *others = heads
    top = f"<th>{escape(first)}</th>" + "".join(f'<th class="number">{escape(head)}</th>' for head in others)
    body = "".join(
        f'<tr><td class="method">{name}</td>'
        + "".join(f'<td class="number">{one}</td>' for one in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
