"""The page about ONNX does what it shows."""

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx.md"


@pytest.mark.plain  # torch.export does not trace through the wrappers of the type-checking hook
def test_the_examples_of_the_page_run_as_printed():
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted >= 5
    assert found.failed == 0
