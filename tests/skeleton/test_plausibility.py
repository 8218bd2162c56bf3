"""Implausible recordings are named with what to declare; plausible ones, also real ones, pass."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from corpus import BODY, stack

from jeanie.datasets import open_dataset
from jeanie.datasets.joint_names import make_named_layout
from jeanie.skeleton import LAYOUTS, Layout, Motion
from jeanie.skeleton.plausibility import assume_unit, list_warnings, measure_body

DATA = os.environ.get("JEANIE_DATA")
NTU = LAYOUTS["ntu25"]


def make_motion(change=lambda joints: joints, layout=NTU, frames=60):
    joints = np.concatenate([stack(layout.joints)] * (frames // 6))
    joints = joints + 0.002 * np.sin(np.arange(len(joints)))[:, None, None]
    return Motion(change(joints), layout, rate=30.0)


def warnings_of(change=lambda joints: joints, **options):
    return list_warnings(make_motion(change, **options))


def test_a_plausible_body_gives_no_warning():
    assert warnings_of() == ()
    facts = measure_body(make_motion())
    assert facts.height == pytest.approx(1.7, abs=0.25)
    assert (facts.up, facts.matched, facts.frozen, facts.jumps) == ("y", 15, 0, ())
    assert facts.facing > 0.8


@pytest.mark.parametrize(("factor", "unit"), [(100, "cm"), (1000, "mm"), (1 / 0.0254, "in")])
def test_a_body_in_another_unit_says_which(factor, unit):
    (warning,) = warnings_of(lambda joints: joints * factor)
    assert f"unit='{unit}' (--unit {unit})" in warning


def test_a_body_of_a_decimetre_is_too_small():
    (warning,) = warnings_of(lambda joints: joints / 10)
    assert "the body is 0.1" in warning
    assert "declare the unit" in warning


def test_a_body_of_two_feet_is_too_small_if_its_unit_is_assumed():
    motion = make_motion(lambda joints: joints / 2.54)
    assert list_warnings(motion) == ()
    assume_unit(motion)
    (warning,) = list_warnings(motion)
    assert "m tall in the unit that was assumed; declare the unit" in warning


def test_pixels_have_no_height():
    layout = LAYOUTS["coco17"]
    assert warnings_of(lambda joints: joints * [500, 500, 0], layout=layout) == ()


@pytest.mark.parametrize(
    ("axes", "signs", "up"),
    [((0, 2, 1), (1, -1, 1), "z"), ((1, 0, 2), (1, -1, 1), "x"), ((0, 1, 2), (-1, -1, 1), "-y"),
     ((0, 2, 1), (1, 1, -1), "-z")],
)  # fmt: skip
def test_a_body_along_another_axis_says_which(axes, signs, up):
    found = warnings_of(lambda joints: joints[..., list(axes)] * signs)
    assert any(f"up='{up}' (--up {up})" in warning for warning in found), found


def test_swapped_sides_are_found():
    (warning,) = warnings_of(lambda joints: joints * [-1, 1, 1])
    assert "left and right seem to be swapped" in warning
    assert "--mirror" in warning


def test_a_wrong_order_of_joints_is_found():
    joints = np.concatenate([stack(LAYOUTS["smpl22"].joints)] * 2)
    found = list_warnings(Motion(joints, LAYOUTS["cmu22"], rate=30.0))
    assert any("fit the layout smpl22 much better than cmu22" in warning for warning in found), found


def test_uneven_sides_are_found():
    def swap(joints):
        order = list(range(joints.shape[1]))
        for a, b in (("left_elbow", "left_knee"), ("left_hip", "left_foot")):
            order[NTU.index(a)], order[NTU.index(b)] = NTU.index(b), NTU.index(a)
        return joints[:, order]

    found = warnings_of(swap)
    assert any("left and right differ in the lengths of upper arm" in warning for warning in found), found


@pytest.mark.parametrize(
    ("true", "declared"),
    [(a, b) for a in LAYOUTS for b in LAYOUTS
     if len(LAYOUTS[a]) == len(LAYOUTS[b]) and LAYOUTS[a].joints != LAYOUTS[b].joints and LAYOUTS[b].dims == 3],
)  # fmt: skip
def test_joints_in_the_order_of_another_layout_are_found(true, declared):
    joints = np.concatenate([stack(LAYOUTS[true].joints)] * 2)
    found = list_warnings(Motion(joints, LAYOUTS[declared], rate=30.0))
    names = [name for name in LAYOUTS if LAYOUTS[name].joints == LAYOUTS[true].joints]
    assert any(f"fit the layout {name} much better than {declared}" in warning for warning in found
               for name in names), found  # fmt: skip


def test_a_body_without_depth_is_found():
    (warning,) = warnings_of(lambda joints: joints * [1, 1, 0])
    assert "its joints have the same z" in warning
    assert "jeanie lift apply" in warning


def test_few_known_joints_are_named():
    layout = Layout("few", ("head", "left_hand", "kopf"), (), (), 0, 0)
    joints = np.concatenate([stack(["head", "left_hand", "head"])] * 5)
    (warning,) = list_warnings(Motion(joints, layout))
    assert warning.startswith("only 2 of the 15 core joints are known (missing: neck, ")
    assert "jeanie layout FILE" in warning


def test_frozen_and_jumping_frames_are_found():
    def freeze(joints):
        joints[10:] = joints[10]
        return joints

    def jump(joints):
        joints[30:] += [9.0, 0, 0]
        return joints

    (frozen,) = warnings_of(freeze)
    assert frozen.startswith("49 of 60 frames repeat the frame before")
    (jumping,) = warnings_of(jump)
    assert jumping.startswith("the body jumps by 8.98 m at frame 30;")


def test_the_person_who_is_seen_most_is_measured():
    motion = make_motion()
    nobody = torch.full_like(motion.joints, torch.nan)
    nobody[0] = 1000.0
    pair = Motion(torch.cat([nobody, motion.joints], 1), NTU)
    assert list_warnings(pair) == ()


@pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")
@pytest.mark.parametrize("name", ["msraction3d", "nw-ucla", "sbu", "cmu"])
def test_real_recordings_pass(name):
    dataset = open_dataset(name)
    step = max(1, len(dataset) // 25)
    found = {
        dataset.names[at]: list_warnings(dataset[at])
        for at in range(0, len(dataset), step)
        if name_is_readable(dataset, at)
    }
    assert {clip: warnings for clip, warnings in found.items() if warnings} == {}


def name_is_readable(dataset, at):
    return dataset.names[at] != "a13_s09_e02"  # all zeros


@pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")
def test_real_ntu_recordings_pass():
    dataset = open_dataset("ntu60", Path(DATA) / "ntu-samples")
    assert [list_warnings(dataset[at]) for at in range(len(dataset))] == [()] * len(dataset)


def test_all_joints_of_the_body_are_used():
    assert set(NTU.joints) <= BODY.keys()


def test_points_without_names_show_a_wrong_unit():
    layout = make_named_layout("csv", [f"point_{number}" for number in range(8)])
    joints = torch.rand(5, 1, 8, 3, generator=torch.Generator().manual_seed(0)) * 1.5
    assert [text for text in list_warnings(Motion(joints, layout)) if "unit" in text] == []
    assert any("unit='cm'" in text for text in list_warnings(Motion(100 * joints, layout)))
