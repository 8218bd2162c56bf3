"""The pages: their examples run as printed, their links lead somewhere, and the code uses their vocabulary."""

import ast
import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("jeanie/**/*.md")])
SHOWING = [page for page in PAGES if ">>> " in page.read_text()]
# torch.export does not trace through the wrappers of the type-checking hook; scikit-learn indexes by numpy numbers
TRACED = {"onnx", "parts"}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=[pytest.mark.plain] * (page.stem in TRACED)) for page in SHOWING],
)
def test_the_examples_of_a_page_run_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted >= 4
    assert found.failed == 0


def test_the_pages_that_teach_have_examples():
    names = {page.stem for page in SHOWING}
    assert names >= {
        "motions",
        "views",
        "training",
        "evaluation",
        "protocols",
        "pretraining",
        "recogniser",
        "streams",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_within_the_repository_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    inside = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    missing = [link for link in inside if not (page.parent / link).exists()]
    assert missing == []


def list_anchors(page):
    """Return the anchors of the headings of a page, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_to_a_section_leads_to_a_heading(page):
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text())
    missing = [
        f"{target}#{anchor}"
        for target, anchor in links
        if "://" not in target and anchor not in list_anchors(page.parent / target if target else page)
    ]
    assert missing == []


def test_the_architecture_names_every_folder():
    page = (ROOT / "docs" / "architecture.md").read_text()
    folders = {path.parent.name for path in (ROOT / "jeanie").glob("*/*") if path.name != "__pycache__"}
    assert [folder for folder in sorted(folders - {"__pycache__"}) if f"`{folder}`" not in page] == []


CODE = {path: path.read_text() for path in sorted((ROOT / "jeanie").rglob("*.py"))}
VOCABULARY = [
    word.strip()
    for row in re.findall(r"^\| (?!word \||---)(.+?) \|", (ROOT / "docs" / "words.md").read_text(), re.M)
    for word in row.split(",")
]
# words for things that the vocabulary calls example, gallery, background set, thread pool, body, augmentation
REPLACED_WORDS = {"shelf", "shelves", "bank", "crew", "puppet", "manner", "fellow", "fellows"}


@pytest.mark.parametrize("word", VOCABULARY)
def test_a_word_of_the_vocabulary_is_used_in_the_code(word):
    pattern = re.compile(rf"(?<![a-z]){re.escape(word).replace(chr(92) + ' ', '[ _]')}(?![a-z])", re.I)
    assert sum(len(pattern.findall(text)) for text in CODE.values()) >= 3


def test_no_name_uses_a_word_that_the_vocabulary_replaces():
    names = {
        (path.name, name)
        for path, text in CODE.items()
        for node in ast.walk(ast.parse(text))
        for name in (getattr(node, "name", None), getattr(node, "arg", None), getattr(node, "id", None))
        if isinstance(name, str)
    }
    assert [name for name in names if REPLACED_WORDS & set(name[1].lower().strip("_").split("_"))] == []
