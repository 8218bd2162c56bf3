"""The page about streams: its table has the numbers of the page of results."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"


def read_rows(page):
    """Return the cells of each row about some recordings at one threshold."""
    lines = re.findall(r"^\| ((?:PRECOG|MSRAction3D|the same).* % .*) \|$", page.read_text(), re.MULTILINE)
    return [line.split(" | ") for line in lines]


def test_the_table_has_the_numbers_of_the_results():
    results = read_rows(DOCS / "results/streams.md")
    expected = [
        [who, threshold, found, named, false_names, f"{float(delay.split()[0]):.1f} s"]
        for _, who, threshold, _, found, named, false_names, delay, _, _ in results
    ]
    rows = [row[1:] for row in read_rows(DOCS / "streams.md")]
    assert len(rows) == 20
    assert sorted(rows) == sorted(expected)
