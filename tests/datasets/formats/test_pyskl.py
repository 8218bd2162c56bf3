"""pyskl annotations: a real sample, and hand-made files."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.formats.pyskl import open_pyskl, read_pyskl, read_splits
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


@recordings
def test_the_real_sample_lists_its_recordings_and_names_the_missing_key_point_file():
    data = open_pyskl(SAMPLE)
    assert (len(data), data.layout.name) == (100, "coco17")
    assert (data.names[0], data.labels[0]) == ("jf7RDuUTrsQ", 325)
    splits = read_splits(SAMPLE)
    assert sorted(splits["train"]) == sorted(data.names)
    with pytest.raises(DataError, match=r"jf7RDuUTrsQ has no keypoint, and there is no raw_file"):
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


def test_3d_annotations_are_unchanged(tmp_path):
    names = ["S001C002P003R002A013", "S001C002P003R002A014"]
    entries = [annotation(name, persons=1, joints=25, dims=3) for name in names]
    data = open_pyskl(write(tmp_path, "a.pkl", pickle.dumps({"annotations": entries})))
    assert (data.layout, data.labels, data.views) == (LAYOUTS["ntu25"], (13, 14), (2, 2))
    assert_close(data[1].joints[:, 0], torch.tensor(entries[1]["keypoint"][0].astype(np.float32)))
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 -- our own object, on its way to a worker
    assert_close(again[1].joints, data[1].joints)


def test_a_given_layout_allows_other_numbers_of_joints(tmp_path):
    path = write(tmp_path, "a.pkl", pickle.dumps([annotation(joints=15, dims=3)]))
    assert read_pyskl(path, layout=LAYOUTS["core15"]).layout == LAYOUTS["core15"]
    with pytest.raises(DataError, match="15 joints with 3 coordinates; give a layout"):
        read_pyskl(path)


def test_key_points_from_a_separate_file_are_put_into_their_frames(tmp_path):
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
    with pytest.raises(DataError, match=r"has 2 files \*\.pkl \(a\.pkl, b\.pkl\); give the path of one"):
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
