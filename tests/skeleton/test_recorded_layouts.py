"""Layout tables against real recordings: bones have human lengths, heads are up, feet point forwards."""

import json
import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from jeanie.skeleton.convert import convert
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

DATA = Path(os.environ.get("JEANIE_DATA") or "/nonexistent")
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="JEANIE_DATA does not name a folder of recordings")


def msr():
    paths = sorted((DATA / "msraction3d" / "real3d_txt").glob("*.txt"))[::60]
    return [np.loadtxt(path)[:, :3].reshape(-1, 20, 3) for path in paths]


def kinect():
    paths = sorted((DATA / "nw-ucla" / "all_sqe").glob("*.json"))[::150]
    return [np.array(json.loads(path.read_text())["skeletons"]) for path in paths]


def sbu():
    clips = []
    for path in sorted((DATA / "sbu").glob("*/*/*/skeleton_pos.txt"))[::40]:
        raw = np.loadtxt(path, delimiter=",")[:, 1:].reshape(-1, 2, 15, 3)
        metres = (
            np.stack([1280 - 2560 * raw[..., 0], 960 - 1920 * raw[..., 1], raw[..., 2] * 1280], -1) / 1000
        )
        clips += [metres[:, 0], metres[:, 1]]
    return clips


def ntu():
    clips = []
    for path in sorted((DATA / "ntu-samples").glob("*.skeleton"))[:4]:
        lines = iter(path.read_text().splitlines())
        frames = []
        for _ in range(int(next(lines))):
            for body in range(int(next(lines))):
                next(lines)
                rows = [[float(value) for value in next(lines).split()[:3]] for _ in range(int(next(lines)))]
                frames += [rows] if body == 0 else []
        clips.append(np.array(frames))
    return clips


def cmu():
    with np.load(DATA / "cmu" / "cmu_30fps_mm.npz") as archive:
        return [
            np.cumsum(archive[name], 0, dtype=np.int32) / 1000
            for name in ("01_01", "02_01", "13_11", "49_06")
        ]


RECORDED = {"msr20": msr, "kinect20": kinect, "sbu15": sbu, "ntu25": ntu, "cmu22": cmu}


@cache
def motions_of(name):
    return [Motion(clip, LAYOUTS[name], name=name) for clip in RECORDED[name]()]


@pytest.fixture(params=sorted(RECORDED))
def recording(request):
    return LAYOUTS[request.param], motions_of(request.param)


def lengths(layout, motions):
    """Median length of every bone in metres, over all frames where both its ends are there."""
    return {
        (parent, child): float(np.median(np.concatenate([span(motion, parent, child) for motion in motions])))
        for parent, child in layout.bones
    }


def span(motion, parent, child):
    there = (motion.valid[:, 0, parent] & motion.valid[:, 0, child]).numpy()
    joints = motion.joints[:, 0].numpy()[there]
    return np.linalg.norm(joints[:, child] - joints[:, parent], axis=-1)


def test_bones_have_human_lengths_equal_on_both_sides(recording):
    layout, motions = recording
    spans = lengths(layout, motions)
    for (parent, child), span in spans.items():
        name = f"{layout.joints[parent]} to {layout.joints[child]}"
        assert 0.02 < span < 0.65, name
        other = spans[layout.mirror_indices[parent], layout.mirror_indices[child]]
        assert abs(span - other) < 0.06, name
    shin = next(spans[bone] for bone in spans if layout.joints[bone[0]] == "left_knee")
    hand = next((spans[bone] for bone in spans if layout.joints[bone[0]] == "left_wrist"), 0.0)
    assert shin > 0.25 > 0.15 > hand


def test_heads_are_above_feet(recording):
    layout, motions = recording
    for motion in motions:
        heights = motion.joints[:, 0, :, 1].numpy()[motion.valid[:, 0].all(-1).numpy()]
        above = heights[:, layout.index("head")] - heights[:, layout.index("left_foot")]
        assert np.median(above) > 0.7


@pytest.mark.parametrize("name", sorted(RECORDED.keys() - {"sbu15"}))
def test_feet_point_where_left_and_right_say_that_the_body_looks(name):
    """Right-handed space with the names on the right sides: up x (right - left) points from ankle to toes."""
    at = LAYOUTS[name].index
    agree = []
    for motion in motions_of(name):
        joints = motion.joints[:, 0].numpy()[motion.valid[:, 0].all(-1).numpy()]
        front = np.cross([0.0, 1.0, 0.0], joints[:, at("right_hip")] - joints[:, at("left_hip")])
        toes = sum(
            joints[:, at(f"{side}_foot")] - joints[:, at(f"{side}_ankle")] for side in ("left", "right")
        )
        agree.append(np.mean((front * toes).sum(-1) > 0))
    assert np.mean(agree) > 0.75


def test_two_persons_of_sbu_look_at_each_other():
    """SBU has no ankles; its persons face each other, which tells its left from its right as well."""
    agree = []
    clips = sbu()
    for one, other in zip(clips[::2], clips[1::2], strict=True):
        front = np.cross([0.0, 1.0, 0.0], one[:, 6] - one[:, 3])
        agree.append(np.mean((front * (other[:, 2] - one[:, 2])).sum(-1) > 0))
    assert np.mean(agree) > 0.75


def test_recordings_reach_the_core_with_every_joint(recording):
    _, motions = recording
    for motion in motions:
        core = convert(motion, LAYOUTS["core15"])
        whole = motion.valid.all(-1)
        assert core.valid[whole].all()
        assert core.layout == LAYOUTS["core15"]


NAMES = {
    "Hips": "hip_center", "HipJoint": "hip_joint", "UpLeg": "hip", "Leg": "knee", "Foot": "ankle",
    "ToeBase": "foot", "LowerBack": "lower_back", "Spine": "spine", "Spine1": "chest", "Neck": "neck_base",
    "Neck1": "neck", "Head": "head", "Shoulder": "clavicle", "Arm": "shoulder", "ForeArm": "elbow",
    "Hand": "wrist", "FingerBase": "finger_base", "HandIndex1": "hand", "Thumb": "thumb",
}  # fmt: skip


def rename_joint(name):
    """Our name of a joint of CMU's BVH files: a joint lies where its bone starts."""
    match = re.fullmatch(r"(Left|Right|L|R)(?=[A-Z])(.*)", name)
    if name in NAMES or not match:
        return NAMES[name]
    return f"{'left' if match[1].startswith('L') else 'right'}_{NAMES[match[2]]}"


def test_cmu22_is_the_skeleton_of_the_archive():
    described = json.loads((DATA / "cmu" / "cmu_30fps.json").read_text())
    assert tuple(rename_joint(joint) for joint in described["joints"]) == LAYOUTS["cmu22"].joints
    assert tuple(described["parents"]) == LAYOUTS["cmu22"].parents


@pytest.mark.parametrize("clip", ["02_03", "139_26"])
def test_cmu31_is_the_hierarchy_of_the_bvh_files(clip):
    joints, parents, stack = [], [], []
    last = -1
    for line in (DATA / "bvh" / f"{clip}.bvh").read_text().split("MOTION")[0].splitlines():
        words = line.split()
        if words[0] in ("ROOT", "JOINT"):
            parents.append(stack[-1] if stack else -1)
            joints.append(rename_joint(words[1]))
            last = len(joints) - 1
        elif words[0] == "{":
            stack.append(last)
        elif words[0] == "}":
            stack.pop()
    assert tuple(joints) == LAYOUTS["cmu31"].joints
    assert tuple(parents) == LAYOUTS["cmu31"].parents
