"""``jeanie count`` and ``jeanie score`` on files, and ``jeanie watch --count`` on live frames."""

import json

import pytest
from exercises import perform_exercise, plan_swings
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets.formats.npz import write_npz
from jeanie.recogniser.recogniser import Recogniser

run = CliRunner().invoke


@pytest.fixture
def files(tmp_path):
    """An example, a recording of four repetitions, one of them partial, and a flat performance."""
    shown = {"one": plan_swings([90]), "four": plan_swings([90, 90, 40, 90]), "flat": plan_swings([30])}
    for name, angles in shown.items():
        write_npz(perform_exercise(angles), tmp_path / f"{name}.npz")
    return {name: str(tmp_path / f"{name}.npz") for name in shown}


def test_count_reports_every_repetition(files):
    result = run(app, ["count", files["one"], files["four"], files["flat"], "--json"])
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)["recordings"]
    assert (first["count"], first["partial_count"]) == (3, 1)
    assert first["repetitions"][0]["range_of_motion"]["left_shoulder"] > 75
    assert second["repetitions"][0]["is_partial"]
    shown = run(app, ["count", files["one"], files["four"]]).stdout
    assert "3 repetitions and 1 partial" in shown
    assert "left shoulder" in shown or "right shoulder" in shown


def test_score_reports_points_and_writes_the_page(files, tmp_path):
    page = tmp_path / "page.html"
    result = run(app, ["score", files["one"], files["flat"], "--html", str(page), "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert 20 < facts["score"] < 90
    assert facts["joints"][0]["joint"].endswith("shoulder")
    assert page.exists()
    assert "of 100" in run(app, ["score", files["one"], files["flat"]]).stdout


def test_a_missing_file_and_a_wrong_part_are_bad_input(files):
    assert run(app, ["count", "nothing.npz", files["four"]]).exit_code == 2
    assert run(app, ["count", files["one"], files["four"], "--part", "9-4"]).exit_code == 2
    assert run(app, ["score", files["one"], "nothing.npz"]).exit_code == 2


def test_watch_counts_an_enrolled_action_live(tmp_path):
    place = str(tmp_path / "library.db")
    with Recogniser.load(place) as recogniser:
        recogniser.enrol("arm raise", perform_exercise(plan_swings([90])), check=False)
    frames = perform_exercise(plan_swings([90, 90, 90])).joints[:, 0].tolist()
    lines = [json.dumps({"t": at / 30, "layout": "core15", "joints": row}) for at, row in enumerate(frames)]
    options = ["watch", "-", "--library", place, "--count", "arm raise", "--json"]
    result = run(app, options, input="\n".join(lines))
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["count"] for row in rows] == [1, 2, 3]
    assert 2 < rows[1]["start_s"] < 4
    assert run(app, [*options[:4], "--count", "squat"], input="").exit_code == 2
