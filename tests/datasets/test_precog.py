"""PRECOG: continuous sequences with one label per frame."""

import os
from pathlib import Path

import pytest

from jeanie.datasets import open_dataset, read_motion
from jeanie.datasets.formats.precog import list_movements, read_precog_labels
from jeanie.errors import DataError

DATA = os.environ.get("JEANIE_DATA")


def test_movements_are_runs_of_one_label():
    assert list_movements([0, 0, 3, 3, 5, 0, 5]) == [(2, 4, 3), (4, 5, 5), (6, 7, 5)]
    assert list_movements([]) == []


@pytest.mark.errors
def test_a_damaged_sequence_names_file_and_line(tmp_path):
    path = tmp_path / "Seq1_1.csv"
    path.write_text("HipCenter; Spine; ShoulderCenter; Head\n1 2 3;4 5 6;0\n")
    with pytest.raises(DataError, match=r"Seq1_1\.csv, line 2"):
        read_motion(path)


@pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")
def test_all_sequences_have_their_movements():
    data = open_dataset("precog")
    labels = [read_precog_labels(Path(DATA) / "precog" / f"{name}.csv") for name in data.names[:12]]
    assert all(len(data[index]) == len(row) for index, row in enumerate(labels))
    assert sum(len(list_movements(row)) for row in labels) >= 60
    assert {data[0].rate, data[0].persons} == {30.0, 1}
    assert sorted(set(data.subjects)) == list(range(1, 13))
