"""Own recordings on the command line: declarations, layout files, folders, warnings, and the builder's tutorial."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from corpus import CASES, z_up
from corpus.rigs import OWN
from typer.main import get_command
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets import read_motion
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.skeleton import LAYOUTS
from jeanie.skeleton.convert import convert

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "builder.md"


def run(*arguments, text=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)


def write_table(motion, path):
    """A table with names of its own in centimetres, z up: a laboratory's export."""
    core = convert(motion, LAYOUTS["core15"]).fill_gaps(60)
    joints = [core.layout.index(joint) for joint in OWN.values()]
    points = z_up(core.joints[:, 0, joints].double().numpy()) * 100
    points[~core.valid[:, 0, joints].numpy()] = np.nan
    titles = ["time", *(f"{name}_{axis}" for name in OWN for axis in "xyz")]
    rows = [
        [f"{frame / 30:.4f}", *("" if np.isnan(value) else f"{value:.2f}" for value in row.ravel())]
        for frame, row in enumerate(points)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(",".join(row) for row in [titles, *rows]) + "\n")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Recordings of two actions, and their layout file."""
    root = tmp_path_factory.mktemp("lab")
    clips = open_synthetic()
    chosen = {
        label: [at for at, tag in enumerate(clips.labels) if tag == label][:3] for label in ("wave", "clap")
    }
    for label, numbers in chosen.items():
        for take, number in enumerate(numbers, 1):
            write_table(clips[number], root / "clips" / label / f"p1_{take}.csv")
    aliases = "".join(f'"{name}" = "{joint}"\n' for name, joint in OWN.items())
    (root / "lab.toml").write_text(f'unit = "cm"\nup = "z"\n[aliases]\n{aliases}')
    return root


@pytest.fixture(scope="module")
def library(lab):
    """A library of the first two takes of each action, enrolled by one command."""
    for label in ("wave", "clap"):
        (lab / "examples" / label).mkdir(parents=True)
        for take in (1, 2):
            source = lab / "clips" / label / f"p1_{take}.csv"
            (lab / "examples" / label / source.name).write_bytes(source.read_bytes())
    done = run("enrol", lab / "examples", "--layout", lab / "lab.toml", "--library", lab / "lib.db", "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["actions"]
    assert [(row["label"], row["added"]) for row in rows] == [("clap", 2), ("wave", 2)]
    return lab / "lib.db"


def test_the_tutorial_of_the_builder_works_as_printed(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JEANIE_LIBRARY", str(tmp_path / "library.db"))
    for name, source in (("wave-1", "wave/p1_1"), ("clap-1", "clap/p1_1"), ("new", "wave/p1_2")):
        (tmp_path / f"{name}.csv").write_bytes((lab / "clips" / f"{source}.csv").read_bytes())
    blocks = re.findall(r"```sh\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    commands = [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]
    assert [command[0] for command in commands] == ["info", "layout", "info", "enrol", "enrol", "recognise"]
    outputs = []
    for command in commands:
        done = run(*command)
        assert done.exit_code == 0, (command, done.output)
        outputs.append(done)
        if command[0] == "layout":  # the reader of the page fills in the joints
            text = Path("lab.toml").read_text()
            assert 'unit = "cm"' in text
            assert 'up = "z"' in text
            for name, joint in OWN.items():
                text = text.replace(f'"{name}" = ""', f'"{name}" = "{joint}"')
            Path("lab.toml").write_text(text)
    assert "only 2 of the 15 core joints are known" in outputs[0].stderr
    assert re.search(r"core_joints +15", outputs[2].stdout)
    assert outputs[2].stderr == ""
    assert re.search(r"new\.csv +wave", outputs[-1].stdout)


def test_a_folder_is_recognised_as_it_is_read(lab, library):
    options = ("--layout", lab / "lab.toml", "--library", library)
    done = run("recognise", lab / "clips", *options)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 7
    assert [line.split()[1] for line in lines[1:]] == ["clap"] * 3 + ["wave"] * 3


def test_an_implausible_recording_says_so_in_its_answer(lab, library):
    aliases = lab / "names.toml"
    aliases.write_text((lab / "lab.toml").read_text().replace('unit = "cm"\nup = "z"\n', ""))
    path = lab / "clips" / "wave" / "p1_3.csv"
    done = run("recognise", path, "--layout", aliases, "--library", library, "--json")
    (result,) = json.loads(done.stdout)["results"]
    assert any("--unit cm" in text for text in result["warnings"])
    assert any("--up z" in text for text in result["warnings"])
    declared = run(
        "recognise", path, "--layout", aliases, "--unit", "cm", "--up", "z", "--library", library, "--json"
    )
    assert "warnings" not in json.loads(declared.stdout)["results"][0]
    refused = run("recognise", path, "--layout", aliases, "--strict", "--library", library)
    assert refused.exit_code == 2
    assert "declare the unit" in refused.stderr


def test_bad_files_can_be_skipped(lab, library, tmp_path):
    options = ("--layout", lab / "lab.toml", "--library", library)
    good = lab / "clips" / "wave" / "p1_3.csv"
    bad = tmp_path / "bad.csv"
    bad.write_text("Kopf_x,Kopf_y,Kopf_z\n1,2\n")
    done = run("recognise", bad, good, "--skip-bad", *options, "--json")
    assert done.exit_code == 0
    facts = json.loads(done.stdout)
    assert [row["label"] for row in facts["results"]] == ["wave"]
    assert [Path(one["file"]).name for one in facts["skipped"]] == ["bad.csv"]
    enrolled = run("enrol", "wave", bad, good, "--skip-bad", "--layout", lab / "lab.toml", "--library",
                   tmp_path / "a.db",
                   "--json")  # fmt: skip
    assert json.loads(enrolled.stdout)["added"] == 1
    assert len(json.loads(enrolled.stdout)["skipped"]) == 1
    counted = run("count", good, bad, good, "--skip-bad", "--layout", lab / "lab.toml", "--json")
    assert [len(json.loads(counted.stdout)[key]) for key in ("recordings", "skipped")] == [1, 1]
    calibrated = run("calibrate", bad, good, "--skip-bad", *options, "--json")
    assert len(json.loads(calibrated.stdout)["skipped"]) == 1
    none = run("calibrate", bad, "--skip-bad", *options)
    assert none.exit_code == 2
    assert "none of 1 recordings could be read" in none.stderr


def test_a_stream_is_read_as_declared(library):
    clip = convert(open_synthetic()[1], LAYOUTS["core15"]).fill_gaps(60)
    points = z_up(clip.joints[:, 0].double().numpy()) * 100
    valid = clip.valid[:, 0].numpy()
    still = [(points[0], valid[0])] * 30
    frames = [*still, *zip(points, valid, strict=True), *still]
    text = "".join(
        json.dumps(
            {
                "t": number / 30,
                "joints": [row.tolist() if seen else None for row, seen in zip(joints, mask, strict=True)],
            }
        )
        + "\n"
        for number, (joints, mask) in enumerate(frames)
    )
    declared = ("--layout", "core15", "--unit", "cm", "--up", "z")
    done = run("watch", "-", "--library", library, "--unknown", "--json", *declared, text=text)
    assert done.exit_code == 0, done.output
    assert "warning" not in done.stderr
    plain = run("watch", "-", "--library", library, "--layout", "core15", "--strict", text=text)
    assert plain.exit_code == 2
    assert "standard input: the body is" in plain.stderr


def test_other_batch_commands_take_a_pattern(lab, tmp_path):
    options = ("--layout", lab / "lab.toml", "--pattern", "{label}/{subject}_{take}")
    done = run("prepare", "mine", lab / "clips", tmp_path / "archive", *options, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["kept"] == 6
    shown = run("info", tmp_path / "archive", "--json")
    assert json.loads(shown.stdout)["clip"]["label"] == "clap"
    found = run("find", lab / "clips" / "wave" / "p1_1.csv", lab / "clips", *options, "--k", "2", "--cache",
                tmp_path / "cache", "--json")  # fmt: skip
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["results"][0]["file"].startswith("wave/")


def test_a_folder_of_classes_is_a_protocol(lab, tmp_path):
    declared = ("--layout", lab / "lab.toml", "--way", "2")
    for shot in ("1", "2"):
        done = run(
            "evaluate", "dtw", lab / "clips", *declared, "--shot", shot, "--limit", "3", "--alone", "--json"
        )
        assert done.exit_code == 0, done.output
        assert "warning" not in done.stderr
        facts = json.loads(done.stdout)
        assert (facts["protocol"], facts["way"], facts["shot"]) == ("clips", 2, int(shot))
    (tmp_path / "mine.toml").write_text(
        f"folder = {str(lab / 'clips')!r}\nlayout = 'lab.toml'\nway = 2\nepisodes = 2\n"
    )
    (tmp_path / "lab.toml").write_bytes((lab / "lab.toml").read_bytes())
    plain = run("evaluate", "dtw", tmp_path / "mine.toml", "--alone", "--json")
    assert plain.exit_code == 0, plain.output
    assert "warning" not in plain.stderr
    metres = run("evaluate", "dtw", tmp_path / "mine.toml", "--alone", "--unit", "m")
    assert "declare the unit of the file" in metres.stderr


def test_training_names_the_whole_next_command(lab, tmp_path):
    clips = tmp_path / "clips"
    for label in ("a", "b", "c", "d"):
        shutil.copytree(lab / "clips" / "wave", clips / label)
    (clips / "a" / "bad.csv").write_text("nothing")
    options = ("--layout", lab / "lab.toml", "--train-classes", "2", "--way", "2")
    done = run("train", clips, *options, "--validation", "0", "--episodes", "1", "--method", "soft-dtw", "--skip-bad",
               "--out", tmp_path / "run")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "skipped a/bad.csv" in done.stderr
    arguments = shlex.split(done.stdout.split("jeanie ")[-1])
    assert arguments == list(map(str, ("evaluate", tmp_path / "run", clips, "--train-classes", 2, "--way", 2,
                                       "--layout", lab / "lab.toml")))  # fmt: skip


BATCHES = (
    "enrol",
    "recognise",
    "calibrate",
    "count",
    "find",
    "label",
    "train",
    "evaluate",
    "tune",
    "prepare",
    "index",
    "lift apply",
    "lift train",
)
READING = (*BATCHES, "watch", "align", "score", "info")


@pytest.mark.parametrize(
    "command",
    ["enrol {bad}", "recognise {bad} --library {db}", "calibrate {bad}/clap/p1_1.csv {bad}/clap/bad.csv --library {db}",
     "count {bad}/clap/p1_1.csv {bad}/clap/p1_1.csv {bad}/clap/bad.csv", "find {bad}/clap/p1_1.csv {bad}",
     "label {bad} clap={bad}/clap/p1_1.csv", "evaluate dtw {bad} --way 2", "prepare mine {bad} {out}",
     "index {bad} --cache {out}", "train {bad} --train-classes 2 --way 2 --validation 0 --episodes 9 --out {out}"],
)  # fmt: skip
def test_a_bad_file_stops_every_batch_command_and_nothing_is_lost(lab, library, tmp_path, command):
    for label in ("clap", "wave", "wave_2", "wave_3"):
        shutil.copytree(lab / "clips" / label.partition("_")[0], tmp_path / "bad" / label)
        (tmp_path / "bad" / label / "bad.csv").write_text("nothing")
    before = library.read_bytes()
    text = command.format(bad=tmp_path / "bad", db=library, out=tmp_path / "out")
    done = run(*text.split(), "--layout", lab / "lab.toml")
    assert done.exit_code == 2, done.output
    assert "bad.csv" in done.stderr
    assert "--skip-bad leaves such" in done.stderr
    assert library.read_bytes() == before
    assert sum(1 for _ in (tmp_path / "bad").rglob("*.csv")) == 16


@pytest.mark.parametrize("command", READING)
def test_every_command_that_reads_recordings_takes_the_same_options(command):
    found = get_command(app)
    for name in command.split():
        found = found.commands[name]
    options = {option for parameter in found.params for option in parameter.opts}
    assert options >= {"--unit", "--up", "--layout", "--rate", "--format", "--mirror", "--strict"}
    assert "--skip-bad" in options or command not in BATCHES


@pytest.mark.errors
def test_a_data_set_by_name_takes_no_read_options(lab):
    done = run("evaluate", "dtw", "synthetic", "--unit", "cm", "--up", "z")
    assert done.exit_code == 2
    assert (
        "synthetic defines how it is read; leave out --unit, --up, which is only for your own files"
        in done.stderr
    )
    untrained = run("train", lab / "clips", "--layout", lab / "lab.toml")
    assert "give --train-classes, the number of classes to train on" in untrained.stderr


@pytest.mark.errors
def test_a_folder_without_labels_says_what_to_do(lab, tmp_path):
    done = run("enrol", tmp_path / "absent", "--library", tmp_path / "a.db")
    assert done.exit_code == 2
    assert "give LABEL FILE..., or a folder of recordings" in done.stderr
    flat = tmp_path / "flat"
    flat.mkdir()
    (flat / "a.csv").write_bytes((lab / "clips" / "wave" / "p1_1.csv").read_bytes())
    assert "does not match {label}/{}" in run("enrol", flat, "--library", tmp_path / "a.db").stderr
    existing = run("layout", flat / "a.csv", "--out", lab / "lab.toml")
    assert existing.exit_code == 2
    assert "exists; give another name" in existing.stderr


def test_an_error_names_the_option_but_leaves_file_names_alone(tmp_path):
    (tmp_path / "notes.db").write_text("a letter")
    done = run("actions", "--library", tmp_path / "notes.db")
    assert done.exit_code == 2
    assert "such as library.db" in " ".join(done.stderr.split())
    assert (tmp_path / "notes.db").read_text() == "a letter"


def test_a_misspelt_method_gets_a_suggestion():
    done = run("evaluate", "raww", "synthetic")
    assert done.exit_code == 2
    assert "did you mean 'raw'?" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "name", ["BVH, Mixamo", "Xsens MVNX", "CSV, unit in the header", "JSON, list of joints"]
)
def test_a_layout_file_does_not_change_how_a_plausible_recording_is_read(tmp_path, name):
    path = CASES[name].write(tmp_path)
    done = run("layout", path, "--out", tmp_path / "lab.toml")
    assert done.exit_code == 0, done.output
    plain, declared = read_motion(path), read_motion(path, layout=tmp_path / "lab.toml", strict=True)
    assert declared.rate == plain.rate
    shared = [joint for joint in plain.layout.joints if joint in declared.layout.joints]
    assert len(shared) >= 15
    for joint in shared:
        at, where = plain.layout.index(joint), declared.layout.index(joint)
        np.testing.assert_allclose(declared.joints[:, :, where], plain.joints[:, :, at], atol=1e-4)


@pytest.mark.errors
def test_errors_and_warnings_name_the_option_once(tmp_path):
    path = tmp_path / "clip.csv"
    write_table(open_synthetic()[0], path)
    unit = run("info", path, "--unit", "km").stderr
    assert unit.startswith("jeanie: --unit must be one of m, dm, cm")
    warning = run("info", path).stderr
    assert "declare the unit of the file: --unit cm" in warning
    assert "unit=" not in warning
