"""CSV against hand-made files."""

import pytest
import torch

from jeanie.datasets.formats.csv_table import read_csv
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS


def test_csv_of_one_person(write_file):
    text = "time,head_x,head_y,head_z,note,left_hand_x,left_hand_y,left_hand_z\n"
    text += '0.0,1,2,3,hello,4,5,6\n0.04,1.5,2,3,"a, b",,,\n0.08,2,2,3,,4,5,6.5\n'
    motion = read_csv(write_file(text, "a.csv"))
    assert motion.layout.joints == ("head", "left_hand")
    assert motion.rate == 25.0
    assert motion.valid[:, 0].tolist() == [[True, True], [True, False], [True, True]]
    torch.testing.assert_close(motion.joints[:, 0, 0, 0], torch.tensor([1.0, 1.5, 2.0]))
    torch.testing.assert_close(motion.joints[2, 0, 1], torch.tensor([4.0, 5.0, 6.5]))


def test_csv_of_several_persons_with_missing_frames(write_file):
    text = "frame;person;Head.X;Head.Y;Head.Z\n5;7;1,5;1;1\n5;3;2;2;2\n8;7;3;3;3\n"
    motion = read_csv(write_file(text, "a.csv"), unit="cm")
    assert motion.joints.shape == (4, 2, 1, 3)
    assert motion.valid[..., 0].tolist() == [[True, True], [False, False], [False, False], [False, True]]
    torch.testing.assert_close(motion.joints[0, :, 0, 0], torch.tensor([0.02, 0.015]))


def test_csv_rows_of_a_person_are_its_frames(write_file):
    text = "person\thead_x\thead_y\thead_z\n" + "".join(
        f"{p}\t{f}\t{p}\t1\n" for f in range(3) for p in (1, 2)
    )
    motion = read_csv(write_file(text, "a.csv"))
    assert motion.joints.shape == (3, 2, 1, 3)
    assert motion.joints[:, 1, 0, :2].tolist() == [[0, 2], [1, 2], [2, 2]]


def test_csv_with_the_joints_of_a_known_layout_gives_that_layout(write_file):
    layout = LAYOUTS["core15"]
    names = sorted(layout.joints)
    header = ",".join(f"{name}_{axis}" for name in names for axis in "xyz")
    row = ",".join(str(layout.index(name) + 1) for name in names for _ in "xyz")
    motion = read_csv(write_file(f"{header}\n{row}\n", "a.csv"))
    assert motion.layout is layout
    assert motion.joints[0, 0, :, 0].tolist() == list(range(1, 16))


@pytest.mark.parametrize("first", ["#", "# ", "//", "%", "#,,", "\x0b", "\x1c\x1d"])
def test_a_first_line_without_words_is_skipped(write_file, first):
    motion = read_csv(write_file(f"{first}\nhead_x,head_y,head_z\n1,2,3\n", "a.csv"))
    assert motion.joints[0, 0].tolist() == [[1, 2, 3]]


@pytest.mark.errors
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "expected columns such as head_x"),
        ("#\n", "expected columns such as head_x"),
        ("\x0b\n", "expected columns such as head_x"),
        ("a,b\n1,2\n", "expected columns such as head_x"),
        ("h_x,h_y,h_z\n1,2\n", "line 2: 2 cells, expected 3"),
        ("h_x,h_y,h_z\n1,2,x\n", "could not convert"),
        ("h_x,h_y,h_z\n", "no frames"),
        ("frame,h_x,h_y,h_z\n1.5,1,2,3\n2,1,2,3\n", "whole numbers"),
        ("frame,h_x,h_y,h_z\n1,1,2,3\n1e15,1,2,3\n", "wide gaps"),
        ("frame,h_x,h_y,h_z\n1,1,2,3\n1,1,2,3\n", "same frame and person"),
        ("frame,h_x,h_y,h_z\n,1,2,3\n", "row 1 has no frame"),
        ("h_x,h_y,h_z\n,,\n0,0,0\n", "no valid joint"),
    ],
)
def test_a_broken_csv_file_names_its_cause(write_file, text, cause):
    with pytest.raises(DataError, match=r"a.csv") as caught:
        read_csv(write_file(text, "a.csv"))
    assert cause in str(caught.value)
