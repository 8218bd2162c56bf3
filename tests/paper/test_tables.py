"""Tables: every printed row has a method or is cited, and a table is the same however its cells came about."""

import contextlib
import json
import os
import pickle
import re
import shutil
import signal
import tomllib
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from importlib import resources

import pytest
import torch
from tiny_sbu import TINY, cells, column, measure_until_stopped, place_cells, tiny_table
from typer.testing import CliRunner
from waiting import PATIENCE

from jeanie.cli.app import app
from jeanie.errors import DataError
from jeanie.paper.methods import METHODS
from jeanie.paper.tables import (
    fill_table,
    get_table,
    list_cells,
    load_tables,
    render_html,
    render_markdown,
    run_cells,
    write_table,
)
from jeanie.paper.tables.cells import build_recipe
from jeanie.paper.tables.results import get_cell_folder, read_failure, read_result
from jeanie.paper.tables.runner import group_cells
from jeanie.paper.tables.schema import UNTRAINED
from jeanie.training.recipes import RECIPES

PAPER = (
    "backbones", "blocks", "camera-simulation", "kinetics", "ntu120", "ntu120-fvm", "ntu120-multiview",
    "ntu120-multiview-fvm", "ntu60", "ntu60-images", "uwa3d-fvm", "uwa3d-multiview",
)  # fmt: skip
FIGURES = ("alpha", "altitude", "azimuth", "gamma", "gamma-views", "layers", "layers-views", "sigma")


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """The tiny table, measured in one go; its folder."""
    out = tmp_path_factory.mktemp("whole")
    run_cells(cells(), out, data=data)
    return out


def numbers(out, of=None):
    """All that a table rests on: every prediction of every cell, and no time or machine."""
    found = []
    for cell in cells(of):
        result = read_result(out, cell)
        rows = None if result is None else result.report.predictions
        found.append(None if rows is None else (rows.predicted.tolist(), rows.own.tolist()))
    return found


# -- printed values -----------------------------------------------------------------------------------------------


def test_every_listed_row_has_a_method_that_exists_or_is_cited():
    result = CliRunner().invoke(app, ["tables", "--list", "--json"])
    assert result.exit_code == 0, result.output
    listed = json.loads(result.stdout)["tables"]
    assert {one["name"] for one in listed} == {*PAPER, *(f"figure-{name}" for name in FIGURES), "small"}
    known = METHODS.keys() | RECIPES.keys() | UNTRAINED.keys()
    for one in listed:
        assert one["rows"], one["name"]
        for row in one["rows"]:
            assert row["method"] == "cited" or row["method"] in known, (one["name"], row["name"])
            assert len(row["printed"]) == len(row["halves"]) == len(one["columns"])
            if row["method"] == "cited":
                assert any(value is not None for value in row["printed"]), (one["name"], row["name"])
    methods = {row["method"] for one in listed for row in one["rows"]}
    assert {"cited", "jeanie-2v-camvpc", "sl-dml", "va-soft-dtw", "s2gc-rbf", "2d-soft-dtw"} <= methods


@pytest.mark.parametrize("name", [*PAPER, *(f"figure-{name}" for name in FIGURES), "small"])
def test_every_cell_of_a_table_is_a_recipe_that_can_be_built(name):
    one = get_table(name)
    for preset in (one.full, one.quick):
        for found in list_cells(one, preset):
            assert (found.cell.recipe is None) == (found.cell.method in UNTRAINED)
            assert one.is_measurable(one.rows[found.row], found.column)


def test_columns_that_are_said_to_be_means_agree_with_the_printed_means():
    """An oracle for typing errors: the paper's own means of twelve columns, to its rounding and its own slips."""
    for name in ("uwa3d-multiview", "uwa3d-fvm"):
        for row in get_table(name).rows:
            assert abs(sum(row.printed[:-1]) / 12 - row.printed[-1]) <= 0.15, (name, row.name)


def test_what_two_tables_print_of_one_row_is_the_same():
    def row(where, name):
        return next(one.printed for one in get_table(where).rows if one.name == name)

    both = get_table("camera-simulation").rows
    assert both[1].printed == row("ntu60", "JEANIE+2V(Euler)") + row("ntu120", "JEANIE+2V(Euler)")
    assert both[2].printed == row("ntu60", "JEANIE+2V(CamVPC)") + row("ntu120", "JEANIE+2V(CamVPC)")
    assert row("ntu120", "APSR") == row("ntu120-fvm", "APSR") == (29.1, 34.8, 39.2, 42.8, 45.3)
    assert row("uwa3d-multiview", "S²GC+JEANIE+2V") == row("uwa3d-fvm", "JEANIE+2V")
    assert row("ntu120-multiview", "100/novel 20") == row("ntu120-multiview-fvm", "100/novel 20 (JEANIE)")
    assert get_table("backbones").rows[0].printed[2] is None  # the paper prints a dash


def test_printed_files_are_part_of_the_package():
    folder = resources.files("jeanie.paper").joinpath("printed")
    names = {file.name for file in folder.iterdir()}
    assert names == {f"{name}.toml" for name in load_tables()}
    for name in names:
        assert tomllib.loads(folder.joinpath(name).read_text(encoding="utf-8"))["name"] == name[:-5]


def test_a_recipe_is_base_then_data_set_then_method_then_row_and_column():
    one = get_table("blocks")
    recipe = build_recipe(one, one.rows[0], one.columns[2], RECIPES["authors"])
    assert recipe.model.views.kind == "none"  # of the method
    assert (recipe.model.inputs.block, recipe.model.inputs.stride) == (5, 0.8)  # of row and column
    assert (recipe.model.encoder.width, recipe.train.episodes) == (64, 100_000)  # of NTU-60
    assert recipe.train.loss.kind == "similarity"  # of the base


# -- measuring ----------------------------------------------------------------------------------------------------


def test_a_cell_is_what_training_and_evaluating_by_hand_give(data, whole, monkeypatch, tmp_path):
    from jeanie.evaluation.evaluate import evaluate
    from jeanie.evaluation.protocols import get_protocol
    from jeanie.training.train import train

    monkeypatch.setenv("JEANIE_DATA", str(data))
    sbu = get_protocol("sbu")
    dataset = sbu.open()
    splits = [split for split in sbu.splits(dataset, train_classes=5) if split.name in ("seed 0", "seed 1")]
    recipe = METHODS["soft-dtw"].recipe(RECIPES["default"]).with_values({**TINY, "seed": 0})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run = train(recipe.model, sbu, config=recipe.train, out=tmp_path / "run", dataset=dataset, split=splits)
    expected = evaluate(run, sbu, dataset=dataset, splits=splits, limit=3)
    torch.set_num_threads(threads)
    filled = fill_table(tiny_table(), tiny_table().full, place_cells(), whole)
    entry = filled.entries[3][0]
    assert entry.ours == expected.accuracy
    assert entry.half == expected.ci95
    assert entry.difference == pytest.approx(expected.accuracy - 30)
    assert entry.report.seeds == (0,)


def test_what_is_done_is_not_done_again(data, whole):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    calls = []
    run_cells(cells(), whole, data=data, progress=lambda done, total: calls.append((done, total)))
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()} == before
    assert calls[-1] == (5, 5)  # the cell for which the paper prints a dash is none


def test_a_task_is_small_and_names_its_training(tmp_path):
    ways = [column(name=f"{way}-way", way=way, trained_way=3) for way in (2, 3)]
    one = tiny_table(columns=ways, rows=[{"name": "a", "method": "pooled"}])
    for group in (
        cells(one),
        [each.cell for each in list_cells(get_table("ntu120"), get_table("ntu120").full)],
    ):
        tasks = group_cells(group, tmp_path, None, is_shared=True)
        assert max(len(pickle.dumps(task)) for task in tasks) < 10_000
        assert len({task.key for task in tasks}) == len(tasks) == len({cell.run_key for cell in group})
        assert sorted(cell.key for task in tasks for cell in task.cells) == sorted(cell.key for cell in group)
    (task,) = group_cells(cells(one), tmp_path, None, is_shared=True)
    (elsewhere,) = group_cells(cells(one), tmp_path / "other", None, is_shared=True)
    assert task.key != elsewhere.key


@pytest.mark.processes
def test_a_training_that_another_process_has_locked_is_left_to_it(data, whole, tmp_path):
    cell = next(cell for cell in cells() if cell.method == "raw")
    (task,) = group_cells([cell], tmp_path, None, is_shared=False)
    with ThreadPoolExecutor(1) as other:
        with task.lock():
            call = other.submit(run_cells, [cell], tmp_path, data=data)
            with pytest.raises(TimeoutError):
                call.result(1.5)
            assert read_result(tmp_path, cell) is None
            shutil.copytree(
                get_cell_folder(whole, cell), get_cell_folder(tmp_path, cell)
            )  # as the other process does
        call.result(PATIENCE)


@pytest.mark.processes
def test_several_worker_processes_give_the_same_table(data, whole, tmp_path):
    run_cells(cells(), tmp_path, data=data, jobs=2)
    assert numbers(tmp_path) == numbers(whole)
    logs = [path.relative_to(whole) for path in whole.glob("runs/*/run/*/metrics.jsonl")]
    assert logs
    for log in logs:  # no training was done twice
        assert len((tmp_path / log).read_text().splitlines()) == len((whole / log).read_text().splitlines())


def test_the_data_folder_is_an_argument_and_the_environment_stays(data, tmp_path, monkeypatch):
    monkeypatch.setenv("JEANIE_DATA", str(tmp_path / "nowhere"))
    one = tiny_table(columns=[column(splits=["seed 0"])], rows=[{"name": "raw", "method": "raw"}])
    seen = []
    run_cells(cells(one), tmp_path, data=data, progress=lambda *_: seen.append(os.environ["JEANIE_DATA"]))
    assert read_result(tmp_path, cells(one)[0]) is not None
    assert set(seen) == {str(tmp_path / "nowhere")}


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_table_that_was_stopped_in_the_middle_of_a_training_goes_on_to_the_same_numbers(
    data, whole, tmp_path, number, processes
):
    ours, theirs = processes.Pipe()
    process = processes.Process(target=measure_until_stopped, args=(tmp_path, data, theirs))
    process.start()
    theirs.close()  # a process that dies early is noticed here
    assert ours.recv_bytes() == b"training"
    os.kill(process.pid, number)
    with contextlib.suppress(OSError):  # the process is gone
        ours.send_bytes(b"go on")
    process.join()
    assert process.exitcode != 0
    assert any(rows is None for rows in numbers(tmp_path))
    run_cells(cells(), tmp_path, data=data)
    assert numbers(tmp_path) == numbers(whole)


def test_a_cell_that_fails_is_shown_with_its_reason_and_stops_nothing(data, whole, tmp_path):
    broken = tiny_table(
        columns=[
            column(splits=["seed 0"]),
            column(name="not there", protocol="ntu60-oneshot", train_classes=50),
        ],
        rows=[
            {"name": "raw", "method": "raw"},
            {"name": "bad", "method": "soft-dtw", "changes": {"way": 50}, "printed": [30.0, 31.0]},
        ],
    )
    run_cells(cells(broken), tmp_path, data=data)
    filled = fill_table(broken, broken.full, place_cells(broken), tmp_path)
    assert [[entry.status for entry in row] for row in filled.entries] == [
        ["measured", "failed"],
        ["failed", "failed"],
    ]
    assert filled.entries[0][0].ours is not None
    assert "ntu60-oneshot needs ntu60" in filled.entries[0][1].reason
    text = render_markdown(filled)
    assert "ntu60-oneshot needs ntu60" in text
    assert "| bad | failed (30.0) | failed (31.0) |" in text
    assert "1 cells measured, 3 failed." in text


def test_a_failed_cell_is_tried_again_by_the_next_call(data, tmp_path):
    one = tiny_table(columns=[column(splits=["seed 0"])], rows=[{"name": "raw", "method": "raw"}])
    run_cells(cells(one), tmp_path, data=tmp_path / "empty")
    assert "sbu needs sbu" in read_failure(tmp_path, cells(one)[0]).reason
    run_cells(cells(one), tmp_path, data=data)
    assert read_failure(tmp_path, cells(one)[0]) is None
    assert read_result(tmp_path, cells(one)[0]) is not None


def test_columns_that_only_test_otherwise_share_one_training(data, tmp_path):
    ways = [column(name=f"{way}-way", way=way, trained_way=3, splits=["seed 0"]) for way in (2, 3)]
    one = tiny_table(columns=ways, rows=[{"name": "a", "method": "pooled"}])
    first, second = cells(one)
    assert first.run_key == second.run_key
    assert first.key != second.key
    run_cells([first, second], tmp_path, data=data)
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert [read_result(tmp_path, cell).report.way for cell in (first, second)] == [2, 3]
    apart = tiny_table(columns=[column(way=2), column(way=3)], rows=[{"name": "a", "method": "pooled"}])
    assert len({cell.run_key for cell in cells(apart)}) == 2


def test_seeds_are_measured_each_and_joined(data, tmp_path):
    one = tiny_table(
        columns=[column(splits=["seed 0"])],
        rows=[{"name": "a", "method": "pooled"}, {"name": "r", "method": "raw"}],
    )
    preset = one.full.with_values(seeds=(0, 3))
    found = list_cells(one, preset)
    assert [cell.recipe and cell.recipe.train.seed for cell in (each.cell for each in found)] == [0, 3, None]
    run_cells([each.cell for each in found], tmp_path, data=data)
    entry = fill_table(one, preset, found, tmp_path).entries[0][0]
    singles = [read_result(tmp_path, each.cell).report.accuracy for each in found[:2]]
    assert entry.ours == pytest.approx(sum(singles) / 2)
    assert entry.report.seeds == (0, 3)
    assert entry.report.over == "seeds"


# -- what is written ----------------------------------------------------------------------------------------------


class Texts(HTMLParser):
    """Cells of the tables of a page, and addresses that it would load."""

    def __init__(self):
        super().__init__()
        self.cells, self.loads, self.inside = [], [], False

    def handle_starttag(self, tag, attributes):
        self.inside |= tag in ("td", "th")
        if tag in ("td", "th"):
            self.cells.append("")
        self.loads += [value for name, value in attributes if name in ("src", "href") and value != "data:,"]

    def handle_endtag(self, tag):
        self.inside &= tag not in ("td", "th")

    def handle_data(self, text):
        if self.inside:
            self.cells[-1] += text


def test_the_page_and_the_text_show_ours_printed_difference_and_where_it_comes_from(whole, tmp_path):
    one = tiny_table(rows=[
        {"name": "<b>others</b>", "cited": True, "printed": [50.0, "-"], "halves": [1.5, "-"]},
        {"name": "nothing learnt", "method": "raw", "printed": [40.0, 60.0]},
        {"name": "no alignment", "method": "pooled"},
        {"name": "soft-DTW", "method": "soft-dtw", "printed": [30.0, "-"]},
    ])  # fmt: skip
    filled = fill_table(one, one.full, place_cells(one), whole)
    entry = filled.entries[1][0]
    paths = write_table(filled, tmp_path)
    text = paths["markdown"].read_text()
    cell = f"{entry.ours:.1f} ± {entry.half:.1f} (40.0, {entry.ours - 40:+.1f})"
    assert cell in text
    assert "cited: 50.0 ± 1.5" in text
    assert re.search(r"Seeds 0; commit \S+; python ", text)
    assert "cores" in text
    page = Texts()
    page.feed(paths["html"].read_text())
    assert page.loads == []
    assert "<b>others</b>" in page.cells
    assert f"{entry.ours:.1f} ± {entry.half:.1f}printed 40.0, {entry.ours - 40:+.1f}" in page.cells
    facts = json.loads(paths["json"].read_text())
    assert facts["rows"][1]["cells"][0]["ours"] == round(entry.ours, 4)
    assert facts["rows"][0]["cells"][0] == {
        **facts["rows"][0]["cells"][0],
        "status": "cited",
        "printed": 50.0,
    }
    assert facts["machines"][0]["cores"] == os.cpu_count()
    assert (facts["measured"], facts["failed"]) == (5, 0)


def test_methods_are_compared_with_the_reference_query_by_query(whole):
    filled = fill_table(tiny_table(), tiny_table().full, place_cells(), whole)
    assert set(filled.pairs) == {(1, 0), (2, 0)}  # in the second column the reference is a dash
    pair = filled.pairs[1, 0]
    assert pair.difference.value == pytest.approx(filled.entries[1][0].ours - filled.entries[3][0].ours)
    assert pair.adjusted >= pair.p
    assert "Difference to soft-DTW on the same queries" in render_markdown(filled)


def test_a_column_of_means_is_filled_when_all_before_it_are(data, whole, tmp_path):
    columns = [
        column(splits=["seed 0", "seed 1"]),
        column(name="other", splits=["seed 2"]),
        {"name": "Mean", "mean": True},
    ]
    one = tiny_table(columns=columns, rows=[{"name": "raw", "method": "raw"}])
    entries = fill_table(one, one.full, place_cells(one), whole).entries[0]
    assert entries[2].ours == pytest.approx((entries[0].ours + entries[1].ours) / 2)
    empty = fill_table(one, one.full, place_cells(one), tmp_path).entries[0]
    assert [entry.status for entry in empty] == ["not run", "not run", "left out"]


def test_a_quick_table_says_so(whole):
    filled = fill_table(tiny_table(), tiny_table().full, place_cells(), whole, quick=True)
    assert "its numbers are no result" in render_markdown(filled)
    assert "its numbers are no result" in render_html(filled)
    assert filled.json()["quick"]


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.errors
def test_a_damaged_measurement_is_named(whole, tmp_path, data):
    cell = cells()[0]
    folder = get_cell_folder(tmp_path, cell)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{}")
    with pytest.raises(DataError, match="remove the folder to measure again"):
        read_result(tmp_path, cell)


# -- one row, one column, searches, estimates ----------------------------------------------------------------------
