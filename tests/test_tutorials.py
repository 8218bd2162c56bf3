"""The tutorials: their files are written and their commands run, as printed and in their order."""

import csv
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jeanie.cli.app import app

FOLDER = Path(__file__).resolve().parent.parent / "docs"
BLOCK = re.compile(r"^```(python|toml|sh)\n(.*?)^```", re.M | re.S)


def run_page(name):
    """Write the files of a page and run its commands; return what each command printed."""
    printed = {}
    for kind, text in BLOCK.findall((FOLDER / f"{name}.md").read_text()):
        if kind != "sh":
            if file := re.match(r"# (\S+\.(?:py|toml))\n", text):
                Path(file[1]).write_text(text)
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            if program == "pip":
                continue
            if program == "python":
                runpy.run_path(arguments[0])
                continue
            assert program == "jeanie"
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, f"{line}\n{done.output}"
            printed[line] = done.stdout
    return printed


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("my_encoder", None)


def read_csv(path):
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.plain  # a training, which takes twice the time under the hook
def test_the_researcher_compares_an_encoder_of_thirty_lines(workplace):
    printed = run_page("tutorials/researcher")
    lines = [line for line in (workplace / "my_encoder.py").read_text().splitlines() if line.strip()]
    assert len(lines) <= 30
    table = next(text for line, text in printed.items() if line.startswith("jeanie evaluate"))
    assert "against mean pose" in table
    assert re.search(r"mine against jeanie: [+-]\d+\.\d ± ", table)
    train = next(
        text for line, text in printed.items() if "--encoder" in line and line.startswith("jeanie train")
    )
    assert train.rstrip().endswith("study.toml --encoder my_encoder:JointAttention")
    rows = read_csv(workplace / "results.csv")
    assert [row["method"] for row in rows] == ["mine", "jeanie", "mean pose"]
    assert all(0 <= float(row["low"]) <= float(row["accuracy"]) <= float(row["high"]) <= 100 for row in rows)
    assert 0 <= float(rows[0]["p"]) <= 1
    page = (workplace / "report.html").read_text()
    assert "Training of mine" in page
    assert "Training of jeanie" in page
    assert r"\toprule" in (workplace / "results.tex").read_text()


def test_the_laboratory_finds_and_labels_by_example(workplace):
    run_page("tutorials/laboratory")
    best = read_csv(workplace / "hits.csv")[0]
    assert best["file"] == "monday.npz"
    assert float(best["confidence"]) > 0.5
    labels = {row["file"]: row["label"] for row in read_csv(workplace / "labels.csv")}
    known = {"w": "wave", "k": "kick", "s": "squat"}
    assert len(labels) == 18
    assert sum(label == known[file[0]] for file, label in labels.items()) >= 16
    assert [row["label"] for row in read_csv(workplace / "answers.csv")] == ["wave", "squat"]
    assert (workplace / "hits.html").exists()
    assert (workplace / "labels.html").exists()


def test_the_start_page_recognises_from_another_side_and_explains_why(workplace):
    printed = run_page("start")
    answer = next(text for line, text in printed.items() if line.startswith("jeanie recognise new.npz"))
    assert "kick" in answer
    assert "unknown" not in answer
    assert "<html" in (workplace / "why.html").read_text()
