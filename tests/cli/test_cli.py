"""The command line as a user meets it: what it prints, where, and the exit code."""

import inspect
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typer.testing import CliRunner

from jeanie.cli.app import COMMANDS, app, get_command_name
from jeanie.cli.info import draw_in_terminal
from jeanie.datasets.archive.reader import is_archive, open_archive
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.formats.npz import write_npz
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

DATA = os.environ.get("JEANIE_DATA")
recordings = pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def nw_ucla(root, count=4, bad=()):
    root.mkdir()
    for at in range(count):
        name = f"a01_s01_e{at:02}_v01"
        joints = np.random.default_rng(at).normal(size=(5, 20, 3)).tolist()
        text = json.dumps({"file_name": name, "skeletons": joints, "label": 1})
        (root / f"{name}.json").write_text("nothing" if at in bad else text)
    return root


@pytest.fixture
def motion():
    joints = np.random.default_rng(0).normal(size=(30, 1, 15, 3)).astype(np.float32)
    joints[3, 0, 2] = np.nan
    return Motion(joints, LAYOUTS["core15"], label="wave", rate=30.0, name="mine")


@pytest.fixture
def file(motion, tmp_path):
    write_npz(motion, tmp_path / "mine.npz")
    return tmp_path / "mine.npz"


def test_prepare_and_info(tmp_path):
    done = run("prepare", "nw-ucla", nw_ucla(tmp_path / "in"), tmp_path / "out")
    assert done.exit_code == 0
    assert "4 clips, 20 frames of nw-ucla" in done.stdout
    assert "4 clips found, but 1484 were published" in done.stdout
    result = run("info", tmp_path / "out", "--clip", "2")
    assert result.exit_code == 0
    assert "a01_s01_e02_v01" in result.stdout


def test_prepare_as_json_prints_one_object_and_nothing_else(tmp_path):
    root = nw_ucla(tmp_path / "in", bad=(1,))
    done = run("prepare", "nw-ucla", root, tmp_path / "out", "--skip-bad", "--json")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert report["archive"] == str(tmp_path / "out")
    assert (report["kept"], report["found"], report["published"], report["complete"]) == (3, 4, 1484, False)
    (skipped,) = report["skipped"]
    assert skipped["file"] == "a01_s01_e01_v01"
    assert "a01_s01_e01_v01.json, line 1" in skipped["reason"]
    assert done.stderr == ""
    assert json.loads((tmp_path / "out" / "report.json").read_text())["dropped"] == [
        {"name": skipped["file"], "reason": skipped["reason"]}
    ]


@pytest.mark.errors
def test_a_bad_file_is_bad_input_and_leaves_no_archive(tmp_path):
    root = nw_ucla(tmp_path / "in", bad=(2,))
    done = run("prepare", "nw-ucla", root, tmp_path / "out")
    assert done.exit_code == 2
    assert "a01_s01_e02_v01.json" in done.stderr
    assert "--skip-bad" in done.stderr
    assert "Traceback" not in done.stderr
    assert not is_archive(tmp_path / "out")
    again = run("prepare", "nw-ucla", root, tmp_path / "out", "--skip-bad")
    assert again.exit_code == 0
    assert "2 clips were kept from an interrupted run" in again.stdout


@pytest.mark.errors
@pytest.mark.parametrize(
    "arguments",
    [
        ("prepare", "no-such-set", "in", "out"),
        ("prepare", "nw-ucla", "not there", "out"),
        ("prepare", "nw-ucla"),
        ("prepare", "nw-ucla", "in", "out", "--jobs", "0"),
        ("info", "not there"),
        ("info", "."),
        ("info",),
        ("inform",),
    ],
    ids=" ".join,
)
def test_wrong_usage_and_bad_input_end_with_2(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr


@pytest.mark.errors
def test_an_error_as_json_is_one_object_too(tmp_path):
    done = run("info", tmp_path / "none.bvh", "--json")
    assert done.exit_code == 2
    assert "none.bvh" in json.loads(done.stdout)["error"]
    assert done.stderr == ""


@pytest.mark.errors
def test_what_the_system_refuses_ends_with_1(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("prepare", "nw-ucla", nw_ucla(tmp_path / "in"), tmp_path / "file" / "out")
    assert done.exit_code == 1
    assert "jeanie: " in done.stderr


def test_info_of_a_motion(file):
    facts = json.loads(run("info", file, "--json").stdout)
    assert facts["kind"] == "motion"
    assert (facts["name"], facts["label"], facts["layout"], facts["joints"]) == ("mine", "wave", "core15", 15)
    assert (facts["frames"], facts["persons"], facts["rate"], facts["seconds"]) == (30, 1, 30.0, 1.0)
    assert facts["missing"] == round(1 / 450, 4)
    result = run("info", file)
    assert result.exit_code == 0
    assert "core15" in result.stdout
    assert any(0x2800 < ord(sign) < 0x2900 for sign in result.stdout)


def test_info_of_an_archive(motion, tmp_path):
    write_archive([motion, motion[:10]], tmp_path / "a", name="pair")
    facts = json.loads(run("info", tmp_path / "a", "--json").stdout)
    assert (facts["kind"], facts["name"], facts["clips"], facts["frames"]) == ("archive", "pair", 2, 40)
    assert (facts["shortest"], facts["longest"], facts["labels"]) == (10, 30, 1)
    assert facts["clip"]["frames"] == 30
    assert run("info", tmp_path / "a", "--clip", "2").exit_code == 2


def test_a_picture_file(file, tmp_path):
    pytest.importorskip("matplotlib")
    done = run("info", file, "--picture", tmp_path / "out.png", "--json")
    assert done.exit_code == 0
    assert (tmp_path / "out.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert json.loads(done.stdout)["picture"] == str(tmp_path / "out.png")
    assert run("info", file, "--picture", tmp_path / "out.nonsense").exit_code == 2


def test_the_terminal_picture_shows_the_person_as_the_camera_sees_it():
    """A bone to the person's -x side, which is on the right of the picture, and one up."""
    layout = Layout("corner", ("low", "up", "side"), ((0, 1), (0, 2)), (), 0, 0)
    joints = np.array([[[0.0, 0.0, 2.0], [0.0, 1.0, 2.0], [-1.0, 0.0, 2.0]]])
    rows = draw_in_terminal(Motion(joints, layout)).splitlines()
    assert len({len(row) for row in rows[:-1]}) == 1
    assert all(ord(row[0]) > 0x2800 for row in rows)  # the upright bone is the left edge
    assert len(rows[-1]) > 20  # the other one is the ground
    assert set(rows[5][1:]) <= {"\u2800"}


@pytest.mark.plain
def test_the_module_is_the_command(file):
    done = subprocess.run(
        [sys.executable, "-m", "jeanie", "info", str(file), "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["name"] == "mine"
    assert all(line.startswith(b"jeanie: warning: ") for line in done.stderr.splitlines())


@recordings
@pytest.mark.parametrize("name", ["msraction3d", "sbu"])
def test_a_real_data_set_is_complete(name, tmp_path):
    done = run("prepare", name, Path(DATA, name), tmp_path / "out", "--json")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert report["complete"] is True
    archive = open_archive(tmp_path / "out")
    assert archive.find_damaged() == []
    assert len(archive) + len(report["skipped"]) == report["published"]
    if name == "msraction3d":
        assert [one["file"] for one in report["skipped"]] == ["a13_s09_e02"]


def test_the_help_lists_every_command_in_its_group():
    result = run("--help")
    assert result.exit_code == 0
    groups = ["Recognise", "Search and label", "Research", "Data", "Admin"]
    places = [result.stdout.index(f" {group} ") for group in groups]
    assert places == sorted(places)
    assert {name for group in COMMANDS.values() for name in map(get_command_name, group)} == {
        command.name for command in app.registered_commands
    }


@pytest.mark.parametrize("name", [command.name for command in app.registered_commands])
def test_every_command_explains_itself_and_its_options(name):
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    function = next(command.callback for command in app.registered_commands if command.name == name)
    assert function.__doc__.split(".")[0].split("\n")[0] in " ".join(result.stdout.split())
    for parameter in inspect.signature(function).parameters.values():
        option = next(one for one in get_args(parameter.annotation) if hasattr(one, "help"))
        assert option.help, parameter.name


def test_the_version_is_that_of_the_package():
    assert run("--version").stdout == f"jeanie {metadata.version('jeanie')}\n"


def test_shells_complete_commands():
    result = CliRunner().invoke(
        app,
        [],
        prog_name="jeanie",
        env={"_JEANIE_COMPLETE": "complete_bash", "COMP_WORDS": "jeanie reco", "COMP_CWORD": "1"},
    )
    assert result.stdout.split() == ["recognise", "record"]


def test_a_reader_that_has_read_enough_is_no_error_message():
    script = """
import typer
from jeanie.cli.terminal import exit_on_error
try:
    with exit_on_error(False):
        while True:
            print("a line of output", flush=True)
except typer.Exit as end:
    raise SystemExit(end.exit_code)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "a line of output\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
