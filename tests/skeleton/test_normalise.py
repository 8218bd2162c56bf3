"""Centring, scaling and streams against loops over scalars; what is missing or padded never matters."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from jeanie.errors import ConfigError, ShapeError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.normalise import centre, scale
from jeanie.skeleton.streams import compute_streams

STICK = Layout(
    "stick", ("torso", "neck", "left_hand", "right_hand"), ((0, 1), (1, 2), (1, 3)), ((2, 3),), 0, 0
)
PAIR = Layout("pair", STICK.joints, STICK.bones, STICK.pairs, 0, 0, centre=(2, 3))


@st.composite
def bodies(draw, missing=0.3):
    """(joints [2, frame, joint, 3], valid) with rubbish where joints are missing."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    frames = draw(st.integers(1, 9))
    joints = random.normal(size=(2, frames, 4, 3)).astype(np.float32) + 2.0
    valid = random.random((2, frames, 4)) >= draw(st.sampled_from([0.0, missing, 0.8]))
    joints[~valid] = draw(st.sampled_from([np.nan, np.inf, 0.0, 1e9]))
    return torch.from_numpy(joints), torch.from_numpy(valid)


def torso_by_loop(joints, valid, parts):
    """The torso in every frame of one body: seen, between its neighbours, held, or the joints' mean."""
    frames = len(joints)
    seen = [t for t in range(frames) if all(valid[t, part] for part in parts)]
    at = {t: np.mean([joints[t, part] for part in parts], axis=0) for t in seen}
    for t in range(frames):
        before, after = [s for s in seen if s < t], [s for s in seen if s > t]
        if t in seen:
            yield at[t]
        elif before and after:
            a, b = before[-1], after[0]
            yield at[a] + (at[b] - at[a]) * (t - a) / (b - a)
        elif before or after:
            yield at[before[-1]] if before else at[after[0]]
        else:
            there = [joints[t, joint] for joint in range(joints.shape[1]) if valid[t, joint]]
            yield np.mean(there, axis=0) if there else np.zeros(3)


@settings(max_examples=80)
@given(body=bodies(), layout=st.sampled_from([STICK, PAIR]))
def test_centring_equals_a_loop_over_frames(body, layout):
    joints, valid = body
    centred = centre(joints, layout, valid)
    for person in range(2):
        lone, mask = joints[person].double().numpy(), valid[person].numpy()
        for t, torso in enumerate(torso_by_loop(lone, mask, layout.centre)):
            for joint in range(4):
                expected = lone[t, joint] - torso if mask[t, joint] else np.zeros(3)
                np.testing.assert_allclose(centred[person, t, joint].numpy(), expected, atol=1e-5)


@given(body=bodies(missing=0.0), shift=st.tuples(*[st.floats(-4, 4)] * 3))
def test_centring_removes_the_position(body, shift):
    joints, _ = body
    joints = joints.nan_to_num(posinf=1.0).clamp(-9, 9)
    moved = centre(joints + torch.tensor(shift), STICK)
    torch.testing.assert_close(moved, centre(joints, STICK), atol=1e-5, rtol=0)
    assert (moved[..., 0, :] == 0).all()


def test_layouts_without_a_torso_joint_are_centred_between_shoulders_and_hips():
    joints = torch.randn(1, 5, 17, 3, generator=torch.Generator().manual_seed(1))
    centred = centre(joints, LAYOUTS["coco17"])
    torch.testing.assert_close(
        centred[..., [5, 6, 11, 12], :].mean(-2), torch.zeros(1, 5, 3), atol=1e-6, rtol=0
    )


@settings(max_examples=60)
@given(body=bodies(), mode=st.sampled_from(["axis", "body"]))
def test_scaling_equals_a_loop_over_scalars(body, mode):
    joints, valid = body
    scaled = scale(joints, mode, STICK, valid)
    for person in range(2):
        lone, mask = joints[person].numpy(), valid[person].numpy()
        largest = [max([abs(float(v)) for v in lone[mask][:, axis]], default=0.0) for axis in range(3)]
        divide = largest if mode == "axis" else [max(largest)] * 3
        for axis in range(3):
            expected = np.where(mask, lone[..., axis], 0.0) / (divide[axis] or 1.0)
            np.testing.assert_allclose(scaled[person, ..., axis].numpy(), expected, rtol=1e-6)
    assert (scaled.abs() <= 1).all()


def test_each_axis_reaches_one_and_an_axis_of_zeros_stays_zero():
    joints = torch.tensor([[[[0.5, -4.0, 0.0], [0.25, 2.0, 0.0]]]])
    assert scale(joints).tolist() == [[[[1.0, -1.0, 0.0], [0.5, 0.5, 0.0]]]]
    assert scale(joints, "body").tolist() == [[[[0.125, -1.0, 0.0], [0.0625, 0.5, 0.0]]]]


def test_every_person_and_view_is_scaled_alone():
    joints = torch.randn(2, 3, 5, 6, 4, 3, generator=torch.Generator().manual_seed(2))
    valid = torch.rand(2, 1, 1, 6, 4, generator=torch.Generator().manual_seed(3)) > 0.3
    scaled = scale(joints, valid=valid)
    for person in range(2):
        for view in range(3):
            alone = scale(joints[person, view, 1], valid=valid[person, 0, 0])
            assert torch.equal(scaled[person, view, 1], alone)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("mode", ["axis", "body"])
def test_planes_in_memory_are_scaled_like_rows(mode, masked):
    """Simulated views keep x, y and z apart in memory; that must not show."""
    random = torch.Generator().manual_seed(6)
    joints = torch.randn(2, 3, 5, 6, 4, 3, generator=random)
    joints[0, 0, 0, :, :, 1] = 0.0
    planes = joints.movedim(-1, -3).contiguous().movedim(-3, -1)
    assert planes.stride(-1) != 1
    valid = torch.rand(2, 1, 1, 6, 4, generator=random) > 0.3 if masked else None
    scaled = scale(joints, mode, valid=valid)
    assert torch.equal(scale(planes, mode, valid=valid), scaled)
    assert (scaled.abs().amax((-3, -2, -1)) == 1).all()
    assert torch.equal(
        compute_streams(planes, STICK, valid=valid), compute_streams(joints, STICK, valid=valid)
    )


def test_joints_without_a_mask_are_their_own_stream():
    joints = torch.randn(2, 6, 4, 3, generator=torch.Generator().manual_seed(7))
    assert compute_streams(joints, STICK, ("joints",)) is joints
    assert compute_streams(joints, STICK, ("joints",), torch.ones(6, 4, dtype=torch.bool)) is not joints


@settings(max_examples=40)
@given(body=bodies(), rubbish=st.sampled_from([np.nan, np.inf, 7.0]), extra=st.integers(1, 5))
def test_padding_has_no_influence(body, rubbish, extra):
    """A body in a longer, padded batch is preprocessed as it is alone."""
    joints, valid = body
    padded = torch.cat([joints, torch.full((2, extra, 4, 3), rubbish)], dim=1)
    mask = torch.cat([valid, torch.zeros(2, extra, 4, dtype=torch.bool)], dim=1)
    frames = joints.shape[1]
    alone, batched = centre(joints, STICK, valid), centre(padded, STICK, mask)
    assert torch.equal(batched[:, :frames], alone)
    assert (batched[:, frames:] == 0).all()
    for mode in ("axis", "body"):
        assert torch.equal(scale(batched, mode, valid=mask)[:, :frames], scale(alone, mode, valid=valid))
    assert torch.equal(
        compute_streams(batched, STICK, valid=mask)[:, :frames], compute_streams(alone, STICK, valid=valid)
    )


@settings(max_examples=60)
@given(body=bodies())
def test_streams_equal_a_loop_over_scalars(body):
    joints, valid = body
    seen = compute_streams(joints, STICK, ("motion", "joints", "bones"), valid).numpy()
    assert seen.shape == (*joints.shape[:-1], 9)
    zero = np.zeros(3, np.float32)
    above = {child: parent for parent, child in STICK.bones}
    place, there = joints.numpy(), valid.numpy()
    for person, t, joint in np.ndindex(there.shape):
        here = place[person, t, joint]
        moved = t > 0 and there[person, t, joint] and there[person, t - 1, joint]
        hangs = joint in above and there[person, t, joint] and there[person, t, above[joint]]
        expected = [
            here - place[person, t - 1, joint] if moved else zero,
            here if there[person, t, joint] else zero,
            here - place[person, t, above[joint]] if hangs else zero,
        ]
        np.testing.assert_array_equal(seen[person, t, joint], np.concatenate(expected))


def test_bones_add_up_to_the_joints():
    joints = torch.randn(3, 25, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    layout = LAYOUTS["ntu25"]
    bones = compute_streams(joints, layout, ("bones",))
    rebuilt = joints[:, layout.root].expand(25, 3, 3).transpose(0, 1).clone()
    for joint in range(25):
        above = joint
        while layout.parents[above] >= 0:
            rebuilt[:, joint] += bones[:, above]
            above = layout.parents[above]
    torch.testing.assert_close(rebuilt, joints)


def test_preprocessing_is_differentiable_where_joints_are_missing():
    joints = torch.randn(3, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    valid = torch.ones(3, 4, dtype=torch.bool)
    valid[1, 0] = valid[2, 3] = False
    joints = joints.masked_fill(~valid[..., None], np.nan).requires_grad_()
    compute_streams(
        scale(centre(joints, STICK, valid), valid=valid), STICK, valid=valid
    ).square().sum().backward()
    assert joints.grad is not None
    assert joints.grad.isfinite().all()
    assert (joints.grad[~valid] == 0).all()


@pytest.mark.errors
def test_wrong_shapes_and_options_are_refused():
    joints = torch.ones(2, 5, 4, 3)
    with pytest.raises(ShapeError, match=r"\(\.\.\., frame, joint, 3\) and 25 joints"):
        centre(joints, LAYOUTS["ntu25"])
    with pytest.raises(ShapeError, match="frame, joint, 3"):
        scale(torch.ones(4, 3))
    with pytest.raises(ShapeError, match="int64"):
        scale(torch.ones(2, 5, 4, 3, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"valid needs a bool .*\(2, 5, 4\)"):
        centre(joints, STICK, torch.ones(2, 4, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match="valid needs a bool"):
        scale(joints, valid=torch.ones(2, 5, 4))
    with pytest.raises(ConfigError, match="'axis' or 'body'"):
        scale(joints, "both")
    with pytest.raises(ConfigError, match="joints, bones, motion"):
        compute_streams(joints, STICK, ("speed",))
    with pytest.raises(ConfigError, match="one or more"):
        compute_streams(joints, STICK, ())


@pytest.mark.parametrize("masked", [False, True])
def test_velocity_and_deviation_by_scalar_loops(masked):
    generator = torch.Generator().manual_seed(3)
    layout = LAYOUTS["core15"]
    joints = torch.randn(2, 5, 15, 3, generator=generator, dtype=torch.float64)
    valid = torch.rand(2, 5, 15, generator=generator) > 0.3 if masked else None
    found = compute_streams(joints, layout, ("velocity", "deviation"), valid)
    seen = torch.ones(2, 5, 15, dtype=torch.bool) if valid is None else valid
    for b in range(2):
        for j in range(15):
            frames = [f for f in range(5) if seen[b, f, j]]
            for f in range(5):
                low, high = max(f - 1, 0), min(f + 1, 4)
                known = bool(seen[b, low, j] and seen[b, high, j])
                speed = (joints[b, high, j] - joints[b, low, j]) / (high - low) if known else torch.zeros(3)
                assert_close(found[b, f, j, :3], speed.double())
                mean = sum(joints[b, k, j] for k in frames) / len(frames) if frames else 0
                away = joints[b, f, j] - mean if seen[b, f, j] else torch.zeros(3)
                assert_close(found[b, f, j, 3:], away.double())


def test_one_frame_has_no_velocity():
    assert not compute_streams(torch.ones(1, 15, 3), LAYOUTS["core15"], ("velocity",)).any()
