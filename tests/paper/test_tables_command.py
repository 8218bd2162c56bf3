"""``jeanie tables``: tables of files, single rows and columns, searches, estimates and wrong usage."""

import doctest
import json
import re
from pathlib import Path

import pytest
from tiny_sbu import TINY, cells, column, place_cells, tiny_table
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.errors import ConfigError
from jeanie.paper.tables import (
    estimate_cells,
    fill_table,
    get_table,
    list_cells,
    load_tables,
    render_markdown,
    run_cells,
)
from jeanie.paper.tables.results import read_result
from jeanie.paper.tables.schema import Column, Row

OWN = """
name = "mine"
title = "A table of my own"
source = "nowhere"
columns = [{ name = "3-way", protocol = "sbu", train_classes = 5, splits = ["seed 0"] }]
rows = [
    { name = "others", cited = true, printed = [50.0] },
    { name = "nothing learnt", method = "raw", printed = [40.0] },
]
full = { limit = 3 }
"""


def test_the_command_measures_a_table_of_a_file_and_prints_one_object(data, tmp_path):
    (tmp_path / "mine.toml").write_text(OWN)
    places = ["--data", str(data), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["tables", str(tmp_path / "mine.toml"), *places, "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["measured"], facts["failed"]) == (1, 0)
    found = facts["rows"][1]["cells"][0]
    assert found["difference"] == pytest.approx(found["ours"] - 40)
    text = Path(facts["files"]["markdown"]).read_text()
    assert text.startswith("# A table of my own")
    again = CliRunner().invoke(app, ["tables", str(tmp_path / "mine.toml"), *places, "--render"])
    assert text in again.stdout


def test_the_exit_code_says_that_a_measurement_failed(data, tmp_path):
    (tmp_path / "mine.toml").write_text(OWN)
    command = ["tables", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out"), "--jobs", "1", "--json"]
    failed = CliRunner().invoke(app, [*command, "--data", str(tmp_path / "nothing")])
    assert (failed.exit_code, json.loads(failed.stdout)["failed"]) == (1, 1)
    assert CliRunner().invoke(app, [*command, "--render"]).exit_code == 0
    again = CliRunner().invoke(app, [*command, "--data", str(data)])
    assert (again.exit_code, json.loads(again.stdout)["failed"]) == (0, 0)


@pytest.mark.errors
def test_a_row_with_neither_or_both_is_refused():
    for values in ({}, {"method": "soft-dtw", "cited": True}):
        with pytest.raises(ConfigError, match="row 'x' needs a method or cited = true"):
            Row(name="x", **values)
    with pytest.raises(ConfigError, match="no method 'soft-dwt'; known are "):
        Row(name="x", method="soft-dwt")
    with pytest.raises(ConfigError, match="2 printed values for 1 columns"):
        tiny_table(columns=[column()], rows=[{"name": "x", "method": "raw", "printed": [1.0, 2.0]}])
    with pytest.raises(ConfigError, match="needs a protocol or mean = true"):
        Column(name="x")


@pytest.mark.errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "no table 'nosuch'; the known ones are backbones"),
        ([], "give the name of a table, or --list"),
        (["small", "--seeds", "0;1"], "--seeds takes comma-separated whole numbers"),
        (["small", "--recipe", "best"], "no recipe 'best'"),
    ],
)
def test_wrong_use_ends_with_exit_code_2(arguments, message):
    result = CliRunner().invoke(app, ["tables", *arguments, "--json"])
    assert result.exit_code == 2
    assert message in json.loads(result.stdout)["error"]


def test_the_page_names_every_table_and_its_examples_are_true():
    page = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
    named = set(re.findall(r"`([a-z0-9-]+)`", page.read_text()))
    assert load_tables().keys() <= named
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 3
    assert found.failed == 0


def test_one_row_and_one_column_are_measured_alone_and_the_table_is_written_as_they_finish(data, tmp_path):
    (tmp_path / "mine.toml").write_text(
        OWN.replace("rows = [", 'rows = [ { name = "dtw", method = "raw" }, ')
        .replace('splits = ["seed 0"] }', 'splits = ["seed 0"] }, { name = "b", group = "g", protocol = "sbu", '
                 'train_classes = 5, splits = ["seed 1"] }')
        .replace("printed = [50.0]", 'printed = [50.0, 1.0]').replace("printed = [40.0]", 'printed = [40.0, 1.0]')
    )  # fmt: skip
    command = [
        "tables",
        str(tmp_path / "mine.toml"),
        "--data",
        str(data),
        "--out",
        str(tmp_path / "out"),
        "--jobs",
        "1",
    ]
    shown = CliRunner().invoke(app, [*command, "--row", "nothing learnt", "--column", "g: b", "--json"])
    assert shown.exit_code == 0, shown.output
    rows = json.loads(shown.stdout)["rows"]
    assert [[cell["status"] for cell in row["cells"]] for row in rows] == [
        ["left out", "left out"], ["cited", "cited"], ["left out", "measured"],
    ]  # fmt: skip
    told = CliRunner().invoke(app, [*command, "--row", "3"])
    assert "1 of 2 measurements to make: about a minute on one process" in told.stderr
    listing = CliRunner().invoke(app, ["tables", str(tmp_path / "mine.toml"), "--list"]).stdout
    assert "1 3-way" in listing
    assert "2 g: b" in listing


@pytest.mark.errors
@pytest.mark.parametrize("option", ["row", "column"])
def test_an_unknown_row_or_column_is_refused_with_the_known_ones(option):
    shown = CliRunner().invoke(app, ["tables", "ntu60", f"--{option}", "nosuch", "--json"])
    assert shown.exit_code == 2
    error = json.loads(shown.stdout)["error"]
    assert f"ntu60 has no {option} 'nosuch'; give the number or the name of one of: 1 " in error


def test_rows_with_crossval_search_their_angles_on_validation_classes_and_go_on_where_they_stopped(
    data, tmp_path, monkeypatch
):
    from jeanie.paper.tables import measure
    from jeanie.paper.tuning import worker

    table = tiny_table(
        columns=[column(splits=["seed 0"])],
        rows=[{"name": "JEANIE (crossval.*)", "method": "jeanie-2v-euler-both-tuned"}],
        full={"limit": 2, "validation_limit": 2, "tune_trials": 3, "coarse": True,
              "changes": {**TINY, "episodes": 2, "views.azimuth": 45, "views.altitude": 45}},
    )  # fmt: skip
    (cell,) = cells(table)
    assert (cell.searches, cell.tune_trials, cell.recipe.model.views.step) == (
        ("views.azimuth", "views.altitude"), 3, 45,
    )  # fmt: skip
    seen, train = [], worker.train

    def watch(model, protocol, **options):
        seen.append((model.views.azimuth, model.views.altitude))
        assert all(not len(split.test) and not split.test_variants for split in options["split"])
        if len(seen) == 2 and len(set(seen)) >= 0 and not (tmp_path / "stopped").exists():
            (tmp_path / "stopped").touch()
            raise KeyboardInterrupt
        return train(model, protocol, **options)

    monkeypatch.setattr(worker, "train", watch)
    with pytest.raises(KeyboardInterrupt):
        measure.measure_cell(cell, tmp_path, data)
    assert read_result(tmp_path, cell) is None
    run_cells([cell], tmp_path, data=data)
    result = read_result(tmp_path, cell)
    assert seen[0] == (45, 45)  # the recipe itself comes first, and its trial is not repeated
    assert len(seen) == 4
    assert set(result.searched) == set(cell.searches)
    trained = json.loads(next(tmp_path.glob("runs/*/run/config.json")).read_text())["model"]["views"]
    assert {f"views.{name}": trained[name] for name in ("azimuth", "altitude")} == result.searched
    entry = fill_table(table, table.full, place_cells(table), tmp_path).entries[0][0]
    assert entry.json()["searched"] == [result.searched]


def test_small_networks_replace_published_ones_and_the_table_says_so(tmp_path):
    table = get_table("ntu120")
    for preset, word in ((table.full, "published"), (table.quick, "small")):
        found = {one.cell.method for one in list_cells(table, preset)}
        assert ("sl-dml" in found) == (word == "published")
        assert ("sl-dml-small" in found) == (word == "small")
        text = render_markdown(fill_table(table, preset, list_cells(table, preset), tmp_path))
        assert f"| SL-DML, {word} network |" in text
        assert "| soft-DTW (baseline) |" in text


def test_estimates_grow_with_what_is_computed():
    def of(row):
        table = get_table("ntu60")
        return estimate_cells([one.cell for one in list_cells(table, table.full, rows=[row], columns=["50"])])

    plain, views, both, searched = map(
        of, ("soft-dtw", "jeanie-2v-camvpc", "jeanie-shift-2", "jeanie-2v-camvpc-tuned")
    )
    assert plain.hours < views.hours < searched.hours < both.hours
    assert searched.hours == pytest.approx(21 * views.hours, rel=0.2)  # 20 trials and the training itself
    assert 0.3 < plain.gigabytes < views.gigabytes < 4
    quick = get_table("kinetics")
    assert estimate_cells([one.cell for one in list_cells(quick, quick.quick)]).hours < 10 / 60 * 2


@pytest.mark.parametrize(
    ("row", "measured"),
    [("soft-dtw", 4), ("fvm-both", 8), ("jeanie-2v-camvpc-both", 8)],
    ids=["4-D", "fvm", "6-D"],
)
def test_an_estimate_is_near_the_cpu_seconds_that_were_measured(row, measured):
    """One seed of the results page on NW-UCLA: 400 episodes, validation and 200 test episodes, on one core."""
    table = get_table(str(Path(__file__).parents[2] / "benchmarks" / "paper_small.toml"))
    placed = list_cells(table, table.full, rows=[row], columns=["3"], seeds=[0])
    seconds = 3600 * estimate_cells([placed[0].cell]).hours
    assert measured / 3 < seconds < 3 * measured
