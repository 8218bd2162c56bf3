"""``jeanie count`` and ``jeanie score`` on files, and ``jeanie watch --count`` on live frames."""

import json
import shutil

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


def test_a_recording_that_is_given_twice_is_counted_twice(files):
    result = run(app, ["count", files["one"], files["four"], files["four"], "--json"])
    assert [row["count"] for row in json.loads(result.stdout)["recordings"]] == [3, 3]


def test_score_reports_an_arm_that_moves_less_than_the_other(files, tmp_path):
    high, low = perform_exercise(plan_swings([90])), perform_exercise(plan_swings([45]))
    right = [at for at, name in enumerate(high.layout.joints) if name.startswith("right")]
    uneven = high.joints.clone()
    uneven[:, :, right] = low.joints[:, :, right]
    write_npz(high.replace(joints=uneven), tmp_path / "uneven.npz")
    shown = run(app, ["score", files["one"], str(tmp_path / "uneven.npz")]).stdout
    assert "left and right differ from the reference: shoulder left" in shown
    assert "differ from the reference" not in run(app, ["score", files["one"], files["flat"]]).stdout


def test_watch_counts_in_a_folder_and_refuses_an_unknown_action_once(files, tmp_path):
    place = str(tmp_path / "library.db")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name in ("four", "flat"):
        shutil.copy(files[name], inbox)
    with Recogniser.load(place) as recogniser:
        recogniser.enrol("arm raise", perform_exercise(plan_swings([90])), check=False)
    options = ["watch", str(inbox), "--once", "--library", place, "--json"]
    result = run(app, [*options, "--count", "arm raise"])
    assert [json.loads(line)["count"] for line in result.stdout.splitlines()] == [0, 3]
    wrong = run(app, [*options, "--count", "squat"])
    assert wrong.exit_code == 2
    assert "no action 'squat'" in json.loads(wrong.stdout)["error"]


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
