"""``jeanie train --from``: fine-tuning from the shipped weights and from a folder."""

import json

import pytest
from tiny_sbu import write_sbu
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.fewshot.model import FewShotModel
from jeanie.training.recipes import RECIPES
from jeanie.training.run import Run


def command(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


QUICK = (
    "--episodes",
    2,
    "--validation",
    0,
    "--set",
    "margin=null",
    "--set",
    "way=3",
    "--set",
    "mirror=false",
)


def test_the_command_goes_on_from_the_shipped_weights_and_from_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JEANIE_DATA", str(write_sbu(tmp_path)))
    done = command(
        "sbu", "--split", "seed 0", "--from", "shipped", "--out", tmp_path / "one", "--json", *QUICK
    )
    assert done.exit_code == 0, done.output
    run, shipped = Run.load(tmp_path / "one"), FewShotModel.load()
    assert run.recipe.train == RECIPES["finetune"].train.with_values(
        episodes=2, margin=None, way=3, mirror=False
    )
    assert run.recipe.model == shipped.config
    near = [
        (weight - other).abs().max()
        for weight, other in zip(run.model().parameters(), shipped.parameters(), strict=True)
    ]
    assert 0 < max(near) < 1e-3
    folder = run.folder() / "model"
    arguments = (
        "sbu",
        "--split",
        "seed 0",
        "--from",
        folder,
        "--set",
        "views.kind=euler",
        "--set",
        "views.altitude=0",
    )
    done = command(*arguments, "--set", "views.azimuth=15", "--out", tmp_path / "two", "--json", *QUICK)
    assert done.exit_code == 0, done.output
    second = Run.load(tmp_path / "two")
    assert second.model().views.shape == (3, 1)
    assert second.facts["start"] != run.facts["start"]
    assert json.loads(done.stdout)["protocol"] == "sbu"


@pytest.mark.errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "nowhere"), "cannot be read"),
        (("--from", "shipped", "--set", "encoder.width=64"), "weights do not fit"),
        (("--from", "shipped", "--validation", "0"), "holds out no class"),
    ],
)
def test_a_start_that_cannot_serve_ends_with_exit_code_2(tmp_path, arguments, message):
    done = command("synthetic", *arguments, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "run").exists()
