"""read_motion and detect_format of every format; open_dataset; errors that say what to do."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from corpus import CASES
from torch.testing import assert_close

from jeanie.datasets import DATASETS, FORMATS, Dataset, detect_format, open_dataset, read_motion
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, FileDataset, list_files
from jeanie.datasets.formats.npz import write_npz
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

DATA = Path(os.environ.get("JEANIE_DATA", "/nonexistent"))
needs = pytest.mark.skipif(not (DATA / "msraction3d").is_dir(), reason="needs the recordings in $JEANIE_DATA")


def write(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def numbers(rows, width, separator=" ", scale=1.0):
    return "\n".join(
        separator.join(f"{scale * (row + column + 1):.3f}" for column in range(width)) for row in range(rows)
    )


def motion(**known):
    return Motion(np.random.default_rng(0).normal(size=(5, 15, 3)), LAYOUTS["core15"], **known)


def ntu():
    joint = "0.1 0.2 3.0 250 200 900 500 -0.2 0.0 0.9 0.1 2\n"
    return "1\n1\n72057594037931101 0 1 1 1 1 0 0.02 -0.1 2\n25\n" + joint * 25


BVH = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 3 Xposition Yposition Zposition
  End Site
  {
    OFFSET 0 10 0
  }
}
MOTION
Frames: 2
Frame Time: 0.04
1 2 3
4 5 6
"""
TRC = (
    "PathFileType\t4\t(X/Y/Z)\ta.trc\nDataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\n100\t100\t1\t1\tmm\n"
    "Frame#\tTime\tHead\t\t\n\t\tX1\tY1\tZ1\n1\t0.00\t1\t1700\t30\n"
)
PRECOG = "HipCenter; Spine; ShoulderCenter; Head; ...\n" + ";".join(["0.1 0.2 2.5"] * 20 + ["3"]) + "\n"
PERSON = {"pose": [0.4, 0.5] * 18, "score": [0.9] * 18}
ANNOTATION = {"frame_dir": "a", "label": 0, "keypoint": np.ones((1, 4, 17, 2))}
# name and content -> format, joints
FILES = {
    "clip.bvh": (BVH, "bvh", 2),
    "clip.trc": (TRC, "trc", 1),
    "Seq1_2.csv": (PRECOG, "precog", 20),
    "S001C001P001R001A001.skeleton": (ntu(), "ntu", 25),
    "a01_s01_e01_v02.json": (json.dumps({"skeletons": [[[1, 2, 3]] * 20]}), "nw-ucla", 20),
    "kinetics.json": (json.dumps({"data": [{"frame_index": 1, "skeleton": [PERSON]}]}), "kinetics", 18),
    "openpose.json": (json.dumps({"people": [{"pose_keypoints_2d": [1, 2, 1] * 25}]}), "openpose", 25),
    "list.json": (json.dumps([{"people": [{"pose_keypoints_2d": [1, 2, 1] * 18}]}]), "openpose", 18),
    "mediapipe.json": (
        json.dumps([{"pose_world_landmarks": [{"x": 1, "y": 2, "z": 3}] * 33}]),
        "mediapipe",
        33,
    ),
    "bare.json": ("\n " + json.dumps([[[1, 2, 3]] * 33]), "mediapipe", 33),
    "s01s02/01/001/skeleton_pos.txt": (numbers(2, 91, ","), "sbu", 15),
    "a01_s01_e01_skeleton3D.txt": (numbers(20, 4, scale=0.1), "msr-world", 20),
    "a01_s01_e01_skeleton.txt": (numbers(20, 4, scale=90), "msr-screen", 20),
    "a02_s01_e01_skeleton.txt": ("1 20\n40\n" + numbers(40, 4), "action-pairs", 20),
    "a01_s01_e01_v04.txt": (numbers(2, 45), "uwa3d-multiview", 15),
    "s01a01e01.txt": (numbers(15, 3), "uwa3d", 15),
    "clip.csv": ("frame,head_x,head_y,head_z\n0,1,2,3\n", "csv", 1),
    "clip.pkl": (pickle.dumps({"annotations": [ANNOTATION]}), "pyskl", 17),
}


@pytest.mark.parametrize("name", FILES)
def test_the_format_of_a_file_is_detected_from_name_and_content(tmp_path, name):
    content, form, joints = FILES[name]
    path = write(tmp_path, name, content)
    assert detect_format(path) == form
    found = read_motion(path)
    assert len(found.layout) == joints
    assert_close(read_motion(str(path), format=form).joints, found.joints)


def test_the_format_of_containers_and_folders_is_detected(tmp_path):
    write_npz(motion(label="wave"), tmp_path / "mine.npz")
    assert detect_format(tmp_path / "mine.npz") == "npz"
    assert read_motion(tmp_path / "mine.npz").label == "wave"
    for frame in range(3):
        write(tmp_path, f"walk/walk_{frame:012}_keypoints.json", FILES["openpose.json"][0])
    assert detect_format(tmp_path / "walk") == "openpose"
    assert len(read_motion(tmp_path / "walk")) == 3
    h5py = pytest.importorskip("h5py", reason="needs h5py")
    with h5py.File(tmp_path / "UWA3DActivity.hdf5", "w") as file:
        file["s01a01e01/skeleton"] = np.ones((15, 3, 4))
    assert detect_format(tmp_path / "UWA3DActivity.hdf5") == "hdf5"
    assert read_motion(tmp_path / "UWA3DActivity.hdf5").label == 1


def test_every_format_is_tested():
    tried = {form for _, form, _ in FILES.values()} | {
        "npz",
        "hdf5",
        "openpose",
        "c3d",  # see test_c3d
        "fbx",  # see test_corpus
    }
    tried |= {case.form for case in CASES.values()}
    assert tried == set(FORMATS)


def test_a_layout_may_be_given_by_name_or_itself(tmp_path):
    path = write(tmp_path, "S001C001P001R001A001.skeleton", ntu())
    mine = LAYOUTS["openpose25"]
    assert read_motion(path, layout=mine).layout == read_motion(path, layout="openpose25").layout == mine
    with pytest.raises(DataError, match="25 joints, layout 'core15' has 15; give a layout"):
        read_motion(path, layout="core15")
    with pytest.raises(ConfigError, match="no layout 'kinect'; the known ones are ntu25"):
        read_motion(path, layout="kinect")


@pytest.mark.errors
def test_unknown_files_and_formats_list_the_known_ones(tmp_path):
    path = write(tmp_path, "song.mp3", bytes(range(200)))
    with pytest.raises(DataError, match=r"song\.mp3: unknown format.*format=.*bvh.*ntu.*mediapipe.*csv"):
        read_motion(path)
    with pytest.raises(ConfigError, match=r"no format 'mp3'; the known ones are bvh"):
        read_motion(path, format="mp3")
    with pytest.raises(DataError, match=r"absent\.bvh: cannot be read"):
        read_motion(tmp_path / "absent.bvh")
    with pytest.raises(DataError, match="a folder without JSON files"):
        read_motion(tmp_path)
    for content in (b"", b"\n\n", b"{}", b"[]", b"\x00" * 100):
        with pytest.raises(DataError):
            read_motion(write(tmp_path, "clip.json", content))


@pytest.mark.errors
def test_an_archive_is_not_a_single_motion(tmp_path):
    write_archive([motion(name="a")], tmp_path / "out", name="mine")
    with pytest.raises(DataError, match="use open_dataset"):
        read_motion(tmp_path / "out")


# --- data sets


@needs
@pytest.mark.parametrize(
    ("name", "count"), [("msraction3d", 566), ("nw-ucla", 1484), ("sbu", 282), ("cmu", 2425), ("precog", 70)]
)
def test_data_sets_are_found_in_the_folder_of_the_environment(monkeypatch, name, count):
    monkeypatch.setenv("JEANIE_DATA", str(DATA))
    data = open_dataset(name)
    assert isinstance(data, Dataset)
    assert data.name == name
    assert (
        len(data) == len(data.motions) == len(data.labels) == len(data.subjects) == len(data.views) == count
    )
    last = data.motions[-1]
    assert (last.label, last.subject, last.view) == (data.labels[-1], data.subjects[-1], data.views[-1])
    assert last.layout == data.layout


@needs
def test_opening_a_data_set_reads_no_recording(monkeypatch):
    monkeypatch.setattr(Path, "open", lambda *_, **__: pytest.fail("a file was opened"))
    monkeypatch.setattr(Path, "read_bytes", lambda *_: pytest.fail("a file was read"))
    for name in ("msraction3d", "nw-ucla", "sbu"):
        assert len(open_dataset(name, DATA / name)) > 200
    assert len(open_dataset("ntu60", DATA / "ntu-samples")) == 10


def test_the_synthetic_data_set_needs_no_files(monkeypatch):
    monkeypatch.delenv("JEANIE_DATA", raising=False)
    data = open_dataset("synthetic")
    assert isinstance(data, Dataset)
    assert data[0].label == data.labels[0]


def test_an_archive_replaces_the_data_set_that_it_was_made_from(tmp_path):
    write_archive([motion(name="a", label=3), motion(name="b", label=4)], tmp_path / "out", name="sbu")
    for name in ("sbu", "archive", "synthetic"):
        data = open_dataset(name, tmp_path / "out")
        assert isinstance(data, Dataset)
        assert list(data.labels) == [3, 4]


def test_the_authors_hdf5_file_replaces_a_data_set(tmp_path):
    h5py = pytest.importorskip("h5py", reason="needs h5py")
    with h5py.File(tmp_path / "MSRAction3D.hdf5", "w") as file:
        file["a01_s02_e03/skeleton"] = np.ones((20, 3, 4))
    data = open_dataset("msraction3d", tmp_path / "MSRAction3D.hdf5")
    assert (data[0].name, data.layout, data[0].label) == ("a01_s02_e03", LAYOUTS["msr20"], 1)


@pytest.mark.errors
def test_unknown_data_sets_and_places_say_what_to_do(monkeypatch, tmp_path):
    with pytest.raises(
        ConfigError, match=r"no data set 'imagenet'; the known ones are synthetic, msraction3d"
    ):
        open_dataset("imagenet")
    with pytest.raises(ConfigError, match="no data set 'synthetic'"):
        open_dataset("synthetic", tmp_path)
    monkeypatch.delenv("JEANIE_DATA", raising=False)
    with pytest.raises(ConfigError, match="set JEANIE_DATA"):
        open_dataset("sbu")
    monkeypatch.setenv("JEANIE_DATA", str(tmp_path))
    for name in DATASETS:
        with pytest.raises(DataError, match=name if name != "archive" else "archive.json"):
            open_dataset(name)


# --- the sequence of motions


def clips(count=4):
    entries = tuple(
        Clip(f"c{at}", Path("c"), Tags(label=at % 2, subject=at, view=0, take=at), at) for at in range(count)
    )
    return FileDataset("mine", LAYOUTS["core15"], entries, read_clip)


def read_clip(clip):
    if clip.index == 2:
        raise DataError("c2 is bad")
    return motion(name=clip.name)


def test_motions_are_a_lazy_sequence():
    data = clips()
    assert (len(data.motions), data.motions[-1].name, data[1].name) == (4, "c3", "c1")
    part = data.motions[1:4:2]
    assert [entry.name for entry in part] == ["c1", "c3"]
    assert len(data.motions[2:]) == 2  # the bad one is not read
    with pytest.raises(DataError, match="c2 is bad"):
        data.motions[2]
    with pytest.raises(IndexError):
        data.motions[4]
    assert data.takes == data.subjects == (0, 1, 2, 3)
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 -- our own object, on its way to a worker
    assert torch.equal(again[0].joints, data[0].joints)


def test_dropped_clips_are_listed_with_their_reasons():
    data = clips().exclude([("c2", "bad"), ("other", "absent")]).exclude([("c0", "short")])
    assert data.names == ("c1", "c3")
    assert data.dropped == (("c2", "bad"), ("c0", "short"))


def test_files_without_an_action_in_their_names_are_dropped():
    data = list_files("mine", LAYOUTS["core15"], [Path("x/a01_s01_e01.txt"), Path("x/readme.txt")], read_clip)
    assert (data.names, data.dropped) == (("a01_s01_e01",), (("readme", "its name has no action"),))
