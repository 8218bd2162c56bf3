"""Conversion between layouts: by name, derived, missing, and exact where it is only an order."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jeanie.errors import ConfigError
from jeanie.skeleton.convert import convert, map_joints
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

CORE = LAYOUTS["core15"]
names = st.sampled_from(sorted(LAYOUTS))
seeds = st.integers(0, 2**32 - 1)


def motion_of(layout: Layout, seed: int, missing: float = 0.0) -> Motion:
    random = np.random.default_rng(seed)
    joints = random.normal(size=(4, 2, len(layout), 3)).astype(np.float32)
    joints[random.random(joints.shape[:-1]) < missing] = np.nan
    joints[0, 0, 0] = 1.0  # at least one joint is there
    return Motion(joints, layout, name="made", label="wave")


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_layout_converts_to_the_core(name):
    assert map_joints(LAYOUTS[name], CORE).missing == ()
    converted = convert(motion_of(LAYOUTS[name], seed=3), CORE)
    assert converted.valid.all()
    assert converted.layout.joints == CORE.joints
    assert (converted.name, converted.label) == ("made", "wave")


def test_derived_joints_equal_values_computed_by_hand():
    motion = motion_of(LAYOUTS["coco17"], seed=5)
    core = convert(motion, CORE).joints[0, 0]
    at = {joint: motion.joints[0, 0, index] for index, joint in enumerate(motion.layout.joints)}
    neck = (at["left_shoulder"] + at["right_shoulder"]) / 2
    hips = (at["left_hip"] + at["right_hip"]) / 2
    expected = {"head": at["nose"], "neck": neck, "torso": (neck + hips) / 2, "left_hand": at["left_wrist"],
                "right_foot": at["right_ankle"], "left_knee": at["left_knee"]}  # fmt: skip
    for joint, position in expected.items():
        torch.testing.assert_close(core[CORE.index(joint)], position)


def test_the_report_says_what_was_derived_and_what_is_missing():
    plan = map_joints(CORE, LAYOUTS["coco17"])
    assert plan.derived == ("nose", "left_wrist", "right_wrist", "left_ankle", "right_ankle")
    assert plan.missing == ("left_eye", "right_eye", "left_ear", "right_ear")
    report = str(plan)
    assert "core15 -> coco17: 8 of 17 joints by name" in report
    assert "left_wrist = left_hand" in report
    assert "missing: left_eye, right_eye, left_ear, right_ear" in report
    assert "neck = 0.5 left_shoulder + 0.5 right_shoulder" in str(map_joints(LAYOUTS["coco17"], CORE))


@given(source=names, target=names)
def test_weights_are_means_of_joints_that_exist(source, target):
    plan = map_joints(LAYOUTS[source], LAYOUTS[target])
    for joint, row in zip(plan.target.joints, plan.weights, strict=True):
        assert row.sum() == (0 if joint in plan.missing else 1)
        assert (row >= 0).all()
        if joint in plan.source.joints:
            assert row[plan.source.index(joint)] == 1
            assert joint not in plan.derived + plan.missing


@settings(max_examples=40)
@given(source=names, target=names, seed=seeds)
def test_conversion_equals_a_loop_over_scalars(source, target, seed):
    motion = motion_of(LAYOUTS[source], seed, missing=0.3)
    plan = map_joints(motion.layout, LAYOUTS[target])
    joints, valid = plan.apply(motion.joints, motion.valid)
    for index, row in enumerate(plan.weights.tolist()):
        parts = [(weight, part) for part, weight in enumerate(row) if weight > 0]
        for frame in range(len(motion)):
            there = bool(parts) and all(motion.valid[frame, 1, part] for _, part in parts)
            assert bool(valid[frame, 1, index]) == there
            expected = [
                sum(w * float(motion.joints[frame, 1, part, axis]) for w, part in parts) for axis in range(3)
            ]
            torch.testing.assert_close(
                joints[frame, 1, index], torch.tensor(expected if there else [0.0] * 3), rtol=1e-6, atol=1e-6
            )


@given(seed=seeds, path=st.permutations(["openni15", "sbu15", "core15"]))
def test_layouts_that_differ_in_order_only_round_trip_to_the_last_bit(seed, path):
    start = motion_of(LAYOUTS[path[0]], seed, missing=0.2)
    back = convert(convert(convert(start, LAYOUTS[path[1]]), LAYOUTS[path[2]]), LAYOUTS[path[0]])
    assert torch.equal(back.joints, start.joints)
    assert torch.equal(back.valid, start.valid)


@given(name=names, seed=seeds)
def test_joints_in_both_layouts_survive_a_round_trip(name, seed):
    start = motion_of(LAYOUTS[name], seed)
    back = convert(convert(start, CORE), LAYOUTS[name])
    shared = [start.layout.index(joint) for joint in start.layout.joints if joint in CORE.joints]
    assert torch.equal(back.joints[:, :, shared], start.joints[:, :, shared])


@given(source=names, target=names, seed=seeds)
def test_converting_and_mirroring_commute(source, target, seed):
    motion = motion_of(LAYOUTS[source], seed, missing=0.1)
    _, valid = map_joints(LAYOUTS[source], LAYOUTS[target]).apply(motion.joints, motion.valid)
    assume(valid.any())
    converted_first = convert(motion, LAYOUTS[target]).mirror()
    mirrored_first = convert(motion.mirror(), LAYOUTS[target])
    torch.testing.assert_close(converted_first.joints, mirrored_first.joints)
    assert torch.equal(converted_first.valid, mirrored_first.valid)


def test_pixels_stay_pixels_in_the_core():
    flat = convert(motion_of(LAYOUTS["openpose18"], seed=1), CORE)
    assert (flat.layout.name, flat.layout.unit, flat.layout.dims) == ("core15", "px", 2)
    assert convert(motion_of(LAYOUTS["ntu25"], seed=1), CORE).layout == CORE


@pytest.mark.errors
def test_layouts_without_a_common_joint_are_refused():
    tail = Layout("tail", ("tail_base", "tail_tip"), ((0, 1),), (), 0, 0)
    with pytest.raises(ConfigError, match="'tail' has no joint of layout 'core15'"):
        convert(motion_of(tail, seed=0), CORE)
