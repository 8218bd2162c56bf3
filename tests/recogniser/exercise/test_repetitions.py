"""Counting: known numbers of repetitions, whatever the body, the camera, the layout and the tempo."""

import os

import numpy as np
import pytest
import torch
from exercises import CORE, perform_exercise, plan_swings
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from movements import open_clip, slow_down, view_from

from jeanie.datasets import open_dataset
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.recogniser.exercise.counter import RepetitionCounter
from jeanie.recogniser.exercise.cycle import extract_cycle
from jeanie.recogniser.exercise.decoder import CycleDecoder
from jeanie.recogniser.exercise.repetitions import CountConfig, count
from jeanie.recogniser.exercise.score import score
from jeanie.recogniser.recogniser import Recogniser
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.convert import convert

recordings = pytest.mark.skipif(
    os.environ.get("JEANIE_DATA") is None, reason="the recordings are not here: set JEANIE_DATA"
)
EXAMPLE = perform_exercise(plan_swings([90]), seed=7)


@settings(max_examples=5, phases=[Phase.explicit, Phase.generate])
@given(st.integers(0, 6), st.floats(1.0, 3.0), st.floats(0, 1.0), st.floats(75, 110), st.integers(0, 99))
def test_down_up_down_is_one_repetition(repetitions, seconds, rest, amplitude, seed):
    found = count(
        EXAMPLE, perform_exercise(plan_swings([amplitude] * repetitions, seconds, rest + 0.1), seed=seed)
    )
    assert found.count == repetitions
    assert found.partial_count == 0


def test_repetitions_have_their_times_tempo_and_ranges():
    found = count(EXAMPLE, perform_exercise(plan_swings([90] * 3, seconds=3.0, rest=1.0)))
    for number, one in enumerate(found.repetitions):
        start, end = one.seconds
        assert abs(start - (1 + 4 * number)) < 0.5
        assert abs(end - (4 + 4 * number)) < 0.5
        assert abs(one.tempo - 1.5) < 0.25
        low, high = one.ranges["left_shoulder"]
        assert low < 12
        assert abs(high - 90) < 6
        assert one.ranges["left_knee"][1] < 10


def test_small_movements_are_partial_and_tiny_ones_are_none():
    found = count(EXAMPLE, perform_exercise(plan_swings([90, 90, 38, 90, 8, 90])))
    assert found.count == 4
    assert [one.is_partial for one in found.repetitions] == [False, False, True, False, False]
    assert abs(found.repetitions[2].amplitude - 0.42) < 0.15
    assert "4 repetitions and 1 partial" in found.text


@pytest.mark.parametrize("degrees", [0, 60, 180, -90])
def test_the_side_of_the_camera_does_not_matter(degrees):
    assert count(EXAMPLE, view_from(perform_exercise(plan_swings([90] * 4)), degrees)).count == 4


def test_size_place_and_layout_do_not_matter():
    shown = perform_exercise(plan_swings([90] * 4))
    assert count(EXAMPLE, shown.replace(joints=0.6 * shown.joints + 3)).count == 4
    assert count(convert(EXAMPLE, LAYOUTS["kinect20"]), shown).count == 4
    assert count(EXAMPLE, convert(shown, LAYOUTS["coco17"])).count == 4


def test_an_example_of_several_repetitions_is_split_at_its_period():
    several = perform_exercise(plan_swings([90] * 4, rest=0.0), seed=3)
    assert abs(extract_cycle(several, 15.0).seconds - 2.0) < 0.3
    assert count(several, perform_exercise(plan_swings([90] * 5))).count == 5
    assert (
        count(several, perform_exercise(plan_swings([90] * 8, rest=0.0)), CountConfig(repetitions=1)).count
        <= 2
    )


def test_the_other_side_is_counted_as_mirrored():
    left, right = (
        perform_exercise(plan_swings([90] * times), side=side) for times, side in ((1, "left"), (3, "right"))
    )
    found = count(left, right)
    assert (found.count, found.mirrored_count) == (3, 3)
    assert "3 mirrored" in found.text
    assert count(left, right, CountConfig(mirror=False)).count == 0
    both = left.replace(joints=torch.cat([left.joints, right.joints, left.joints]), valid=None)
    found = count(left, both)
    assert [one.is_mirrored for one in found.repetitions] == [False, True, True, True, False]


def test_a_symmetric_movement_is_counted_once():
    assert count(EXAMPLE, perform_exercise(plan_swings([90] * 4))).mirrored_count == 0


def test_a_person_may_turn_between_repetitions():
    shown = perform_exercise(plan_swings([90] * 2))
    turned = torch.cat([view_from(shown, degrees).joints for degrees in (0, 100, -60)])
    assert count(EXAMPLE, shown.replace(joints=turned)).count == 6


def test_a_larger_movement_after_a_long_rest_is_counted():
    shown = perform_exercise(np.concatenate([np.zeros(150), plan_swings([130] * 2, seconds=1.2)]))
    found = count(EXAMPLE, shown)
    assert (found.count, found.partial_count) == (2, 0)
    assert found.repetitions[0].amplitude > 1.1


@pytest.mark.parametrize("first", ["left", "right"])
def test_an_alternating_movement_may_start_on_either_side(first):
    # one repetition raises both arms, one after the other
    left, right = (
        perform_exercise(plan_swings([90], 0.8, rest=0.0), side=side) for side in ("left", "right")
    )
    example = left.replace(joints=torch.cat([left.joints, right.joints]))
    sides = (left, right) if first == "left" else (right, left)
    shown = left.replace(joints=torch.cat([side.joints for side in sides * 4]))
    found = count(example, shown, CountConfig(repetitions=1))
    assert (found.count, found.mirrored_count) == (4, 0)


def test_another_movement_is_not_counted():
    kicks = [open_clip("kick_forward", 1), open_clip("bow", 1)]
    assert [count(EXAMPLE, kick).count for kick in kicks] == [0, 0]


def test_nobody_who_stands_still_repeats_anything():
    still = perform_exercise(np.zeros(300))
    assert count(EXAMPLE, still).repetitions == ()
    with pytest.raises(DataError, match="nobody moves"):
        count(perform_exercise(np.zeros(60), noise=0.001), still)


def test_one_frame_and_ten_thousand_frames_per_second_repeat_nothing():
    assert count(EXAMPLE, EXAMPLE[:1]).repetitions == ()
    fast = perform_exercise(plan_swings([90] * 3)).replace(rate=10_000.0)
    assert count(EXAMPLE, fast).repetitions == ()


def test_a_lost_person_does_not_add_repetitions():
    shown = perform_exercise(plan_swings([90] * 4))
    joints = shown.joints.clone()
    joints[75:90] = 0
    assert count(EXAMPLE, Motion(joints, CORE, rate=30)).count == 4


def test_no_example_is_an_error():
    with pytest.raises(ConfigError, match="one repetition"):
        count([], EXAMPLE)
    with pytest.raises(ConfigError, match="one repetition"):
        RepetitionCounter([], CORE)


@pytest.mark.errors
@pytest.mark.parametrize(
    "arguments", [("a.bvh", EXAMPLE), (EXAMPLE, "a.bvh"), ([EXAMPLE, "a.bvh"], EXAMPLE), (EXAMPLE, None)]
)
def test_what_is_no_motion_is_an_error(arguments):
    with pytest.raises(ConfigError, match=r"needs a Motion, got .*; read_motion\(path\) reads one"):
        count(*arguments)
    with pytest.raises(ConfigError, match="needs a Motion, got"):
        score(*arguments)


@pytest.mark.errors
def test_more_repetitions_than_fit_into_the_example_are_an_error():
    with pytest.raises(ConfigError, match=r"1000 repetitions in 1.* s of movement are too many"):
        count(EXAMPLE, EXAMPLE, CountConfig(repetitions=1000))


@pytest.mark.errors
def test_live_frames_of_another_shape_are_an_error():
    counter = RepetitionCounter(EXAMPLE, "core15", rate=30)
    for frames in (EXAMPLE.joints, EXAMPLE.joints[:, 0, :5], EXAMPLE.joints[:, 0].numpy(), EXAMPLE):
        with pytest.raises(
            ShapeError, match=r"axes \(frame, joint, 3\) with 15 joints.* motion.joints\[:, 0\]"
        ):
            counter.push(frames)
    assert counter.push(EXAMPLE.joints[:, 0]) + counter.finish()
    with pytest.raises(ConfigError, match="this counter is finished; make a new one"):
        counter.push(EXAMPLE.joints[:, 0])
    with pytest.raises(ConfigError, match="no layout 'core16'; the known layouts are ntu25"):
        RepetitionCounter(EXAMPLE, "core16")


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_live_frames_give_the_same_number_in_any_portions(step):
    shown = perform_exercise(plan_swings([90] * 5, rest=0.6))
    counter = RepetitionCounter(EXAMPLE, CORE, rate=30)
    found = [
        one for at in range(0, len(shown), step) for one in counter.push(shown.joints[at : at + step, 0])
    ]
    found += counter.finish()
    assert counter.count == len(found) == 5
    assert all(abs(one.start - (18 + 78 * at)) < 15 for at, one in enumerate(found))


def test_live_counting_keeps_no_growing_memory():
    counter = RepetitionCounter(EXAMPLE, CORE, rate=30)
    shown, sizes = perform_exercise(plan_swings([90] * 10)), []
    for _ in range(6):
        for at in range(0, len(shown), 30):
            counter.push(shown.joints[at : at + 30, 0])
        sizes.append(len(counter._decoder._passes) + len(counter._poses.read(0, 10**9)))
    assert counter.count >= 57
    assert max(sizes) < 900 * 2 + 900


def test_the_decoder_explains_free_costs_by_repetitions_and_dear_ones_by_nothing():
    cost = np.full((40, 1, 5), 5.0)
    for tick in range(40):
        cost[tick, 0, tick % 10 // 2] = 0.0
    decoder = CycleDecoder(5, other=0.5, amplitudes=1)
    decoder.push(cost)
    assert len(decoder.list_passes(finish=True)) == 4
    dear = CycleDecoder(5, other=0.5, amplitudes=1)
    dear.push(np.full((40, 1, 5), 5.0))
    assert dear.list_passes(finish=True) == []


def test_a_recogniser_counts_an_enrolled_action():
    with Recogniser.load() as recogniser:
        recogniser.enrol("arm raise", EXAMPLE, check=False)
        assert recogniser.count("arm raise", perform_exercise(plan_swings([90] * 3))).count == 3
        with pytest.raises(ConfigError, match="no action 'squat'"):
            recogniser.count("squat", EXAMPLE)


@recordings
def test_jumping_jacks_of_other_people_are_counted():
    clips = open_dataset("cmu")
    at = {name: index for index, name in enumerate(clips.names)}
    example = clips[at["14_06"]][46:78]
    assert [count(example, clips[at[name]]).count for name in ("22_16", "23_15", "23_16")] == [3, 3, 3]
    assert count(example, slow_down(clips[at["23_16"]], 1.8)).count == 3
