"""Damaged exports of Kinovea: a clear error, and trajectories whose separators are missing."""

import numpy as np
import pytest
from corpus.captures import kinovea_csv, kinovea_text

from jeanie.datasets.formats.kinovea import read_kinovea
from jeanie.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write_file(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def test_a_name_begins_a_trajectory_without_an_empty_line_before_it(write):
    whole = read_kinovea(write("whole.txt", kinovea_text()))
    dense = read_kinovea(write("dense.txt", kinovea_text().replace("\n\n#", "\n#")))
    assert dense.layout.joints == whole.layout.joints
    np.testing.assert_array_equal(dense.joints, whole.joints)


def test_a_first_row_that_is_no_row_of_a_table_is_an_error(write):
    text = kinovea_csv().replace('"Time"', '"Time' + "x" * 200_000 + '"', 1)
    with pytest.raises(
        DataError, match=r"damaged\.csv: the first row has no titles: field larger than field limit"
    ):
        read_kinovea(write("damaged.csv", text))
