"""UWA3D Activity and UWA3D Multiview Activity II: hand-made text, MATLAB and HDF5 files."""

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.formats.hdf5 import open_hdf5, read_hdf5
from jeanie.datasets.formats.uwa import (
    open_uwa3d,
    open_uwa3d_multiview,
    read_uwa3d,
    read_uwa3d_multiview,
)
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS

h5py = pytest.importorskip("h5py", reason="needs h5py")
matlab = pytest.importorskip("scipy.io", reason="needs scipy")
FRAMES = 4
# joint j of frame f at (j, f, 2 + j / 16) metres; nowhere at the origin
TRUTH = np.array([[[j, f, 2 + j / 16] for j in range(15)] for f in range(FRAMES)])


def text(array, separator=" "):
    return "\n".join(separator.join(map(str, row)) for row in array.tolist()) + "\n"


def frame_rows(extra):
    return np.concatenate([np.arange(FRAMES)[:, None]] * extra + [TRUTH.reshape(FRAMES, 45)], axis=1)


def with_confidence():
    return np.concatenate([TRUTH, np.ones((FRAMES, 15, 1))], axis=-1)


TEXTS = {
    "a row a frame": text(frame_rows(0)),
    "with the frame": text(frame_rows(1), ","),
    "with confidences": text(with_confidence().reshape(FRAMES, 60), "\t"),
    "a row a joint": text(TRUTH.reshape(-1, 3)),
    "a joint with confidence": text(with_confidence().reshape(-1, 4), ", "),
}
# the sizes that MATLAB shows
SIZES = {
    "frames x 45": TRUTH.reshape(FRAMES, 45),
    "45 x frames": TRUTH.reshape(FRAMES, 45).T,
    "15 x 3 x frames": TRUTH.transpose(1, 2, 0),
    "3 x 15 x frames": TRUTH.transpose(2, 1, 0),
    "frames x 15 x 3": TRUTH,
}


@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
def test_all_text_forms_are_read(tmp_path, content):
    path = tmp_path / "a07_s02_e03_v04.txt"
    path.write_text(content)
    motion = read_uwa3d_multiview(path)
    assert_close(motion.joints[:, 0], torch.tensor(TRUTH, dtype=torch.float32))
    assert (motion.label, motion.subject, motion.take, motion.view) == (7, 2, 3, 4)
    assert (motion.name, motion.layout) == ("a07_s02_e03_v04", LAYOUTS["sbu15"])


VERSIONS = [
    pytest.param(array, version, id=f"{size}, version {version}")
    for size, array in SIZES.items()
    for version in ("4", "5", "5 compressed", "7.3")
    if version != "4" or array.ndim == 2
]


@pytest.mark.parametrize(("array", "version"), VERSIONS)
def test_matlab_arrays_are_read_in_all_their_sizes_and_versions(tmp_path, array, version):
    path = tmp_path / "a01_s01_e01_v01.mat"
    if version == "7.3":
        with h5py.File(path, "w", userblock_size=512) as file:
            file["A"] = array.T  # MATLAB writes its axes in reverse
        data = path.read_bytes()
        path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512) + data[512:])
    else:
        content = {"skeletonsequence": array, "fps": 30.0, "note": "text"}
        matlab.savemat(path, content, format=version[0], do_compression="compressed" in version)
    motion = read_uwa3d_multiview(path)
    assert_close(motion.joints[:, 0], torch.tensor(TRUTH, dtype=torch.float32))


def test_millimetres_become_metres_and_zeros_stay_missing(tmp_path):
    millimetres = 1000 * TRUTH
    millimetres[1, 3] = 0
    millimetres[2, 4] = np.nan
    path = tmp_path / "s02a07e03.txt"
    path.write_text(text(millimetres.reshape(FRAMES, 45)))
    motion = read_uwa3d(path)
    assert_close(motion.joints[0, 0], torch.tensor(TRUTH[0], dtype=torch.float32))
    assert (~motion.valid).nonzero().tolist() == [[1, 0, 3], [2, 0, 4]]
    assert (motion.name, motion.layout) == ("a07e03s02", LAYOUTS["openni15"])


def test_the_torso_joint_of_both_sets_is_that_of_the_authors():
    assert LAYOUTS["openni15"].index("torso") == 8
    assert LAYOUTS["sbu15"].index("torso") == 2


def container(path, entries):
    with h5py.File(path, "w") as file:
        for name, (skeleton, subjects) in entries.items():
            group = file.create_group(name)
            group["skeleton"], group["num_joints"] = skeleton, skeleton.shape[0]
            group["frame_num"] = skeleton.shape[2]
            if subjects:
                group["num_subjects"] = subjects
    return path


def test_the_authors_hdf5_is_a_lazy_data_set(tmp_path):
    skeleton = TRUTH.transpose(1, 2, 0)
    path = container(
        tmp_path / "UWA3DActivity.hdf5", {"s03a02e01": (skeleton, 0), "s01a02e02": (skeleton + 1, 0)}
    )
    data = open_uwa3d(tmp_path)
    assert data.names == ("a02e02s01", "a02e01s03")  # the file's order, the published spelling
    assert (data.labels, data.subjects) == ((2, 2), (1, 3))
    assert_close(data[1].joints[:, 0], torch.tensor(TRUTH, dtype=torch.float32))
    assert data[1].name == "a02e01s03"
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 -- our own object, on its way to a worker
    assert_close(again[0].joints, data[0].joints)
    with pytest.raises(DataError, match=r"has 2 recordings"):
        read_hdf5(path)
    container(path, {"a02_s01_e02_v03": (skeleton, 0)})
    alone = read_hdf5(path, layout=LAYOUTS["sbu15"])
    assert (alone.name, alone.view, alone.layout.name) == ("a02_s01_e02_v03", 3, "sbu15")


def test_second_persons_follow_the_first_in_hdf5(tmp_path):
    both = np.random.default_rng(0).normal(size=(50, 3, 6))
    names = {"S001C001P001R001A001": (both, 1), "S001C001P001R001A050": (both, 2)}
    data = open_hdf5(container(tmp_path / "ntu.hdf5", names), "ntu60", LAYOUTS["ntu25"])
    one, two = data[0], data[1]
    assert (one.persons, two.persons) == (1, 2)
    assert_close(two.joints[4, 1, 7], torch.tensor(both[32, :, 4], dtype=torch.float32))
    assert_close(one.joints[:, 0], two.joints[:, 0])
    assert (two.label, two.name) == (50, "S001C001P001R001A050")


def test_depth_videos_beside_the_skeletons_are_ignored(tmp_path):
    for folder in ("Depth", "ActionsSkeleton"):
        (tmp_path / folder).mkdir()
        matlab.savemat(tmp_path / folder / "a01_s02_e01_v04.mat", {"A": SIZES["45 x frames"]})
    (tmp_path / "UWA3D_fsl_train.txt").write_text("a01_s02_e01_v04\n")
    data = open_uwa3d_multiview(tmp_path)
    assert [clip.source.parent.name for clip in data.clips] == ["ActionsSkeleton"]
    assert (data.views, len(data[0])) == ((4,), FRAMES)


def test_published_lists_have_the_spelling_of_our_names(tmp_path):
    lists = Path(os.environ.get("JEANIE_DATA", "/nonexistent")) / "splits"
    if not lists.is_dir():
        pytest.skip("needs the lists splits in $JEANIE_DATA")
    name = (lists / "UWA3DActivity_fsl_test.txt").read_text().split()[0]
    (tmp_path / "s01a16e01.txt").write_text(TEXTS["a row a frame"])
    assert open_uwa3d(tmp_path).names == (name,)


WRONG = {
    "44 numbers": (
        "a.txt",
        text(TRUTH.reshape(FRAMES, 45)[:, :44]),
        r"line 1: expected 45 or 46 or 60 or 3 or 4",
    ),
    "half a frame": ("a.txt", "1 2 3\n" * 20, r"20 rows of 3 numbers"),
    "no MATLAB": ("a.mat", "hello", r"a\.mat: not a readable MATLAB file"),
    "an empty file": ("a.mat", "", r"a\.mat: not a readable MATLAB file"),
}


@pytest.mark.errors
@pytest.mark.parametrize(("name", "content", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_names_its_cause(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_uwa3d(path)


@pytest.mark.errors
def test_arrays_of_the_wrong_size_or_number_are_named(tmp_path):
    path = tmp_path / "a.mat"
    matlab.savemat(path, {"A": np.ones((14, 3, 5)), "B": np.ones(3)})
    with pytest.raises(DataError, match=r"expected one array of 15 joints x 3 x frames, got A \(14, 3, 5\)"):
        read_uwa3d(path)
    matlab.savemat(path, {"A": TRUTH, "B": TRUTH})
    with pytest.raises(DataError, match="expected one array"):
        read_uwa3d(path)
    matlab.savemat(path, {"A": np.array([[1, "x"]], dtype=object)})
    with pytest.raises(DataError, match="got none"):
        read_uwa3d(path)


@pytest.mark.errors
def test_damaged_containers_are_data_errors(tmp_path):
    path = container(tmp_path / "a.hdf5", {"a02_s01_e02_v03": (np.ones((14, 3, 5)), 0)})
    with pytest.raises(DataError, match="14 joints for 0 persons of 15"):
        open_hdf5(path, "uwa3d", LAYOUTS["openni15"])[0]
    container(path, {"a02_s01_e02_v03": (np.ones((15, 3, 5)), 9)})
    with pytest.raises(DataError, match="15 joints for 9 persons"):
        open_hdf5(path, "uwa3d", LAYOUTS["openni15"])[0]
    container(path, {"a02_s01_e02_v03": (np.ones((15, 5, 3)), 1)})
    with pytest.raises(DataError, match="must be joints x 3 x frames"):
        open_hdf5(path, "uwa3d", LAYOUTS["openni15"])[0]
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(DataError, match="not a readable HDF5 file"):
        open_hdf5(path, "uwa3d", LAYOUTS["openni15"])
    container(path, {})
    with pytest.raises(DataError, match="no group"):
        open_hdf5(path, "uwa3d", LAYOUTS["openni15"])


@pytest.mark.errors
def test_a_declared_size_allocates_nothing(tmp_path):
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:  # chunks that were never written take no room in the file
        file.create_group("a02_s01_e02_v03").create_dataset(
            "skeleton", (15, 3, 10**9), "f8", chunks=(15, 3, 1000)
        )
    with pytest.raises(DataError, match="must be joints x 3 x frames"):
        read_hdf5(path)


@pytest.mark.errors
def test_a_missing_library_is_named(tmp_path, monkeypatch):
    path = container(tmp_path / "a.hdf5", {"a02_s01_e02_v03": (np.ones((15, 3, 5)), 1)})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataError, match=r"is read by h5py; install it"):
        read_hdf5(path)


@pytest.mark.errors
def test_folders_without_recordings_name_the_expected_files(tmp_path):
    (tmp_path / "readme.txt").write_text("hello")
    with pytest.raises(DataError, match=r"a01_s02_e03_v04\.mat"):
        open_uwa3d(tmp_path)
