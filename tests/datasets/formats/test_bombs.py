"""Small files that would fill the memory: each ends in a motion or a DataError, within 1 GB and 10 seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_bombs import is_within_promise

pytestmark = pytest.mark.plain
SCRIPT = Path(__file__).resolve().parents[2] / "fuzz_bombs.py"
# the quick ones, at least one per reader; "make fuzz" reads them all
NAMES = [
    "limit.npz", "zeros.npz", "lzma.npz", "members.npz", "compressed.mat", "allowed.mat", "claimed.mat",
    "tokens.skeleton", "frames.skeleton", "lists.json", "deep.json", "digits.json", "wide.txt", "pairs.txt",
    "wide.csv", "columns.csv", "empty.trc", "rows.bvh", "braces.bvh", "memo.pkl", "encodings.pkl", "array.pkl",
    "claimed.npy", "text.mvnx", "entity.mvnx", "claimed.glb", "base64.gltf", "lines.jsonl",
]  # fmt: skip


@pytest.fixture(scope="module")
def reports():
    """Outcome, peak memory and processor time of each file, read in a process of its own."""
    pytest.importorskip("scipy", reason="needs scipy")
    command = [sys.executable, str(SCRIPT), *NAMES]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    reports = {report["name"]: report for report in map(json.loads, result.stdout.splitlines())}
    assert list(reports) == NAMES, result.stderr
    return reports


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux counts it")
@pytest.mark.parametrize("name", NAMES)
def test_a_bomb_stays_within_one_gigabyte_and_ten_seconds(reports, name):
    assert is_within_promise(reports[name]), reports[name]


def test_a_file_just_within_the_limits_is_read(reports):
    assert reports["limit.npz"]["outcome"] == "Motion of 559240 frames"
