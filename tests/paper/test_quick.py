"""``--quick`` is a check of minutes: how much it computes is bounded, and a cell of every table runs."""

import math

import pytest
from stand_ins import stand_in

from jeanie.evaluation.protocols import Protocol
from jeanie.paper.tables import estimate_cells, list_cells, load_tables, measure

pytestmark = pytest.mark.plain  # the stand-ins are not of the declared types
TABLES = sorted(load_tables().keys() - {"small"})  # our own table has a quick preset of its own


def quick_cells(name):
    table = load_tables()[name]
    return [placed.cell for placed in list_cells(table, table.quick)]


def count_views(cell):
    views = cell.recipe.model.views
    count = math.prod(views.build().shape) if views.kind != "none" else 1
    return count**2 if views.sides == "both" else count


@pytest.mark.parametrize("name", TABLES)
def test_the_work_of_a_quick_table_is_bounded(name):
    cells = quick_cells(name)
    assert len({cell.key for cell in cells}) == len(cells) <= 60
    for cell in cells:
        model, train = cell.recipe.model, cell.recipe.train
        assert (train.episodes, train.batch) == (8, 4)
        assert train.way <= 5
        assert cell.way is None or cell.way <= 5
        assert cell.splits == 1
        assert (cell.limit, cell.validation_limit) == (2, 2)
        assert model.inputs.prepare.frames == 32
        assert count_views(cell) <= 81
        assert not getattr(model.encoder, "transformer", False) or model.encoder.depth <= 2
        assert getattr(model.encoder, "network", "small") == "small"
        assert (cell.tune_trials or 0) <= 2
    trained = sum(8 * (1 + (cell.tune_trials or 0)) for cell in cells)
    assert trained <= 480
    estimate = estimate_cells(cells)
    assert estimate.hours <= 20 / 60  # of one core
    assert estimate.gigabytes <= 4


@pytest.mark.parametrize("name", TABLES)
def test_a_cell_of_every_table_runs(name, monkeypatch, tmp_path):
    """The cheapest one, on the first of its data sets."""
    cells = [cell for cell in quick_cells(name) if not cell.searches and not cell.data]
    cell = min(cells, key=lambda cell: estimate_cells([cell]).hours)
    dataset = stand_in(cell.protocol)
    monkeypatch.setattr(Protocol, "open", lambda *_, **__: dataset)
    monkeypatch.setattr(measure, "_open_dataset", lambda *_: dataset)
    report = measure.measure_cell(cell, tmp_path, tmp_path).report
    assert report.protocol == cell.protocol
    assert report.queries >= 5
    assert 0 <= report.accuracy <= 100
