"""BVH against hand-made files, scalar kinematics and CMU's own positions."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from jeanie.datasets.formats.bvh import read_bvh
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import LAYOUTS, Layout

DATA = os.environ.get("JEANIE_DATA")
recordings = pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")

TREE = [  # name, parent, offset, channels
    ("Hips", -1, (0.0, 0.0, 0.0), "Xposition Yposition Zposition Zrotation Xrotation Yrotation"),
    ("Chest", 0, (0.0, 20.0, 1.0), "Yrotation Xrotation Zrotation"),
    ("LeftCollar", 1, (2.0, 15.0, 0.0), "Xrotation Zrotation"),
    ("LeftShoulder", 2, (9.0, 0.0, 0.0), "Zrotation Xrotation Yrotation Zposition Xposition"),
    ("LeftElbow", 3, (25.0, 0.0, 0.0), "Yrotation"),
    ("LeftHip", 0, (9.0, -2.0, 0.0), "Zrotation Yrotation Zrotation"),
]
ENDS = {4: (22.0, 0.0, 0.0), 5: (0.0, -40.0, 3.0)}


def bvh_text(rows, tree=TREE, ends=ENDS, seconds="0.0333333"):
    """A BVH file with as many braces and as little white space as the format allows in places."""

    def joint(index):
        name, parent, offset, channels = tree[index]
        kind = "ROOT" if parent < 0 else "JOINT"
        lines = [f"{kind} {name} {{", "OFFSET " + " ".join(map(str, offset))]
        lines.append(f"CHANNELS {len(channels.split())} {channels}")
        if index in ends:
            lines += ["End Site", "{", "\tOFFSET " + "\t".join(map(str, ends[index])), "}"]
        for child, (_, above, _, _) in enumerate(tree):
            if above == index:
                lines += joint(child)
        return [*lines, "}"]

    body = "\n".join(" ".join(repr(float(v)) for v in row) for row in rows)
    head = "\n".join(["HIERARCHY", *joint(0)])
    return f"{head}\nMOTION\nFrames: {len(rows)}\nFrame Time: {seconds}\n{body}\n"


def file_order(tree=TREE):
    """Indices in the order in which ``bvh_text`` writes joints: a walk down the tree."""

    def walk(index):
        yield index
        for child, (_, above, _, _) in enumerate(tree):
            if above == index:
                yield from walk(child)

    return list(walk(0))


def scalar_kinematics(row, tree=TREE, ends=ENDS):
    """Name -> position by recursion over one frame, with scipy's rotations. Centimetres."""
    order, values = file_order(tree), {}
    at = 0
    for index in order:
        count = len(tree[index][3].split())
        values[index] = row[at : at + count]
        at += count
    found = {}

    def place(index, origin, turn):
        name, _, offset, channels = tree[index]
        shift = list(offset)
        own = Rotation.identity()
        for channel, value in zip(channels.split(), values[index], strict=True):
            axis = channel[0].lower()
            if channel.endswith("position"):
                shift["xyz".index(axis)] = value
            else:
                own = own * Rotation.from_euler(axis, value, degrees=True)
        position = origin + turn.apply(shift)
        found[name] = position
        if index in ends:
            found[f"{name}_end"] = position + (turn * own).apply(ends[index])
        for child, (_, above, _, _) in enumerate(tree):
            if above == index:
                place(child, position, turn * own)

    place(0, np.zeros(3), Rotation.identity())
    return found


OURS = {
    "Hips": "hip_center", "Chest": "chest", "LeftCollar": "left_clavicle", "LeftShoulder": "left_shoulder",
    "LeftElbow": "left_elbow", "LeftHip": "left_hip", "LeftElbow_end": "left_elbow_end",
    "LeftHip_end": "left_hip_end",
}  # fmt: skip


@pytest.fixture
def bvh(write_file):
    return partial(write_file, name="clip.bvh")


def width(tree=TREE):
    return sum(len(channels.split()) for _, _, _, channels in tree)


def test_any_channel_order_and_positions_on_any_joint_agree_with_scalar_kinematics(bvh):
    rows = np.random.default_rng(3).uniform(-170, 170, (7, width()))
    motion = read_bvh(bvh(bvh_text(rows)))
    assert set(motion.layout.joints) == set(OURS.values())
    assert motion.rate == 30.0
    assert motion.name == "clip"
    for frame, row in enumerate(rows):
        for name, centimetres in scalar_kinematics(row).items():
            got = motion.joints[frame, 0, motion.layout.index(OURS[name])].numpy()
            np.testing.assert_allclose(got, centimetres / 100, atol=2e-6)


def test_the_hierarchy_becomes_the_layout(bvh):
    layout = read_bvh(bvh(bvh_text(np.zeros((1, width()))))).layout
    named = {(layout.joints[a], layout.joints[b]) for a, b in layout.bones}
    expected = {(OURS[TREE[parent][0]], OURS[name]) for name, parent, _, _ in TREE if parent >= 0}
    expected |= {(OURS[TREE[index][0]], OURS[TREE[index][0] + "_end"]) for index in ENDS}
    assert named == expected
    assert layout.joints[layout.root] == "hip_center"
    assert layout.joints[layout.torso] == "chest"


def test_a_bvh_joint_at_the_origin_is_valid(bvh):
    motion = read_bvh(bvh(bvh_text(np.zeros((2, width())))))
    assert bool(motion.valid.all())


@pytest.mark.parametrize(
    ("unit", "factor"), [(None, 0.01), ("m", 1.0), ("mm", 0.001), ("in", 0.0254), (0.5, 0.5)]
)
def test_units(bvh, unit, factor):
    motion = read_bvh(bvh(bvh_text(np.zeros((1, width())))), unit=unit)
    chest = motion.joints[0, 0, motion.layout.index("chest")]
    torch.testing.assert_close(chest, torch.tensor([0.0, 20.0, 1.0]) * factor)


def test_nan_and_overflow_are_missing_joints_not_numbers(bvh):
    rows = np.zeros((3, width()))
    rows[1, -3:] = np.nan  # left hip turns by NaN: its end is lost, the rest stays
    rows[2, 0] = 1e300
    motion = read_bvh(bvh(bvh_text(rows)))
    lost = ~motion.valid[:, 0]
    assert [motion.layout.joints[j] for j in lost[1].nonzero().flatten()] == ["left_hip_end"]
    assert bool(lost[2].all())
    assert bool(motion.joints.isfinite().all())


def test_a_given_layout_selects_joints_by_name(bvh):
    wanted = Layout("two", ("left_elbow", "head", "hip_center"), ((2, 0),), (), 2, 2)
    motion = read_bvh(bvh(bvh_text(np.zeros((1, width())))), layout=wanted)
    assert motion.layout is wanted
    assert motion.valid[0, 0].tolist() == [True, False, True]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_bone_lengths_do_not_depend_on_the_angles(tmp_path_factory, data):
    tree = [(n, p, o, "Zrotation Yrotation Xrotation") for n, p, o, _ in TREE]
    angle = st.floats(-720, 720, allow_nan=False)
    rows = data.draw(
        st.lists(st.lists(angle, min_size=width(tree), max_size=width(tree)), min_size=1, max_size=3)
    )
    path = tmp_path_factory.mktemp("bvh") / "a.bvh"
    path.write_text(bvh_text(rows, tree))
    motion = read_bvh(path, unit="m")
    parent, child = torch.tensor(motion.layout.bones).T
    lengths = (motion.joints[:, 0, child] - motion.joints[:, 0, parent]).norm(dim=-1)
    offsets = {OURS[name]: offset for name, _, offset, _ in tree}
    offsets |= {OURS[tree[index][0] + "_end"]: offset for index, offset in ENDS.items()}
    expected = torch.tensor([np.linalg.norm(offsets[motion.layout.joints[c]]) for c in child]).float()
    torch.testing.assert_close(lengths, expected.expand_as(lengths), atol=1e-4, rtol=1e-5)


GOOD = bvh_text(np.zeros((2, width())))
BROKEN_BVH = {
    "is empty": ("", "ends without HIERARCHY"),
    "has no motion": (GOOD.split("MOTION")[0], "ends without HIERARCHY"),
    "is cut short": (GOOD.rsplit("\n", 2)[0] + "\n", "'Frames: 2' but 1 rows"),
    "has rows to spare": (GOOD + GOOD.splitlines()[-1] + "\n", "'Frames: 2' but more rows"),
    "has a word among numbers": (GOOD[:-4] + "x\n", "is not a number"),
    "has a short row": (
        GOOD.rstrip()[:-4] + "\n",
        f"line {len(GOOD.splitlines())}: expected {width()} numbers",
    ),
    "closes too often": (GOOD.replace("MOTION", "}\nMOTION"), "does not belong here"),
    "has two roots": (GOOD.replace("MOTION", "ROOT A\n{\n}\nMOTION"), "one ROOT"),
    "names a joint twice": (GOOD.replace("LeftElbow", "LeftHip"), "its own name"),
    "counts channels wrong": (GOOD.replace("CHANNELS 1 ", "CHANNELS 2 "), "expected CHANNELS"),
    "scales a joint": (GOOD.replace("CHANNELS 1 Yrotation", "CHANNELS 1 Yscale"), "expected CHANNELS"),
    "has a short offset": (GOOD.replace("OFFSET 25.0 0.0 0.0", "OFFSET 25.0 0.0"), "three numbers"),
    "has no frame time": (GOOD.replace("Frame Time: 0.0333333", "Frame Time: soon"), "is not a number"),
    "has no frames": (GOOD.replace("Frames: 2", "Frames: 0"), "contain no motion"),
    "nests without end": (
        "HIERARCHY\nROOT a\n{\n" + "".join(f"JOINT j{i}\n{{\n" for i in range(5000)),
        "joints",
    ),
}


@pytest.mark.errors
@pytest.mark.parametrize("what", BROKEN_BVH)
def test_a_broken_bvh_file_names_its_cause(bvh, what):
    text, cause = BROKEN_BVH[what]
    path = bvh(text)
    with pytest.raises(DataError) as caught:
        read_bvh(path)
    assert str(path) in str(caught.value)
    assert cause in str(caught.value)


@pytest.mark.errors
def test_a_missing_bvh_file_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_bvh(tmp_path / "none.bvh")
    with pytest.raises(DataError, match="not a regular file"):
        read_bvh(tmp_path)


@pytest.mark.errors
def test_an_unknown_unit(bvh):
    with pytest.raises(ConfigError, match="unit must be one of"):
        read_bvh(bvh(GOOD), unit="furlong")


@recordings
def test_the_bvh_files_agree_with_cmu_to_a_millimetre():
    files = sorted(Path(DATA, "bvh").glob("*.bvh"))
    assert len(files) == 12
    keep = [LAYOUTS["cmu31"].index(joint) for joint in LAYOUTS["cmu22"].joints]
    with np.load(Path(DATA, "cmu", "cmu_30fps_mm.npz")) as stored:
        for path in files:
            motion = read_bvh(path)
            assert motion.layout is LAYOUTS["cmu31"]
            assert motion.rate == 120.0
            expected = np.cumsum(stored[path.stem], 0, dtype=np.int32)
            millimetres = motion.joints[1::4, 0, keep].double().numpy() * 1000
            assert millimetres.shape == expected.shape
            assert np.abs(millimetres - expected).max() < 1.0


@recordings
def test_the_first_row_of_a_recording_gives_the_position_of_the_hips():
    path = Path(DATA, "bvh", "02_03.bvh")
    row = path.read_text().split("MOTION")[1].splitlines()[4].split()
    hips = read_bvh(path).joints[1, 0, 0].double().numpy()
    np.testing.assert_allclose(hips, np.array(row[:3], float) * 0.0254 / 0.45, rtol=1e-6)
