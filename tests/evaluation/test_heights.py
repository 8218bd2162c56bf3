"""Heights of the cameras of setups, measured from people of known size before cameras at known places."""

import csv
import json
import math
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets import open_dataset
from jeanie.datasets.archive.writer import write_archive
from jeanie.errors import ConfigError, DataError
from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.evaluation.protocols.camera_heights import (
    measure_setups,
    read_known_setups,
    setup_numbers,
    write_setups,
)
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.convert import convert
from jeanie.views.camera_position import (
    LOWEST_JOINT,
    NTU_SETUPS,
    correct_height,
    estimate_positions_by,
    read_setups,
)

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
        assert found[setup].height == pytest.approx(height + LOWEST_JOINT, abs=1e-3)  # of a body without feet
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


class Recorded(SimpleNamespace):
    """Tags of NTU RGB+D 120: eight people per class and setup. Splits read no motion."""

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        raise NotImplementedError


def tags(setups, root):
    rows = [(s, a, p) for s in setups for a in range(1, 121) for p in range(1, 9)]
    return Recorded(
        name="ntu120", labels=[a for _, a, _ in rows], subjects=[p for *_, p in rows],
        views=[1] * len(rows), setups=[s for s, *_ in rows], root=root, layout=LAYOUTS["ntu25"], motions=[],
    )  # fmt: skip


def test_the_published_setups_need_no_table(tmp_path):
    """S007 is 0.5 m high, S001 1.7 m, S016 2.7 m: bottom, centre and top of the range."""
    splits = PROTOCOLS["ntu120-vertical"].splits(tags((7, 1, 16), tmp_path / "ntu120"))
    assert {split.columns.cameras[0] for split in splits} == {"bottom"}
    assert {split.columns.cameras[960] for split in splits} == {"centre"}
    assert {split.columns.cameras[1920] for split in splits} == {"top"}


def test_measured_setups_fill_the_table_and_never_replace_published_ones(tmp_path):
    root = tmp_path / "ntu120"
    (tmp_path / "setups.csv").write_text("setup,height,distance\n7,2.7,3.0\n18,2.6,3.5\n")
    cameras = read_known_setups(root)
    assert (cameras[7].height, cameras[18].height, len(cameras)) == (0.5, 2.6, 18)
    (split, *_) = PROTOCOLS["ntu120-vertical"].splits(tags((7, 1, 18), root))
    assert [split.columns.cameras[clip] for clip in (0, 960, 1920)] == ["bottom", "centre", "top"]
    (tmp_path / "setups.csv").unlink()
    with pytest.raises(
        DataError, match=r"setup 18; setups 1 to 17 are known.*jeanie setups ntu120 .*setups\.csv"
    ):
        PROTOCOLS["ntu120-vertical"].splits(tags((7, 1, 18), root))


def test_the_table_lies_beside_the_archive_and_survives_preparing_it_again(archive, monkeypatch, tmp_path):
    """The folder that was opened counts, not $JEANIE_DATA."""
    monkeypatch.setenv("JEANIE_DATA", str(tmp_path / "elsewhere"))
    result = CliRunner().invoke(app, ["setups", "ntu120", str(archive), "--clips", "2", "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["table"] == str(archive.with_name("setups.csv"))
    assert [(row["setup"], row["clips"]) for row in facts["setups"]] == [(1, 2), (2, 2), (18, 2)]
    write_archive([open_dataset("ntu120", archive)[0]], archive, name="ntu120")
    dataset = open_dataset("ntu120", archive)
    cameras = read_known_setups(dataset.root)
    assert cameras[18].height == pytest.approx(2.6 + LOWEST_JOINT, abs=1e-3)
    assert cameras[1].height == NTU_SETUPS[1].height
    with pytest.raises(DataError, match="expected the classes 1 to 120"):  # the table itself was found
        PROTOCOLS["ntu120-vertical"].splits(dataset)


def view_from_camera(motion, height, distance, azimuth):
    """Joints of a motion whose floor is y = 0, in the space of a camera that looks at 1 m above the floor."""
    tilt = math.asin((height - 1) / distance)
    x, y, z = (motion.joints - motion.joints.mean((0, 1, 2), keepdim=True)).unbind(-1)
    y = motion.joints[..., 1] - height
    x, z = math.cos(azimuth) * x + math.sin(azimuth) * z, math.cos(azimuth) * z - math.sin(azimuth) * x
    z = z + distance * math.cos(tilt)
    y, z = math.cos(tilt) * y + math.sin(tilt) * z, math.cos(tilt) * z - math.sin(tilt) * y
    return motion.replace(joints=torch.stack((x, y, z), -1))


@pytest.mark.skipif(DATA is None, reason="needs JEANIE_DATA with cmu")
@pytest.mark.parametrize(("height", "distance"), [(0.5, 4.5), (1.7, 3.5), (2.5, 3.0)])
def test_corrected_heights_of_real_bodies_are_right_within_4_cm(height, distance):
    data = open_dataset("cmu", Path(DATA) / "cmu")
    labelled = [clip for clip, label in enumerate(data.labels) if label is not None][::8]
    motions = [
        convert(view_from_camera(data[clip], height, distance, 2.4 * clip), LAYOUTS["ntu25"])
        for clip in labelled
    ]
    (found,) = estimate_positions_by(motions, lambda motion: 0).values()
    assert found.height < height - 0.05  # too low before
    assert correct_height(found).height == pytest.approx(height, abs=0.04)


def test_the_command_says_what_it_found(archive, tmp_path):
    result = CliRunner().invoke(app, ["setups", "ntu120", str(archive), str(tmp_path / "table.csv")])
    assert result.exit_code == 0
    assert "setup 18: 2.69 m high" in result.stdout
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
    """Ten clips of one setup: 1.72 m for the printed 1.7 m, 3.72 m for 3.5 m."""
    found = measure_setups(open_dataset("ntu60", Path(DATA) / "ntu-samples"))
    write_setups(found, tmp_path / "setups.csv")
    camera = read_setups(tmp_path / "setups.csv")[1]
    assert list(found) == [1]
    assert found[1].clips == 10
    assert camera.height == pytest.approx(NTU_SETUPS[1].height, abs=0.05)
    assert camera.distance == pytest.approx(NTU_SETUPS[1].distance, abs=0.25)
