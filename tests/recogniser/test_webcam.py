"""The camera's program without a camera: what it writes is what jeanie reads, in the same space either way."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from jeanie.datasets import read_motion
from jeanie.recogniser.lines import frames_of

FILE = Path(__file__).resolve().parents[2] / "examples" / "webcam.py"


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


def test_lines_and_recordings_say_the_same(webcam, tmp_path):
    people = [[landmarks(seed)] for seed in range(20)]
    lines = [webcam.line_of(person, at / 25) for at, person in enumerate(people)]
    live = torch.cat([one.joints for one in frames_of(lines)])
    (tmp_path / "r.json").write_text(
        json.dumps({"fps": 25, "frames": [webcam.frame_of(one) for one in people]})
    )
    recorded = read_motion(tmp_path / "r.json")
    assert recorded.layout.name == "mediapipe33"
    assert recorded.rate == 25
    torch.testing.assert_close(live, recorded.joints)


def test_hidden_joints_and_nobody_are_missing(webcam):
    lines = [webcam.line_of([landmarks(0, hidden=(3, 5))], 0.0), webcam.line_of([], 0.04)]
    first, second = frames_of(lines, rate=25)
    assert first.joints.isnan().all(-1)[0, 0].nonzero()[:, 0].tolist() == [3, 5]
    assert second.joints.isnan().all()
