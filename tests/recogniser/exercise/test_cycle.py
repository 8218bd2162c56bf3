"""Cycles: alternating movements, their phases, and progress through a movement."""

import numpy as np
import pytest
import torch
from exercises import perform_exercise, plan_swings

from jeanie.recogniser.exercise.cycle import Cycle, extract_cycle


def make_cycle(*sides):
    parts = [perform_exercise(plan_swings([90], 1.0, rest=0.0), noise=0.0, side=side) for side in sides]
    motion = parts[0].replace(joints=torch.cat([part.joints for part in parts]))
    return extract_cycle(motion, 15.0, 1)


def test_a_movement_of_one_side_and_then_the_other_alternates():
    assert make_cycle("left", "right").is_alternating
    assert not make_cycle("left").is_alternating
    assert not make_cycle("both").is_alternating
    assert not make_cycle("both", "both").is_alternating


def test_the_mirror_image_of_a_balanced_cycle_is_the_cycle_half_a_repetition_later():
    balanced = make_cycle("left", "right").balance_sides()
    torch.testing.assert_close(
        balanced.rotate(0.5).mirror().poses, balanced.rotate(0.0).poses, atol=0.02, rtol=0
    )
    assert balanced.rotate(0.25).is_alternating


def test_a_rotated_cycle_is_closed_and_has_the_same_poses():
    cycle = make_cycle("left", "right").balance_sides()
    rotated = cycle.rotate(0.3)
    torch.testing.assert_close(rotated.poses[0], rotated.poses[-1])
    distance = torch.cdist(rotated.poses.flatten(1), cycle.poses.flatten(1))
    assert float(distance.amin(1).max()) < 0.05


def test_rest_adds_little_to_the_progress_of_a_movement():
    swing = perform_exercise(plan_swings([90], 1.0, rest=0.0), noise=0.0).joints[:, 0].double()
    poses = torch.cat([swing, swing[-1:].expand(60, -1, -1)])
    progress = Cycle(poses, 15.0, torch.ones(15), torch.ones(15)).measure_progress()
    assert (np.diff(progress) >= 0).all()
    assert progress[len(swing) // 2] == pytest.approx(0.5, abs=0.02)
    assert progress[len(swing)] == pytest.approx(1.0)


def test_posture_and_what_both_sides_do_cancel_out_in_the_difference_of_the_sides():
    cycle = make_cycle("left", "right")
    lean = torch.tensor([0.0, 0.1, 0.2])
    leaning = Cycle(cycle.poses + lean, cycle.rate, cycle.weights, cycle.variances)
    sides = cycle.separate_sides()
    torch.testing.assert_close(leaning.separate_sides().poses, sides.poses)
    torch.testing.assert_close(sides.mirror().poses, -sides.poses)
    assert sides.is_alternating
    assert not make_cycle("both").separate_sides().is_alternating
