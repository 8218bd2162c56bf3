"""Layouts: the tables against the published joint orders, and custom layouts from files."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import LAYOUTS, Layout

NAMES = {
    *("ntu25", "kinect20", "msr20", "openni15", "coco17", "openpose18", "openpose25", "h36m17"),
    *(
        "mediapipe33",
        "azure32",
        "cmu31",
        "cmu22",
        "sbu15",
        "core15",
        "halpe26",
        "vitpose25",
        "smpl22",
        "smpl24",
        "zed34",
        "zed38",
    ),
}

# (joint, index) as the data sets and trackers publish them
PUBLISHED = {
    "ntu25": """hip_center=0 spine=1 neck=2 head=3 left_shoulder=4 left_hand=7 right_shoulder=8 right_hand=11
        left_hip=12 left_foot=15 right_hip=16 right_foot=19 spine_shoulder=20 left_hand_tip=21
        left_thumb=22 right_hand_tip=23 right_thumb=24""",
    "kinect20": """hip_center=0 spine=1 spine_shoulder=2 head=3 left_shoulder=4 left_elbow=5 left_wrist=6
        left_hand=7 right_shoulder=8 right_hand=11 left_hip=12 left_ankle=14 left_foot=15 right_hip=16
        right_foot=19""",
    "msr20": """left_shoulder=0 right_shoulder=1 neck=2 spine=3 left_hip=4 right_hip=5 hip_center=6
        left_elbow=7
        right_elbow=8 left_wrist=9 right_wrist=10 left_hand=11 right_hand=12 left_knee=13 right_knee=14
        left_ankle=15 right_ankle=16 left_foot=17 right_foot=18 head=19""",
    "openni15": """head=0 neck=1 left_shoulder=2 left_hand=4 right_shoulder=5 right_hand=7 torso=8 left_hip=9
        left_foot=11 right_hip=12 right_foot=14""",
    "coco17": """nose=0 left_eye=1 right_eye=2 left_ear=3 right_ear=4 left_shoulder=5 right_shoulder=6
        left_elbow=7 right_elbow=8 left_wrist=9 right_wrist=10 left_hip=11 right_hip=12 left_knee=13
        right_knee=14 left_ankle=15 right_ankle=16""",
    "openpose18": """nose=0 neck=1 right_shoulder=2 right_wrist=4 left_shoulder=5 left_wrist=7 right_hip=8
        right_ankle=10 left_hip=11 left_ankle=13 right_eye=14 left_eye=15 right_ear=16 left_ear=17""",
    "openpose25": """nose=0 neck=1 right_shoulder=2 left_shoulder=5 hip_center=8 right_hip=9 right_ankle=11
        left_hip=12 left_ankle=14 right_eye=15 left_eye=16 right_ear=17 left_ear=18 left_big_toe=19
        left_small_toe=20 left_heel=21 right_big_toe=22 right_small_toe=23 right_heel=24""",
    "h36m17": """hip_center=0 right_hip=1 right_knee=2 right_ankle=3 left_hip=4 left_ankle=6 spine=7 neck=8
        nose=9 head=10 left_shoulder=11 left_wrist=13 right_shoulder=14 right_wrist=16""",
    "mediapipe33": """nose=0 left_eye_inner=1 left_eye=2 left_eye_outer=3 right_eye_inner=4 right_eye_outer=6
        left_ear=7 right_ear=8 left_mouth=9 right_mouth=10 left_shoulder=11 right_shoulder=12
        left_elbow=13 left_wrist=15 left_pinky=17 left_index=19 left_thumb=21 right_thumb=22 left_hip=23
        right_hip=24 left_knee=25 left_ankle=27 left_heel=29 right_heel=30 left_big_toe=31
        right_big_toe=32""",
    "zed34": """hip_center=0 spine=1 chest=2 neck=3 left_clavicle=4 left_hand=8 left_thumb=10 right_clavicle=11
        right_thumb=17 left_hip=18 left_foot=21 right_hip=22 right_foot=25 head=26 nose=27 left_eye=28 left_ear=29
        right_eye=30 right_ear=31 left_heel=32 right_heel=33""",
    "zed38": """hip_center=0 spine=1 chest=2 spine_shoulder=3 neck=4 nose=5 left_eye=6 right_eye=7 left_ear=8
        right_ear=9 left_clavicle=10 right_clavicle=11 left_shoulder=12 right_shoulder=13 left_elbow=14
        right_elbow=15 left_wrist=16 right_wrist=17 left_hip=18 right_hip=19 left_ankle=22 left_big_toe=24
        left_heel=28 right_heel=29 left_thumb=30 right_thumb=31 left_index=32 left_middle=34 left_pinky=36
        right_pinky=37""",
    "azure32": """hip_center=0 spine=1 chest=2 neck=3 left_clavicle=4 left_shoulder=5 left_elbow=6
        left_wrist=7
        left_hand=8 left_hand_tip=9 left_thumb=10 right_clavicle=11 right_thumb=17 left_hip=18
        left_foot=21 right_hip=22 right_foot=25 head=26 nose=27 left_eye=28 left_ear=29 right_eye=30
        right_ear=31""",
    "sbu15": """head=0 neck=1 torso=2 left_shoulder=3 left_elbow=4 left_hand=5 right_shoulder=6 right_hand=8
        left_hip=9 left_knee=10 left_foot=11 right_hip=12 right_foot=14""",
    "core15": """head=0 neck=1 torso=2 left_shoulder=3 left_elbow=4 left_hand=5 right_shoulder=6 right_elbow=7
        right_hand=8 left_hip=9 left_knee=10 left_foot=11 right_hip=12 right_knee=13 right_foot=14""",
}
# torso joints that the authors of the method centre on
TORSO = {"msr20": 3, "kinect20": 1, "openni15": 8, "ntu25": 1}

MSR_BONES = "6-3 3-2 2-19 2-0 2-1 0-7 1-8 7-9 8-10 9-11 10-12 6-4 6-5 4-13 5-14 13-15 14-16 15-17 16-18"
KINECT_BONES = "0-1 1-2 2-3 2-4 4-5 5-6 6-7 2-8 8-9 9-10 10-11 0-12 12-13 13-14 14-15 0-16 16-17 17-18 18-19"


@pytest.fixture(params=sorted(NAMES))
def layout(request):
    return LAYOUTS[request.param]


def test_the_table_holds_the_usual_layouts():
    assert set(LAYOUTS) == NAMES
    assert all(LAYOUTS[name].name == name and str(len(LAYOUTS[name])) in name for name in NAMES)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_joints_have_their_published_index(name):
    for entry in PUBLISHED[name].split():
        joint, index = entry.split("=")
        assert LAYOUTS[name].joints[int(index)] == joint


@pytest.mark.parametrize(("name", "torso"), TORSO.items())
def test_the_torso_is_the_joint_that_the_authors_centre_on(name, torso):
    assert LAYOUTS[name].torso == torso
    assert LAYOUTS[name].centre == (torso,)


@pytest.mark.parametrize(("name", "bones"), [("msr20", MSR_BONES), ("kinect20", KINECT_BONES)])
def test_bones_are_the_published_ones(name, bones):
    published = {tuple(int(end) for end in bone.split("-")) for bone in bones.split()}
    assert set(LAYOUTS[name].bones) == published


def test_bones_are_one_tree_from_the_root(layout):
    reached, edge = {layout.root}, [layout.root]
    while edge:
        parent = edge.pop()
        below = [child for above, child in layout.bones if above == parent]
        assert not reached & set(below)
        reached |= set(below)
        edge += below
    assert reached == set(range(len(layout)))


def test_bones_and_pairs_are_symmetric_about_the_body(layout):
    """Swapping left and right turns the set of bones into itself: a slip in one arm would show."""
    swapped = {
        (layout.mirror_indices[parent], layout.mirror_indices[child]) for parent, child in layout.bones
    }
    assert swapped == set(layout.bones)
    sided = [joint for joint in layout.joints if joint.startswith(("left_", "right_"))]
    assert len(sided) == 2 * len(layout.pairs)
    for left, right in layout.pairs:
        assert layout.joints[left].replace("left_", "right_", 1) == layout.joints[right]


def test_adjacency_holds_each_bone_twice_and_no_joint_with_itself(layout):
    adjacency = layout.adjacency
    expected = torch.zeros(len(layout), len(layout))
    for parent, child in layout.bones:
        expected[parent, child] = expected[child, parent] = 1
    assert torch.equal(adjacency, expected)
    assert adjacency.diagonal().sum() == 0
    assert layout.parents == tuple(
        next((parent for parent, child in layout.bones if child == joint), -1) for joint in range(len(layout))
    )


def test_a_layout_round_trips_through_plain_values_and_files(layout, tmp_path):
    assert Layout.from_dict(layout.to_dict()) == layout
    path = tmp_path / "layout.json"
    path.write_text(json.dumps(layout.to_dict()))
    assert Layout.from_file(path) == layout
    assert hash(Layout.from_file(path)) == hash(layout)


CUSTOM = """
name = "stick"
joints = ["hip_center", "neck", "left_hand", "right_hand"]
bones = [["hip_center", "neck"], ["neck", "left_hand"], [1, 3]]
root = "hip_center"
torso = 0
unit = "relative"
"""


def test_a_custom_layout_is_read_from_toml(tmp_path):
    path = tmp_path / "stick.toml"
    path.write_text(CUSTOM)
    stick = Layout.from_file(path)
    assert stick == Layout(
        "stick", ("hip_center", "neck", "left_hand", "right_hand"), ((0, 1), (1, 2), (1, 3)), ((2, 3),), 0, 0,
        unit="relative",
    )  # fmt: skip
    assert (stick.up, stick.dims, stick.centre) == ("y", 3, (0,))


BROKEN = {
    "circle": ("[1, 3]]", '[1, 3], ["neck", "hip_center"]]', "cycle"),
    "two parents": ("[1, 3]]", "[1, 3], [0, 3]]", "two parents"),
    "unknown joint": ("[1, 3]]", '[1, "tail"]]', "'tail'"),
    "outside": ("[1, 3]]", "[1, 9]]", "9"),
    "negative": ("torso = 0", "torso = -1", "-1"),
    "bool": ("torso = 0", "torso = true", "True"),
    "twice": ('"left_hand", "right_hand"]\n', '"left_hand", "left_hand", "right_hand"]\n', "more than once"),
    "name": ('"right_hand"]\n', '"right_hand", "Left Hand"]\n', "Left Hand"),
    "no torso": ("torso = 0", "", "torso missing"),
    "no name": ('name = "stick"', "", "name"),
    "unit": ('"relative"', '"feet"', "feet"),
    "up": ('"relative"', '"m"\nup = "x"', "up"),
    "dims": ('"relative"', '"m"\ndims = 4', "dims"),
    "typo": ("torso = 0", "torso = 0\njoint = 3", "unknown joint"),
    "pair": ("torso = 0", "torso = 0\npairs = [[0, 1], [1, 2]]", "two pairs"),
    "bones": ("bones = [[", "bones = [4, [", "4"),
    "centre": ("torso = 0", "torso = 0\ncentre = 3", "centre"),
    "syntax": ("torso = 0", "torso == 0", "cannot be read"),
    "joints": ("joints = [", "joints = [5, ", "5"),
}


@pytest.mark.errors
@pytest.mark.parametrize(("old", "new", "message"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_file_is_named_with_its_fault(old, new, message, tmp_path):
    assert old in CUSTOM
    path = tmp_path / "broken.toml"
    path.write_text(CUSTOM.replace(old, new))
    with pytest.raises(DataError) as caught:
        Layout.from_file(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.errors
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.yaml", "", ".json or .toml"),
        ("x.json", "[1]", "list"),
        ("x.json", "[" * 100_000, "cannot be read"),
    ],
)
def test_other_files_than_layouts_are_refused(name, text, message, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        Layout.from_file(path)
    with pytest.raises(DataError, match="cannot be read"):
        Layout.from_file(tmp_path / "absent.toml")


@pytest.mark.errors
def test_the_error_for_an_unknown_joint_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"no joint 'tail'.*left_hand"):
        LAYOUTS["core15"].index("tail")


SCALARS = st.none() | st.booleans() | st.integers(-3, 40) | st.text(max_size=6) | st.just("neck")
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4), max_leaves=8)


@pytest.mark.errors
@given(key=st.sampled_from(sorted(LAYOUTS["core15"].to_dict())), value=VALUES)
def test_any_value_under_any_key_gives_a_layout_or_a_config_error(key, value):
    row = {**LAYOUTS["core15"].to_dict(), key: value}
    try:
        layout = Layout.from_dict(row)
    except ConfigError:
        layout = None
    assert layout is None or Layout.from_dict(layout.to_dict()) == layout
