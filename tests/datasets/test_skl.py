"""pyskl pickles read without running them, st-gcn and CTR-GCN arrays: a real sample, and hand-made files."""

import io
import os
import pickle
import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.skl import open_ctr_gcn, open_pyskl, open_st_gcn, read_pyskl, read_splits
from jeanie.datasets.unpickling import load_pickle
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


def plain(value):
    """A value out of load_pickle with its arrays unwrapped."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return getattr(value, "value", value)


def same(a, b):
    if isinstance(b, np.ndarray):
        return (
            isinstance(a, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
        )
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in b)
    if isinstance(b, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


# --- the pickle machine

VALUES = {
    "numbers and text": {
        "a": [1, -1, 255, 65536, 2**31, -(2**63), 2**100, 1.5, True, None, "é", b"\x00\xff"],
        3: (),
    },
    "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [(), []]),
    "floats": [RANDOM.normal(size=(2, 3, 4)).astype(kind) for kind in ("f2", "f4", "f8", ">f4")],
    "integers": [
        np.arange(6).astype(kind).reshape(2, 3) for kind in ("i1", "i2", "i4", "i8", "u1", ">i2", "?")
    ],
    "orders": [np.asfortranarray(RANDOM.normal(size=(3, 4))), np.zeros((0, 5)), np.array(2.5)],
    "shared": [shared := np.arange(3.0), shared, [shared]],
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_plain_pickles_of_every_protocol_come_back_whole(tmp_path, value, protocol):
    path = write(tmp_path, "a.pkl", pickle.dumps(value, protocol))
    assert same(plain(load_pickle(path)), value)


def test_numpy_scalars_become_numbers(tmp_path):
    path = write(tmp_path, "a.pkl", pickle.dumps([np.int64(7), np.float32(0.5), np.bool_(True)]))
    assert load_pickle(path) == [7, 0.5, True]


def test_pickles_of_python_2_and_of_both_numpy_generations_are_read(tmp_path):
    old = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I2\ntcnumpy\ndtype\n(S'f4'\nI0\nI1\n"
        b"tR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nU\x08\x00\x00\x80?\x00\x00\x00@tb."
    )
    for data in (old, old.replace(b"numpy.core", b"numpy._core")):
        assert plain(load_pickle(write(tmp_path, "a.pkl", data))).tolist() == [1.0, 2.0]


class Evil:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_calls_something_calls_nothing(tmp_path, protocol):
    marker = tmp_path / "was here"
    path = write(tmp_path, "a.pkl", pickle.dumps({"annotations": [Evil(marker)]}, protocol))
    with pytest.raises(DataError, match=r"a\.pkl.*it wants to load posix\.mkdir"):
        load_pickle(path)
    assert not marker.exists()
    pickle.loads(path.read_bytes())  # noqa: S301 -- the file is ours: it shows that the test would notice
    assert marker.exists()


FUNCTION = b"\x80\x02cnumpy\ndtype\n"
NESTED = b"\x80\x02)" + b"q\x000h\x00h\x00\x86" * 60  # a tuple of twice itself, sixty times
HOSTILE = {
    "empty": (b"", "bytes wanted where 0 are left|pickle"),
    "no pickle": (b"hello world", "GET|no such|memo|Error"),
    "no end": (b"\x80\x02]", "bytes wanted where 0 are left|exhausted"),
    "an empty stack": (b"\x80\x02.", "IndexError"),
    "no mark": (b"\x80\x02t.", "IndexError"),
    "no memo": (b"\x80\x02h\x05.", "KeyError 5"),
    "builtins": (b"c__builtin__\neval\n(S'1'\ntR.", r"it wants to load __builtin__\.eval"),
    "a dotted name": (b"\x80\x04\x8c\x05numpy\x8c\x0cdtype.__call\x93.", r"it wants to load numpy\.dtype"),
    "a name that is a list": (b"\x80\x04]]\x93.", "without a name"),
    "an instance": (b"(i__builtin__\nlist\n.", "the instruction INST"),
    "a new object": (b"\x80\x02cnumpy\ndtype\n)\x81.", "the instruction NEWOBJ"),
    "an extension": (b"\x80\x02\x82\x01.", "the instruction EXT1"),
    "a persistent id": (b"Pfile\n.", "the instruction PERSID"),
    "a set": (b"\x80\x04\x8f.", "the instruction EMPTY_SET"),
    "a call of a list": (b"\x80\x02])R.", "it calls something that is no array"),
    "a changed function": (FUNCTION + b"}b.", "it changes something that is no array"),
    "a changed list": (b"\x80\x02])b.", "it changes something that is no array"),
    "objects": (FUNCTION + b"(U\x01O\x89\x88tR.", "something else than numbers"),
    "records": (FUNCTION + b"(U\x05f4,f4\x89\x88tR.", "something else than numbers"),
    "a list as a key": (b"\x80\x02}]K\x01s.", "neither text nor numbers"),
    "a nested key": (NESTED.replace(b"\x80\x02)", b"\x80\x02})", 1) + b"K\x01s.", "neither text nor numbers"),
    "a list that is a dict": (b"\x80\x02}K\x01a.", "no list"),
    "a claim of bytes": (b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.", "bytes wanted where 2 are left"),
    "a claim of text": (b"\x80\x02X" + struct.pack("<I", 2**32 - 1) + b"x.", "bytes wanted where 2 are left"),
    "a claim of a bytearray": (b"\x80\x05\x96" + struct.pack("<Q", 2**50) + b"x.", "bytes wanted"),
    "a claim of a long": (b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x.", "bytes wanted"),
    "a long line": (b"I" + b"1" * 100_000 + b"\n.", "no newline"),
    "an encoding": (
        b"\x80\x02c_codecs\nencode\nU\x01aU\x05utf-7\x86R.",
        "an encoding that pickles do not use",
    ),
}


@pytest.mark.errors
@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_and_damaged_pickles_are_data_errors(tmp_path, data, message):
    path = write(tmp_path, "a.pkl", data)
    with pytest.raises(DataError, match=rf"a\.pkl: not a pickle of recordings, or damaged.*({message})"):
        load_pickle(path)


def test_a_memo_index_of_four_thousand_million_allocates_nothing(tmp_path):
    path = write(tmp_path, "a.pkl", b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b".")
    assert load_pickle(path) == []


@pytest.mark.errors
def test_values_that_grow_when_shown_are_not_shown(tmp_path):
    """Lists that hold the list before twice: small in memory, 2^60 characters when printed."""
    bomb = b"\x80\x02]" + b"q\x00](h\x00h\x00e" * 60
    started = time.monotonic()
    for data in (
        bomb + b".",
        b"\x80\x02}U\x0bannotations](}U\tframe_dir" + bomb[2:] + b"s}U\x08keypoint" + bomb[2:] + b"ses.",
    ):
        with pytest.raises(DataError):
            open_pyskl(write(tmp_path, "a.pkl", data))[0]
    assert time.monotonic() - started < 5


def test_every_cut_of_a_pickle_is_an_error(tmp_path):
    data = pickle.dumps({"annotations": [{"keypoint": np.ones((1, 2, 17, 2))}]})
    for size in range(len(data)):
        with pytest.raises(DataError):
            load_pickle(write(tmp_path, "a.pkl", data[:size]))


# --- pyskl


class Trusted(pickle.Unpickler):
    """The library's own machine, held to numpy's names."""

    def find_class(self, module, name):
        assert (module, name) in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        }
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


@recordings
def test_the_real_sample_equals_what_the_library_reads():
    with SAMPLE.open("rb") as file:
        truth = Trusted(file).load()
    assert same(plain(load_pickle(SAMPLE)), truth)
    assert len(truth["annotations"]) == 100


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
