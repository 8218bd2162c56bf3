"""The page about views does what it shows."""

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "views.md"


def test_the_examples_of_the_page_run_as_printed():
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 25
    assert found.failed == 0
