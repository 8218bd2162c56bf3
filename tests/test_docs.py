"""The pages: their examples run as printed, their links lead somewhere."""

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
