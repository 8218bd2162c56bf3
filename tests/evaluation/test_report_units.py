"""Reports: intervals of possible values, cautions about few units, class names, and training curves."""

import re
from dataclasses import replace

import pytest
import torch

from jeanie.cli.evaluation_table import write_result_tables
from jeanie.datasets.class_names import CLASS_NAMES
from jeanie.evaluation.predict import Predictions
from jeanie.evaluation.report.charts import draw_training
from jeanie.evaluation.report.html import render_html
from jeanie.evaluation.report.report import Report, estimate_accuracy
from jeanie.evaluation.statistics import estimate_mean


def predict_rows(correct):
    """Rows of several splits: correct[split][query] says whether the prediction is right."""
    split = torch.tensor([number for number, own in enumerate(correct) for _ in own])
    hits = torch.tensor([hit for own in correct for hit in own])
    zero = torch.zeros_like(split)
    far = torch.ones(len(split), dtype=torch.float64)
    return Predictions(zero, split, zero, torch.arange(len(split)), zero, (~hits).long(), far, 2 * far)


def make_report(correct, **fields):
    names = tuple(f"split {number}" for number in range(len(correct)))
    return Report("study", "mine", (1, 2), names, predict_rows(correct), way=2, shot=1, **fields)


NEARLY_ALL = [[True] * 10, [True] * 10, [True] * 9 + [False]]


def test_an_interval_has_possible_values_and_keeps_its_width():
    expected = estimate_mean([1.0, 1.0, 0.9])[0].times(100)
    assert expected.high > 100
    found, unit = estimate_accuracy(predict_rows(NEARLY_ALL))
    assert unit == "splits"
    assert (found.low, found.high) == (pytest.approx(expected.low), 100)
    assert found.half == pytest.approx(expected.half)


def test_a_report_says_if_units_are_too_few():
    assert make_report(NEARLY_ALL).caution == ""
    two = make_report(NEARLY_ALL[:2])
    assert two.caution == "Only 2 splits: too few for a reliable interval; use 3 or more splits."
    assert two.caution in two.markdown()
    assert two.json()["units"] == 2
    assert "too few for a reliable interval" in render_html([two])
    assert "Only 10 queries" in make_report(NEARLY_ALL[:1]).caution


def test_a_report_says_if_all_units_have_the_same_accuracy():
    assert make_report([[True] * 4] * 3).caution.startswith("The accuracy is the same in all 3 splits")


def test_the_written_tables_have_a_row_per_method(tmp_path):
    reports = [make_report(NEARLY_ALL), replace(make_report([[True, False] * 5] * 3), method="raw")]
    paths = write_result_tables(reports, tmp_path / "a.csv", tmp_path / "a.tex")
    assert paths == {"csv": str(tmp_path / "a.csv"), "latex": str(tmp_path / "a.tex")}
    header, first, second = (tmp_path / "a.csv").read_text().splitlines()
    assert header.startswith(
        "method,protocol,way,shot,accuracy,low,high,ci95,over,units,queries,seeds,compared_with"
    )
    assert first.startswith("mine,study,2,1,96.66")
    assert ",raw,46.66" in first
    assert second.endswith(",,,,")
    table = (tmp_path / "a.tex").read_text()
    assert r"method & accuracy, \% & 95 \% interval & against raw & p \\" in table
    assert r"mine & 96.7 $\pm$ 14.3 & 82.3 to 100.0 & +46.7 $\pm$" in table


def test_classes_have_names():
    named = make_report(NEARLY_ALL, class_names=("high arm wave", "hammer"))
    assert list(named.per_class) == ["high arm wave"]
    assert named.json()["confusion"]["classes"] == ["high arm wave", "hammer"]
    assert "high arm wave" in render_html([named])
    assert list(make_report(NEARLY_ALL).per_class) == ["1"]


def test_the_tables_of_names_are_complete():
    assert {name: len(table) for name, table in CLASS_NAMES.items()} == {
        "msraction3d": 20, "sbu": 8, "nw-ucla": 10, "uwa3d-multiview": 30, "ntu60": 60, "ntu120": 120,
    }  # fmt: skip
    assert all(len(set(table.values())) == len(table) for table in CLASS_NAMES.values())
    assert CLASS_NAMES["ntu120"][61] == "put on headphone"  # the first class that NTU 60 does not have


def test_training_curves_go_from_the_first_episode_to_the_last():
    steps = [(number, 2.0 / number, 50.0, 80.0 if number % 10 == 0 else None) for number in range(1, 41)]
    picture = draw_training(steps)
    loss, accuracy = (
        re.findall(r"([\d.]+),([\d.]+)", points) for points in re.findall(r'points="([^"]*)"', picture)
    )
    assert len(loss) == len(accuracy) == 40
    assert [float(x) for x, _ in loss] == sorted(float(x) for x, _ in loss)
    assert float(loss[0][1]) < float(loss[-1][1])  # the loss falls: y grows downwards
    assert len({y for _, y in accuracy}) == 1
    assert re.findall(r"episode (\d+): validation 80.0 %", picture) == ["10", "20", "30", "40"]
    page = render_html([make_report(NEARLY_ALL)], curves={"mine": {"split 0": steps, "split 1": steps[:1]}})
    assert page.count('class="training"') == 1
    colour = {
        text: kind
        for kind, text in re.findall(r'<li class="(\w+)"><span class="key"></span><span>([^<]*)', page)
    }
    kinds = re.findall(r'class="curve (\w+)"', picture)
    assert kinds == [colour["loss, left axis"], colour["accuracy in percent, right axis"]]
