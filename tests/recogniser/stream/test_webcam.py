"""The camera's program without a camera: it reads videos, and what it writes is what jeanie reads and recognises."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from movements import open_clip
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets import read_motion
from jeanie.recogniser.stream.frames import read_frames
from jeanie.skeleton import LAYOUTS
from jeanie.skeleton.convert import convert

FILE = Path(__file__).resolve().parents[3] / "examples" / "webcam.py"


@pytest.fixture(scope="module")
def webcam():
    spec = importlib.util.spec_from_file_location("webcam", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def landmarks(seed, hidden=()):
    points = np.random.default_rng(seed).normal(size=(33, 3))
    return [
        SimpleNamespace(x=x, y=y, z=z, visibility=0.1 if at in hidden else 0.9)
        for at, (x, y, z) in enumerate(points.tolist())
    ]


def yield_landmarks(motion):
    """A motion as MediaPipe would tell it, picture by picture: hips at the origin, x to the right, y down."""
    core = convert(motion, LAYOUTS["mediapipe33"])
    hips = [LAYOUTS["mediapipe33"].index(f"{side}_hip") for side in ("left", "right")]
    joints = core.joints - core.joints[:, :, hips].mean(2, keepdim=True)
    for at, (body, seen) in enumerate(zip(joints[:, 0].tolist(), core.valid[:, 0].tolist(), strict=True)):
        points = [
            SimpleNamespace(x=-x, y=-y, z=z, visibility=0.9 if there else 0.0)
            for (x, y, z), there in zip(body, seen, strict=True)
        ]
        yield at / motion.rate, [points]


def test_lines_and_recordings_say_the_same(webcam, tmp_path):
    people = [[landmarks(seed, hidden=(3, 30))] for seed in range(20)]
    lines = [webcam.format_line(person, at / 25) for at, person in enumerate(people)]
    live = torch.cat([one.joints for one in read_frames(lines)])
    (tmp_path / "r.json").write_text(
        json.dumps({"fps": 25, "frames": [webcam.format_frame(one) for one in people]})
    )
    recorded = read_motion(tmp_path / "r.json")
    assert recorded.layout.name == "mediapipe33"
    assert recorded.rate == 25
    there = recorded.valid
    assert there.all(0)[0].logical_not().nonzero()[:, 0].tolist() == [3, 30]
    torch.testing.assert_close(live.isfinite().all(-1), there)
    torch.testing.assert_close(live[there], recorded.joints[there])


def test_hidden_joints_and_nobody_are_missing(webcam):
    lines = [webcam.format_line([landmarks(0, hidden=(3, 5))], 0.0), webcam.format_line([], 0.04)]
    first, second = read_frames(lines, rate=25)
    assert first.joints.isnan().all(-1)[0, 0].nonzero()[:, 0].tolist() == [3, 5]
    assert second.joints.isnan().all()


def test_a_video_is_read_picture_by_picture_at_its_own_times(webcam, tmp_path):
    path = tmp_path / "video.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 12.5, (64, 48))
    for number in range(10):
        writer.write(np.full((48, 64, 3), 20 * number, np.uint8))
    writer.release()
    times, pictures = zip(*webcam.read_pictures(path), strict=True)
    assert list(times) == pytest.approx([number / 12.5 for number in range(10)])
    assert [round(float(picture.mean()) / 20) for picture in pictures] == list(range(10))


@pytest.mark.errors
def test_a_video_that_is_none_ends_with_a_message(webcam, tmp_path):
    with pytest.raises(SystemExit, match=r"nothing\.mp4: cannot be opened"):
        next(webcam.read_pictures(tmp_path / "nothing.mp4"))


@pytest.mark.errors
def test_a_missing_package_and_a_bad_model_end_with_a_message(webcam, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mediapipe", None)
    with pytest.raises(SystemExit, match=r"needs mediapipe: pip install 'jeanie\[camera\]'"):
        next(webcam.detect_poses(tmp_path / "model.task", tmp_path / "video.avi"))


@pytest.mark.errors
def test_mediapipe_has_what_the_program_calls_and_refuses_a_bad_model(tmp_path):
    pytest.importorskip("mediapipe", reason="mediapipe is not installed (pip install 'jeanie[camera]')")
    (tmp_path / "bad.task").write_bytes(b"no model")
    command = [sys.executable, str(FILE), "stream", "--model", str(tmp_path / "bad.task")]
    ended = subprocess.run([*command, "--video", "none.avi"], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "bad.task: not a model file of MediaPipe's Pose Landmarker" in ended.stderr
    assert ended.stdout == ""


def test_what_was_recorded_is_recognised_live(webcam, tmp_path):
    """Everything behind the landmarks: record, enrol, stream, watch; another person does what was enrolled."""
    for action in ("kick_forward", "bow", "clap"):
        clip = open_clip(action, 0)
        webcam.record(tmp_path / f"{action}.json", yield_landmarks(clip), 0.0, float("inf"))
        enrolled = ["enrol", action, str(tmp_path / f"{action}.json"), "--library", str(tmp_path / "l.db")]
        done = CliRunner().invoke(app, enrolled)
        assert done.exit_code == 0, done.output
    other = open_clip("kick_forward", 1)
    lines = [webcam.format_line(people, seconds) for seconds, people in yield_landmarks(other)]
    end = len(lines) / other.rate
    _, standing = list(yield_landmarks(other))[-1]
    lines += [webcam.format_line(standing, end + at / other.rate) for at in range(45)]
    watched = ["watch", "-", "--library", str(tmp_path / "l.db"), "--json", "--unknown"]
    done = CliRunner().invoke(app, watched, input="\n".join(lines))
    assert done.exit_code == 0, done.output
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["label"] for event in events] == ["kick_forward"]
    assert events[0]["start_s"] < 0.5 * end
    assert abs(events[0]["end_s"] - end) < 0.75
