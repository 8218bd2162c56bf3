"""Body proportions: a scalar oracle, invariances, missing bones, and bodies of different persons."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.recogniser.proportions import compare_proportions, measure_proportions
from jeanie.skeleton import LAYOUTS, Motion

CORE = LAYOUTS["core15"]
TYPICAL = 0.08


@pytest.fixture(scope="module")
def clips():
    """Two movements of each of three bodies, without noise."""
    return open_synthetic(
        subjects=3, takes=1, cameras=1, actions=["squat", "wave"], noise=0, missing=0
    ).motions


def walk_scalars(first, second):
    """The mean absolute log ratio after the mean ratio has been removed, one bone after the other."""
    ratios = [a - b for a, b in zip(first, second, strict=True) if math.isfinite(a - b)]
    if len(ratios) < 4:
        return TYPICAL
    mean = sum(ratios) / len(ratios)
    return min(0.5, sum(abs(ratio - mean) for ratio in ratios) / len(ratios))


lengths = st.one_of(st.just(math.nan), st.floats(-3, 1))
bodies = st.lists(lengths, min_size=14, max_size=14)


@given(bodies, bodies)
def test_the_difference_is_the_mean_of_the_log_ratios(first, second):
    found = compare_proportions(*(torch.tensor(body, dtype=torch.float64) for body in (first, second)))
    assert float(found) == pytest.approx(walk_scalars(first, second), abs=1e-9)


@given(bodies, bodies, st.floats(-2, 2))
def test_the_order_and_the_size_of_the_bodies_do_not_matter(first, second, size):
    one, other = (torch.tensor(body, dtype=torch.float64) for body in (first, second))
    assert_close(compare_proportions(one, other), compare_proportions(other, one))
    assert_close(compare_proportions(one + size, other), compare_proportions(one, other), atol=1e-9, rtol=0)
    enough = int(one.isfinite().sum()) >= 4
    assert float(compare_proportions(one, one)) == (0 if enough else TYPICAL)


def test_lengths_are_those_of_the_bones():
    joints = torch.zeros(3, 1, 15, 3)
    for joint in range(15):
        joints[:, 0, joint] = torch.tensor([0.1 * joint, 0.3 * joint**2, 1.0])
    joints[1] *= 100  # one bad frame of three
    found = measure_proportions(Motion(joints, CORE, rate=30.0))
    for (parent, child), length in zip(CORE.bones, found.tolist(), strict=True):
        expected = math.hypot(0.1 * (child - parent), 0.3 * (child**2 - parent**2))
        assert length == pytest.approx(math.log(expected), abs=1e-5)


def test_place_direction_unit_and_movement_do_not_matter(clips):
    squat, wave = (
        clips[0],
        next(clip for clip in clips if clip.label == "wave" and clip.subject == clips[0].subject),
    )
    turned = squat.joints @ torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    moved = squat.replace(joints=1000 * turned + torch.tensor([5.0, -3.0, 2.0]))
    body = measure_proportions(squat)
    assert float(compare_proportions(measure_proportions(moved), body)) < 1e-4
    same = float(compare_proportions(measure_proportions(wave), body))
    others = [
        float(compare_proportions(measure_proportions(clip), body))
        for clip in clips
        if clip.subject != squat.subject
    ]
    assert len(others) == 4
    assert same < min(others)


def test_a_bone_that_is_never_visible_is_unknown_and_two_persons_are_averaged(clips):
    squat = clips[0]
    valid = squat.valid.clone()
    valid[:, :, squat.layout.index("left_hand" if "left_hand" in squat.layout.joints else "left_wrist")] = (
        False
    )
    partly = measure_proportions(squat.replace(valid=valid))
    whole = measure_proportions(squat)
    assert partly.isfinite().sum() < whole.isfinite().sum() == 14
    known = partly.isfinite()
    assert_close(partly[known], whole[known])
    other = clips[-1]
    frames = min(len(squat), len(other))
    pair = Motion(torch.cat([squat.joints[:frames], other.joints[:frames]], 1), squat.layout, rate=30.0)
    mean = (measure_proportions(squat[:frames]) + measure_proportions(other[:frames])) / 2
    assert_close(measure_proportions(pair), mean)
