"""pyskl annotations, st-gcn and CTR-GCN arrays: a real sample, and hand-made files."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.skl import open_ctr_gcn, open_pyskl, open_st_gcn, read_pyskl, read_splits
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS

SAMPLE = Path(os.environ.get("JEANIE_DATA", "/nonexistent")) / "pyskl-sample/mmaction2_sample.pkl"
recordings = pytest.mark.skipif(
    not SAMPLE.is_file(), reason="needs the recording pyskl-sample in $JEANIE_DATA"
)
RANDOM = np.random.default_rng(5)


def write(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# --- pyskl


@recordings
def test_the_real_sample_lists_its_recordings_and_says_that_key_points_lie_apart():
    data = open_pyskl(SAMPLE)
    assert (len(data), data.layout.name) == (100, "coco17")
    assert (data.names[0], data.labels[0]) == ("jf7RDuUTrsQ", 325)
    splits = read_splits(SAMPLE)
    assert sorted(splits["train"]) == sorted(data.names)
    with pytest.raises(DataError, match=r"jf7RDuUTrsQ has no keypoint, and no raw_file"):
        data[0]


def annotation(name="video", persons=2, frames=5, joints=17, dims=2, **more):
    keypoint = RANDOM.uniform(1, 100, size=(persons, frames, joints, dims)).astype(np.float16)
    return {"frame_dir": name, "total_frames": frames, "label": 3, "keypoint": keypoint, **more}


def test_2d_annotations_are_pixels_from_the_centre_with_scores(tmp_path):
    score = np.ones((2, 5, 17), np.float16)
    score[1, 2, 4] = 0
    about = annotation(img_shape=(480, 640), original_shape=(480, 640), keypoint_score=score)
    about["keypoint"][0, 3, 9] = 0
    path = write(tmp_path, "a.pkl", pickle.dumps({"split": {"train": ["video"]}, "annotations": [about]}))
    motion = read_pyskl(path)
    assert motion.joints.shape == (5, 2, 17, 3)
    u, v = map(float, about["keypoint"][1, 4, 10])
    assert_close(motion.joints[4, 1, 10], torch.tensor([320 - u, 240 - v, 0.0]))
    assert (~motion.valid).nonzero().tolist() == [[2, 1, 4], [3, 0, 9]]
    assert (motion.layout, motion.label, motion.name) == (LAYOUTS["coco17"], 3, "video")


def test_3d_annotations_are_taken_as_they_are(tmp_path):
    names = ["S001C002P003R002A013", "S001C002P003R002A014"]
    entries = [annotation(name, persons=1, joints=25, dims=3) for name in names]
    data = open_pyskl(write(tmp_path, "a.pkl", pickle.dumps({"annotations": entries})))
    assert (data.layout, data.labels, data.views) == (LAYOUTS["ntu25"], (13, 14), (2, 2))
    assert_close(data[1].joints[:, 0], torch.tensor(entries[1]["keypoint"][0].astype(np.float32)))
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 -- our own object, on its way to a worker
    assert_close(again[1].joints, data[1].joints)


def test_own_layouts_serve_other_numbers_of_joints(tmp_path):
    path = write(tmp_path, "a.pkl", pickle.dumps([annotation(joints=15, dims=3)]))
    assert read_pyskl(path, layout=LAYOUTS["core15"]).layout == LAYOUTS["core15"]
    with pytest.raises(DataError, match="15 joints with 3 coordinates; give a layout"):
        read_pyskl(path)


def test_key_points_that_lie_apart_are_put_into_their_frames(tmp_path):
    """Three frames, the second with two detections; the surest comes first."""
    points = RANDOM.uniform(1, 100, size=(4, 17, 3))
    points[:, :, 2] = np.array([0.9, 0.5, 0.8, 0.7])[:, None]
    points[2, :, :2] = points[0, :, :2] + 1
    points[3, :, :2] = points[2, :, :2] + 1
    about = {"frame_dir": "abc", "label": 1, "img_shape": (100, 200), "raw_file": "/far/away/kp/abc.pkl"}
    about |= {"frame_inds": np.array([1, 3, 3, 5], np.int16), "box_score": np.ones(4, np.float16)}
    path = write(tmp_path, "k400.pkl", pickle.dumps({"annotations": [about, about]}))
    write(tmp_path, "kp/abc.pkl", pickle.dumps({"abc": {"keypoint": points}}))
    motion = open_pyskl(path)[0]
    assert motion.joints.shape == (3, 2, 17, 3)
    for frame, row in enumerate((0, 2, 3)):
        flat = torch.tensor([100.0, 50.0]) - torch.tensor(points[row, 6, :2], dtype=torch.float32)
        assert_close(motion.joints[frame, 0, 6, :2], flat)
    assert motion.valid.any(-1).tolist() == [[True, False], [True, True], [True, False]]


@pytest.mark.errors
def test_one_of_several_files_must_be_chosen(tmp_path):
    data = pickle.dumps([annotation()])
    assert len(open_pyskl(write(tmp_path, "one/a.pickle", data))) == 1
    write(tmp_path, "a.pkl", data)
    assert len(open_pyskl(tmp_path)) == 1
    write(tmp_path, "b.pkl", data)
    with pytest.raises(DataError, match=r"holds 2 files \*\.pkl \(a\.pkl, b\.pkl\); give the path of one"):
        open_pyskl(tmp_path)


BROKEN = {
    "no list": ({"annotations": 3}, "annotations must be a list"),
    "no dict": ({"annotations": [3]}, "annotation 0 must be a dict"),
    "nothing": ({"annotations": []}, "no annotations"),
    "a list of numbers": ({"annotations": [annotation() | {"keypoint": [1]}]}, "keypoint must be an array"),
    "five axes": (
        {"annotations": [annotation() | {"keypoint": np.ones((1, 2, 3, 4, 5))}]},
        "keypoint must be persons",
    ),
    "no frames": ({"annotations": [annotation(frames=0)]}, "keypoint must be persons"),
    "a score too small": (
        {"annotations": [annotation(keypoint_score=np.ones(3))]},
        "does not fit its keypoint",
    ),
    "text": ("hello", "annotations must be a list"),
}


@pytest.mark.errors
@pytest.mark.parametrize(("value", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_annotations_are_data_errors(tmp_path, value, message):
    with pytest.raises(DataError, match=rf"a\.pkl: .*{message}"):
        read_pyskl(write(tmp_path, "a.pkl", pickle.dumps(value)))


# --- st-gcn


def st_gcn(folder, data, names, labels, part="val"):
    write(folder, f"{part}_data.npy", b"")
    np.save(folder / f"{part}_data.npy", data)
    write(folder, f"{part}_label.pkl", pickle.dumps((names, labels)))
    return folder


def test_st_gcn_loses_its_padding(tmp_path):
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
def test_st_gcn_claims_are_checked(tmp_path):
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
    with pytest.raises(DataError, match=r"val_data\.npy: claims .* it is cut off or damaged"):
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
def test_ctr_gcn_claims_are_checked(tmp_path):
    path = tmp_path / "a.npz"
    ctr_gcn(path, np.savez, y_test=np.eye(60)[[0, 1]])
    with pytest.raises(DataError, match="y_test must be one-hot, a row for each of 1"):
        open_ctr_gcn(path)
    ctr_gcn(path, np.savez, x_test=np.ones((1, 5, 149)))
    with pytest.raises(DataError, match="149 numbers a frame"):
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
