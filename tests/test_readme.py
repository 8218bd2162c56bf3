"""The README: its examples run and print what it says, and its numbers are those of the pages that it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TEXT = README.read_text()


def test_the_examples_run_and_print_what_the_readme_says(capsys):
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 2
    exec(compile(blocks[0], str(README), "exec"), namespace)
    (expected,) = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    assert capsys.readouterr().out == expected
    exec(compile(blocks[1], str(README), "exec"), namespace)
    assert tuple(namespace["table"].shape) == (8, 3)
    assert namespace["match"].path.shape[1] == 4


# The numbers of the comparison that a page of results has
MEASURED = {
    "align.md": (
        "pysdtw 26 (", "tslearn 273 (", "jeanie native 1.9 (", "18.8 (", "pysdtw 374 (", "4,210 (", "9.89 (",
    ),
    "recognition.md": (
        "**75.9 ±2.7**", "64.6 and 73.2", "64.8 ±2.6", "**81.3 ±4.5**", "80.3", "76.5 ±4.9", "**65.6 ±0.3**", "35.3",
        "41.2", "40.0 ±0.8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("page", sorted(MEASURED))
def test_the_measured_numbers_are_those_of_the_results(page):
    results = (ROOT / "docs" / "results" / page).read_text()
    assert [number for number in MEASURED[page] if number not in results] == []
    numbers = [re.search(r"\d[\d.,]*\d", number)[0] for number in MEASURED[page]]
    assert [number for number in numbers if number not in TEXT] == []


def test_the_readme_stays_short():
    assert len(TEXT.splitlines()) <= 150
