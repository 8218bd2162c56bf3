"""Every file of the corpus is recognised, and its joints are those that were written."""

import gzip
import json
import pickle
import re
import struct
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from corpus import BODY, CASES, render_page, stack
from corpus.animations import glb_file

from jeanie.datasets import FORMATS, detect_format, read_motion
from jeanie.datasets.folders import list_recordings
from jeanie.errors import DataError, RecordingWarning
from jeanie.skeleton import LAYOUTS, map_joints
from jeanie.skeleton.plausibility import list_warnings

ROOT = Path(__file__).resolve().parents[3]


def expected_joints(space, joints):
    """The true joints in the space of a case, and the number of axes that it has."""
    truth = stack(joints)
    hips = (BODY["left_hip"] + BODY["right_hip"])[:, None] / 2
    if space == "hips":
        return truth - hips, 3
    if space == "relative":  # an image of 2 m, turned by half a turn about its corner
        return np.concatenate(
            [truth[..., :1] / 2 - 0.5, truth[..., 1:2] / 2 - 0.95, (truth - hips)[..., 2:] / 2], -1
        ), 3
    if space == "px":
        return np.concatenate([truth[..., :1] * 500 - 500, truth[..., 1:2] * 500 - 950], -1), 2
    return truth, 3


@pytest.mark.parametrize("name", CASES)
def test_a_file_gives_the_joints_that_were_written(name, tmp_path):
    case = CASES[name]
    if case.needs and not find_spec(case.needs):
        pytest.skip(f"needs {case.needs}")
    path = case.write(tmp_path)
    options = dict(case.options)
    if str(options.get("layout", "")).endswith((".toml", ".json")):
        options["layout"] = tmp_path / options["layout"]
    assert detect_format(path) == case.form
    motion = read_motion(path, **options)
    known = [joint for joint in motion.layout.joints if joint in BODY]
    at = [motion.layout.index(joint) for joint in known]
    truth, axes = expected_joints(case.space, known)
    tolerance = case.tolerance * (500 if case.space == "px" else 1)
    assert bool(motion.valid[:, 0, at].all())
    np.testing.assert_allclose(motion.joints[:, 0, at, :axes].numpy(), truth[..., :axes], atol=tolerance)
    assert map_joints(motion.layout, LAYOUTS["core15"]).missing == ()
    assert motion.persons == 1
    assert motion.rate == (pytest.approx(case.rate, rel=1e-3) if case.rate else None)
    assert list_warnings(motion) == ()


def test_the_corpus_covers_every_way():
    assert len(CASES) >= 150
    assert {"mediapipe", "npy", "npz", "csv", "openpose", "coco", "azure-kinect", "mvnx", "c3d", "gltf"} <= {
        case.form for case in CASES.values()
    }


def test_the_page_of_formats_lists_every_format():
    page = (ROOT / "docs" / "formats.md").read_text()
    assert [name for name in FORMATS if f"`{name}`" not in page] == []


def test_the_page_of_tested_files_is_up_to_date():
    assert (ROOT / "docs" / "tested_files.md").read_text() == render_page(CASES)


@pytest.mark.errors
@pytest.mark.parametrize("name", ["dance.fbx", "ascii.fbx"])
def test_fbx_is_refused_with_advice(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(
        b"Kaydara FBX Binary  \x00\x1a\x00" if name == "dance.fbx" else b"; FBX 7.3.0 project file\n"
    )
    with pytest.raises(DataError, match=r"fbx: FBX files are not read; export BVH or glTF"):
        read_motion(path)


REFUSED = {
    "list.pkl": (pickle.dumps([np.zeros((33, 3))]), "as they can run any code; save arrays"),
    "gaps.npy": (None, "save numpy.array"),
    "landmarks.txt": (b"landmark {\n  x: 0.5\n  y: 0.2\n}\n", "MessageToDict"),
    "table.parquet": (b"PAR1....PAR1", "save a CSV file"),
    "table.xlsx": (b"PK\x03\x04....", "save the table as CSV"),
    "angles.mot": (b"Coordinates\nendheader\n", "export the markers as TRC"),
    "take.tak": (b"\0", "export BVH, C3D, TRC, glTF or CSV"),
    "unknown.json": (b'{"a": 1}', "expected frames of named joints"),
    "clip.mp4": (b"\0\0\0 ftypisom", "extract key points first"),
    "points.pt": (b"PK\x03\x04", "save a numpy array"),
    "cells.csv": (b"frame,landmarks\n0,[]\n", "expected columns such as head_x"),
    "lists.csv": (
        b'frame,head,neck\n0,"[1, 2, 3]","[1, 2, 3]"\n',
        "cells hold lists: save one column per coordinate",
    ),
    "turns.csv": (b"head_rotX,head_rotY,head_rotZ\n1,2,3\n", "export the positions of the joints"),
    "commas.csv": (b'a_x,a_y,a_z\n"1,620","1,200","1,150"\n', "'1,620' may be 1.620 or 1620"),
    "twice.csv": (
        b"time,a_x,a_y,a_z\n1,1,2,3\n1,1,2,3\n",
        "or remove the column time if the rows are the frames",
    ),
    "timecode.csv": (b"time,a_x,a_y,a_z\n10:00:00:01,1,2,3\n", "declare the rate: rate= (--rate)"),
    "printed.txt": (b"[NormalizedLandmark(x=0.1, y=0.2, z=0.3)]", "with json.dump, or numpy arrays"),
    "python.txt": (b"[{'x': 0.1, 'y': 0.2}]", "printed Python lists are not read"),
    "hand.json": (json.dumps([[[0.1, 0.2, 0.3]] * 21]).encode(), "a person with 21 landmarks, expected 33"),
    "uneven.json": (b'{"Head": [[1, 2, 3]], "Neck": [[1, 2, 3], [1, 2, 3]]}', "columns of different lengths"),
    "holes.csv": (
        b"frame,x,y,z\n0,1,2,3\n0,1,2,3\n1,1,2,3\n",
        "add a column with the name or number of the joint",
    ),
    "cut.json.gz": (gzip.compress(b"[" * 500)[:20], "not a readable gzip file"),
    "bomb.csv.gz": (gzip.compress(bytes(2**28 + 1), 1), "bytes after decompression"),
}


@pytest.mark.errors
def test_parameters_of_a_body_model_are_refused_with_advice(tmp_path):
    np.savez(tmp_path / "a.npz", poses=np.zeros((9, 156)), trans=np.zeros((9, 3)), betas=np.zeros(16))
    with pytest.raises(DataError, match=r"body model \(SMPL: betas, poses, trans\), not positions"):
        read_motion(tmp_path / "a.npz")


@pytest.mark.errors
def test_an_array_of_many_recordings_is_no_crowd(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((99, 60, 33, 3)))
    with pytest.raises(
        DataError, match="would be 60 persons; if it holds many recordings, save one file per"
    ):
        read_motion(tmp_path / "a.npy")


@pytest.mark.errors
@pytest.mark.parametrize("name", REFUSED)
def test_other_files_are_refused_with_advice(tmp_path, name):
    content, advice = REFUSED[name]
    path = tmp_path / name
    if content is None:
        np.save(path, np.array([np.zeros(3), None], dtype=object), allow_pickle=True)
    else:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_motion(path)
    assert str(path) in str(caught.value)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    "gap", [None, [], {"landmarks": None}, [{"x": float("nan"), "y": None, "z": None}] * 33]
)
def test_a_gap_is_a_missing_frame(tmp_path, gap):
    path = CASES["mediapipe MessageToDict"].write(tmp_path)
    frames = json.loads(path.read_text())
    path.write_text(json.dumps([*frames[:2], gap, *frames[3:]]))
    assert read_motion(path).valid.all(-1)[:, 0].tolist() == [True, True, False, True, True, True]


@pytest.mark.parametrize("word", ["", "NaN", "N/A", "NULL", "None", "-", "#N/A"])
def test_a_word_for_a_missing_value_is_a_missing_joint(tmp_path, word):
    path = CASES["CSV, UTF-8 with a mark"].write(tmp_path)
    lines = path.read_text("utf-8-sig").splitlines()
    cells = lines[3].split(",")
    path.write_text("\n".join([*lines[:3], ",".join([*cells[:4], word, *cells[5:]]), *lines[4:]]))
    motion = read_motion(path)
    assert (~motion.valid).nonzero().tolist() == [[2, 0, 1]]


@pytest.mark.parametrize("name", ["OpenPose folder", "mediapipe folder", "MMPose folder"])
def test_a_missing_number_in_a_folder_is_a_missing_frame(tmp_path, name):
    folder = CASES[name].write(tmp_path)
    sorted(folder.iterdir())[3].unlink()
    motion = read_motion(folder)
    assert len(motion) == 6
    kept = sorted(int(re.sub(r"\D", "", file.stem)) for file in folder.iterdir())
    assert motion.valid.flatten(1).any(1).nonzero().flatten().tolist() == [
        number - kept[0] for number in kept
    ]


def test_a_folder_of_recordings_is_not_one_recording(tmp_path):
    for number in range(3):
        CASES["mediapipe MessageToDict"].write(tmp_path).rename(tmp_path / f"clip_{number}.json")
    assert len(list_recordings(tmp_path)) == 3
    assert list_recordings(CASES["mediapipe folder"].write(tmp_path)) == [tmp_path / "take"]


def test_a_landmark_that_is_null_is_a_missing_joint(tmp_path):
    path = CASES["mediapipe tasks"].write(tmp_path)
    frames = json.loads(CASES["mediapipe dicts with a name"].write(tmp_path).read_text())
    rows = [[[one["x"], one["y"], one["z"]] for one in frame["pose_world_landmarks"]] if isinstance(frame, dict)
            else [[one["x"], one["y"], one["z"]] for one in frame] for frame in frames]  # fmt: skip
    rows[1][5] = None
    path.write_text(json.dumps({"pose_world_landmarks": rows}))
    assert (~read_motion(path).valid).nonzero().tolist() == [[1, 0, 5]]


def test_a_last_line_that_is_cut_off_is_left_out(tmp_path):
    path = CASES["mediapipe world, JSON lines"].write(tmp_path)
    path.write_text(path.read_text().rstrip()[:-20])
    with pytest.warns(RecordingWarning, match="its last line is cut off"):
        assert len(read_motion(path)) == 5


def test_a_rate_that_no_camera_has_gives_a_warning(tmp_path):
    path = CASES["CSV, times in milliseconds"].write(tmp_path)
    path.write_text(path.read_text().replace("(ms)", "(s)"))
    with pytest.warns(RecordingWarning, match=r"frame rate is 0.03 per second; declare"):
        assert read_motion(path).rate == 0.03


@pytest.mark.errors
def test_xml_with_a_document_type_is_refused(tmp_path):
    path = tmp_path / "a.mvnx"
    path.write_text('<!DOCTYPE mvnx [<!ENTITY a "aaaa">]><mvnx>&a;</mvnx>')
    with pytest.raises(DataError, match="declares a document type"):
        read_motion(path)


@pytest.mark.errors
def test_a_buffer_of_gltf_lies_beside_the_file(tmp_path):
    path = CASES["glTF with a file beside it"].write(tmp_path)
    path.write_text(path.read_text().replace("dance%20data.bin", "../secret.bin"))
    with pytest.raises(DataError, match="is not a file beside this one"):
        read_motion(path)


def write_signalling_nan(folder, place):
    """Write a GLB file with a signalling NaN at one place of its numbers."""

    def damage(document, binary):
        return document, binary[:place] + struct.pack("<I", 0x7FA00000) + binary[place + 4 :]

    return glb_file(damage)(folder)


@pytest.mark.parametrize("place", range(24, 80, 8))
def test_a_signalling_nan_in_a_gltf_file_is_a_missing_joint_without_a_warning_of_numpy(tmp_path, place):
    path = write_signalling_nan(tmp_path, place)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", RecordingWarning)
        motion = read_motion(path)
    assert not motion.valid.all()
    assert motion.joints.isfinite().all()


@pytest.mark.parametrize("place", [0, 8, 16])
def test_a_signalling_nan_in_the_times_of_a_gltf_file_is_an_error(tmp_path, place):
    path = write_signalling_nan(tmp_path, place)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(DataError, match="has 6 values for 6 keys"):
            read_motion(path)


def write_huge_values(name, folder):
    """Write a file of the corpus in which one value is beyond float32."""
    path = CASES[name].write(folder)
    if path.suffix == ".npy":
        array = np.load(path).astype(np.float64)
        array.flat[7] = 1e300
        np.save(path, array)
    else:
        head, start, rows = path.read_text().partition('type="normal"')  # the first frame is a T-pose
        path.write_text(head + start + re.sub(r"<position>\S+", "<position>1e300", rows, count=1))
    return path


@pytest.mark.parametrize("name", ["Xsens MVNX", "mediapipe npy", "OpenPose npy", "COCO npy"])
def test_a_value_beyond_float32_is_a_missing_joint_without_a_warning_of_numpy(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", RecordingWarning)
        motion = read_motion(write_huge_values(name, tmp_path))
    assert not motion.valid.all()
    assert motion.joints.isfinite().all()


def test_a_gltf_body_beyond_float32_is_no_warning_of_numpy(tmp_path):
    def enlarge(document, binary):
        document["nodes"][0]["scale"] = [1e300] * 3
        return document, binary

    path = glb_file(enlarge)(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(DataError, match="no valid joint in any frame"):
            read_motion(path)


def test_an_axis_that_is_no_list_is_missing(tmp_path):
    path = CASES["mediapipe, lists by axis"].write(tmp_path)
    frames = json.loads(path.read_text())
    for frame in frames:
        del frame["z"]
    path.write_text(json.dumps(frames))
    flat = read_motion(path)
    frames[2]["z"] = 0.5
    path.write_text(json.dumps(frames))
    np.testing.assert_array_equal(read_motion(path).joints, flat.joints)
