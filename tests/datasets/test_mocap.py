"""BVH, TRC, C3D, CSV and npz against hand-made files, scalar kinematics and CMU's own positions."""

import importlib.util
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from jeanie.datasets.bvh import read_bvh
from jeanie.datasets.mocap import read_c3d, read_csv, read_trc
from jeanie.datasets.npz import read_npz, write_npz
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

DATA = os.environ.get("JEANIE_DATA")
recordings = pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")
needs_c3d = pytest.mark.skipif(
    importlib.util.find_spec("ezc3d") is None, reason="the extra c3d is not installed"
)

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


def width(tree=TREE):
    return sum(len(channels.split()) for _, _, _, channels in tree)


@pytest.fixture
def written(tmp_path):
    def write(text, name="clip.bvh"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# ------------------------------------------------------------------------------------------------ BVH


def test_any_channel_order_and_positions_on_any_joint_agree_with_scalar_kinematics(written):
    rows = np.random.default_rng(3).uniform(-170, 170, (7, width()))
    motion = read_bvh(written(bvh_text(rows)))
    assert set(motion.layout.joints) == set(OURS.values())
    assert motion.rate == 30.0
    assert motion.name == "clip"
    for frame, row in enumerate(rows):
        for name, centimetres in scalar_kinematics(row).items():
            got = motion.joints[frame, 0, motion.layout.index(OURS[name])].numpy()
            np.testing.assert_allclose(got, centimetres / 100, atol=2e-6)


def test_the_hierarchy_becomes_the_layout(written):
    layout = read_bvh(written(bvh_text(np.zeros((1, width()))))).layout
    named = {(layout.joints[a], layout.joints[b]) for a, b in layout.bones}
    expected = {(OURS[TREE[parent][0]], OURS[name]) for name, parent, _, _ in TREE if parent >= 0}
    expected |= {(OURS[TREE[index][0]], OURS[TREE[index][0] + "_end"]) for index in ENDS}
    assert named == expected
    assert layout.joints[layout.root] == "hip_center"
    assert layout.joints[layout.torso] == "chest"


def test_a_joint_at_the_origin_is_a_joint(written):
    motion = read_bvh(written(bvh_text(np.zeros((2, width())))))
    assert bool(motion.valid.all())


@pytest.mark.parametrize(
    ("unit", "factor"), [(None, 0.01), ("m", 1.0), ("mm", 0.001), ("in", 0.0254), (0.5, 0.5)]
)
def test_units(written, unit, factor):
    motion = read_bvh(written(bvh_text(np.zeros((1, width())))), unit=unit)
    chest = motion.joints[0, 0, motion.layout.index("chest")]
    torch.testing.assert_close(chest, torch.tensor([0.0, 20.0, 1.0]) * factor)


def test_nan_and_overflow_are_missing_joints_not_numbers(written):
    rows = np.zeros((3, width()))
    rows[1, -3:] = np.nan  # left hip turns by NaN: its end is lost, the rest stays
    rows[2, 0] = 1e300
    motion = read_bvh(written(bvh_text(rows)))
    lost = ~motion.valid[:, 0]
    assert [motion.layout.joints[j] for j in lost[1].nonzero().flatten()] == ["left_hip_end"]
    assert bool(lost[2].all())
    assert bool(motion.joints.isfinite().all())


def test_a_wanted_layout_picks_by_name(written):
    wanted = Layout("two", ("left_elbow", "head", "hip_center"), ((2, 0),), (), 2, 2)
    motion = read_bvh(written(bvh_text(np.zeros((1, width())))), layout=wanted)
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
    "has no frames": (GOOD.replace("Frames: 2", "Frames: 0"), "hold no motion"),
    "nests without end": (
        "HIERARCHY\nROOT a\n{\n" + "".join(f"JOINT j{i}\n{{\n" for i in range(5000)),
        "joints",
    ),
}


@pytest.mark.errors
@pytest.mark.parametrize("what", BROKEN_BVH)
def test_a_bvh_file_that_is_broken_is_named_with_its_cause(written, what):
    text, cause = BROKEN_BVH[what]
    path = written(text)
    with pytest.raises(DataError) as caught:
        read_bvh(path)
    assert str(path) in str(caught.value)
    assert cause in str(caught.value)


@pytest.mark.errors
def test_a_bvh_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="not a regular file"):
        read_bvh(tmp_path / "none.bvh")
    with pytest.raises(DataError, match="not a regular file"):
        read_bvh(tmp_path)


@pytest.mark.errors
def test_an_unknown_unit(written):
    with pytest.raises(ConfigError, match="unit is one of"):
        read_bvh(written(GOOD), unit="furlong")


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
def test_the_first_row_of_a_recording_puts_the_hips_where_it_says():
    path = Path(DATA, "bvh", "02_03.bvh")
    row = path.read_text().split("MOTION")[1].splitlines()[4].split()
    hips = read_bvh(path).joints[1, 0, 0].double().numpy()
    np.testing.assert_allclose(hips, np.array(row[:3], float) * 0.0254 / 0.45, rtol=1e-6)


# ------------------------------------------------------------------------------------------------ TRC

TRC = (
    "PathFileType\t4\t(X/Y/Z)\twalk.trc\n"
    "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames\n"
    "100.00\t100.00\t3\t2\tmm\t100.00\t1\t3\n"
    "Frame#\tTime\tHead\t\t\tR.Elbow\t\t\t\n"
    "\t\tX1\tY1\tZ1\tX2\tY2\tZ2\n"
    "\n"
    "1\t0.00\t1\t1700\t30\t200\t1100\t-40\n"
    "2\t0.01\t2\t1701\t31\t\t\t\t\n"
    "3\t0.02\t3\t1702\t32\t202\t1102\t-42\n"
)


def test_trc(written):
    motion = read_trc(written(TRC, "walk.trc"))
    assert motion.layout.joints == ("head", "right_elbow")
    assert motion.rate == 100.0
    assert motion.valid[:, 0].tolist() == [[True, True], [True, False], [True, True]]
    expected = [[[0.001, 1.7, 0.03], [0.2, 1.1, -0.04]], [[0.002, 1.701, 0.031], [0, 0, 0]],
                [[0.003, 1.702, 0.032], [0.202, 1.102, -0.042]]]  # fmt: skip
    torch.testing.assert_close(motion.joints[:, 0], torch.tensor(expected))


def test_trc_with_z_up_is_turned_upright(written):
    motion = read_trc(written(TRC, "walk.trc"), up="z", unit="m")
    torch.testing.assert_close(motion.joints[0, 0, 0], torch.tensor([1.0, 30.0, -1700.0]))


@pytest.mark.errors
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (("PathFileType", "Path"), "expected a TRC file"),
        (("\t3\t2\tmm", "\t4\t2\tmm"), "NumFrames says '4'"),
        (("\t3\t2\tmm", "\t3\t5\tmm"), "2 marker names, NumMarkers says '5'"),
        (("\tmm\t", "\tparsec\t"), "unit 'parsec'"),
        (("1701", "17o1"), "line 8: '17o1' is not a number"),
        (("3\t0.02\t3\t1702", "3\t0.02\t3"), "line 9: expected 8 numbers, got 7"),
    ],
)
def test_broken_trc(written, change, cause):
    with pytest.raises(DataError, match=r"walk.trc") as caught:
        read_trc(written(TRC.replace(*change), "walk.trc"))
    assert cause in str(caught.value)


# ------------------------------------------------------------------------------------------------ C3D


@pytest.fixture
def c3d(tmp_path):
    ezc3d = pytest.importorskip("ezc3d")
    made = ezc3d.c3d()
    made["parameters"]["POINT"]["RATE"]["value"] = [50]
    made["parameters"]["POINT"]["LABELS"]["value"] = ("LASI", "RASI", "C7")
    made["parameters"]["POINT"]["UNITS"]["value"] = ["mm"]
    points = np.ones((4, 3, 5))
    points[:3] = np.random.default_rng(0).uniform(-900, 900, (3, 3, 5))
    points[:3, 1, 2] = np.nan
    made["data"]["points"] = points
    path = tmp_path / "gait.c3d"
    made.write(str(path))
    return path, points


@needs_c3d
def test_c3d(c3d):
    path, points = c3d
    motion = read_c3d(path)
    assert motion.layout.joints == ("lasi", "rasi", "c7")
    assert motion.rate == 50.0
    assert (~motion.valid).nonzero().tolist() == [[2, 0, 1]]
    x, y, z = np.nan_to_num(points[:3].transpose(0, 2, 1)) / 1000
    np.testing.assert_allclose(motion.joints[:, 0].numpy(), np.stack([x, z, -y], -1), atol=1e-6)
    upright = read_c3d(path, up="y", unit="m").joints[:, 0].numpy() / 1000
    np.testing.assert_allclose(upright, np.stack([x, y, z], -1), atol=1e-6)


@needs_c3d
def test_a_point_with_a_negative_residual_is_missing(c3d):
    ezc3d = pytest.importorskip("ezc3d")
    path, _ = c3d
    made = ezc3d.c3d(str(path))
    made["data"]["meta_points"]["residuals"][0, 2, 3:] = -1
    made.write(str(path))
    assert (~read_c3d(path).valid).nonzero().tolist() == [[2, 0, 1], [3, 0, 2], [4, 0, 2]]


@needs_c3d
@pytest.mark.errors
def test_a_c3d_file_that_brings_its_parser_down_is_a_data_error(c3d):
    path, _ = c3d
    whole = path.read_bytes()
    random = np.random.default_rng(7)
    seen = set()
    for _ in range(8):
        damaged = bytearray(whole)
        for at in random.integers(2, 1600, 20):
            damaged[at] = random.integers(256)
        path.write_bytes(damaged)
        try:
            read_c3d(path)
        except DataError as error:
            seen.add(str(error).split(":")[0])
    assert seen == {str(path)}


@pytest.mark.errors
def test_what_is_no_c3d_file_is_told_without_its_parser(written):
    if importlib.util.find_spec("ezc3d") is None:
        with pytest.raises(ConfigError, match=r"jeanie\[c3d\]"):
            read_c3d(written(b"\x02\x50", "a.c3d"))
    else:
        with pytest.raises(DataError, match="not a C3D file"):
            read_c3d(written(b"\x02\x51" + bytes(2000), "a.c3d"))


# ------------------------------------------------------------------------------------------------ CSV


def test_csv_one_person(written):
    text = "time,head_x,head_y,head_z,note,left_hand_x,left_hand_y,left_hand_z\n"
    text += '0.0,1,2,3,hello,4,5,6\n0.04,1.5,2,3,"a, b",,,\n0.08,2,2,3,,4,5,6.5\n'
    motion = read_csv(written(text, "a.csv"))
    assert motion.layout.joints == ("head", "left_hand")
    assert motion.rate == 25.0
    assert motion.valid[:, 0].tolist() == [[True, True], [True, False], [True, True]]
    torch.testing.assert_close(motion.joints[:, 0, 0, 0], torch.tensor([1.0, 1.5, 2.0]))
    torch.testing.assert_close(motion.joints[2, 0, 1], torch.tensor([4.0, 5.0, 6.5]))


def test_csv_several_persons_and_frames_left_out(written):
    text = "frame;person;Head.X;Head.Y;Head.Z\n5;7;1,5;1;1\n5;3;2;2;2\n8;7;3;3;3\n"
    motion = read_csv(written(text, "a.csv"), unit="cm")
    assert motion.joints.shape == (4, 2, 1, 3)
    assert motion.valid[..., 0].tolist() == [[True, True], [False, False], [False, False], [False, True]]
    torch.testing.assert_close(motion.joints[0, :, 0, 0], torch.tensor([0.02, 0.015]))


def test_csv_persons_without_frames_take_turns(written):
    text = "person\thead_x\thead_y\thead_z\n" + "".join(
        f"{p}\t{f}\t{p}\t1\n" for f in range(3) for p in (1, 2)
    )
    motion = read_csv(written(text, "a.csv"))
    assert motion.joints.shape == (3, 2, 1, 3)
    assert motion.joints[:, 1, 0, :2].tolist() == [[0, 2], [1, 2], [2, 2]]


def test_csv_with_the_joints_of_a_known_layout_gives_that_layout(written):
    layout = LAYOUTS["core15"]
    names = sorted(layout.joints)
    header = ",".join(f"{name}_{axis}" for name in names for axis in "xyz")
    row = ",".join(str(layout.index(name) + 1) for name in names for _ in "xyz")
    motion = read_csv(written(f"{header}\n{row}\n", "a.csv"))
    assert motion.layout is layout
    assert motion.joints[0, 0, :, 0].tolist() == list(range(1, 16))


@pytest.mark.errors
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "expected columns such as head_x"),
        ("a,b\n1,2\n", "expected columns such as head_x"),
        ("h_x,h_y,h_z\n1,2\n", "3 cells"),
        ("h_x,h_y,h_z\n1,2,x\n", "could not convert"),
        ("h_x,h_y,h_z\n", "no frames"),
        ("frame,h_x,h_y,h_z\n1.5,1,2,3\n2,1,2,3\n", "whole numbers"),
        ("frame,h_x,h_y,h_z\n1,1,2,3\n1e15,1,2,3\n", "wide gaps"),
        ("frame,h_x,h_y,h_z\n1,1,2,3\n1,1,2,3\n", "same frame and person"),
        ("frame,h_x,h_y,h_z\n,1,2,3\n", "row 1 has no frame"),
        ("h_x,h_y,h_z\n,,\n0,0,0\n", "no valid joint"),
    ],
)
def test_broken_csv(written, text, cause):
    with pytest.raises(DataError, match=r"a.csv") as caught:
        read_csv(written(text, "a.csv"))
    assert cause in str(caught.value)


# ------------------------------------------------------------------------------------------------ npz

TAGS = st.none() | st.integers(-5, 2**40) | st.text(max_size=8)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), frames=st.integers(1, 4), persons=st.integers(1, 3),
    label=TAGS, subject=TAGS, view=TAGS, take=st.none() | st.integers(-9, 9), name=st.none() | st.text(),
)  # fmt: skip
def test_npz_round_trip_is_exact_to_the_bit(
    tmp_path_factory, seed, frames, persons, label, subject, view, take, name
):
    random = np.random.default_rng(seed)
    joints = random.normal(size=(frames, persons, 15, 3)).astype(np.float32)
    joints[random.random(joints.shape[:3]) < 0.2] = np.nan
    joints[0, 0, 0] = (1e-40, -0.0, 3e38)  # denormal, negative zero and huge survive
    tags = {"label": label, "subject": subject, "view": view, "rate": 29.97, "take": take, "name": name}
    motion = Motion(joints, LAYOUTS["core15"], **tags)
    path = tmp_path_factory.mktemp("npz") / "m.npz"
    write_npz(motion, path)
    again = read_npz(path)
    assert again.joints.numpy().tobytes() == motion.joints.numpy().tobytes()
    assert torch.equal(again.valid, motion.valid)
    assert again.layout == motion.layout
    for key in ("label", "subject", "view", "rate", "take", "setup", "name"):
        assert getattr(again, key) == getattr(motion, key), key
    assert [file.name for file in path.parent.iterdir()] == ["m.npz"]


def test_npz_of_others_needs_a_layout(tmp_path):
    path = tmp_path / "theirs.npz"
    np.savez(path, joints=np.ones((4, 15, 3)))
    assert read_npz(path, layout=LAYOUTS["core15"]).joints.shape == (4, 1, 15, 3)
    with pytest.raises(DataError, match="give layout="):
        read_npz(path)


@pytest.mark.errors
def test_npz_never_unpickles(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, joints=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match=r"evil.npz.*expected numbers"):
        read_npz(path, layout=LAYOUTS["core15"])


@pytest.mark.errors
def test_npz_does_not_believe_a_header_that_promises_too_much(tmp_path):
    path = tmp_path / "bomb.npz"
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (900000000, 15, 3), }"
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("joints.npy", header + bytes(12))
    with pytest.raises(DataError, match=r"bomb.npz.*12 bytes for shape"):
        read_npz(path, layout=LAYOUTS["core15"])


@pytest.mark.errors
@pytest.mark.parametrize("about", ["[]", "{", json.dumps({"format": "jeanie-motion", "version": 99})])
def test_npz_with_a_foreign_description(tmp_path, about):
    path = tmp_path / "a.npz"
    np.savez(path, joints=np.ones((1, 1, 15, 3), np.float32), about=np.str_(about))
    with pytest.raises(DataError, match=r"a.npz"):
        read_npz(path)
