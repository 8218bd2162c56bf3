"""Build the documentation into build/docs/html: collect the pages, generate the reference, run Sphinx strictly."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docsite.api_page import describe_names
from docsite.cli_page import describe_commands
from docsite.config_page import describe_configurations
from docsite.navigation import MOVED, find_pages, list_sections
from docsite.schema_page import describe_schemas

__all__ = ["build", "collect"]

ROOT = Path(__file__).resolve().parents[2]
OWN = Path(__file__).resolve().parent
_LINK = re.compile(r"(?<!`)(!?)\[((?:[^\[\]]|!?\[[^\]]*\]\([^)]*\))*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def collect(source: Path) -> None:
    """Write everything that Sphinx reads into the folder ``source``."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for path in find_pages(ROOT):
        if path.relative_to(ROOT).as_posix() in MOVED:
            continue
        name = path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        text = _read_notebook(path) if path.suffix == ".ipynb" else path.read_text()
        _write_page(source, name, text, path)
    for place, name in MOVED.items():
        if name != "index":
            _write_page(source, name, (ROOT / place).read_text(), ROOT / place)
    for name, text in (
        ("reference/cli.md", describe_commands()),
        ("reference/configuration.md", describe_configurations()),
        ("reference/api.rst", describe_names()),
        ("reference/schemas.md", describe_schemas(ROOT / "docs" / "results.schema.json")),
    ):
        _write(source / name, text)
    shutil.copytree(ROOT / "docs" / "pictures", source / "pictures")
    shutil.copy(ROOT / "docs" / "results.schema.json", source)
    shutil.copy(OWN / "conf.py", source)
    (source / "_static").mkdir()
    for name in ("jeanie.css", "jeanie.js"):
        shutil.copy(OWN / name, source / "_static")
    _write_sections(source)


def build(target: Path, source: Path) -> None:
    """Build the site into the folder ``target``.

    Raises:
        RuntimeError: If Sphinx gives an error or a warning: every warning is an error.
    """
    collect(source)
    shutil.rmtree(target, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-W",
        "--keep-going",
        "-q",
        str(source),
        str(target),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"})
    if done.returncode:
        raise RuntimeError(f"the documentation has errors:\n{done.stdout}{done.stderr}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_page(source: Path, name: str, text: str, origin: Path) -> None:
    """Write a page; change its links and pictures to the places of their targets on the site."""
    fences = [match.span() for match in _FENCE.finditer(text)]

    def move(match: re.Match[str]) -> str:
        if any(start <= match.start() < end for start, end in fences):
            return match[0]
        mark, title, target, place = match.groups()
        title = _LINK.sub(move, title)
        if "://" in target or target.startswith("mailto:"):
            return f"{mark}[{title}]({target}{place or ''})"
        moved = _find_target(source, (origin.parent / target).resolve())
        if moved is None:
            return title
        return f"{mark}[{title}]({os.path.relpath(moved, (source / name).parent)}{place or ''})"

    _write(source / f"{name}.md", _LINK.sub(move, text))


def _find_target(source: Path, path: Path) -> Path | None:
    """Return where the site has a file of the repository; files that are no pages are copied. None for a folder."""
    inside = path.relative_to(ROOT).as_posix()
    if inside in MOVED:
        return source / f"{MOVED[inside]}.md"
    if path.is_dir():
        return None
    if path.suffix == ".ipynb":
        path = path.with_suffix(".md")
    if path.is_relative_to(ROOT / "docs"):
        return source / path.relative_to(ROOT / "docs")
    copy = source / "files" / inside
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, copy)
    return copy


def _read_notebook(path: Path) -> str:
    """Return a notebook as Markdown."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"]).strip()
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
    return "\n\n".join(parts) + "\n"


def _write_sections(source: Path) -> None:
    """Write one page per section with its contents, and the contents of the site into its first page."""
    entries = ["start"]
    for title, groups in list_sections(ROOT).items():
        pages = [page for group in groups.values() for page in group]
        if len(pages) == 1:
            entries.append(f"{title} <{pages[0]}>")
            continue
        name = title.lower().replace(" ", "_")
        entries.append(name)
        lines = [f"# {title}", ""]
        for group, members in groups.items():
            if members:
                lines += [f"## {group}", ""] if group else []
                lines += [
                    f"- [{_read_title(source, page)}]({_find_file(source, page)})" for page in members
                ] + [""]
        own = [page for page in pages if not (title == "Reference" and page == "formats")]
        _write(source / f"{name}.md", "\n".join([*lines, *_make_contents(own)]))
    index = source / "index.md"
    index.write_text(index.read_text() + "\n" + "\n".join(_make_contents(entries)))


def _make_contents(pages: list[str]) -> list[str]:
    return ["```{toctree}", ":hidden:", ":maxdepth: 2", "", *pages, "```", ""]


def _find_file(source: Path, page: str) -> str:
    return f"{page}.md" if (source / f"{page}.md").exists() else f"{page}.rst"


def _read_title(source: Path, page: str) -> str:
    text = (source / _find_file(source, page)).read_text()
    heading = re.search(r"^# (.+)$", text, re.M)
    return heading[1] if heading else text.split("\n", 1)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "docs", help="folder of sources and html"
    )
    options = parser.parse_args()
    try:
        build(options.out / "html", options.out / "source")
    except RuntimeError as error:
        sys.exit(str(error))
    print(f"open {options.out / 'html' / 'index.html'}")


if __name__ == "__main__":
    main()
