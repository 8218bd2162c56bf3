"""Euler views: the paper's matrices, written out by scalars and by scipy, and the laws of a rotation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from torch.autograd import gradcheck
from torch.testing import assert_close

from jeanie.errors import ConfigError, ShapeError
from jeanie.skeleton import LAYOUTS, centre, scale
from jeanie.views.euler import EulerSimple, EulerViews, make_rotations

BONES = ((0, 1), (1, 2), (2, 3), (1, 4))


def skeletons(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(
        dtype
    )


def rotate_point(point, azimuth, altitude):
    """The paper's R_y, then its R_x, on one point, number by number."""
    x, y, z = point
    a, b = math.radians(azimuth), math.radians(altitude)
    x, y, z = math.cos(a) * x - math.sin(a) * z, y, math.sin(a) * x + math.cos(a) * z
    return x, math.cos(b) * y + math.sin(b) * z, -math.sin(b) * y + math.cos(b) * z


def bits(tensor):
    return tensor.contiguous().view({4: torch.int32, 8: torch.int64, 2: torch.int16}[tensor.element_size()])


def test_every_view_is_the_papers_rotation():
    views = EulerViews(azimuth=60, altitude=30, step=30)
    joints = skeletons(2, 4)
    seen = views(joints)
    for a, azimuth in enumerate((-60, -30, 0, 30, 60)):
        for b, altitude in enumerate((-30, 0, 30)):
            for f in range(2):
                for n in range(4):
                    expected = rotate_point(joints[f, n].tolist(), azimuth, altitude)
                    assert_close(seen[a, b, f, n].tolist(), list(expected), atol=1e-12, rtol=1e-12)


@given(st.floats(-180, 180), st.floats(-90, 90))
def test_scipy_gives_the_same_matrix(azimuth, altitude):
    # the paper's matrices turn the axes, scipy's the points: hence the minus signs
    expected = Rotation.from_euler("yx", [-azimuth, -altitude], degrees=True).as_matrix()
    found = make_rotations(
        torch.tensor(azimuth, dtype=torch.float64), torch.tensor(altitude, dtype=torch.float64)
    )
    assert_close(found, torch.from_numpy(expected), atol=1e-12, rtol=0)


@given(*[st.floats(-180, 180) for _ in range(3)])
def test_the_order_yxz_is_the_matrix_that_the_paper_writes_out(azimuth, altitude, roll):
    """R_yxz as in the source of the paper; sin and cos of x: altitude, y: azimuth, z: roll."""
    (sx, cx), (sy, cy), (sz, cz) = (
        (math.sin(math.radians(angle)), math.cos(math.radians(angle))) for angle in (altitude, azimuth, roll)
    )
    printed = [
        [cy * cz - sx * sy * sz, cy * sz + sx * sy * cz, -sy * cx],
        [-cx * sz, cx * cz, sx],
        [sy * cz + sx * cy * sz, sy * sz - sx * cy * cz, cx * cy],
    ]
    angles = [torch.tensor(angle, dtype=torch.float64) for angle in (azimuth, altitude, roll)]
    assert_close(make_rotations(*angles, order="yxz"), torch.tensor(printed, dtype=torch.float64))


@pytest.mark.parametrize("order", ["xyz", "yxz", "zyx", "xzy"])
def test_every_order_is_a_product_of_the_papers_three_matrices(order):
    """scipy's rotations of a body are the transposes of the paper's rotations of the axes."""
    angles = {"x": 20.0, "y": -50.0, "z": 35.0}
    product = np.eye(3)
    for axis in order:
        product = product @ Rotation.from_euler(axis, -angles[axis], degrees=True).as_matrix()
    found = make_rotations(*(torch.tensor(angles[axis], dtype=torch.float64) for axis in "yxz"), order=order)
    assert_close(found, torch.from_numpy(product))


def test_the_order_of_views_is_an_option_and_keeps_the_recorded_view():
    joints = skeletons(4, 5)
    usual, other = EulerViews(30, 30)(joints), EulerViews(30, 30, order="yxz")(joints)
    assert torch.equal(bits(other[2, 2]), bits(joints))
    assert_close(other[:, 2], usual[:, 2])  # one angle alone: no order
    assert_close(other[2], usual[2])
    assert (other[4, 4] - usual[4, 4]).abs().max() > 0.01
    assert_close(EulerSimple(30, 30, order="yxz")(joints), EulerSimple(30, 30)(joints))


@pytest.mark.errors
def test_an_order_without_all_axes_is_refused():
    with pytest.raises(ConfigError, match="order is one of xyz, xzy, yxz"):
        EulerViews(order="xy")


def test_the_default_grid_is_seven_by_seven_degrees_ascending():
    views = EulerViews()
    assert views.azimuths == views.altitudes == (-45.0, -30.0, -15.0, 0.0, 15.0, 30.0, 45.0)
    assert views.shape == (7, 7)


def test_one_view_is_the_recording():
    views = EulerViews(azimuth=0, altitude=0)
    joints = skeletons(3, 5)
    assert views.shape == (1, 1)
    assert torch.equal(views(joints)[0, 0], joints)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_middle_view_is_the_input_bit_for_bit(dtype):
    joints = skeletons(4, 6, dtype=dtype)
    joints[0, 0] = torch.tensor([-0.0, 0.0, -0.0])
    joints[1, 1] = torch.tensor([math.nan, 1.0, math.inf])
    assert torch.equal(bits(EulerViews()(joints)[3, 3]), bits(joints))
    simple = EulerSimple(azimuth=45, altitude=30)(joints)
    assert torch.equal(bits(simple[3]), bits(joints))
    assert torch.equal(bits(simple[7 + 2]), bits(joints))


@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 3), (2, 1, 2), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_any_batch_shape_and_dtype_is_accepted(batch, dtype):
    joints = skeletons(*batch, 4, 5, dtype=dtype)
    views = EulerViews(azimuth=30, altitude=15)
    seen = views(joints)
    assert seen.shape == (*batch, 5, 3, 4, 5, 3)
    assert seen.dtype == dtype
    singles = [views(one) for one in joints.reshape(-1, 4, 5, 3)]
    expected = torch.stack(singles) if singles else seen.new_empty(0, 5, 3, 4, 5, 3)
    assert_close(seen.reshape(-1, 5, 3, 4, 5, 3), expected)
    assert EulerSimple(azimuth=30, altitude=15)(joints).shape == (*batch, 8, 4, 5, 3)


def test_no_frames_give_no_frames():
    assert EulerViews()(torch.zeros(2, 0, 5, 3)).shape == (2, 7, 7, 0, 5, 3)


def test_the_input_is_not_changed():
    joints = skeletons(2, 3)
    before = joints.clone()
    seen = EulerViews()(joints)
    seen.zero_()
    assert torch.equal(joints, before)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([5, 15, 22.5, 45]), st.integers(1, 2), st.integers(0, 2**31))
def test_views_compose_and_invert(step, steps, seed):
    """Along one axis, two turns are the turn by their sum, and the opposite turn undoes one."""
    joints = skeletons(2, 3, seed=seed)
    views = EulerViews(azimuth=2 * step, altitude=2 * step, step=step)
    once = views(joints)[2 + steps, 2]
    assert_close(views(once)[2 - steps, 2], joints)
    assert_close(views(views(joints)[3, 2])[3, 2], views(joints)[4, 2])
    assert_close(views(views(joints)[2, 3])[2, 3], views(joints)[2, 4])
    lifted = views(joints)[2, 2 + steps]
    assert_close(views(lifted)[2, 2 - steps], joints)
    # azimuth first, altitude second
    assert_close(views(once)[2, 2 + steps], views(joints)[2 + steps, 2 + steps])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([torch.float32, torch.float64]))
def test_bone_lengths_are_kept(seed, dtype):
    joints = skeletons(3, 5, dtype=dtype, seed=seed)
    parents, children = zip(*BONES, strict=True)

    def lengths(points):
        return (points[..., parents, :] - points[..., children, :]).norm(dim=-1)

    expected = lengths(joints).expand(7, 7, 3, 4)
    assert_close(lengths(EulerViews()(joints)), expected)


def test_missing_joints_stay_0_in_every_view_and_need_no_mask_to_be_scaled():
    joints = skeletons(2, 6, 25, dtype=torch.float32)
    valid = torch.rand(2, 6, 25, generator=torch.Generator().manual_seed(1)) > 0.2
    seen = EulerViews()(centre(joints, LAYOUTS["ntu25"], valid))
    missing = ~valid[:, None, None].expand(seen.shape[:-1])
    assert missing.any()
    assert (seen[missing] == 0).all()
    assert torch.equal(scale(seen), scale(seen, valid=valid[:, None, None]))


def test_matrices_are_rotations():
    matrices = EulerViews(azimuth=90, altitude=90).rotations()
    assert matrices.dtype == torch.float64
    assert_close(matrices @ matrices.mT, torch.eye(3, dtype=torch.float64).expand_as(matrices))
    assert_close(torch.linalg.det(matrices), torch.ones(13, 13, dtype=torch.float64))


def test_the_up_axis_never_leans_sideways():
    up = torch.tensor([[[0.0, 1.0, 0.0]]], dtype=torch.float64)
    assert EulerViews()(up)[..., 0].abs().max() < 1e-15


def test_a_higher_camera_is_closer_to_the_head_and_a_rotated_one_to_minus_x():
    head_and_side = torch.tensor([[[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]])
    seen = EulerViews()(head_and_side)
    assert seen[3, 4, 0, 0, 2] < 0
    assert seen[4, 3, 0, 1, 2] < 0


def test_simple_rows_are_the_middle_row_and_column_of_the_grid():
    joints = skeletons(2, 3, 4)
    simple, grid = EulerSimple(azimuth=45, altitude=30), EulerViews(azimuth=45, altitude=30)
    rows, full = simple(joints), grid(joints)
    assert simple.shape == (7 + 5,)
    assert_close(rows[:, simple.azimuth_rows], full[:, :, 2])
    assert_close(rows[:, simple.altitude_rows], full[:, 3, :])


def test_gradients_flow_through_every_view():
    joints = skeletons(1, 3).requires_grad_()
    assert gradcheck(EulerViews(azimuth=15, altitude=15), (joints,))
    assert gradcheck(EulerSimple(azimuth=15, altitude=15), (joints,))
    # rotations are orthogonal, so pulling back all views of a unit gradient adds up the inverses
    EulerViews()(joints).square().sum().backward()
    assert_close(joints.grad, 2 * 49 * joints.detach())


@pytest.mark.parametrize("kind", [EulerViews, EulerSimple])
def test_overwriting_returned_matrices_does_not_change_the_next_call(kind):
    joints = skeletons(2, 3)
    before = kind()(joints)
    kind().rotations().zero_()
    assert torch.equal(kind()(joints), before)


@pytest.mark.parametrize("kind", [EulerViews, EulerSimple])
def test_views_made_in_inference_mode_can_be_used_in_training_later(kind):
    views = kind(azimuth=33, altitude=11, step=11)  # a grid that no other test asks for
    joints = skeletons(2, 3)
    with torch.inference_mode():
        views(joints)
    joints.requires_grad_()
    views(joints).square().sum().backward()
    assert_close(joints.grad, 2 * math.prod(views.shape) * joints.detach())


def test_equal_settings_are_equal_and_hashable():
    assert EulerViews() == EulerViews(45, 45, 15)
    assert EulerViews() != EulerSimple()
    assert len({EulerViews(), EulerViews(45, 45, 15), EulerViews(30)}) == 2


@given(st.integers(0, 12), st.sampled_from([0.1, 1, 7.5, 15, 1 / 3]))
def test_every_multiple_of_the_step_is_accepted(count, step):
    views = EulerViews(azimuth=count * step, altitude=0, step=step)
    assert views.shape == (2 * count + 1, 1)
    assert views.azimuths[count] == 0.0
    assert_close(np.diff(views.azimuths), np.full(2 * count, float(step)))


@pytest.mark.errors
@pytest.mark.parametrize("kind", [EulerViews, EulerSimple])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0}, "step is the angle"),
        ({"step": -15}, "step is the angle"),
        ({"step": math.nan}, "step is the angle"),
        ({"step": math.inf}, "step is the angle"),
        ({"azimuth": 40}, r"azimuth must be a multiple of step, got azimuth=40 with step=15; try azimuth=45"),
        ({"altitude": 50}, "altitude must be a multiple"),
        ({"azimuth": 7}, "or a step that divides 7"),
        ({"azimuth": -15}, "azimuth is the largest angle"),
        ({"azimuth": 195}, "from 0 to 180"),
        ({"altitude": 105}, "from 0 to 90"),
        ({"altitude": math.nan}, "altitude is the largest angle"),
    ],
    ids=str,
)
def test_an_impossible_range_is_refused(kind, options, message):
    with pytest.raises(ConfigError, match=message):
        kind(**options)


@pytest.mark.errors
@pytest.mark.parametrize("kind", [EulerViews, EulerSimple])
def test_other_shapes_are_refused(kind):
    with pytest.raises(ShapeError, match=r"\(\.\.\., frame, joint, 3\), got shape \(5, 3\)"):
        kind()(torch.zeros(5, 3))
    with pytest.raises(ShapeError, match="got shape"):
        kind()(torch.zeros(4, 5, 2))
    with pytest.raises(ShapeError, match="floating"):
        kind()(torch.zeros(4, 5, 3, dtype=torch.int64))
