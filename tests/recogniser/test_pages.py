"""The pages about streams, search and explanations do what they show."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["streams.md", "search.md", "explanations.md"])
def test_the_examples_of_the_page_run_as_printed(page):
    found = doctest.testfile(
        str(DOCS / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert found.attempted >= 5
    assert found.failed == 0
