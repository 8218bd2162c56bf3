"""Enrolling and recognising on the command line: what is printed, the exit code, and that errors change nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.cli.options import get_default_library
from jeanie.datasets.formats.npz import write_npz
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.fewshot import FewShotModel
from jeanie.recogniser import Library, Recogniser
from jeanie.skeleton import Layout, Motion

ACTIONS = ("squat", "bow", "jumping_jack")
STUDIO = open_synthetic(subjects=3, takes=1, cameras=1, actions=ACTIONS, noise=0.5, missing=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Recordings of three actions by three subjects: squat-0.npz and so on, and another model."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("recordings")
    for at, name in enumerate(STUDIO.labels):
        write_npz(STUDIO[at], folder / f"{name}-{STUDIO.subjects[at]}.npz")
    other = FewShotModel.load()
    with torch.no_grad():
        next(other.parameters()).view(-1)[0] += 0.01
    other.save(folder / "other")
    return folder


@pytest.fixture
def place(tmp_path):
    return tmp_path / "library.db"


@pytest.fixture
def taught(folder, place):
    for action in ACTIONS:
        done = run("enrol", action, folder / f"{action}-0.npz", "--library", place)
        assert done.exit_code == 0, done.output
    return place


def run(*arguments, **variables):
    environment = {"COLUMNS": "200", "JEANIE_LIBRARY": None, **variables}
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)


def contents(place):
    """Everything that a library holds, and its revision."""
    with Library(place) as library:
        return library.revision, {
            one.id: (one.label, one.motion.joints.numpy().tobytes()) for one in library.examples()
        }


def test_calibrate_adds_recordings_and_keeps_the_actions(folder, taught):
    files = [folder / f"{action}-1.npz" for action in ACTIONS]
    done = run("calibrate", *files, "--library", taught)
    assert (done.exit_code, done.stdout) == (0, "3 calibration recordings in the library\n")
    again = run("calibrate", files[0], "--replace", "--library", taught, "--json")
    facts = json.loads(again.stdout)
    assert facts == {"library": str(taught), "recordings": 1, "migrated": 0}
    assert run("actions", "--library", taught).stdout.count("1") >= 3
    for share in ("0.05", "0.3"):
        shown = run("recognise", folder / "bow-0.npz", "--false-alarms", share, "--library", taught, "--json")
        assert json.loads(shown.stdout)["results"][0]["label"] == "bow"
    assert run("recognise", folder / "bow-0.npz", "--false-alarms", "5", "--library", taught).exit_code == 2
    before = contents(taught)
    assert run("calibrate", folder / "missing.npz", "--library", taught).exit_code == 2
    assert contents(taught) == before


def test_enrol_then_recognise(folder, place):
    done = run("enrol", "squat", folder / "squat-0.npz", folder / "squat-1.npz", "--library", place)
    assert (done.exit_code, done.stdout) == (0, "squat: 2 recordings added, 2 examples in all\n")
    run("enrol", "bow", folder / "bow-0.npz", "--library", place)
    again = run("enrol", "squat", folder / "squat-0.npz", "--library", place)
    assert again.stdout == "squat: 0 recordings added, 1 already enrolled, 2 examples in all\n"
    result = run("recognise", folder / "squat-0.npz", folder / "jumping_jack-2.npz", "--library", place)
    assert result.exit_code == 0
    heading, known, unknown = result.stdout.splitlines()
    assert heading.split() == ["file", "action", "confidence", "distances"]
    assert known.split()[:2] == [str(folder / "squat-0.npz"), "squat"]
    assert float(known.split()[2]) > 0.9
    assert unknown.split()[:2] == [str(folder / "jumping_jack-2.npz"), "unknown"]


def test_json_is_one_object_with_all_there_is_to_know(folder, taught):
    result = run("recognise", folder / "bow-0.npz", folder / "squat-2.npz", "--library", taught, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert report["library"] == str(taught)
    first, second = report["results"]
    with Recogniser.load(taught) as recogniser:
        expected = recogniser.recognise(STUDIO[STUDIO.names.index("squat_s02_t00_centre")])
        nearest = recogniser.library.example(first["example"]).label
    assert (first["label"], first["nearest"], nearest, first["distance"]) == ("bow", "bow", "bow", 0)
    assert second["nearest"] == "squat"
    assert second["scores"] == pytest.approx(expected.scores)
    assert second["confidence"] == pytest.approx(expected.confidence, abs=1e-4)
    assert second["distance"] == min(second["scores"].values())


def test_the_threshold_and_persons_are_options(folder, taught, tmp_path):
    squat, bow = (STUDIO[STUDIO.names.index(f"{name}_s02_t00_centre")] for name in ("squat", "bow"))
    frames = min(len(squat), len(bow))
    both = Motion(torch.cat([squat.joints[:frames], bow.joints[:frames]], 1), squat.layout, rate=30.0)
    write_npz(both, tmp_path / "both.npz")
    options = ("--library", taught, "--json")
    report = json.loads(
        run("recognise", tmp_path / "both.npz", "--each", "--threshold", "0", *options).stdout
    )
    assert [(row["person"], row["label"]) for row in report["results"]] == [(0, "squat"), (1, "bow")]
    report = json.loads(run("recognise", folder / "bow-0.npz", "--threshold", "1", *options).stdout)
    assert [row["label"] for row in report["results"]] == [None]
    result = run("recognise", tmp_path / "both.npz", "--each", "--library", taught)
    assert result.stdout.split()[1] == "person"


def test_a_page_explains_the_answer(folder, taught, tmp_path):
    page = tmp_path / "why.html"
    result = run("recognise", folder / "bow-2.npz", "--library", taught, "--explain", page)
    assert result.exit_code == 0, result.output
    assert f"{page}: explanation page" in result.stdout
    assert page.read_text(encoding="utf-8").startswith("<!")
    report = json.loads(
        run("recognise", folder / "bow-2.npz", "--library", taught, "--explain", page, "--json").stdout
    )
    assert report["page"] == str(page)
    assert report["explanation"]["text"] in result.stdout


def test_actions_are_listed_renamed_merged_and_forgotten(folder, taught):
    assert run("enrol", "bow", folder / "squat-2.npz", "--not", "--library", taught).exit_code == 0
    listed = [line.split() for line in run("actions", "--library", taught).stdout.splitlines()]
    assert listed[0] == ["action", "examples", "negative"]
    assert listed[1:] == [["bow", "1", "1"], ["jumping_jack", "1"], ["squat", "1"]]
    renamed = run("rename", "bow", "greet", "--library", taught)
    assert (renamed.exit_code, renamed.stdout) == (0, "bow renamed to greet, 1 example\n")
    report = json.loads(run("actions", "--library", taught, "--json").stdout)
    assert report["actions"] == {"greet": 1, "jumping_jack": 1, "squat": 1}
    assert report["not"] == {"greet": 1}
    refused = run("rename", "squat", "greet", "--library", taught)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert run("rename", "squat", "greet", "--merge", "--library", taught).stdout.endswith("2 examples\n")
    forgotten = run("forget", "greet", "--library", taught, "--json")
    assert json.loads(forgotten.stdout) == {"library": str(taught), "label": "greet", "removed": 2}
    report = json.loads(run("actions", "--library", taught, "--json").stdout)
    assert (report["actions"], report["not"]) == ({"jumping_jack": 1}, {})


def test_a_single_example_is_forgotten_by_its_number(folder, taught):
    run("enrol", "bow", folder / "bow-1.npz", "--library", taught)
    with Library(taught) as library:
        number = next(one.id for one in library.examples("bow"))
    assert run("forget", "--example", number, "--library", taught).stdout == f"example {number}: removed\n"
    report = json.loads(run("actions", "--library", taught, "--json").stdout)
    assert report["actions"] == {"bow": 1, "jumping_jack": 1, "squat": 1}


def test_a_library_travels_as_one_file(folder, taught, tmp_path):
    file, other = tmp_path / "all.jeanie", tmp_path / "other.db"
    assert run("export", file, "--library", taught).stdout == f"{file}: 3 examples\n"
    assert run("enrol", "squat", folder / "squat-0.npz", "--library", other).exit_code == 0
    done = run("import", file, "--library", other)
    assert (done.exit_code, done.stdout) == (0, "2 examples added, 1 already enrolled\n")
    queries = [folder / f"{action}-2.npz" for action in ACTIONS]
    both = [
        json.loads(run("recognise", *queries, "--library", at, "--json").stdout) for at in (taught, other)
    ]
    scores = [[row["scores"] for row in report["results"]] for report in both]
    assert scores[0] == scores[1]


def test_the_library_of_this_user_is_the_default(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    home = {"XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    assert run("enrol", "bow", folder / "bow-0.npz", **home).exit_code == 0
    place = tmp_path / "data" / "jeanie" / "library.db"
    assert json.loads(run("actions", "--json", **home).stdout) == {
        "library": str(place), "actions": {"bow": 1}, "not": {}, "calibration_recordings": 0
    }  # fmt: skip
    elsewhere = tmp_path / "mine.db"
    run("enrol", "squat", folder / "squat-0.npz", **home, JEANIE_LIBRARY=str(elsewhere))
    report = json.loads(run("actions", "--json", JEANIE_LIBRARY=str(elsewhere)).stdout)
    assert (report["library"], report["actions"]) == (str(elsewhere), {"squat": 1})


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, ".local/share/jeanie/library.db"),
        ("darwin", {}, "Library/Application Support/jeanie/library.db"),
        ("win32", {}, "AppData/Local/jeanie/library.db"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/jeanie/library.db"),
    ],
)
def test_every_system_has_its_own_place_for_data(platform, variables, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    assert get_default_library() == tmp_path / expected


def bad_files(folder):
    """Return invalid files by their error, and the expected messages."""
    motion = STUDIO[0]
    few = Layout("stub", ("neck", "head"), ((0, 1),), (), 0, 0)
    nowhere = Layout("fins", ("fin", "tail"), ((0, 1),), (), 0, 0)
    joints = np.random.default_rng(0).normal(size=(9, 2, 3)).astype(np.float32)
    write_npz(motion[:1], folder / "one-frame.npz")
    write_npz(Motion(joints, few), folder / "few.npz")
    write_npz(Motion(joints, nowhere), folder / "fins.npz")
    np.savez(folder / "nan.npz", joints=np.full((9, 15, 3), np.nan, np.float32))
    np.savez(folder / "none.npz", joints=np.zeros((0, 15, 3), np.float32))
    (folder / "empty.npz").write_bytes(b"")
    (folder / "text.bvh").write_text("HIERARCHY\nnothing of the kind")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n")
    return {
        "one-frame.npz": "a movement needs at least 2",
        "few.npz": "layout 'stub' shows 3 of the model's 16 joints",
        "fins.npz": "layout 'fins' has no joint of",
        "nan.npz": "nan.npz",
        "none.npz": "none.npz",
        "empty.npz": "empty.npz",
        "text.bvh": "text.bvh",
        "picture.png": "unknown format",
        "missing.npz": "cannot be read",
    }


@pytest.mark.errors
def test_bad_recordings_end_with_2_and_change_nothing(folder, taught, tmp_path):
    before = contents(taught)
    for name, message in bad_files(tmp_path).items():
        for command in (("enrol", "squat", folder / "squat-1.npz"), ("recognise",)):
            done = run(*command, tmp_path / name, "--library", taught)
            assert done.exit_code == 2, (name, done.output)
            assert message in done.stderr, name
            errors = [line for line in done.stderr.splitlines() if not line.startswith("jeanie: warning: ")]
            assert errors[0].startswith(f"jeanie: {tmp_path / name}")
            assert done.stdout == ""
        made = run("enrol", "new", tmp_path / name, "--library", tmp_path / "new.db")
        assert made.exit_code == 2
        assert not (tmp_path / "new.db").exists()
    assert contents(taught) == before


@pytest.mark.errors
def test_a_wrong_layout_or_format_is_named(folder, taught):
    before = contents(taught)
    file = folder / "squat-1.npz"
    for options, message in (
        (("--layout", "octopus"), "no layout 'octopus'"),
        (("--layout", "coco17"), "joints"),
        (("--format", "vhs"), "no format 'vhs'"),
        (("--format", "bvh"), "squat-1.npz"),
    ):
        done = run("enrol", "squat", file, *options, "--library", taught)
        assert (done.exit_code, done.stdout) == (2, "")
        assert message in done.stderr
    assert contents(taught) == before


@pytest.mark.errors
def test_a_library_of_another_model_is_refused_and_unchanged(folder, taught, tmp_path):
    run("export", tmp_path / "all.jeanie", "--library", taught)
    before = contents(taught)
    other = ("--model", folder / "other", "--library", taught)
    for command in (("enrol", "squat", folder / "squat-1.npz"), ("recognise", folder / "squat-1.npz")):
        done = run(*command, *other, "--json")
        assert done.exit_code == 2
        assert "made with another model" in json.loads(done.stdout)["error"]
    assert contents(taught) == before
    foreign = (
        "import",
        tmp_path / "all.jeanie",
        "--model",
        folder / "other",
        "--library",
        tmp_path / "new.db",
    )
    assert run(*foreign).exit_code == 2
    assert not (tmp_path / "new.db").exists()
    assert run(*foreign, "--migrate").exit_code == 0
    assert run("recognise", folder / "bow-2.npz", *other[:2], "--library", tmp_path / "new.db").exit_code == 0
    moved = run("recognise", folder / "bow-2.npz", *other, "--migrate")
    assert moved.exit_code == 0
    assert "3 examples of another model will be encoded with this one" in moved.stdout
    assert contents(taught)[1] == before[1]


@pytest.mark.errors
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("recognise", "{file}"), "no such library; create one with: jeanie enrol LABEL FILE..."),
        (("actions",), "no such library"),
        (("forget", "bow"), "no such library"),
        (("export", "{new}"), "no such library"),
        (("enrol", "bow", "{file}", "--not"), "no such library"),
        (("enrol", "  ", "{file}"), "1 to 200 characters"),
        (("enrol", "\u2260 bow", "{file}"), "does not begin with"),
        (("import", "{file}"), "{file}"),
        (("import", "{new}"), "{new}"),
        (("forget",), "either the LABEL of an action"),
        (("recognise", "{file}", "{file}", "--explain", "{new}"), "--explain takes one recording"),
    ],
)
def test_without_a_library_nothing_is_made(command, message, folder, tmp_path):
    names = {"file": folder / "bow-0.npz", "new": tmp_path / "new"}
    done = run(*(str(part).format(**names) for part in command), "--library", tmp_path / "library.db")
    assert (done.exit_code, done.stdout) == (2, "")
    assert message.format(**names) in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.errors
def test_unknown_actions_and_strange_places_are_named(folder, taught, tmp_path):
    before = contents(taught)
    run("export", tmp_path / "all.jeanie", "--library", taught)
    for command, message in (
        (("forget", "bwo", "--library", taught), "no action 'bwo'; nearest are 'bow'"),
        (("rename", "bwo", "x", "--library", taught), "no action 'bwo'"),
        (("forget", "--example", "99", "--library", taught), "no example 99"),
        (("actions", "--library", folder), "this is a folder"),
        (("actions", "--library", folder / "bow-0.npz"), "bow-0.npz"),
        (("recognise", folder / "bow-0.npz", "--library", tmp_path / "all.jeanie"), "jeanie import"),
        (("actions", "--library", "mysql://here/there"), "got mysql://"),
    ):
        done = run(*command)
        assert (done.exit_code, done.stdout) == (2, ""), command
        assert message in done.stderr
    assert contents(taught) == before


@pytest.mark.errors
def test_an_empty_library_says_so(folder, taught):
    for action in ACTIONS:
        run("forget", action, "--library", taught)
    result = run("actions", "--library", taught)
    assert (result.exit_code, result.stdout) == (
        0,
        f"{taught}: no actions yet; add one with: jeanie enrol LABEL FILE...\n",
    )
    done = run("recognise", folder / "bow-0.npz", "--library", taught)
    assert done.exit_code == 2
    assert "no actions yet" in done.stderr


def test_a_real_process_ends_with_the_same_code(folder, taught):
    """Not only inside the test runner; and labels of any script pass through pipes."""
    assert run("rename", "bow", "\u5c48\u3080", "--library", taught).exit_code == 0
    code = "from jeanie.cli.app import app; app()"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "JEANIE_LIBRARY": str(taught)}
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", code, "forget", "\u5c48"]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=root)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "nearest are '\u5c48\u3080'" in done.stderr.decode()


def test_the_layout_and_format_of_files_may_be_said(folder, taught):
    options = ("--layout", "ntu25", "--format", "npz", "--library", taught, "--json")
    result = run("recognise", folder / "bow-0.npz", *options)
    assert json.loads(result.stdout)["results"][0]["label"] == "bow"
