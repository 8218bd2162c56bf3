"""Verification: of candidates that overlap or show other movements, the repetitions stay."""

import torch
from exercises import perform_exercise, plan_swings

from jeanie.recogniser.exercise.cycle import extract_cycle
from jeanie.recogniser.exercise.decoder import Pass
from jeanie.recogniser.exercise.passes import measure_pass
from jeanie.recogniser.exercise.poses import sample_poses
from jeanie.recogniser.exercise.verification import Candidate, select_repetitions
from jeanie.skeleton import Motion

RATE, COMPLETE = 15.0, 0.6
CYCLE = extract_cycle(perform_exercise(plan_swings([90]), seed=7), RATE, 1)


def select(motion, *spans, side=False):
    poses = sample_poses(motion, RATE, 2.0)
    cycle = CYCLE.mirror() if side else CYCLE
    candidates = [Candidate(measure_pass(poses, cycle, Pass(*span)), side) for span in spans]
    kept, rank = select_repetitions(poses, CYCLE, candidates, COMPLETE)
    return [candidates.index(candidate) for candidate in kept], rank


def test_of_candidates_that_overlap_the_one_most_like_the_example_stays():
    shown = perform_exercise(plan_swings([90, 90]))  # 8 to 38 and 45 to 75 at 15 poses per second
    kept, rank = select(shown, (7, 39), (45, 76), (20, 60))
    assert sorted(kept) == [0, 1]
    assert rank > 0.5


def test_a_partial_repetition_is_compared_in_full_size():
    assert sorted(select(perform_exercise(plan_swings([90, 38])), (7, 39), (45, 76))[0]) == [0, 1]


def test_another_movement_is_no_repetition():
    one_arm = perform_exercise(plan_swings([90]), side="left")
    both_arms = perform_exercise(plan_swings([90, 90]))
    shown = Motion(torch.cat([both_arms.joints, one_arm.joints]), both_arms.layout, rate=30.0)
    at = len(both_arms) // 2
    assert sorted(select(shown, (7, 39), (45, 76), (at + 7, at + 39))[0]) == [0, 1]


def test_no_candidate_is_no_repetition():
    assert select_repetitions(torch.zeros(10, 15, 3), CYCLE, [], COMPLETE) == ([], 0.0)
