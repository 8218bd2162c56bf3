"""``jeanie record`` and examples/webcam.py run the pose model of the page on real videos."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.cli.record import VENDOR
from jeanie.datasets.reading import read_motion

ROOT = Path(__file__).resolve().parents[2]
VIDEO = Path(os.environ.get("JEANIE_DATA", "")) / "video/asl/again.mkv"
pytestmark = [
    pytest.mark.plain,
    pytest.mark.skipif(not VIDEO.exists(), reason="no videos in $JEANIE_DATA/video"),
    pytest.mark.skipif(
        not (VENDOR / "pose_landmarker_lite.task").exists(), reason="no pose model: run make web"
    ),
]


def test_a_video_is_recorded_and_can_be_enrolled(tmp_path):
    out, library = tmp_path / "again.json", str(tmp_path / "library.db")
    command = ["record", str(out), "--video", str(VIDEO), "--pose-model", "lite", "--json"]
    environment = {**os.environ, "GLOG_minloglevel": "2"}
    result = subprocess.run(
        [sys.executable, "-m", "jeanie", *command],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    motion = read_motion(out)
    assert facts["frames"] == len(motion) == 77
    assert facts["seen"] > 70
    assert motion.rate == pytest.approx(30, abs=0.1)
    nose, hips = motion.joints[:, 0, 0], motion.joints[:, 0, 23:25].mean(1)
    assert (nose[:, 1] - hips[:, 1]).median() > 0.3  # metres; y is up
    example = tmp_path / "webcam.json"
    script = [sys.executable, str(ROOT / "examples/webcam.py"), "record", str(example), "--video", str(VIDEO)]
    lite = ["--model", str(VENDOR / "pose_landmarker_lite.task")]
    subprocess.run([*script, *lite], check=True, capture_output=True, env=environment)
    same = read_motion(example)
    assert (same.joints - motion.joints).abs().median() < 1e-3
    for arguments in (["enrol", "again", str(out)], ["recognise", str(example), "--json"]):
        answer = CliRunner().invoke(app, [*arguments, "--library", library])
        assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["results"][0]["label"] == "again"


@pytest.mark.errors
def test_a_missing_video_ends_with_code_2(tmp_path):
    result = CliRunner().invoke(app, ["record", str(tmp_path / "x.json"), "--video", "missing.mp4", "--json"])
    assert result.exit_code == 2
    assert "cannot be opened" in json.loads(result.stdout)["error"]
