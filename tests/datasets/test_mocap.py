"""TRC, C3D and CSV against hand-made files."""

import importlib.util

import numpy as np
import pytest
import torch

from jeanie.datasets.mocap import read_c3d, read_csv, read_trc
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import LAYOUTS

needs_c3d = pytest.mark.skipif(
    importlib.util.find_spec("ezc3d") is None, reason="the extra c3d is not installed"
)

# ------------------------------------------------------------------------------------------------ TRC

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


def test_trc(written):
    motion = read_trc(written(TRC, "walk.trc"))
    assert motion.layout.joints == ("head", "right_elbow")
    assert motion.rate == 100.0
    assert motion.valid[:, 0].tolist() == [[True, True], [True, False], [True, True]]
    expected = [[[0.001, 1.7, 0.03], [0.2, 1.1, -0.04]], [[0.002, 1.701, 0.031], [0, 0, 0]],
                [[0.003, 1.702, 0.032], [0.202, 1.102, -0.042]]]  # fmt: skip
    torch.testing.assert_close(motion.joints[:, 0], torch.tensor(expected))


def test_trc_with_z_up_is_turned_upright(written):
    motion = read_trc(written(TRC, "walk.trc"), up="z", unit="m")
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
def test_broken_trc(written, change, cause):
    with pytest.raises(DataError, match=r"walk.trc") as caught:
        read_trc(written(TRC.replace(*change), "walk.trc"))
    assert cause in str(caught.value)


# ------------------------------------------------------------------------------------------------ C3D


@pytest.fixture
def c3d(tmp_path):
    ezc3d = pytest.importorskip("ezc3d")
    made = ezc3d.c3d()
    made["parameters"]["POINT"]["RATE"]["value"] = [50]
    made["parameters"]["POINT"]["LABELS"]["value"] = ("LASI", "RASI", "C7")
    made["parameters"]["POINT"]["UNITS"]["value"] = ["mm"]
    points = np.ones((4, 3, 5))
    points[:3] = np.random.default_rng(0).uniform(-900, 900, (3, 3, 5))
    points[:3, 1, 2] = np.nan
    made["data"]["points"] = points
    path = tmp_path / "gait.c3d"
    made.write(str(path))
    return path, points


@needs_c3d
def test_c3d(c3d):
    path, points = c3d
    motion = read_c3d(path)
    assert motion.layout.joints == ("lasi", "rasi", "c7")
    assert motion.rate == 50.0
    assert (~motion.valid).nonzero().tolist() == [[2, 0, 1]]
    x, y, z = np.nan_to_num(points[:3].transpose(0, 2, 1)) / 1000
    np.testing.assert_allclose(motion.joints[:, 0].numpy(), np.stack([x, z, -y], -1), atol=1e-6)
    upright = read_c3d(path, up="y", unit="m").joints[:, 0].numpy() / 1000
    np.testing.assert_allclose(upright, np.stack([x, y, z], -1), atol=1e-6)


@needs_c3d
def test_a_point_with_a_negative_residual_is_missing(c3d):
    ezc3d = pytest.importorskip("ezc3d")
    path, _ = c3d
    made = ezc3d.c3d(str(path))
    made["data"]["meta_points"]["residuals"][0, 2, 3:] = -1
    made.write(str(path))
    assert (~read_c3d(path).valid).nonzero().tolist() == [[2, 0, 1], [3, 0, 2], [4, 0, 2]]


@needs_c3d
@pytest.mark.errors
def test_a_c3d_file_that_brings_its_parser_down_is_a_data_error(c3d):
    path, _ = c3d
    whole = path.read_bytes()
    random = np.random.default_rng(7)
    seen = set()
    for _ in range(8):
        damaged = bytearray(whole)
        for at in random.integers(2, 1600, 20):
            damaged[at] = random.integers(256)
        path.write_bytes(damaged)
        try:
            read_c3d(path)
        except DataError as error:
            seen.add(str(error).split(":")[0])
    assert seen == {str(path)}


@pytest.mark.errors
def test_what_is_no_c3d_file_is_told_without_its_parser(written):
    if importlib.util.find_spec("ezc3d") is None:
        with pytest.raises(ConfigError, match=r"jeanie\[c3d\]"):
            read_c3d(written(b"\x02\x50", "a.c3d"))
    else:
        with pytest.raises(DataError, match="not a C3D file"):
            read_c3d(written(b"\x02\x51" + bytes(2000), "a.c3d"))


# ------------------------------------------------------------------------------------------------ CSV


def test_csv_one_person(written):
    text = "time,head_x,head_y,head_z,note,left_hand_x,left_hand_y,left_hand_z\n"
    text += '0.0,1,2,3,hello,4,5,6\n0.04,1.5,2,3,"a, b",,,\n0.08,2,2,3,,4,5,6.5\n'
    motion = read_csv(written(text, "a.csv"))
    assert motion.layout.joints == ("head", "left_hand")
    assert motion.rate == 25.0
    assert motion.valid[:, 0].tolist() == [[True, True], [True, False], [True, True]]
    torch.testing.assert_close(motion.joints[:, 0, 0, 0], torch.tensor([1.0, 1.5, 2.0]))
    torch.testing.assert_close(motion.joints[2, 0, 1], torch.tensor([4.0, 5.0, 6.5]))


def test_csv_several_persons_and_frames_left_out(written):
    text = "frame;person;Head.X;Head.Y;Head.Z\n5;7;1,5;1;1\n5;3;2;2;2\n8;7;3;3;3\n"
    motion = read_csv(written(text, "a.csv"), unit="cm")
    assert motion.joints.shape == (4, 2, 1, 3)
    assert motion.valid[..., 0].tolist() == [[True, True], [False, False], [False, False], [False, True]]
    torch.testing.assert_close(motion.joints[0, :, 0, 0], torch.tensor([0.02, 0.015]))


def test_csv_persons_without_frames_take_turns(written):
    text = "person\thead_x\thead_y\thead_z\n" + "".join(
        f"{p}\t{f}\t{p}\t1\n" for f in range(3) for p in (1, 2)
    )
    motion = read_csv(written(text, "a.csv"))
    assert motion.joints.shape == (3, 2, 1, 3)
    assert motion.joints[:, 1, 0, :2].tolist() == [[0, 2], [1, 2], [2, 2]]


def test_csv_with_the_joints_of_a_known_layout_gives_that_layout(written):
    layout = LAYOUTS["core15"]
    names = sorted(layout.joints)
    header = ",".join(f"{name}_{axis}" for name in names for axis in "xyz")
    row = ",".join(str(layout.index(name) + 1) for name in names for _ in "xyz")
    motion = read_csv(written(f"{header}\n{row}\n", "a.csv"))
    assert motion.layout is layout
    assert motion.joints[0, 0, :, 0].tolist() == list(range(1, 16))


@pytest.mark.errors
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "expected columns such as head_x"),
        ("a,b\n1,2\n", "expected columns such as head_x"),
        ("h_x,h_y,h_z\n1,2\n", "3 cells"),
        ("h_x,h_y,h_z\n1,2,x\n", "could not convert"),
        ("h_x,h_y,h_z\n", "no frames"),
        ("frame,h_x,h_y,h_z\n1.5,1,2,3\n2,1,2,3\n", "whole numbers"),
        ("frame,h_x,h_y,h_z\n1,1,2,3\n1e15,1,2,3\n", "wide gaps"),
        ("frame,h_x,h_y,h_z\n1,1,2,3\n1,1,2,3\n", "same frame and person"),
        ("frame,h_x,h_y,h_z\n,1,2,3\n", "row 1 has no frame"),
        ("h_x,h_y,h_z\n,,\n0,0,0\n", "no valid joint"),
    ],
)
def test_broken_csv(written, text, cause):
    with pytest.raises(DataError, match=r"a.csv") as caught:
        read_csv(written(text, "a.csv"))
    assert cause in str(caught.value)
