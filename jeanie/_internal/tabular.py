"""Tables as text for other programs: CSV for spreadsheets, LaTeX for papers."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["format_csv", "format_latex"]

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
}  # fmt: skip


def format_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a heading line; None is an empty cell, other columns of a row are left out.

    >>> print(format_csv(["file", "label"], [{"file": "a,b.csv", "label": None, "more": 1}]), end="")
    file,label
    "a,b.csv",
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def format_latex(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    r"""Return rows as a LaTeX table in the style of the package booktabs; text is escaped, floats have 4 digits.

    >>> print(format_latex(["method", "p"], [{"method": "a_b", "p": 0.01234}]), end="")
    \begin{tabular}{lr}
    \toprule
    method & p \\
    \midrule
    a\_b & 0.01234 \\
    \bottomrule
    \end{tabular}
    """
    kinds = "".join(
        "r" if any(isinstance(row.get(name), int | float) for row in rows) else "l" for name in columns
    )
    lines = [_format_line(columns)]
    lines += [_format_line([row.get(name) for name in columns]) for row in rows]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{kinds}}}", *body, r"\end{tabular}"]) + "\n"


def _format_line(cells: Sequence[Any]) -> str:
    return " & ".join(map(_format_cell, cells)) + r" \\"


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return "".join(_LATEX.get(character, character) for character in text)
