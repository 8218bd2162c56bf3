"""Scores: 100 for the same movement whoever performs it, less the more it differs, and the right joint is named."""

import numpy as np
import pytest
import torch
from exercises import CORE, perform_exercise, plan_swings, raise_arms
from movements import open_clip, slow_down, view_from

from jeanie.errors import ConfigError, DataError
from jeanie.recogniser.exercise.score import ScoreConfig, score
from jeanie.recogniser.recogniser import Recogniser
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.convert import convert

REFERENCE = perform_exercise(plan_swings([90]), noise=0.0)


@pytest.mark.parametrize("factor", [0.5, 0.7, 1.5, 2.0])
def test_the_speed_within_a_factor_of_two_costs_nothing(factor):
    found = score(REFERENCE, slow_down(REFERENCE, factor))
    assert found.value > 97
    assert abs(found.tempo - factor) < 0.08 * factor


@pytest.mark.parametrize("degrees", [45, 90, 180, -120])
def test_the_side_of_the_camera_costs_nothing(degrees):
    assert score(REFERENCE, view_from(REFERENCE, degrees)).value > 99


def test_size_place_and_layout_cost_nothing():
    assert score(REFERENCE, REFERENCE.replace(joints=1.4 * REFERENCE.joints - 2)).value > 99.9
    assert score(convert(REFERENCE, LAYOUTS["kinect20"]), REFERENCE).value > 99
    assert score(REFERENCE, perform_exercise(plan_swings([90], rest=1.5))).value > 95


def test_other_proportions_of_the_body_cost_nothing():
    longer = np.stack([raise_arms(angle) for angle in plan_swings([90])])
    for side in ("left", "right"):
        elbow, hand = CORE.index(f"{side}_elbow"), CORE.index(f"{side}_hand")
        longer[:, hand] += 0.4 * (longer[:, hand] - longer[:, elbow])
    assert score(REFERENCE, Motion(torch.tensor(longer), CORE, rate=30)).value > 99


@pytest.mark.parametrize(
    "performances",
    [
        [perform_exercise(plan_swings([90 * share])) for share in (1.0, 0.85, 0.7, 0.55, 0.4)],
        [perform_exercise(plan_swings([90]), elbow=off) for off in (0, 25, 50, 75, 100)],
    ],
    ids=["amplitude", "elbow"],
)
def test_the_order_of_distortions_is_recovered(performances):
    values = [score(REFERENCE, one).value for one in performances]
    assert values == sorted(values, reverse=True)
    assert values[0] > 95
    assert values[-1] < 75


def test_a_slow_performance_costs_points_if_the_tempo_matters():
    strict = ScoreConfig(tempo=1.1)
    values = [
        score(REFERENCE, slow_down(REFERENCE, factor), strict).value for factor in (1.0, 1.4, 1.8, 2.5, 3.5)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] > 99
    assert values[-1] < 40


def test_the_joint_and_the_phase_that_cost_points_are_named():
    one_side = np.stack([raise_arms(angle, "left") for angle in plan_swings([90])])
    right = np.stack([raise_arms(0.4 * angle, "right") for angle in plan_swings([90])])
    columns = [CORE.index(f"right_{joint}") for joint in ("shoulder", "elbow", "hand")]
    one_side[:, columns] = right[:, columns]
    found = score(REFERENCE, Motion(torch.tensor(one_side), CORE, rate=30))
    assert found.joints[0].joint == "right_shoulder"
    assert found.joints[0].phase == "middle"
    assert found.joints[1].points < 0.1 * found.joints[0].points
    shoulder = next(one for one in found.asymmetries if one.joint == "shoulder")
    assert abs(shoulder.difference - 54) < 3
    assert found.text.split("; ")[1].startswith("right shoulder costs ")


def test_points_add_up_and_angles_are_those_of_the_movement():
    found = score(REFERENCE, perform_exercise(plan_swings([55]), elbow=20))
    for rows in (found.joints, found.phases):
        assert abs(sum(one.points for one in rows) + found.tempo_points + found.value - 100) < 1e-3
    assert abs(found.angles["left_shoulder"][1] - 55) < 4
    assert abs(found.reference_angles["right_shoulder"][1] - 90) < 2
    facts = found.json()
    assert facts["angles"]["left_shoulder"]["reference"][1] > 85
    assert facts["positions"][0]["centimetres"] > 5


def test_references_that_differ_widen_the_tolerance():
    performance = perform_exercise(plan_swings([75]))
    alone = score(REFERENCE, performance).value
    both = score([REFERENCE, perform_exercise(plan_swings([62]))], performance)
    assert both.value > alone
    assert next(one for one in both.joints if one.joint == "left_shoulder").tolerance > 10


def test_another_movement_has_a_low_score():
    assert score(open_clip("squat", 0), open_clip("wave", 1)).value < 50
    assert score(open_clip("bow", 0), open_clip("bow", 0, camera="left")).value > 90


def test_the_page_shows_the_score(tmp_path):
    text = (
        score(REFERENCE, perform_exercise(plan_swings([60]))).write_html(tmp_path / "score.html").read_text()
    )
    assert "of 100" in text
    assert "points" in text


def test_errors_say_what_is_missing():
    with pytest.raises(DataError, match="nobody moves"):
        score(REFERENCE, perform_exercise(np.zeros(60), noise=0.0))
    with pytest.raises(ConfigError, match="no reference"):
        score([], REFERENCE)


def test_a_recogniser_scores_an_enrolled_action():
    with Recogniser.load() as recogniser:
        recogniser.enrol("arm raise", REFERENCE, check=False)
        assert recogniser.score("arm raise", perform_exercise(plan_swings([90]))).value > 95
