"""Damaged files end in a motion or a DataError: a thousand cases of ``make fuzz``, and hypothesis."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jeanie.datasets.formats.azure_kinect import read_azure_kinect
from jeanie.datasets.formats.bvh import read_bvh
from jeanie.datasets.formats.coco import read_coco
from jeanie.datasets.formats.csv_table import read_csv
from jeanie.datasets.formats.gltf import read_gltf
from jeanie.datasets.formats.kinect import (
    read_action_pairs,
    read_msr_screen,
    read_msr_world,
    read_nw_ucla,
    read_sbu,
)
from jeanie.datasets.formats.kinetics import read_kinetics
from jeanie.datasets.formats.mediapipe import read_mediapipe
from jeanie.datasets.formats.mvnx import read_mvnx
from jeanie.datasets.formats.npz import read_npz
from jeanie.datasets.formats.ntu import read_ntu
from jeanie.datasets.formats.openpose import read_openpose
from jeanie.datasets.formats.pose_arrays import read_npy, read_npz_poses
from jeanie.datasets.formats.pyskl import read_pyskl
from jeanie.datasets.formats.trc import read_trc
from jeanie.datasets.formats.uwa import read_uwa3d
from jeanie.errors import DataError
from jeanie.skeleton.motion import Motion

SCRIPT = Path(__file__).resolve().parent.parent / "fuzz.py"
TEXT = {
    read_bvh: "bvh", read_trc: "trc", read_csv: "csv", read_ntu: "skeleton", read_msr_world: "txt",
    read_msr_screen: "txt", read_action_pairs: "txt", read_sbu: "txt", read_uwa3d: "txt",
}  # fmt: skip
JSON = {
    read_nw_ucla: "json", read_kinetics: "json", read_openpose: "json", read_mediapipe: "json", read_coco: "json",
    read_azure_kinect: "json", read_gltf: "gltf",
}  # fmt: skip
BINARY = {read_npz: "npz", read_pyskl: "pkl", read_npy: "npy", read_npz_poses: "npz", read_mvnx: "mvnx"}

WORDS = st.from_regex(
    r"HIERARCHY|ROOT|JOINT|End Site|OFFSET|CHANNELS|MOTION|Frames:|Frame Time:|[XYZ](rotation|position)|[{}]|"
    r"PathFileType|DataRate|NumFrames|NumMarkers|Units|mm|head_[xyz]|frame|person|time",
    fullmatch=True,
)
NUMBERS = st.integers(-3, 99).map(str) | st.floats(width=32).map(str) | st.just("1e400")
GAPS = st.sampled_from([" ", "\n", "\t", ",", ";", "\n\n", "\r\n", ""])
TEXTS = st.lists(st.tuples(WORDS | NUMBERS | st.text(max_size=3), GAPS), max_size=120).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)
KEYS = st.from_regex(
    r"data|skeletons?|pose|score|frame_index|label|people|pose_keypoints_2d|person_id|frames|fps|"
    r"pose_(world_)?landmarks|landmark|[xyz]|width|height",
    fullmatch=True,
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_reading(read, path, data):
    path.write_bytes(data)
    try:
        assert isinstance(read(path), Motion)
    except DataError as error:
        return str(path) in str(error)
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.plain
def test_a_thousand_damaged_files_end_in_a_motion_or_a_data_error():
    command = [sys.executable, str(SCRIPT), "--cases", "1000", "--seed", "1", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(result.stdout)
    assert report["findings"] == []
    assert report["cases"] == 1000
    assert report["outcomes"]["Motion"] > 50
    assert report["outcomes"]["DataError"] > 300
    assert report["slowest_cpu_seconds"] < 10
    assert report["peak_bytes"] < 2**31


@pytest.mark.parametrize("read", TEXT, ids=lambda read: read.__name__)
def test_text_like_a_known_format(read, folder):
    @QUICK
    @given(TEXTS)
    def holds(text):
        assert check_reading(read, folder / f"a.{TEXT[read]}", text.encode("utf-8", errors="surrogatepass"))

    holds()


@pytest.mark.parametrize("read", JSON, ids=lambda read: read.__name__)
def test_any_json(read, folder):
    @QUICK
    @given(VALUES)
    def holds(value):
        assert check_reading(read, folder / "a.json", json.dumps(value).encode())

    holds()


@pytest.mark.parametrize("read", [*TEXT, *JSON, *BINARY], ids=lambda read: read.__name__)
def test_any_bytes(read, folder):
    ending = {**TEXT, **JSON, **BINARY}[read]

    @settings(QUICK, max_examples=25)
    @given(st.binary(max_size=300))
    def holds(data):
        assert check_reading(read, folder / f"a.{ending}", data)

    holds()
