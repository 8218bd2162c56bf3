"""What commands give to other programs: one vocabulary, CSV, LaTeX, pages, logs, and names that are not cut."""

import csv
import inspect
import json
import re

import pytest
from browser import needs_browser, read_page
from json_output import SCHEMA, check
from jsonschema import Draft202012Validator
from movements import join_clips, open_clip
from own_parts import JointMlp
from typer.main import get_command
from typer.testing import CliRunner

from jeanie._internal.tabular import format_csv, format_latex
from jeanie.cli.app import COMMANDS, app
from jeanie.cli.terminal import LogProgress
from jeanie.datasets.formats.npz import write_npz
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.explain.hits_page import write_hits_page
from jeanie.recogniser.recogniser import Recogniser
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.training.recipes import PRETRAINED_MODEL

LONG_NAME = (
    "a_recording_with_a_name_that_is_much_longer_than_the_eighty_columns_of_a_narrow_terminal_window.npz"
)
EVIL = '</script><img src=x onerror="document.title=1">'


def run(*arguments, **options):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)


def read_csv(path):
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("lab")
    (root / "in").mkdir()
    joints, _ = join_clips([open_clip(action, 1) for action in ("wave", "kick_forward")], pause=1.0)
    write_npz(Motion(joints, LAYOUTS["ntu25"], rate=30.0), root / "in" / LONG_NAME)
    write_npz(open_clip("clap", 1), root / "in" / "clap.npz")
    write_npz(open_clip("kick_forward", 0), root / "kick.npz")
    write_npz(open_clip("clap", 0), root / "applause.npz")
    return root


@pytest.fixture(scope="module")
def search(folder):
    files = {
        name: folder / f"hits.{suffix}"
        for name, suffix in (("csv", "csv"), ("latex", "tex"), ("page", "html"))
    }
    options = [text for name, path in files.items() for text in (f"--{name}", path)]
    done = run(
        "find", folder / "kick.npz", folder / "in", "--k", 3, "--cache", folder / "cache", *options, "--json"
    )
    assert done.exit_code == 0, done.output
    return check("find", done.stdout), files


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


def list_commands(group, before=()):
    """(name, options) of every command, also those in groups."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), {option for one in command.params for option in one.opts}


@pytest.mark.parametrize(("name", "options"), list_commands(get_command(app)))
def test_every_command_prints_json_that_the_schema_defines(name, options):
    assert "--json" in options
    assert name in SCHEMA["$defs"]


def test_short_commands_keep_to_the_schema(folder, tmp_path):
    """The runner of all tests checks every output; here are the commands that other tests do not run with --json."""
    library = ("--library", tmp_path / "a.db", "--json")
    clap, wave = folder / "applause.npz", folder / "in" / "clap.npz"
    for arguments in (
        ("enrol", "clap", clap, *library),
        ("enrol", "clap", wave, "--not", *library),
        ("actions", *library),
        ("rename", "clap", "applause", *library),
        ("export", tmp_path / "a.jeanie", *library),
        ("import", tmp_path / "a.jeanie", *library),
        ("calibrate", wave, *library),
        ("forget", "applause", *library),
        ("align", clap, wave, "--json"),
        ("count", clap, wave, "--json"),
        ("score", clap, wave, "--json"),
        ("info", wave, "--json"),
        ("layout", wave, "--out", tmp_path / "a.toml", "--json"),
        ("prepare", "mine", folder / "in", tmp_path / "archive", "--json"),
        ("info", tmp_path / "archive", "--json"),
        ("protocols", "--json"),
        ("methods", "--json"),
        ("tables", "--list", "--json"),
    ):
        assert run(*arguments).exit_code == 0, arguments


def test_find_gives_segments_with_calibrated_confidence(search):
    facts, _ = search
    best = facts["results"][0]
    assert best["file"] == LONG_NAME
    assert best["confidence"] > 0.5 > facts["results"][-1]["confidence"]


def test_find_writes_csv_latex_and_a_page(search):
    facts, files = search
    rows = read_csv(files["csv"])
    assert [row["file"] for row in rows] == [row["file"] for row in facts["results"]]
    assert [float(row["confidence"]) for row in rows] == [row["confidence"] for row in facts["results"]]
    assert files["latex"].read_text().count("\\\\") == 1 + len(rows)
    data = re.search(r'id="data">(.*?)</script>', files["page"].read_text(), re.S)[1]
    hits = json.loads(data)["hits"]
    assert [hit["file"] for hit in hits] == [row["file"] for row in rows]
    assert all(len(hit["poses"]["poses"]) == len(hit["poses"]["frames"]) <= 32 for hit in hits)


def test_a_threshold_leaves_segments_out_and_names_are_not_cut(folder, search):
    least = search[0]["results"][0]["confidence"] - 0.01
    done = run(
        "find",
        folder / "kick.npz",
        folder / "in",
        "--k",
        3,
        "--cache",
        folder / "cache",
        "--threshold",
        least,
    )
    assert LONG_NAME in done.stdout
    assert "clap.npz" not in done.stdout


def test_label_and_recognise_speak_the_same_language(folder, tmp_path):
    done = run("label", folder / "in", f"kick={folder / 'kick.npz'}", f"clap={folder / 'applause.npz'}",
               "--csv", tmp_path / "labels.csv", "--page", tmp_path / "labels.html", "--json")  # fmt: skip
    facts = check("label", done.stdout)
    assert [row["file"] for row in read_csv(tmp_path / "labels.csv")] == [
        row["file"] for row in facts["results"]
    ]
    assert (tmp_path / "labels.html").exists()
    with Recogniser.load(tmp_path / "library.db") as recogniser:
        recogniser.enrol("clap", open_clip("clap", 0))
    done = run("recognise", folder / "in" / "clap.npz", "--library", tmp_path / "library.db", "--json",
               "--threshold", 0.1, "--csv", tmp_path / "answers.csv")  # fmt: skip
    (answer,) = check("recognise", done.stdout)["results"]
    assert (answer["label"], answer["start_s"]) == ("clap", 0)
    assert answer["end_s"] == pytest.approx(len(open_clip("clap", 1)) / open_clip("clap", 1).rate, abs=1e-3)
    (row,) = read_csv(tmp_path / "answers.csv")
    assert row["label"] == "clap"
    assert check("error", run("recognise", "nowhere.npz", "--json").stdout)


@needs_browser
def test_a_browser_sorts_filters_and_exports(tmp_path):
    motion = open_clip("wave")
    rows = [
        {"file": name, "start_s": 0.0, "end_s": 1.5, "label": None, "confidence": sure, "distance": sure}
        for name, sure in ((EVIL, 0.2), ('b, "quoted"', 0.9), ("c", 0.6))
    ]
    page = tmp_path / "page.html"
    text = write_hits_page(page, rows, [motion] * 3, title=EVIL, kind="Labels", threshold=0.5).read_text()
    act = """<script>addEventListener("load", () => {
      document.querySelector('[data-part="all"]').click();
      const order = () => [...document.querySelectorAll('[data-part="hits"] > li')].map((item) => item.textContent);
      const change = (part, value, kind) => {
        const control = document.querySelector(`[data-part="${part}"]`);
        control.value = value;
        control.dispatchEvent(new Event(kind));
      };
      const places = () => order().findIndex((text) => text.includes("quoted"));
      document.documentElement.dataset.before = places();
      change("sort", "distance", "change");
      document.documentElement.dataset.nearest = places();
      change("threshold", "0.7", "input");
      document.documentElement.dataset.strict = document.querySelector('[data-part="count"]').textContent;
      change("threshold", "0.5", "input");
      change("sort", "-confidence", "change");
      document.documentElement.dataset.csv = decodeURIComponent(document.querySelector('[data-part="export"]').href);
    });</script>"""
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text)[0]
    page.write_text(text.replace(policy, "").replace("</body>", act + "</body>"))
    shown = read_page(page.as_uri() + "#still", tmp_path / "profile").stdout
    assert re.search(r'<html[^>]* data-ready="1"', shown)
    assert re.search(r'<html[^>]* data-errors="0"', shown)
    assert "<img" not in shown
    assert ">Labels</p>" in shown
    assert "2 of 3 results, 2 ticked." in shown
    assert 'data-strict="1 of 3 results, 1 ticked."' in shown
    assert 'data-before="0"' in shown  # the most confident first
    assert 'data-nearest="2"' in shown
    exported = re.search(r'data-csv="data:text/csv;charset=utf-8,([^"]*)"', shown)[1].replace("&quot;", '"')
    assert [row["file"] for row in csv.DictReader(exported.splitlines())] == ['b, "quoted"', "c"]


def test_a_page_without_results_opens(tmp_path):
    page = write_hits_page(tmp_path / "page.html", [], [], title="nothing", kind="Labels")
    assert "0 of" not in page.read_text()


def test_csv_and_latex_survive_special_characters():
    rows = [{"file": 'a,"b"\n&%_#$~^\\{}', "label": None, "confidence": 0.5}]
    (back,) = csv.DictReader(format_csv(["file", "label", "confidence"], rows).splitlines(keepends=True))
    assert back == {"file": rows[0]["file"], "label": "", "confidence": "0.5"}
    assert r"\&\%\_\#\$\textasciitilde{}\textasciicircum{}\textbackslash{}\{\}" in format_latex(
        ["file"], rows
    )


def test_a_log_gets_a_line_every_ten_seconds(capsys):
    times = iter([0.0, 1.0, 11.0, 12.0, 30.0, 31.0])
    log = LogProgress("clips", clock=lambda: next(times))
    for done in (1, 2, 3, 4, 5):
        log(done, 5)
    assert capsys.readouterr().err.splitlines() == ["clips: 2 of 5", "clips: 4 of 5", "clips: 5 of 5"]


def test_a_quick_task_leaves_the_log_empty(capsys):
    times = iter([0.0, 1.0, 2.0])
    log = LogProgress("clips", clock=lambda: next(times))
    log(1, 2)
    log(2, 2)
    assert capsys.readouterr().err == ""


@pytest.mark.errors
def test_errors_name_the_options_of_the_command(tmp_path):
    (tmp_path / "x.xyz").write_text("nothing")
    done = run("recognise", tmp_path / "x.xyz", "--library", tmp_path / "none.db")
    assert done.exit_code == 2
    assert "give --format" in done.stderr
    assert "format=" not in done.stderr


@pytest.mark.errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "synthetic", "--set", "align.gama=1"), "did you mean 'gamma'?"),
        (("train", "synthetic", "--set", "aling.gamma=1"), "did you mean 'align'?"),
        (("train", "synthetic", "--method", "soft-dwt"), "did you mean 'soft-dtw'?"),
        (("train", "synthetic", "--recipe", "defualt"), "did you mean 'default'?"),
        (("evaluate", "raw", "synthetc"), "did you mean 'synthetic'?"),
        (("train", "synthetic", "--episods", "3"), "--episodes"),
        (("find", "a", "b", "--csv", "nowhere/x.csv"), "create it first"),
        (("info", "x.csv", "--layout", "mediapipe3"), "did you mean 'mediapipe33'?"),
        (("info", "x.csv", "--format", "medaipipe"), "did you mean 'mediapipe'?"),
        (("prepare", "msraction3", "nowhere", "out"), "did you mean 'msraction3d'?"),
        (("recognize", "x.csv"), "recognise"),
        (("cache", "--older", "3"), "--older and --outdated belong to --clear"),
        (("cache", "--outdated"), "--older and --outdated belong to --clear"),
    ],
)
def test_a_wrong_name_gets_a_suggestion(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize("content", [b"", b"x", b"file,label\n" * 100])
def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path, content):
    file = tmp_path / "recording.csv"
    file.write_bytes(content)
    write_npz(open_clip("clap"), tmp_path / "clap.npz")
    done = run("enrol", "clap", tmp_path / "clap.npz", "--library", file)
    assert done.exit_code == 2
    assert "this one is not changed" in done.stderr
    assert file.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clap.npz", "recording.csv"]


def test_an_index_is_built_updated_and_cleared(folder, search, tmp_path):
    pytest.importorskip("faiss")
    options = ("--seconds", 2, "--samples", 2, "--cache", tmp_path / "cache", "--json")
    first = check("index", run("index", folder / "in", *options).stdout)
    assert first["added"] == first["windows"] > 0
    again = check("index", run("index", folder / "in", *options).stdout)
    assert (again["added"], again["removed"], again["windows"]) == (0, 0, first["windows"])
    shown = run("index", folder / "in", *options[:-1])
    assert "recall" in shown.stdout
    found = run(
        "find", folder / "kick.npz", folder / "in", "--exact", "--cache", tmp_path / "cache", "--json"
    )
    assert check("find", found.stdout)["exact"]
    done = json.loads(run("cache", "--cache", tmp_path / "cache", "--clear", "--json").stdout)
    assert done["removed"]["bytes"] > first["bytes"]
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_cache_is_shown_and_cleared(folder, search):
    kept = folder / "cache" / "notes.json"
    kept.write_text("mine")
    before = json.loads(run("cache", "--cache", folder / "cache", "--json").stdout)
    assert before["files"] > 0
    assert before["bytes"] > 0
    young = json.loads(run("cache", "--cache", folder / "cache", "--clear", "--older", 1, "--json").stdout)
    assert young["removed"]["files"] == 0
    assert before["outdated"]["files"] == 0
    (folder / "cache" / f"{'0' * 32}-0.safetensors").write_bytes(b"of an earlier version")
    old = json.loads(run("cache", "--cache", folder / "cache", "--clear", "--outdated", "--json").stdout)
    assert old["removed"]["files"] == old["outdated"]["files"] == 1
    done = json.loads(run("cache", "--cache", folder / "cache", "--clear", "--json").stdout)
    assert done["removed"] == {key: before[key] for key in ("files", "entries", "bytes")}
    assert list((folder / "cache").iterdir()) == [kept]


def test_every_command_that_loads_a_model_takes_its_encoder():
    """Such a model is loaded only if its encoder is named, so the option must exist wherever --model does."""
    for functions in COMMANDS.values():
        for function in functions:
            names = set(inspect.signature(function).parameters)
            if "model" in names:
                assert names >= {"encoders", "metrics"}, function.__name__


def test_a_model_with_an_own_encoder_is_used_only_if_it_is_named(tmp_path):
    config = PRETRAINED_MODEL.with_values(components=())
    FewShotModel(config, encoder=JointMlp).save(tmp_path / "model")
    for name in ("a", "b"):
        write_npz(open_clip("wave"), tmp_path / f"{name}.npz")
    arguments = ["align", tmp_path / "a.npz", tmp_path / "b.npz", "--model", tmp_path / "model", "--json"]
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert "--encoder own_parts:JointMlp" in json.loads(refused.stdout)["error"]
    done = run(*arguments, "--encoder", "own_parts:JointMlp")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["distance"] == pytest.approx(0, abs=1e-4)
