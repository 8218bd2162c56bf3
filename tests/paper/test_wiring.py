"""Options of the commands reach what they are for: sizes of a data set, trials of a search, ranges of angles."""

import json

import pytest
from typer.testing import CliRunner

from jeanie.cli import tables as tables_command
from jeanie.cli import train as train_command
from jeanie.cli.app import app
from jeanie.errors import ConfigError
from jeanie.evaluation.protocols import Protocol
from jeanie.paper.tuning import SPACE
from jeanie.paper.tuning.space import apply_changes
from jeanie.training.recipes import RECIPES

# d, d', hidden size, heads, depth, L, dropout, episodes (Suppl., "Network configuration" and "Training details")
pytestmark = pytest.mark.plain  # the stand-ins are not of the declared types
PRINTED = {
    "msraction3d-splits": (32, 50, 64, 6, 6, 6, 0.5, 10_000),
    "uwa3d-multiview": (32, 50, 64, 6, 6, 6, 0.5, 10_000),
    "ntu60-oneshot": (64, 100, 128, 12, 6, 6, 0.1, 100_000),
    "ntu120-vertical": (128, 200, 256, 12, 6, 6, 0.1, 200_000),
    "kinetics": (256, 500, 512, 12, 12, 6, 0.1, 500_000),
}


@pytest.mark.parametrize("recipe", ["paper", "authors"])
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_train_has_the_sizes_that_the_paper_prints_for_the_data_set(name, recipe, monkeypatch, tmp_path):
    found = []

    def stop(model, protocol, *, config, **_):
        found.append((model.encoder, config))
        raise ConfigError("seen enough")

    monkeypatch.setattr(Protocol, "open", lambda *_, **__: None)
    monkeypatch.setattr(train_command, "train_model", stop)
    CliRunner().invoke(app, ["train", name, "--recipe", recipe, "--out", str(tmp_path / "run")])
    ((encoder, config),) = found
    names = ("width", "features", "hidden", "heads", "depth", "layers", "dropout")
    assert (*(getattr(encoder, size) for size in names), config.episodes) == PRINTED[name]
    assert (config.queries, config.query_classes, config.batch) == (1, 1, 8)  # B episodes with one query


def test_tune_trials_and_one_row_reach_the_measurement_after_an_estimate(monkeypatch, tmp_path):
    measured = []

    def watch(cells, *_, **__):
        measured.extend(cells)

    monkeypatch.setattr(tables_command, "run_cells", watch)
    words = [
        "tables",
        "ntu60",
        "--row",
        "jeanie-2v-camvpc-tuned",
        "--row",
        "10",
        "--column",
        "50",
        "--tune-trials",
        "7",
    ]
    said = CliRunner().invoke(app, [*words, "--data", str(tmp_path), "--out", str(tmp_path / "out")])
    assert said.exit_code == 0, said.output
    trials = {cell.method: cell.tune_trials for cell in measured}
    assert trials == {"jeanie-2v-camvpc-tuned": 7, "soft-dtw": None}
    assert "2 of 2 measurements to make: about " in said.output
    assert "GB of memory" in said.output
    listed = CliRunner().invoke(app, ["tables", "ntu60", "--list"]).stdout
    assert "10 soft-dtw " in listed
    assert "5 training classes: 50\n" in listed
    listing = json.loads(CliRunner().invoke(app, ["tables", "ntu60", "--list", "--json"]).stdout)
    assert "soft-dtw" in json.dumps(listing)


@pytest.mark.parametrize("name", ["views.azimuth", "views.altitude"])
def test_a_search_reaches_views_from_the_side_and_from_above(name):
    dimension = SPACE[name]
    assert (dimension.low, dimension.high, dimension.step) == (0, 90, 15)  # "in [-90, 90]", 15 degrees
    views = apply_changes(RECIPES["authors"], {name: 90.0}).model.views.build()
    assert max(views.azimuths if name == "views.azimuth" else views.altitudes) == 90
