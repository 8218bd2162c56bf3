"""Heights of the cameras of setups, measured from people of known size before cameras at known places."""

import csv
import json
import math
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets import open_dataset
from jeanie.datasets.archive.writer import write_archive
from jeanie.errors import ConfigError, DataError
from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.evaluation.protocols.camera_heights import measure_setups, setup_numbers, write_setups
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.views.camera_position import NTU_SETUPS, read_setups

DATA = os.environ.get("JEANIE_DATA")
HEIGHTS = {1: (0.6, 3.0, 5.0), 2: (1.5, 2.5, 15.0), 18: (2.6, 3.5, 30.0)}  # height, distance, tilt in degrees


def person(setup, place, frames=3):
    """Joints of NTU's body on a line of 1.7 m that stands on the floor, before the camera of a setup."""
    height, distance, tilt = HEIGHTS[setup]
    up = np.linspace(0, 1.7, 25)
    world = np.stack((np.full(25, place), up - height, np.full(25, distance)), -1)
    c, s = math.cos(math.radians(tilt)), math.sin(math.radians(tilt))
    x, y, z = world.T
    return np.repeat(np.stack((x, c * y + s * z, -s * y + c * z), -1)[None], frames, 0).astype(np.float32)


@pytest.fixture
def archive(tmp_path):
    motions = [
        Motion(person(setup, 0.1 * subject), LAYOUTS["ntu25"], name=f"S{setup:03}C001P{subject:03}R001A001", label=1)
        for subject in range(1, 7)
        for setup in HEIGHTS
    ]  # fmt: skip
    write_archive(motions, tmp_path / "ntu120", name="ntu120")
    return tmp_path / "ntu120"


def test_known_cameras_are_found_again(archive):
    calls = []
    found = measure_setups(
        open_dataset("ntu120", archive), each=4, progress=lambda done, all_: calls.append((done, all_))
    )
    assert list(found) == [1, 2, 18]
    for setup, (height, _, tilt) in HEIGHTS.items():
        assert found[setup].height == pytest.approx(height, abs=1e-3)
        assert found[setup].tilt == pytest.approx(tilt, abs=1e-2)
        assert found[setup].clips == 4
    assert calls == [(done, 12) for done in range(1, 13)]


def test_clips_are_spread_over_a_setup(archive):
    """Of six, three: the first, third and fifth person, whose mean place is 0.3 m to the side."""
    dataset = open_dataset("ntu120", archive)
    found = measure_setups(dataset, each=3)[1]
    joints = LAYOUTS["ntu25"].centre
    torsos = [person(1, x)[0][list(joints)].mean(0) for x in (0.1, 0.3, 0.5)]
    assert found.distance == pytest.approx(np.mean([np.linalg.norm(torso) for torso in torsos]), abs=1e-5)


def test_the_table_is_what_the_vertical_protocol_reads(archive, monkeypatch):
    monkeypatch.setenv("JEANIE_DATA", str(archive.parent))
    dataset = open_dataset("ntu120", archive)
    with pytest.raises(DataError, match=r"jeanie setups ntu120 .*ntu120 .*setups\.csv"):
        PROTOCOLS["ntu120-vertical"].splits(dataset)
    result = CliRunner().invoke(
        app, ["setups", "ntu120", str(archive), str(archive / "setups.csv"), "--clips", "2", "--json"]
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["setups"]
    assert [(row["setup"], row["clips"]) for row in rows] == [(1, 2), (2, 2), (18, 2)]
    cameras = read_setups(archive / "setups.csv")
    assert [cameras[setup].height for setup in HEIGHTS] == pytest.approx([0.6, 1.5, 2.6], abs=1e-3)
    open_dataset("ntu120", archive)  # the table in its folder does not disturb the archive


def test_the_command_says_what_it_found(archive, tmp_path):
    result = CliRunner().invoke(app, ["setups", "ntu120", str(archive), str(tmp_path / "table.csv")])
    assert result.exit_code == 0
    assert "setup 18: 2.60 m high" in result.stdout
    assert "looking down by 30 degrees (6 clips)" in result.stdout
    with open(tmp_path / "table.csv", newline="") as file:
        assert [row["setup"] for row in csv.DictReader(file)] == ["1", "2", "18"]


@pytest.mark.errors
def test_what_tells_no_setup_is_refused(tmp_path):
    motion = Motion(person(1, 0.0), LAYOUTS["ntu25"], name="somebody", label=1)
    write_archive([motion], tmp_path / "other", name="other")
    dataset = open_dataset("archive", tmp_path / "other")
    assert list(setup_numbers(dataset)) == [None]
    with pytest.raises(DataError, match="no clip has a setup number"):
        measure_setups(dataset)
    with pytest.raises(DataError, match="has no clip names"):
        setup_numbers(SimpleNamespace(name="nameless"))
    with pytest.raises(ConfigError, match="1 or more clips per setup"):
        measure_setups(dataset, each=0)


@pytest.mark.skipif(DATA is None, reason="needs JEANIE_DATA with ntu-samples")
def test_real_recordings_agree_with_the_published_table(tmp_path):
    """Ten clips of one setup: 1.63 m for the printed 1.7 m, 3.72 m for 3.5 m."""
    found = measure_setups(open_dataset("ntu60", Path(DATA) / "ntu-samples"))
    write_setups(found, tmp_path / "setups.csv")
    camera = read_setups(tmp_path / "setups.csv")[1]
    assert list(found) == [1]
    assert found[1].clips == 10
    assert camera.height == pytest.approx(NTU_SETUPS[1].height, abs=0.1)
    assert camera.distance == pytest.approx(NTU_SETUPS[1].distance, abs=0.25)
