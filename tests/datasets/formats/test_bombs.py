"""Small files that would fill the memory: each ends in a motion or a DataError, within 1 GB and 10 seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "fuzz_bombs.py"
NAMES = [
    "limit.npz", "zeros.npz", "hidden.npz", "lzma.npz", "members.npz", "compressed.mat", "variables.mat",
    "allowed.mat", "claimed.mat", "tokens.skeleton", "frames.skeleton", "lists.json", "deep.json", "digits.json",
    "wide.txt", "pairs.txt", "wide.csv", "columns.csv", "empty.trc", "rows.bvh", "braces.bvh", "memo.pkl",
    "encodings.pkl", "array.pkl", "claimed.npy", "zeros.npy", "elements.mvnx", "text.mvnx", "entity.mvnx",
    "frames.mvnx", "claimed.glb", "base64.gltf", "long.csv", "lines.jsonl",
]  # fmt: skip


@pytest.fixture(scope="module")
def reports():
    """Outcome, peak memory and processor time of each file, read in a process of its own."""
    pytest.importorskip("scipy", reason="needs scipy")
    command = [sys.executable, str(SCRIPT), *NAMES]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return {report["name"]: report for report in map(json.loads, result.stdout.splitlines())}


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux counts it")
@pytest.mark.parametrize("name", NAMES)
def test_a_bomb_stays_within_one_gigabyte_and_ten_seconds(reports, name):
    report = reports[name]
    assert report["size"] <= 2**26
    assert report["outcome"].startswith(("DataError: ", "Motion of ")), report
    assert name in report["outcome"] or report["outcome"].startswith("Motion"), report
    assert report["peak"] <= 2**30, report
    assert report["seconds"] <= 10, report


def test_a_file_just_within_the_limits_is_read(reports):
    assert reports["limit.npz"]["outcome"] == "Motion of 559240 frames"
