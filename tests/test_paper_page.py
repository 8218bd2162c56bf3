"""The page on the paper: everything that it names exists, and every row of every table stands there with its method."""

import pydoc
import re
from pathlib import Path

import pytest

from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.paper.methods import METHODS
from jeanie.paper.tables import load_tables

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "paper.md").read_text()
NAMES = sorted(set(re.findall(r"`(jeanie\.[A-Za-z_.0-9]+)`", PAGE)))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_page_is_in_the_code(name):
    assert pydoc.locate(name) is not None


def test_all_equations_and_tables_of_the_paper_are_on_the_page():
    said = " ".join(re.findall(r"Eq\. [0-9a-z ]+", PAGE))
    numbers = set(map(int, re.findall(r"\d+", said)))
    for first, last in re.findall(r"(\d+) to (\d+)", said):
        numbers |= set(range(int(first), int(last) + 1))
    assert numbers == set(range(1, 20))
    assert set(re.findall(r"`jeanie tables ([a-z0-9-]+)`", PAGE)) == load_tables().keys() - {"small"}
    for number in range(1, 14):
        assert re.search(rf"Tables? [0-9 and]*\b{number}\b", PAGE), number
    for line in ("rate 1e-3", "weight decay 1e-6", "dropout", "10K, 100K, 200K, 500K", "Hyperopt"):
        assert line in PAGE
    for name in re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)*-(?:exemplars|released))`", PAGE):
        assert name in PROTOCOLS


def test_every_label_of_the_papers_source_leads_to_something_that_exists():
    """An equation, table or figure that the page forgets fails here."""
    lines = (Path(__file__).parent / "paper" / "labels.txt").read_text().splitlines()
    expected = {line for line in lines if not line.startswith("#")}
    section = PAGE.split("## Labels of the paper's source")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.+) \|$", section, re.MULTILINE)
    assert sorted(label for label, *_ in rows) == sorted(expected)
    for label, place, target in rows:
        names = re.findall(r"`jeanie\.([A-Za-z_.0-9]+)`", target)
        tables = re.findall(r"`jeanie tables ([a-z0-9-]+)`", target)
        assert names or tables, label
        assert set(tables) <= load_tables().keys()
        if number := re.search(r"Table (\d+)", place):
            sources = {load_tables()[table].source for table in tables}
            assert tables == [] or any(re.search(rf"Table {number[1]}\b", source) for source in sources), (
                label
            )


@pytest.mark.parametrize("name", sorted(load_tables().keys() - {"small"}))
def test_every_row_of_a_table_stands_on_the_page_with_its_method(name):
    section = (
        PAGE.split("## Tables and figures, row by row")[1]
        .split(f"`jeanie tables {name}`")[1]
        .split("\n### ")[0]
    )
    rows = re.findall(r"^\| (.+?) \| (`[a-z0-9-]+`|cited, not measured) \|", section, re.MULTILINE)
    expected = [(row.name.replace("|", "\\|"), f"`{row.method}`" if row.method else "cited, not measured")
                for row in load_tables()[name].rows]  # fmt: skip
    assert rows == expected
    assert all(method.strip("`") in METHODS or method.startswith("cited") for _, method in rows)
