"""npz: round trips to the bit, the arrays of others, and what must not be believed."""

import json
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jeanie.datasets.formats.npz import read_npz, write_npz
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

TAGS = st.none() | st.integers(-5, 2**40) | st.text(max_size=8)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), frames=st.integers(1, 4), persons=st.integers(1, 3),
    label=TAGS, subject=TAGS, view=TAGS, take=st.none() | st.integers(-9, 9), name=st.none() | st.text(),
)  # fmt: skip
def test_an_npz_round_trip_is_bit_exact(
    tmp_path_factory, seed, frames, persons, label, subject, view, take, name
):
    random = np.random.default_rng(seed)
    joints = random.normal(size=(frames, persons, 15, 3)).astype(np.float32)
    joints[random.random(joints.shape[:3]) < 0.2] = np.nan
    joints[0, 0, 0] = (1e-40, -0.0, 3e38)  # denormal, negative zero and huge survive
    tags = {"label": label, "subject": subject, "view": view, "rate": 29.97, "take": take, "name": name}
    motion = Motion(joints, LAYOUTS["core15"], **tags)
    path = tmp_path_factory.mktemp("npz") / "m.npz"
    write_npz(motion, path)
    again = read_npz(path)
    assert again.joints.numpy().tobytes() == motion.joints.numpy().tobytes()
    assert torch.equal(again.valid, motion.valid)
    assert again.layout == motion.layout
    for key in ("label", "subject", "view", "rate", "take", "setup", "name"):
        assert getattr(again, key) == getattr(motion, key), key
    assert [file.name for file in path.parent.iterdir()] == ["m.npz"]


def test_npz_files_of_other_programs_need_a_layout(tmp_path):
    path = tmp_path / "theirs.npz"
    np.savez(path, joints=np.ones((4, 15, 3)))
    assert read_npz(path, layout=LAYOUTS["core15"]).joints.shape == (4, 1, 15, 3)
    with pytest.raises(DataError, match="give layout="):
        read_npz(path)


@pytest.mark.errors
def test_npz_never_unpickles(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, joints=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match=r"evil.npz.*expected numbers"):
        read_npz(path, layout=LAYOUTS["core15"])


@pytest.mark.errors
def test_an_npz_header_with_a_false_size_is_rejected(tmp_path):
    path = tmp_path / "bomb.npz"
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (900000000, 15, 3), }"
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("joints.npy", header + bytes(12))
    with pytest.raises(DataError, match=r"bomb.npz.*12 bytes for shape"):
        read_npz(path, layout=LAYOUTS["core15"])


@pytest.mark.errors
@pytest.mark.parametrize("about", ["[]", "{", json.dumps({"format": "jeanie-motion", "version": 99})])
def test_npz_with_an_unknown_description_is_a_data_error(tmp_path, about):
    path = tmp_path / "a.npz"
    np.savez(path, joints=np.ones((1, 1, 15, 3), np.float32), about=np.str_(about))
    with pytest.raises(DataError, match=r"a.npz"):
        read_npz(path)
