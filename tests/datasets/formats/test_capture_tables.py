"""Exports of motion-capture programs with several header rows, beside the corpus: persons, gaps, and errors."""

import json

import numpy as np
import pytest
import torch
from corpus import BODY, FRAMES, RATE
from corpus.captures import motive, motive_bones, nexus, qualisys
from corpus.markers import baseline, plug_in_gait
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets import read_motion
from jeanie.errors import DataError


def test_every_skeleton_is_a_person_and_an_empty_cell_is_missing(write_file):
    gap = BODY["head"].copy()
    gap[2] = np.nan
    columns = [
        ("Bone", "Anna:Head", gap),
        ("Bone", "Ben:Head", BODY["head"] + 1),
        ("Bone", "Ben:Neck", BODY["neck"]),
    ]
    motion = read_motion(write_file(motive(columns), "a.csv"))
    assert motion.joints.shape == (FRAMES, 2, 2, 3)
    assert motion.layout.joints == ("head", "neck")
    assert motion.valid[:, 0, 0].tolist() == [True, True, False, True, True, True]
    assert not motion.valid[:, 0, 1].any()
    torch.testing.assert_close(
        motion.joints[:, 1, 0].double(), torch.from_numpy(BODY["head"] + 1), atol=1e-5, rtol=0
    )


def test_subjects_of_nexus_are_persons(write_file):
    markers = plug_in_gait()
    both = nexus(markers | {f"Second:{name}": places + 1 for name, places in markers.items()})
    motion = read_motion(write_file(both.replace("Patient:Second:", "Second:"), "a.csv"))
    assert motion.persons == 2
    torch.testing.assert_close(motion.joints[:, 1], motion.joints[:, 0] + 1, atol=1e-5, rtol=0)


def test_a_marker_of_qualisys_at_the_origin_is_missing(write_file):
    markers = baseline()
    markers["LElbowOut"] = np.zeros_like(markers["LElbowOut"])
    text = qualisys(markers)
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("Frame\t")) + "\n"
    for content in (text, plain, text.replace("0.000000\t0.000000\t0.000000", "null\tnull\tnull")):
        motion = read_motion(write_file(content, "a.tsv"))
        assert motion.rate == RATE
        assert motion.valid.all(0)[0].logical_not().nonzero().flatten().tolist() == [
            motion.layout.index("left_elbow")
        ]


def test_legs_alone_are_a_known_set_with_a_warning(write_file):
    legs = {
        name: places
        for name, places in plug_in_gait().items()
        if name[1:] in ("ASI", "PSI", "KNE", "ANK", "TOE")
    }
    with pytest.warns(UserWarning, match="core joints are known"):
        motion = read_motion(write_file(nexus(legs), "a.csv"))
    assert {"left_hip", "right_knee", "left_foot"} <= set(motion.layout.joints)


def test_unknown_markers_are_refused_until_a_layout_file_names_them(write_file, tmp_path):
    markers = {f"M{number}": places for number, places in enumerate(plug_in_gait().values())}
    path = write_file(nexus(markers), "walk.csv")
    with pytest.raises(
        DataError, match=r"not a known set \(Plug-in Gait, .*it has m0, m1, .*jeanie layout FILE"
    ):
        read_motion(path)
    made = CliRunner().invoke(app, ["layout", str(path), "--out", str(tmp_path / "lab.toml"), "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["unknown"] == list(markers)
    text = (tmp_path / "lab.toml").read_text()
    (tmp_path / "lab.toml").write_text(text.replace('"M0" = ""', '"M0" = "head"'))
    with pytest.warns(UserWarning, match="only 1 of the 15 core joints"):
        assert read_motion(path, layout=tmp_path / "lab.toml").layout.joints == ("head",)


@pytest.mark.errors
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (motive_bones().replace("Space,Global", "Space,Local"), "export with Coordinate Space: Global"),
        (
            motive_bones().replace("Bone", "Thing").replace(",Marker", ",Thing"),
            "expected header rows with Bone",
        ),
        (motive_bones().replace("Millimeters", "Furlongs"), "unit 'Furlongs'"),
        ("Format Version,1.23\n\nno header\n", "no row that starts with 'Frame'"),
        ("Devices\n1000\n,,Force\nFrame,Sub Frame,Fx\n,,N\n1,0,1\n", "no section Trajectories"),
        ("Trajectories\n100\n,,LASI\nFrame,Sub Frame,A,B,C\n,,mm\n1,0,1,2,3\n", "0 named points"),
        (nexus(plug_in_gait()).replace("\n2,0,", "\n2,0,x"), "or just before: could not convert"),
        ("NO_OF_FRAMES\t3\nFREQUENCY\t100\n1\t2\t3\n", "expected a line MARKER_NAMES"),
        ("scorer,a\nbodyparts,nose\n1,2\n", "no row that starts with 'coords'"),
    ],
)
def test_a_broken_export_names_its_cause(write_file, text, cause):
    with pytest.raises(DataError, match=r"a\.csv") as caught:
        read_motion(write_file(text, "a.csv"))
    assert cause in str(caught.value)


@pytest.mark.errors
def test_a_motive_header_that_ends_with_the_types_is_an_error(write_file):
    lines = motive([("Bone", "Anna:Head", BODY["head"])]).splitlines()
    head, (types, names, ids, kinds, axes) = lines[:2], lines[2:7]
    damaged = "\n".join([*head, kinds, types, axes, *lines[7:]]) + "\n"
    assert names.split(",")[1] == "Name"
    assert ids.split(",")[1] == "ID"
    with pytest.raises(DataError, match="0 named points"):
        read_motion(write_file(damaged, "a.csv"))
