"""Explanations of movements whose differences are known, as they were made."""

import json

import numpy as np
import pytest
import torch
from movements import combine_persons, move_joint, open_clip, slow_down, turn_to_camera, view_from

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.config import RAW
from jeanie.recogniser.explain.bodies import wrap_angle
from jeanie.recogniser.explain.explain import explain
from jeanie.recogniser.explain.tempo import locate_blocks
from jeanie.skeleton import LAYOUTS, Motion


@pytest.fixture(scope="module")
def model():
    return FewShotModel.load()


@pytest.fixture(scope="module")
def wave():
    return turn_to_camera(open_clip("wave"))


def test_a_turned_slowed_and_lowered_movement_is_told_as_such(model, wave):
    query = slow_down(view_from(move_joint(wave, "left_elbow", up=-0.15), 30), 1.4)
    found = explain(model, query, wave)
    assert (
        found.text
        == "same movement, seen from 30 degrees to the person's left, 1.4x slower; left elbow lower"
    )
    assert explain(model, query, wave, label="wave").text.startswith("same movement as wave, seen from 30")


def test_the_same_recording_differs_in_nothing(model, wave):
    found = explain(model, wave, wave)
    assert found.text == "same movement, at the same speed"
    assert found.distance == pytest.approx(0, abs=1e-6)
    assert max(joint.percent for joint in found.joints) < 1e-3
    assert all(step.query == step.support for step in found.steps)


def test_a_movement_of_the_other_hand_is_told_and_compared_in_a_mirror(model, wave, tmp_path):
    """The joints are those of the mirror image: the support's sides. The camera is where it was."""
    other = slow_down(view_from(move_joint(wave, "left_elbow", up=-0.15).mirror(), 30), 1.4)
    found = explain(model, other, wave, label="wave")
    assert found.reflected
    assert found.json()["reflected"] is True
    sentence = "same movement as wave, left and right exchanged, seen from 30 degrees to the person's left, 1.4x slower"
    assert found.text == f"{sentence}; left elbow lower"
    assert found.turn == pytest.approx(30, abs=0.5)
    assert "shown as a mirror image" in found.write_html(tmp_path / "why.html").read_text()
    as_is = explain(model, wave, wave)
    assert not as_is.reflected
    assert "mirror" not in as_is.write_html(tmp_path / "as_is.html").read_text()
    plain = explain(model.with_config(mirror_penalty=None).eval(), other, wave, label="wave")
    assert not plain.reflected
    assert plain.difference > 3 * found.difference


def test_views_of_a_mirror_image_are_told_as_of_the_recording(wave):
    """A model that sees bodies as recorded finds the camera by its views, in the mirror on the other side."""
    config = RAW.with_values(
        {"views.kind": "euler", "views.azimuth": 45, "views.altitude": 0}, mirror_penalty=1.5
    )
    model = FewShotModel(config.with_values({"inputs.prepare.layout": "core15"})).eval()
    turned = {degrees: explain(model, view_from(wave.mirror(), degrees), wave) for degrees in (-30, 30)}
    for degrees, found in turned.items():
        assert found.reflected
        assert found.turn == pytest.approx(degrees, abs=8)


@pytest.mark.parametrize("degrees", [-150, -90, -20, 45, 120])
def test_the_camera_is_found_wherever_it_went(model, wave, degrees):
    found = explain(model, view_from(wave, degrees), wave)
    assert found.turn == pytest.approx(degrees, abs=0.5)
    assert [step.turn for step in found.steps] == pytest.approx([found.turn] * len(found.steps), abs=1e-3)
    assert f"{abs(degrees)} degrees to the person's {'left' if degrees > 0 else 'right'}" in found.text


def test_cameras_of_the_studio_stand_where_they_stand(model):
    """The studio's left camera is 40 degrees to the left of the centre one, and so on the actor's right."""
    centre, left = (open_clip("wave", camera=camera) for camera in ("centre", "left"))
    assert explain(model, left, centre).turn == pytest.approx(-40, abs=3)
    assert explain(model, centre, left).turn == pytest.approx(40, abs=3)


def test_views_of_the_model_tell_the_turn_of_every_block(wave):
    model = FewShotModel.raw(
        RAW.with_values({"views.kind": "euler", "views.azimuth": 45, "views.altitude": 15})
    )
    found = explain(model, view_from(wave, 30), wave)
    assert found.turn == pytest.approx(30, abs=0.1)
    assert [step.turn for step in found.steps] == pytest.approx([30.0] * len(found.steps))
    assert found.lift == pytest.approx(0, abs=0.1)


def test_views_on_both_sides_are_taken_off_each_other(wave):
    model = FewShotModel.raw(
        RAW.with_values(
            {"views.kind": "euler", "views.azimuth": 15, "views.altitude": 0, "views.sides": "both"}
        )
    )
    assert explain(model, view_from(wave, 30), wave).turn == pytest.approx(30, abs=0.1)


@pytest.mark.parametrize(
    ("factor", "message"), [(2.0, "2x slower"), (0.5, "2x faster"), (1.02, "at the same speed")]
)
def test_the_tempo_is_that_of_the_durations(model, wave, factor, message):
    found = explain(model, slow_down(wave, factor), wave)
    assert found.tempo == pytest.approx(factor, rel=0.02)
    assert message in found.text
    assert [part.tempo for part in found.parts] == pytest.approx([factor] * 3, rel=0.15)


def test_frame_rates_are_no_tempo(model, wave):
    found = explain(model, wave.resample(15.0), wave)
    assert found.timed
    assert found.tempo == pytest.approx(1, abs=0.02)
    untimed = explain(model, wave.resample(15.0).replace(rate=None), wave)
    assert not untimed.timed
    assert untimed.tempo == pytest.approx(0.5, abs=0.02)


def test_a_slow_end_is_told_from_a_slow_movement(model):
    """The last third takes three times as long, what comes before is as fast as ever."""
    squat = open_clip("squat")
    cut = 2 * len(squat) // 3
    end = slow_down(squat[cut:], 3)
    query = squat.replace(joints=torch.cat([squat.joints[:cut], end.joints]), valid=None)
    found = explain(model, query, squat)
    first, _, last = (part.tempo for part in found.parts)
    assert last > 1.5 * first
    assert "relatively slow at the end" in found.text
    assert found.tempo == pytest.approx((cut + len(end)) / len(squat))
    ends = [part.query for part in found.parts]
    assert ends[0][0] == 0
    assert ends[2][1] == len(query) - 1
    assert sum(b - a for a, b in ends) == pytest.approx(len(query) - 1)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ({"right": 0.2}, "further right"), ({"right": -0.2}, "further left"), ({"up": 0.2}, "higher"),
        ({"up": -0.2}, "lower"), ({"forward": 0.2}, "further forward"), ({"forward": -0.2}, "further back"),
    ],
)  # fmt: skip
def test_directions_are_the_persons_own(model, wave, way, words):
    """Also where the camera looks from the side."""
    found = explain(model, view_from(move_joint(wave, "left_wrist", **way), -70), view_from(wave, 100))
    # the wrist of this layout is not among the core joints; its hand is
    assert found.joints[0].percent < 1
    query = view_from(move_joint(wave, "left_hand", **way), -70)
    worst = explain(model, query, view_from(wave, 100)).joints[0]
    assert worst.joint == "left_hand"
    assert worst.words == f"left hand {words}"


def test_centimetres_are_those_on_the_querys_body(model, wave):
    found = explain(model, move_joint(wave, "right_hand", up=0.12), wave)
    assert found.joints[0].joint == "right_hand"
    assert found.joints[0].centimetres == pytest.approx(12, abs=0.8)  # a longer forearm is a larger body
    pixels = [
        m.replace(layout=LAYOUTS["ntu25"].from_dict({**LAYOUTS["ntu25"].to_dict(), "unit": "px"}))
        for m in (wave, wave)
    ]
    assert explain(model, *pixels).joints[0].centimetres is None


def test_distances_are_means_over_the_path(model, wave):
    """A hand that is elsewhere in the first half only: half of the way, worst there, and no body in between."""
    joints = wave.joints.clone()
    half = len(wave) // 2
    joints[:half, :, wave.layout.index("left_hand"), 1] += 0.3
    found = explain(model, wave.replace(joints=joints), wave)
    hand = found.joints[0]
    assert hand.joint == "left_hand"
    assert hand.worst < half
    whole = explain(model, move_joint(wave, "left_hand", up=0.3), wave).joints[0]
    assert hand.centimetres == pytest.approx(whole.centimetres / 2, rel=0.2)


def test_a_smaller_movement_is_told(model, wave):
    """The right arm goes half as far from where it is in the mean."""
    at = [wave.layout.index(name) for name in ("right_elbow", "right_wrist", "right_hand")]
    joints = wave.joints.clone()
    joints[:, :, at] = (joints[:, :, at] + joints[:, :, at].mean(0)) / 2
    found = explain(model, wave.replace(joints=joints), wave)
    hand = next(joint for joint in found.joints if joint.joint == "right_hand")
    assert hand.movement == pytest.approx(0.5, abs=0.1)
    assert hand.words == "right hand moves less"


def test_the_verdict_of_a_recogniser_counts(model, wave):
    assert explain(model, wave, wave, label="bow", same=False).text.startswith("different movement from bow")
    assert explain(model, open_clip("squat"), wave, same=True).text.startswith("same movement,")
    assert explain(model, open_clip("squat"), wave).likeness == "different"


def test_persons_are_paired_with_their_likes(model, wave):
    one, other = wave, turn_to_camera(open_clip("squat"))
    shifted = other.replace(joints=other.joints + torch.tensor([1.5, 0.0, 0.0]))
    support, query = combine_persons(one, shifted), combine_persons(shifted, one)
    found = explain(model, query, support)
    assert found.persons == ((0, 1), (1, 0))
    assert "persons 1 and 2 compared with persons 2 and 1" in found.text
    assert found.json()["persons"] == [[0, 1], [1, 0]]
    assert found.joints[0].percent < 1


def test_of_two_persons_against_one_the_nearer_is_explained(model, wave):
    crowd = combine_persons(open_clip("squat"), wave)
    found = explain(model, crowd, wave[: len(crowd)])
    assert (found.query.persons, found.support.persons) == (2, 1)
    assert found.persons == ((1, 0),)
    assert "person 2 compared with person 1" in found.text
    assert found.joints[0].percent < 1


def test_of_a_crowd_the_liveliest_are_compared_and_named_by_their_numbers(model, wave):
    """A third person who stands still comes first in the recording and is not looked at."""
    squat = turn_to_camera(open_clip("squat"))
    apart = squat.replace(joints=squat.joints + torch.tensor([1.5, 0.0, 0.0]))
    both = combine_persons(wave, apart)
    still = both.joints[:1, :1].expand(len(both), -1, -1, -1) + torch.tensor([-2.0, 0.0, 0.0])
    crowd = both.replace(
        joints=torch.cat([still, both.joints], 1), valid=torch.cat([both.valid[:, :1], both.valid], 1)
    )
    found = explain(model, crowd, both)
    assert sorted(found.persons) == [(1, 0), (2, 1)]
    assert found.joints[0].percent < 1
    moved_hand = explain(model, move_joint(crowd, "right_hand", up=0.3), both)
    assert (
        "person 2's right hand higher" in moved_hand.text or "person 3's right hand higher" in moved_hand.text
    )


def test_missing_limbs_are_no_difference(model, wave):
    hidden = [
        name
        for name in wave.layout.joints
        if "left_" in name and name[5:] in ("elbow", "wrist", "hand", "thumb")
    ]
    valid = wave.valid.clone()
    valid[:, :, [wave.layout.index(name) for name in hidden]] = False
    found = explain(model, wave.replace(valid=valid), wave)
    assert not {"left_elbow", "left_hand"} & {joint.joint for joint in found.joints}
    assert found.joints[0].percent < 6  # the body is measured by fewer bones


def test_flat_key_points_have_no_turn(model):
    joints = np.random.default_rng(0).normal(size=(20, 17, 3)).cumsum(0)
    joints[..., 2] = 0
    flat = Motion(joints, LAYOUTS["coco17"], valid=np.ones((20, 17), np.bool_))
    found = explain(model, flat, flat)
    assert found.turn is None
    assert found.joints[0].centimetres is None


def test_everything_can_be_told_in_json(model, wave):
    found = explain(model, slow_down(wave, 1.4).replace(name="mine"), wave, label="wave")
    facts = json.loads(json.dumps(found.json()))
    assert facts["text"] == found.text
    assert facts["query"]["name"] == "mine"
    assert facts["query"]["frames"] == len(slow_down(wave, 1.4))
    assert len(facts["steps"]) == len(found.steps)
    assert facts["joints"][0].keys() >= {"joint", "centimetres", "percent", "up", "words"}


def test_recordings_of_one_frame_are_explained(model, wave):
    found = explain(model, wave[:1], wave)
    assert found.tempo == pytest.approx(1 / len(wave))
    assert len(found.steps) >= 1


def test_moments_of_blocks_lie_where_the_frames_are_that_make_them():
    """A model of blocks of 8 frames, 5 apart: middles 3.5, 8.5, ... and a last one that ends with the motion."""
    wave = open_clip("wave")[:20]
    model = FewShotModel.raw(
        RAW.with_values({"inputs.prepare.frames": None, "inputs.block": 8, "inputs.stride": 0.6})
    )
    assert locate_blocks(model, wave).tolist() == pytest.approx([3.5, 8.5, 13.5, 15.5])
    halved = FewShotModel.raw(
        RAW.with_values(
            {
                "inputs.prepare.frames": None,
                "inputs.prepare.rate": 15.0,
                "inputs.block": 1,
                "inputs.stride": 1.0,
            }
        )
    )
    assert locate_blocks(halved, wave).tolist() == pytest.approx([2.0 * step for step in range(10)])


@pytest.mark.parametrize(("dense", "moments"), [(False, [0.5, 2.5, 4.0]), (True, [0.5, 1.5, 2.5, 3.5, 4.0])])
def test_a_dense_encoder_has_a_moment_for_every_block(model, dense, moments):
    """Outputs that stand for two blocks of one frame each; beyond the end the last block counts."""
    wave = open_clip("wave")[:5]
    changed = {"inputs.prepare.frames": 5, "encoder.dense": dense, "encoder.strides": (2, 1)}
    config = model.config.with_values(changed)
    assert locate_blocks(FewShotModel(config), wave).tolist() == pytest.approx(moments)


def test_moments_pass_over_frames_in_which_nobody_is_seen(model):
    wave = open_clip("wave")[:40]
    valid = wave.valid.clone()
    valid[10:20] = False
    moments = locate_blocks(model, wave.replace(valid=valid))
    assert len(moments) == 32
    assert not ((moments > 9.0) & (moments < 20.0)).sum() > 1
    assert moments[-1] > 38


@pytest.mark.parametrize(
    ("angle", "expected"), [(190, -170), (-190, 170), (180, 180), (-180, 180), (540, 180), (0, 0)]
)
def test_angles_are_wrapped(angle, expected):
    assert wrap_angle(angle) == pytest.approx(expected)


@pytest.mark.errors
def test_layouts_without_a_core_joint_are_refused(model, wave):
    layout = LAYOUTS["core15"].from_dict(
        {"name": "odd", "joints": ["thing"], "bones": [], "root": 0, "torso": 0}
    )
    with pytest.raises(ConfigError, match="has no joint of layout 'core15'"):
        explain(model, Motion(np.ones((4, 1, 3)), layout), wave)


def test_the_studio_offers_what_these_tests_ask_for():
    assert {"wave", "squat"} <= set(open_synthetic(subjects=1, takes=1, cameras=1).labels)
