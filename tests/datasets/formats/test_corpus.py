"""Every file of the corpus is recognised, and its joints are those that were written."""

import gzip
import json
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from corpus import BODY, CASES, render_page, stack

from jeanie.datasets import FORMATS, detect_format, read_motion
from jeanie.errors import DataError
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
    assert len(CASES) >= 110
    assert {"mediapipe", "npy", "npz", "csv", "openpose", "coco", "azure-kinect", "mvnx", "c3d", "gltf"} <= {
        case.form for case in CASES.values()
    }


def test_the_page_of_formats_lists_every_format():
    page = (ROOT / "docs" / "formats.md").read_text()
    assert [name for name in FORMATS if f"`{name}`" not in page] == []


def test_the_page_of_tested_files_is_up_to_date():
    assert (ROOT / "docs" / "tested_files.md").read_text() == render_page()


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
    "clip.mp4": (b"\0\0\0 ftypisom", "extract key points first"),
    "points.pt": (b"PK\x03\x04", "save a numpy array"),
    "cells.csv": (b"frame,landmarks\n0,[]\n", "expected columns such as head_x"),
    "holes.csv": (
        b"frame,x,y,z\n0,1,2,3\n0,1,2,3\n1,1,2,3\n",
        "add a column with the name or number of the joint",
    ),
    "cut.json.gz": (gzip.compress(b"[" * 500)[:20], "not a readable gzip file"),
    "bomb.csv.gz": (gzip.compress(bytes(2**28 + 1), 1), "bytes after decompression"),
}


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
