"""C3D against files that ezc3d writes, whole and damaged."""

import importlib.util

import numpy as np
import pytest

from jeanie.datasets.formats.c3d import read_c3d
from jeanie.errors import ConfigError, DataError

needs_c3d = pytest.mark.skipif(
    importlib.util.find_spec("ezc3d") is None, reason="the extra c3d is not installed"
)


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
def test_c3d_points_are_read_in_metres_with_y_up(c3d):
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
def test_a_c3d_file_that_crashes_its_parser_is_a_data_error(c3d):
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
def test_other_files_are_rejected_without_the_c3d_parser(write_file):
    if importlib.util.find_spec("ezc3d") is None:
        with pytest.raises(ConfigError, match=r"jeanie\[c3d\]"):
            read_c3d(write_file(b"\x02\x50", "a.c3d"))
    else:
        with pytest.raises(DataError, match="not a C3D file"):
            read_c3d(write_file(b"\x02\x51" + bytes(2000), "a.c3d"))
