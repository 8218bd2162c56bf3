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
    style: str,
    script: str | Sequence[str] = (),
    data: Any = None,
    **parts: str,
) -> str:
    """Fill an HTML template of a package.

    Args:
        package: Package of the files.
        template: Name of the template. It has the placeholders ``$style``, ``$script``, ``$script_hash``, ``$data``
            and those of ``parts``.
        style: Name of the style sheet.
        script: Name of the script, or names of scripts that run one after another; empty for a page without a script.
        data: Value that the script reads as JSON.
        parts: Values of the other placeholders, as HTML.
    """
    names = [script] if isinstance(script, str) else script
    code = "\n".join(read_resource(package, name) for name in names if name)
    return Template(read_resource(package, template)).substitute(
        style=read_resource(package, style),
        script=code,
        script_hash=hash_script(code),
        # "<" could end the script element early
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        **parts,
    )
