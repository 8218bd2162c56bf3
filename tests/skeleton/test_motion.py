"""Motions: validated at birth, cut, filled, resampled, mirrored, chosen by person."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

STICK = Layout("stick", ("torso", "left_hand", "right_hand"), ((0, 1), (0, 2)), ((1, 2),), 0, 0)


@st.composite
def motions(draw, missing=0.3, layout=STICK):
    """Motions of a few frames and persons with random gaps."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    frames, persons = draw(st.integers(1, 14)), draw(st.integers(1, 3))
    joints = random.normal(size=(frames, persons, len(layout), 3)).astype(np.float32)
    joints[random.random(joints.shape[:-1]) < draw(st.sampled_from([0.0, missing]))] = np.nan
    joints[0, 0, 0] = 1.0
    return Motion(joints, layout, rate=30.0, name="made", label=3, subject="s1", view=2, setup=4, take=5)


def same(one: Motion, other: Motion) -> bool:
    return torch.equal(one.joints, other.joints) and torch.equal(one.valid, other.valid)


def test_a_motion_has_the_values_of_its_arguments():
    motion = Motion(
        np.ones((5, 3, 3)), STICK, label="wave", subject=7, view="v1", rate=30, name="clip", setup=2, take=1
    )
    assert motion.joints.dtype == torch.float32
    assert motion.joints.shape == (5, 1, 3, 3)
    assert motion.valid.shape == (5, 1, 3)
    assert (len(motion), motion.persons) == (5, 1)
    fields = (motion.label, motion.subject, motion.view, motion.rate, motion.name, motion.setup, motion.take)
    assert fields == ("wave", 7, "v1", 30, "clip", 2, 1)
    assert (
        repr(motion)
        == "Motion('clip', stick, frames=5, persons=1, label='wave', subject=7, view='v1', rate=30.0)"
    )
    with pytest.raises(AttributeError):
        motion.label = "clap"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_invalid_values_are_missing_and_0(bad):
    joints = np.ones((4, 1, 3, 3))
    joints[1, 0, 2, 1] = bad
    joints[2, 0, 0] = 0.0
    joints[3, 0, 1] = (0.0, 0.0, 2.0)
    motion = Motion(joints, STICK)
    expected = torch.ones(4, 1, 3, dtype=torch.bool)
    expected[1, 0, 2] = expected[2, 0, 0] = False
    assert torch.equal(motion.valid, expected)
    assert motion.joints.isfinite().all()
    assert (motion.joints[~expected] == 0).all()


def test_a_given_mask_lets_a_joint_lie_at_the_origin_but_never_a_nan():
    joints = torch.zeros(2, 1, 3, 3)
    joints[1, 0, 1, 0] = math.nan
    motion = Motion(joints, STICK, valid=torch.tensor([[[True, True, False]], [[True, True, True]]]))
    assert motion.valid.tolist() == [[[True, True, False]], [[True, False, True]]]
    assert Motion(joints[:, 0], STICK, valid=motion.valid[:, 0].numpy()).valid.shape == (2, 1, 3)


def test_valid_tensors_are_not_copied_and_invalid_ones_are_not_changed():
    clean = torch.ones(4, 1, 3, 3)
    assert Motion(clean, STICK).joints.data_ptr() == clean.data_ptr()
    array = np.ones((4, 1, 3, 3), np.float32)
    assert Motion(array, STICK).joints.data_ptr() == array.ctypes.data
    dirty = clean.clone()
    dirty[0, 0, 0] = math.nan
    Motion(dirty, STICK)
    assert dirty[0, 0, 0].isnan().all()


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 3, 3), ">f4"),
        np.ones((2, 3, 3), np.float16),
        np.ones((2, 3, 3), np.longdouble),
        np.ones((2, 3, 3), np.int16),
        np.ones((2, 3, 3), np.float32)[::-1],
        np.broadcast_to(np.float32(1), (2, 3, 3)),
        np.ones((2, 3, 3)).tolist(),
        torch.ones(2, 3, 3, dtype=torch.float64, requires_grad=True),
    ],
    ids=["big-endian", "half", "long", "int", "reversed", "read-only", "list", "gradient"],
)
def test_all_number_types_are_accepted(array):
    assert torch.equal(Motion(array, STICK).joints, torch.ones(2, 1, 3, 3))


@pytest.mark.errors
@pytest.mark.parametrize(
    ("joints", "message"),
    [
        (np.ones((4, 2, 3)), "3 joints of layout 'stick', got shape"),
        (np.ones((4, 3, 2)), "got shape"),
        (np.ones(3), "got shape"),
        (np.array([["a"]]), "needs numbers"),
        ([[1.0], [1.0, 2.0]], "full array"),
        (torch.ones(2, 3, 3, dtype=torch.complex64), "real numbers"),
    ],
)
def test_wrong_shapes_are_refused_by_name(joints, message):
    with pytest.raises(ShapeError, match=message) as caught:
        Motion(joints, STICK, name="clip 7")
    assert str(caught.value).startswith("clip 7: ")


@pytest.mark.errors
@pytest.mark.parametrize("joints", [np.zeros((4, 3, 3)), np.full((4, 3, 3), np.nan), np.ones((0, 1, 3, 3))])
def test_a_motion_without_valid_joints_is_an_error_that_names_it(joints):
    with pytest.raises(DataError, match="a13_s09_e02"):
        Motion(joints, STICK, name="a13_s09_e02")


@pytest.mark.errors
def test_wrong_masks_and_options_are_refused():
    whole = torch.ones(4, 1, 3, 3)
    motion = Motion(whole, STICK)
    with pytest.raises(ShapeError, match="valid needs a bool"):
        Motion(whole, STICK, valid=torch.ones(4, 1, 3))
    with pytest.raises(ShapeError, match="valid needs a bool"):
        Motion(whole, STICK, valid=torch.ones(4, 1, 2, dtype=torch.bool))
    with pytest.raises(ConfigError, match="above 0"):
        Motion(whole, STICK, rate=0)
    with pytest.raises(ConfigError, match="no frame rate"):
        motion.resample(30)
    with pytest.raises(ConfigError, match="above 0"):
        motion.replace(rate=30).resample(-1)
    with pytest.raises(ConfigError, match="no colour"):
        motion.replace(colour="red")
    with pytest.raises(ConfigError, match="at least 1"):
        motion.to_length(0)
    with pytest.raises(ConfigError, match="at least 1"):
        motion.select_most_active(0)
    with pytest.raises(ConfigError, match="max_gap"):
        motion.fill_gaps(-1)
    with pytest.raises(ShapeError, match="1 persons, got person 1"):
        motion.person(1)
    with pytest.raises(ShapeError, match="selects none of"):
        motion[9:]
    with pytest.raises(ShapeError, match=r"motion\[5:6\]"):
        motion[3]


@given(motion=motions(), start=st.integers(0, 6), step=st.integers(-3, 3).filter(bool))
def test_a_slice_selects_frames(motion, start, step):
    chosen = list(range(len(motion)))[start::step]
    assume(chosen and motion.valid[chosen].any())
    cut = motion[start::step]
    assert same(cut, Motion(motion.joints[chosen], STICK, valid=motion.valid[chosen]))
    assert cut.rate == 30.0 / abs(step)
    assert (cut.label, cut.subject, cut.view, cut.name, cut.setup, cut.take) == (3, "s1", 2, "made", 4, 5)


@pytest.mark.errors
@given(motion=motions(), start=st.integers(0, 6), step=st.integers(1, 3))
def test_a_slice_without_frames_is_refused(motion, start, step):
    with pytest.raises(ShapeError, match="selects none of"):
        motion[len(motion) + start :: step]


@pytest.mark.errors
def test_a_slice_without_a_valid_joint_is_refused():
    joints = np.ones((9, 3, 3))
    joints[3:6] = np.nan
    with pytest.raises(DataError, match="no valid joint"):
        Motion(joints, STICK)[3:6]


def fill_gaps_by_loop(joints, valid, max_gap):
    """Gap filling one number at a time."""
    joints, valid = joints.double().numpy().copy(), valid.numpy().copy()
    for person in range(joints.shape[1]):
        for joint in range(joints.shape[2]):
            seen = [t for t in range(len(joints)) if valid[t, person, joint]]
            for a, b in pairwise(seen):
                if 1 < b - a <= max_gap + 1:
                    for t in range(a + 1, b):
                        for axis in range(3):
                            x, y = joints[a, person, joint, axis], joints[b, person, joint, axis]
                            joints[t, person, joint, axis] = x + (y - x) * (t - a) / (b - a)
                        valid[t, person, joint] = True
    return joints, valid


@settings(max_examples=60)
@given(motion=motions(missing=0.5), max_gap=st.integers(0, 6))
def test_gap_filling_equals_a_loop_over_scalars(motion, max_gap):
    joints, valid = fill_gaps_by_loop(motion.joints, motion.valid, max_gap)
    filled = motion.fill_gaps(max_gap)
    assert filled.valid.numpy().tolist() == valid.tolist()
    np.testing.assert_allclose(filled.joints.numpy(), joints, atol=1e-5)
    assert torch.equal(filled.joints[motion.valid], motion.joints[motion.valid])


def test_gaps_of_five_frames_are_filled_and_longer_ones_and_the_ends_stay():
    joints = np.zeros((20, 3, 3))
    joints[:, 0] = np.arange(20)[:, None] + 1.0
    joints[[2, 8, 15], 1] = [[2.0] * 3, [8.0] * 3, [15.0] * 3]  # a gap of 5, then one of 6
    filled = Motion(joints, STICK).fill_gaps()
    assert filled.valid[:, 0, 1].nonzero().flatten().tolist() == [2, 3, 4, 5, 6, 7, 8, 15]
    torch.testing.assert_close(filled.joints[2:9, 0, 1, 0], torch.arange(2.0, 9.0))


@settings(max_examples=60)
@given(motion=motions(), frames=st.integers(1, 30))
def test_resampling_to_a_length_equals_numpy_interpolation(motion, frames):
    positions = np.linspace(0, len(motion) - 1, frames)
    valid = np.array(
        [(motion.valid[math.floor(p)] & motion.valid[math.ceil(p)]).numpy() for p in np.round(positions, 9)]
    )
    assume(valid.any())
    stretched = motion.to_length(frames)
    assert stretched.valid.numpy().tolist() == valid.tolist()
    flat = motion.joints.numpy().reshape(len(motion), -1)
    expected = np.stack([np.interp(positions, np.arange(len(motion)), column) for column in flat.T], -1)
    expected = expected.reshape(stretched.joints.shape) * valid[..., None]
    np.testing.assert_allclose(stretched.joints.numpy(), expected, atol=1e-5)


@given(motion=motions(missing=0.0), rate=st.sampled_from([10.0, 15.0, 20.0, 25.0, 30.0, 60.0, 50.0, 29.97]))
def test_resampling_keeps_time(motion, rate):
    """A joint that moves at a constant speed is where the clock says, and the end is not passed."""
    clock = torch.arange(len(motion)) / 30.0 + 1.0
    moving = motion.replace(joints=clock[:, None, None, None].expand(motion.joints.shape))
    other = moving.resample(rate)
    assert other.rate == rate
    assert len(other) == math.floor((len(motion) - 1) / 30.0 * rate + 1e-6) + 1
    expected = 1.0 + torch.arange(len(other)) / rate
    torch.testing.assert_close(other.joints[:, 0, 0, 0], expected, atol=1e-5, rtol=0)
    assert (len(other) - 1) / rate <= (len(motion) - 1) / 30.0 + 1e-6


@given(motion=motions())
def test_resampling_at_the_same_rate_or_length_changes_nothing(motion):
    assert same(motion.resample(30.0), motion)
    assert same(motion.to_length(len(motion)), motion)


def test_a_new_length_changes_the_rate_so_that_the_duration_stays():
    motion = Motion(np.ones((31, 3, 3)), STICK, rate=30)
    assert motion.to_length(61).rate == 60
    assert motion.to_length(1).rate is None
    assert motion.replace(rate=None).to_length(61).rate is None


@given(motion=motions())
def test_mirroring_twice_is_the_identity_bit_for_bit(motion):
    assert same(motion.mirror().mirror(), motion)


@given(motion=motions())
def test_a_mirror_swaps_left_and_right_and_negates_x(motion):
    mirrored = motion.mirror()
    for joint, other in ((0, 0), (1, 2), (2, 1)):
        assert torch.equal(mirrored.valid[:, :, joint], motion.valid[:, :, other])
        expected = motion.joints[:, :, other] * torch.tensor([-1.0, 1.0, 1.0])
        assert torch.equal(mirrored.joints[:, :, joint], expected)


def test_the_most_active_person_comes_first():
    random = np.random.default_rng(0)
    joints = np.ones((30, 4, 3, 3))
    joints[:, 0] += 0.01 * random.normal(size=(30, 3, 3))  # jitter
    joints[:, 1] += np.sin(np.arange(30) / 5)[:, None, None]  # an action
    joints[2:, 2] = np.nan  # seen for two frames only, far apart
    joints[1, 2] = 3.0
    joints[:, 3] = 0.0  # an empty slot
    motion = Motion(joints, STICK)
    assert same(motion.select_most_active(), motion.person(1))
    order = [motion.joints[:, person] for person in (1, 2, 0, 3)]
    assert torch.equal(motion.select_most_active(9).joints, torch.stack(order, 1))
    assert motion.select_most_active(2).persons == 2


@given(motion=motions(missing=0.4))
def test_activity_is_relative_to_the_mean_position_of_each_joint(motion):
    energy = []
    for person in range(motion.persons):
        total = 0.0
        for joint in range(3):
            seen = motion.joints[motion.valid[:, person, joint], person, joint].double().numpy()
            total += float(((seen - seen.mean(0)) ** 2).sum()) if len(seen) else 0.0
        energy.append(total if motion.valid[:, person].any() else -1.0)
    if len(energy) > 1 and sorted(energy)[-1] - sorted(energy)[-2] > 1e-3:
        best = int(np.argmax(energy))
        assert torch.equal(motion.select_most_active().joints[:, 0], motion.joints[:, best])


def test_replaced_joints_keep_their_mask_so_that_a_centred_torso_is_not_lost():
    motion = Motion(np.ones((4, 3, 3)), STICK)
    centred = motion.replace(joints=motion.joints - 1.0)
    assert centred.valid.all()
    assert motion.replace(joints=np.zeros((4, 3, 3))).valid.all()
    assert motion.replace(joints=torch.ones(2, 3, 3)).valid.shape == (2, 1, 3)
    assert motion.replace(layout=LAYOUTS["core15"], joints=torch.ones(2, 15, 3)).layout.name == "core15"


def test_bodies_put_the_person_first():
    motion = Motion(np.random.default_rng(0).normal(size=(6, 2, 3, 3)), STICK)
    joints, valid = motion.bodies
    assert torch.equal(joints[1, 4], motion.joints[4, 1])
    assert valid.shape == (2, 6, 3)
