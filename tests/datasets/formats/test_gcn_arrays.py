"""st-gcn and CTR-GCN arrays: hand-made files."""

import io
import pickle
import zipfile

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.formats.gcn_arrays import open_ctr_gcn, open_st_gcn
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS

RANDOM = np.random.default_rng(5)


def write(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# --- st-gcn


def st_gcn(folder, data, names, labels, part="val"):
    write(folder, f"{part}_data.npy", b"")
    np.save(folder / f"{part}_data.npy", data)
    write(folder, f"{part}_label.pkl", pickle.dumps((names, labels)))
    return folder


def test_st_gcn_padding_is_removed(tmp_path):
    data = np.zeros((2, 3, 300, 25, 2), np.float32)
    data[0, :, :40, :, 0] = RANDOM.normal(size=(3, 40, 25))
    data[1, :, :60] = RANDOM.normal(size=(3, 60, 25, 2))
    data[1, :, 10:20] = 0
    st_gcn(tmp_path, data, ["S001C001P001R001A007.skeleton", "own.video"], [6, 11])
    opened = open_st_gcn(tmp_path)
    assert (opened.names, opened.labels) == (("S001C001P001R001A007", "own.video"), (7, 11))
    first, second = opened.motions
    assert (first.joints.shape, second.joints.shape) == ((40, 1, 25, 3), (60, 2, 25, 3))
    assert_close(second.joints[33, 1, 4], torch.tensor(data[1, :, 33, 4, 1]))
    assert not second.valid[10:20].any()
    assert (first.subject, first.layout) == (1, LAYOUTS["ntu25"])


def test_st_gcn_of_kinetics_is_2d(tmp_path):
    data = np.zeros((1, 3, 8, 18, 2), np.float32)
    data[0, :, :4, :, 0] = np.array([-0.25, 0.5, 0.9])[:, None, None]
    data[0, 2, 1, 3, 0] = 0
    motion = open_st_gcn(st_gcn(tmp_path, data, ["abc"], [4]))[0]
    assert motion.layout == LAYOUTS["openpose18"]
    assert_close(motion.joints[0, 0, 0], torch.tensor([0.25 * 340, -0.5 * 256, 0.0]))
    assert (~motion.valid).nonzero().tolist() == [[1, 0, 3]]


@pytest.mark.errors
def test_declared_sizes_of_st_gcn_files_are_checked(tmp_path):
    good = RANDOM.normal(size=(2, 3, 4, 25, 1)).astype(np.float32)
    st_gcn(tmp_path, good, ["a"], [1])
    with pytest.raises(DataError, match="1 names and 1 labels for 2 recordings"):
        open_st_gcn(tmp_path)
    st_gcn(tmp_path, good[0], ["a"], [1])
    with pytest.raises(DataError, match="numbers with 5 axes"):
        open_st_gcn(tmp_path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (10**9, 3, 300, 25, 2)}
    )
    write(tmp_path, "val_data.npy", header.getvalue() + bytes(1000))
    with pytest.raises(DataError, match=r"val_data\.npy: declares .* it is cut off or damaged"):
        open_st_gcn(tmp_path)
    write(tmp_path, "val_data.npy", pickle.dumps([1]))
    with pytest.raises(DataError, match="not a readable npy file"):
        open_st_gcn(tmp_path)
    np.save(tmp_path / "val_data.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(DataError, match="expected an array of numbers"):
        open_st_gcn(tmp_path)


# --- CTR-GCN


def ctr_gcn(path, save, **changes):
    x = RANDOM.normal(size=(3, 10, 150)).astype(np.float32)
    x[1, 6:] = 0
    x[1, :, 75:] = 0
    x[0, 0, 3:6] = 0  # the joint that the first frame is centred on
    arrays = {"x_train": x, "y_train": np.eye(60)[[4, 9, 59]], "x_test": x[:1], "y_test": np.eye(60)[[0]]}
    save(path, **{**arrays, **changes})
    return x


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "compressed"])
def test_ctr_gcn_rows_are_persons_joints_and_coordinates(tmp_path, save):
    x = ctr_gcn(tmp_path / "NTU60_CS.npz", save)
    data = open_ctr_gcn(tmp_path / "NTU60_CS.npz")
    assert data.names == ("train_000000", "train_000001", "train_000002", "test_000000")
    assert data.labels == (4, 9, 59, 0)
    assert_close(data[2].joints[7, 1, 3], torch.tensor(x[2, 7, 75 + 9 : 75 + 12]))
    assert data[1].joints.shape == (6, 1, 25, 3)
    assert data[0].valid.all()  # a joint at the origin is there when its body is
    assert_close(data[3].joints, data[0].joints)
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 -- our own object, on its way to a worker
    assert_close(again[2].joints, data[2].joints)


@pytest.mark.errors
def test_declared_sizes_of_ctr_gcn_files_are_checked(tmp_path):
    path = tmp_path / "a.npz"
    ctr_gcn(path, np.savez, y_test=np.eye(60)[[0, 1]])
    with pytest.raises(DataError, match="y_test must be one-hot, one row for each of 1"):
        open_ctr_gcn(path)
    ctr_gcn(path, np.savez, x_test=np.ones((1, 5, 149)))
    with pytest.raises(DataError, match="149 numbers per frame"):
        open_ctr_gcn(path)
    np.savez(path, x_train=np.ones(3))
    with pytest.raises(DataError, match=r"a\.npz"):
        open_ctr_gcn(path)
    ctr_gcn(path, np.savez)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match="not a readable npz file"):
        open_ctr_gcn(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_train.npy", b"\x93NUMPY\x01\x00" + b"x" * 50)
        archive.writestr("y_train.npy", b"")
    with pytest.raises(DataError, match=r"a\.npz"):
        open_ctr_gcn(path)
