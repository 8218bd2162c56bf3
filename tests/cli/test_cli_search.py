"""``jeanie find``, ``jeanie watch`` and ``jeanie align`` as a user meets them."""

import json
import re
import subprocess
import sys

import pytest
from movements import join_clips, move_joint, open_clip, slow_down, view_from
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.folders import watch_folder
from jeanie.datasets.formats.npz import write_npz
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.recogniser import Recogniser
from jeanie.skeleton import LAYOUTS, Motion

ACTIONS = ("wave", "kick_forward", "clap")


def run(*arguments, text=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def library(folder):
    with Recogniser.load(folder / "library.db") as recogniser:
        for action in ACTIONS:
            recogniser.enrol(action, [open_clip(action, 0, take=take, noise=1.0) for take in (0, 1)])
    return folder / "library.db"


@pytest.fixture(scope="module")
def show():
    return join_clips([open_clip(action, 1) for action in ACTIONS], pause=1.2)


@pytest.fixture(scope="module")
def long_file(folder, show):
    write_npz(Motion(show[0], LAYOUTS["ntu25"], rate=30.0, name="long"), folder / "long.npz")
    return folder / "long.npz"


def lines_of(joints, rate=30):
    rows = []
    for at, frame in enumerate(joints[:, 0].tolist()):
        rows.append(json.dumps({"t": at / rate, "layout": "ntu25", "joints": frame}))
    return "\n".join(rows) + "\n"


def test_align_says_how_the_second_differs_from_the_first(tmp_path):
    wave = open_clip("wave")
    write_npz(wave.replace(name="teacher"), tmp_path / "a.npz")
    write_npz(slow_down(view_from(move_joint(wave, "left_elbow", up=-0.2), 30), 1.4), tmp_path / "b.npz")
    page = tmp_path / "page.html"
    done = run("align", tmp_path / "a.npz", tmp_path / "b.npz", "--html", page)
    assert done.exit_code == 0, done.output
    assert "30 degrees to the person's left, 1.4x slower; left elbow lower" in done.stdout
    assert page.read_text().startswith("<!doctype html>")
    result = run("align", tmp_path / "a.npz", tmp_path / "b.npz", "--json")
    assert json.loads(result.stdout)["joints"][0]["joint"] == "left_elbow"


def test_find_lists_segments(folder, long_file, show):
    first, last, _ = show[1][1]
    write_npz(open_clip("kick_forward", 0), folder / "kick.npz")
    archive = folder / "archive"
    write_archive([Motion(show[0], LAYOUTS["ntu25"], rate=30.0, name="show")], archive, name="shows")
    done = run("find", folder / "kick.npz", archive, "--k", 2, "--cache", folder / "cache", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    best = told["results"][0]
    assert best["file"] == "show"
    start, end = best["start_frame"], best["end_frame"]
    assert min(end, last) - max(start, first) > 0.5 * (end - start)
    assert [best["start_s"], best["end_s"]] == pytest.approx([start / 30, end / 30], abs=1e-3)
    assert 0 <= told["results"][1]["confidence"] <= best["confidence"] <= 1
    shown = run("find", folder / "kick.npz", long_file, "--k", 1, "--cache", folder / "cache")
    assert "long" in shown.stdout
    part = run("find", long_file, archive, "--k", 1, "--part", f"{first / 30:.2f}-{last / 30:.2f}", "--json",
               "--cache", folder / "cache")  # fmt: skip
    assert json.loads(part.stdout)["results"][0]["distance"] < 0.02


def test_watch_tells_events_of_lines(library, show):
    joints, truth = show
    done = run("watch", "-", "--library", library, "--json", text=lines_of(joints))
    assert done.exit_code == 0, done.output
    events = [json.loads(row) for row in done.stdout.splitlines()]
    assert "kick_forward" in {event["label"] for event in events}
    kick = next(event for event in events if event["label"] == "kick_forward")
    assert truth[1][0] / 30 - 0.5 < kick["start_s"] < kick["end_s"] < truth[1][1] / 30 + 0.5
    assert all(event["label"] is not None for event in events)
    readable = run("watch", "-", "--library", library, "--unknown", text=lines_of(joints))
    assert "kick_forward" in readable.stdout
    assert len(readable.stdout.splitlines()) >= len(events)


def test_watch_tells_movements_that_go_on(library, show):
    joints, _ = show
    text = lines_of(joints)
    done = run("watch", "-", "--library", library, "--provisional", "--json", text=text)
    assert done.exit_code == 0, done.output
    events = [json.loads(row) for row in done.stdout.splitlines()]
    assert {event["kind"] for event in events} >= {"final", "provisional"}
    assert all(0 <= event["progress"] <= 1 for event in events)
    readable = run("watch", "-", "--library", library, "--provisional", text=text)
    assert re.search(r"going on, \d+ %", readable.stdout)
    careful = run("watch", "-", "--library", library, "--false-alarms", "0", "--json", text=text)
    assert careful.exit_code == 0, careful.output
    assert careful.stdout == ""


@pytest.mark.processes
def test_watch_answers_while_lines_still_come(library, show):
    """A program at the other end of a pipe gets each event when it has ended, not when the input does."""
    joints, truth = show
    command = [sys.executable, "-c", "from jeanie.cli.app import app; app()", "watch", "-"]
    with subprocess.Popen(
        [*command, "--library", str(library), "--json", "--unknown"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        running.stdin.write(lines_of(joints[: truth[0][1] + 40]))
        running.stdin.flush()
        first = json.loads(running.stdout.readline())
        assert first["end_s"] <= (truth[0][1] + 40) / 30
        running.stdin.close()
        assert running.wait(60) == 0


def test_watch_looks_at_recordings_in_a_folder(library, tmp_path, long_file):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    write_npz(open_clip("kick_forward", 1), inbox / "a.npz")
    done = run("watch", inbox, "--library", library, "--once", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) | {"confidence": 0, "distance": 0} == {
        "file": "a.npz", "label": "kick_forward", "confidence": 0, "distance": 0, "nearest": "kick_forward",
    }  # fmt: skip
    (inbox / "b.npz").write_bytes(b"PK\x03\x04 broken")
    bad = run("watch", inbox, "--library", library, "--once", "--json")
    assert bad.exit_code == 1
    rows = [json.loads(row) for row in bad.stdout.splitlines()]
    assert "b.npz" in rows[1]["error"]
    (inbox / "b.npz").write_bytes(long_file.read_bytes())
    long = run("watch", inbox, "--library", library, "--once", "--long")
    assert "b.npz" in long.stdout
    assert " s to " in long.stdout


def test_files_that_are_still_written_are_waited_for(tmp_path, monkeypatch):
    (tmp_path / "here.npz").write_bytes(b"1")
    (tmp_path / ".hidden").write_bytes(b"1")
    (tmp_path / "empty").write_bytes(b"")
    sizes = iter(range(1, 6))

    def grow(seconds):
        """Write one more byte while the watcher waits for its next scan."""
        if (size := next(sizes, None)) is not None:
            (tmp_path / "slow.npz").write_bytes(b"x" * size)

    monkeypatch.setattr("jeanie.datasets.folders.time.sleep", grow)
    files = watch_folder(tmp_path, every=0.2)
    arrived = [(file.name, file.stat().st_size) for file in (next(files), next(files))]
    assert sorted(arrived) == [("here.npz", 1), ("slow.npz", 5)]


def test_a_file_that_is_written_anew_comes_again(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    files = watch_folder(tmp_path, every=0.01)
    assert next(files).name == "a"
    (tmp_path / "a").write_bytes(b"22")
    assert next(files).stat().st_size == 2


@pytest.mark.errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("find", "{file}", "{folder}/nowhere"), "neither an archive, a folder"),
        (("find", "{folder}/nowhere.npz", "{file}"), "cannot be read"),
        (("find", "{file}", "{file}", "--part", "9-3"), "--part must be START-END in seconds"),
        (("find", "{file}", "{file}", "--part", "abc"), "--part must be START-END in seconds"),
        (("watch", "-", "--library", "{folder}/none.db"), "no such library"),
        (("watch", "{folder}/nowhere", "--library", "{library}"), "no such folder"),
        (("watch", "-", "--library", "{exported}"), "this is an exported library"),
        (
            ("watch", "{folder}", "--once", "--provisional", "--library", "{library}"),
            "--provisional needs frames on",
        ),
        (
            ("watch", "-", "--provisional", "--count", "wave", "--library", "{library}"),
            "--provisional needs frames on",
        ),
        (("align", "{file}", "{folder}"), "a folder without JSON files"),
        (("align", "{file}", "{pose}"), "pose.npz: "),
        (("align", "{pose}", "{file}"), "a movement needs at least 2"),
        (("align", "{file}", "{file}", "--model", "{folder}/none"), "model.json: cannot be read"),
    ],
)
def test_wrong_input_is_a_message_and_code_2(arguments, message, folder, library, long_file, tmp_path):
    write_npz(open_clip("wave")[:1], tmp_path / "pose.npz")
    places = {"file": long_file, "folder": folder, "library": library, "pose": tmp_path / "pose.npz"}
    places["exported"] = tmp_path / "exported.jeanie"
    with Library(library) as store:
        store.export(places["exported"])
    wanted = [one.format(**places) for one in arguments]
    done = run(*wanted)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    result = run(*wanted, "--json")
    assert result.exit_code == 2
    assert message in json.loads(result.stdout)["error"]


@pytest.mark.errors
def test_a_line_that_is_no_frame_ends_the_watch_with_code_2(library):
    done = run("watch", "-", "--library", library, text='{"t": 0, "layout": "ntu25", "joints": [[1, 2]]}\n')
    assert done.exit_code == 2
    assert "line 1: joints are the 25 joints of ntu25" in done.stderr


def test_a_second_person_may_arrive_while_frames_are_watched(library):
    wave = open_clip("wave", 1, noise=1.0).fill_gaps(1000).joints[:, 0].tolist()
    lines = [
        json.dumps({"t": at / 30, "layout": "ntu25", "joints": pose}) for at, pose in enumerate(wave[:10])
    ]
    lines += [json.dumps({"t": (10 + at) / 30, "persons": [[], pose]}) for at, pose in enumerate(wave)]
    done = run("watch", "-", "--library", library, "--each", "--json", text="\n".join(lines))
    assert done.exit_code == 0, done.output
    assert [(row["label"], row["person"]) for row in map(json.loads, done.stdout.splitlines())] == [
        ("wave", 1)
    ]
