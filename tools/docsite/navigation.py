"""The order of the pages in the navigation. Pages that it does not list join the section of their folder."""

from pathlib import Path

__all__ = ["GENERATED", "MOVED", "SECTIONS", "list_sections"]

# Section: groups of pages. Names are paths below docs without ".md".
SECTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "Tutorials": {
        "": (
            "tutorials/builder",
            "tutorials/live",
            "tutorials/laboratory",
            "tutorials/researcher",
            "cluster",
        ),
        "Notebooks": ("notebooks/align_as_a_loss", "notebooks/own_movement", "notebooks/train_and_compare"),
    },
    "Guides": {
        "Recordings": ("motions", "formats", "archives", "synthetic", "lifting"),
        "Alignment and views": ("alignment", "views"),
        "Recognition": ("recogniser", "streams", "serve", "find", "labelling", "explanations", "exercise"),
        "Training": ("training", "pretraining", "parts", "onnx"),
        "Experiments": ("protocols", "evaluation", "tuning", "methods", "tables"),
        "More": (),
    },
    "Concepts": {"": ("concepts",)},
    "Reference": {
        "Generated from the code": ("reference/api", "reference/cli", "reference/configuration"),
        "Formats": ("reference/schemas", "json", "formats", "tested_files"),
        "Model cards and data sheets": (
            "cards/default",
            "cards/lifter",
            "sheets/synthetic",
            "sheets/background",
            "sheets/splits",
        ),
        "Vocabulary": ("words",),
    },
    "Results": {
        "Recognition": (
            "results/recogniser",
            "results/recognition",
            "results/openset",
            "results/pretraining",
            "results/lifting",
        ),
        "The tables of the paper": ("results/paper", "results/small", "results/six-d"),
        "Applications": ("results/search", "results/streams", "results/exercise"),
        "Speed": ("results/align", "results/gpu", "results/latency", "results/serve", "results/ntu120"),
        "More": (),
    },
    "Paper map": {"": ("paper",)},
    "FAQ and troubleshooting": {"": ("faq",)},
    "Project": {"": ("contributing", "architecture", "upgrading", "changelog")},
}

# Pages that lie elsewhere in the repository: path below the root -> name on the site.
MOVED = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "README.md": "index",
    "docs/search.md": "find",  # search.html is the search page of the site
    "jeanie/models/default/CARD.md": "cards/default",
    "jeanie/models/lifter/CARD.md": "cards/lifter",
}
GENERATED = ("reference/api", "reference/cli", "reference/configuration", "reference/schemas")
_OUTSIDE = ("index", "start")


def list_sections(root: Path) -> dict[str, dict[str, list[str]]]:
    """Return the pages of every section that exist, with the pages that the table does not list in their sections."""
    pages = {path.relative_to(root / "docs").with_suffix("").as_posix() for path in find_pages(root)}
    pages -= {Path(place).relative_to("docs").stem for place in MOVED if place.startswith("docs/")}
    pages |= set(MOVED.values()) | set(GENERATED)
    sections = {
        title: {group: [page for page in listed if page in pages] for group, listed in groups.items()}
        for title, groups in SECTIONS.items()
    }
    listed = {page for groups in SECTIONS.values() for group in groups.values() for page in group}
    for page in sorted(pages - listed - set(_OUTSIDE)):
        place = {"results": "Results", "tutorials": "Tutorials"}.get(page.split("/")[0], "Guides")
        groups = sections[place]
        groups.setdefault("More", []).append(page)
    return sections


def find_pages(root: Path) -> list[Path]:
    """Return the pages and notebooks in the folder docs."""
    return sorted([*(root / "docs").rglob("*.md"), *(root / "docs").rglob("*.ipynb")])
