"""Rows of a table on lifted key points."""

import json

import numpy as np

from jeanie.datasets.archive.reader import open_archive
from jeanie.paper.tables.cells import Cell
from jeanie.paper.tables.measure import measure_cell


def test_a_row_on_lifted_key_points_makes_its_archive_first(tmp_path):
    """Six classes of Kinetics-skeleton: the archive kinetics-3d is made beside them, with depth."""
    rng = np.random.default_rng(0)
    (tmp_path / "kinetics").mkdir()
    for number in range(18):
        people = [{"pose": rng.uniform(0.2, 0.8, 36).tolist(), "score": [0.9] * 18}]
        frames = [{"frame_index": at, "skeleton": people} for at in range(4)]
        content = json.dumps({"data": frames, "label": f"class {number % 6}"})
        (tmp_path / "kinetics" / f"{number:02}.json").write_text(content)
    cell = Cell(method="shipped", protocol="kinetics", data="kinetics-3d", way=2, train_classes=4, limit=2)
    measured = measure_cell(cell, tmp_path / "out", tmp_path)
    assert measured.report.protocol == "kinetics"
    made = open_archive(tmp_path / "kinetics-3d")
    assert (len(made), made.layout.dims, len(made.layout)) == (18, 3, 18)
    assert float(made[0].joints[..., 2].abs().max()) > 0
