"""HTML pages of one file: style, script and data are inside, and nothing is loaded from the network."""

import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from jeanie._internal.digest import hash_script

__all__ = ["fill_page", "read_resource"]


def read_resource(package: str, name: str) -> str:
    """Read a text file of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def fill_page(
    package: str,
    template: str,
    *,
    title: str,
    style: str | Sequence[str],
    script: str | Sequence[str] = (),
    data: Any = None,
    **parts: str,
) -> str:
    """Fill an HTML template of a package and put it into the frame that all pages share.

    Args:
        package: Package of the files.
        template: Name of the template for the body of the page; its placeholders are ``$title`` and those of ``parts``.
        title: Title of the page, as HTML.
        style: Name of the style sheet, or names of several; they extend ``page_frame.css``.
        script: Name of the script, or names of several; they run after ``page_canvas.js``. Empty for a
            page without a script.
        data: Value that the script reads as ``data``.
        parts: Values of the other placeholders, as HTML.
    """
    code = _join_resources(package, "page_canvas.js", script) if script else ""
    return Template(read_resource(__package__, "page_frame.html")).substitute(
        title=title,
        style=_join_resources(package, "page_frame.css", style),
        body=Template(read_resource(package, template)).substitute(title=title, **parts),
        # "<" could end the script element early
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        script=code,
        script_hash=hash_script(code),
    )


def _join_resources(package: str, shared: str, names: str | Sequence[str]) -> str:
    file_names = [names] if isinstance(names, str) else names
    return "\n".join(
        [read_resource(__package__, shared), *(read_resource(package, name) for name in file_names)]
    )
