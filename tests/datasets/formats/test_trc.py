"""TRC against hand-made files."""

import pytest
import torch

from jeanie.datasets.formats.trc import read_trc
from jeanie.errors import DataError

TRC = (
    "PathFileType\t4\t(X/Y/Z)\twalk.trc\n"
    "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames\n"
    "100.00\t100.00\t3\t2\tmm\t100.00\t1\t3\n"
    "Frame#\tTime\tHead\t\t\tR.Elbow\t\t\t\n"
    "\t\tX1\tY1\tZ1\tX2\tY2\tZ2\n"
    "\n"
    "1\t0.00\t1\t1700\t30\t200\t1100\t-40\n"
    "2\t0.01\t2\t1701\t31\t\t\t\t\n"
    "3\t0.02\t3\t1702\t32\t202\t1102\t-42\n"
)


def test_trc_markers_are_read_in_metres(write_file):
    motion = read_trc(write_file(TRC, "walk.trc"))
    assert motion.layout.joints == ("head", "right_elbow")
    assert motion.rate == 100.0
    assert motion.valid[:, 0].tolist() == [[True, True], [True, False], [True, True]]
    expected = [[[0.001, 1.7, 0.03], [0.2, 1.1, -0.04]], [[0.002, 1.701, 0.031], [0, 0, 0]],
                [[0.003, 1.702, 0.032], [0.202, 1.102, -0.042]]]  # fmt: skip
    torch.testing.assert_close(motion.joints[:, 0], torch.tensor(expected))


def test_trc_with_z_up_is_rotated_to_y_up(write_file):
    motion = read_trc(write_file(TRC, "walk.trc"), up="z", unit="m")
    torch.testing.assert_close(motion.joints[0, 0, 0], torch.tensor([1.0, 30.0, -1700.0]))


@pytest.mark.errors
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (("PathFileType", "Path"), "expected a TRC file"),
        (("\t3\t2\tmm", "\t4\t2\tmm"), "NumFrames says '4'"),
        (("\t3\t2\tmm", "\t3\t5\tmm"), "2 marker names, NumMarkers says '5'"),
        (("\tmm\t", "\tparsec\t"), "unit 'parsec'"),
        (("1701", "17o1"), "line 8: '17o1' is not a number"),
        (("3\t0.02\t3\t1702", "3\t0.02\t3"), "line 9: expected 8 numbers, got 7"),
    ],
)
def test_a_broken_trc_file_names_its_cause(write_file, change, cause):
    with pytest.raises(DataError, match=r"walk.trc") as caught:
        read_trc(write_file(TRC.replace(*change), "walk.trc"))
    assert cause in str(caught.value)
