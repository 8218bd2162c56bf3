"""Facing: bodies turned to the camera, whatever direction they were recorded from."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from jeanie.errors import ConfigError
from jeanie.skeleton.blocks import blocks
from jeanie.skeleton.facing import compute_lateral_axis, face
from jeanie.skeleton.layout import LAYOUTS, Layout

NTU = LAYOUTS["ntu25"]
yaws = st.floats(-np.pi, np.pi)
scopes = st.sampled_from(["frame", "clip"])


def make_facing_body(frames: int = 6, seed: int = 0) -> torch.Tensor:
    """A moving body whose shoulders and hips lie along +x on average; float64 [frame, joint, 3]."""
    random = np.random.default_rng(seed)
    joints = random.normal(size=(frames, len(NTU), 3)) * 0.3
    for part, width in (("shoulder", 0.2), ("hip", 0.1)):
        joints[:, NTU.index(f"left_{part}"), 0] -= width + 0.8
        joints[:, NTU.index(f"right_{part}"), 0] += width + 0.8
    return torch.from_numpy(joints)


def rotate(joints: torch.Tensor, yaw) -> torch.Tensor:
    """Joints turned about +y; ``yaw`` is one angle or one a frame."""
    rotations = Rotation.from_euler("y", np.reshape(yaw, (-1, 1))).as_matrix()
    return torch.from_numpy(
        np.einsum("fij,fnj->fni", np.broadcast_to(rotations, (len(joints), 3, 3)), joints)
    )


@given(yaw=yaws, seed=st.integers(0, 99), per=scopes)
def test_facing_removes_the_yaw_of_a_body(yaw, seed, per):
    joints = make_facing_body(seed=seed)
    torch.testing.assert_close(face(rotate(joints, yaw), NTU, per), face(joints, NTU, per), atol=1e-9, rtol=0)


@given(yaw=st.lists(yaws, min_size=6, max_size=6))
def test_facing_per_frame_removes_the_yaw_of_every_frame(yaw):
    joints = make_facing_body()
    torch.testing.assert_close(
        face(rotate(joints, yaw), NTU, "frame"), face(joints, NTU, "frame"), atol=1e-9, rtol=0
    )


@given(yaw=yaws, per=scopes)
def test_shoulders_and_hips_lie_along_x(yaw, per):
    faced = face(rotate(make_facing_body(), yaw), NTU, per)
    line = faced[:, 8] - faced[:, 4] + faced[:, 16] - faced[:, 12]  # shoulders, then hips, of ntu25
    line = line.mean(0, keepdim=True) if per == "clip" else line
    assert (line[:, 0] > 0).all()
    torch.testing.assert_close(line[:, 2], torch.zeros(len(line), dtype=torch.float64), atol=1e-9, rtol=0)


@settings(max_examples=30)
@given(yaw=yaws, per=scopes)
def test_facing_is_a_rotation_about_the_up_axis(yaw, per):
    """Distances, heights and handedness stay: the frame's turn is a rotation that scipy finds, about y."""
    joints = rotate(make_facing_body(), yaw)
    faced = face(joints, NTU, per)
    assert torch.equal(faced[..., 1], joints[..., 1])
    for before, after in zip(joints.numpy(), faced.numpy(), strict=True):
        found, residual = Rotation.align_vectors(after, before)
        assert residual < 1e-6
        np.testing.assert_allclose(found.apply([0.0, 1.0, 0.0]), [0.0, 1.0, 0.0], atol=1e-6)


def test_a_front_view_is_unchanged_and_a_back_view_is_rotated():
    """Right-handed camera space, +z away: the face of someone who looks into the camera points to -z."""
    body = torch.zeros(1, 25, 3)
    body[0, NTU.index("left_shoulder")] = torch.tensor([-0.2, 0.5, 0.0])
    body[0, NTU.index("right_shoulder")] = torch.tensor([0.2, 0.5, 0.0])
    body[0, NTU.index("left_foot")] = torch.tensor([-0.1, -0.9, -0.1])  # toes towards the camera
    assert torch.equal(face(body, NTU), body)
    back = body * torch.tensor([-1.0, 1.0, -1.0])
    assert torch.equal(face(back, NTU), body)


@given(yaw=st.lists(yaws, min_size=12, max_size=12))
def test_blocks_are_rotated_independently(yaw):
    cut = blocks(rotate(make_facing_body(frames=12), yaw), length=4, stride_ratio=0.5)
    faced = face(cut, NTU, "block")
    for block in range(len(cut)):
        assert torch.equal(faced[block], face(cut[block], NTU, "clip"))


@given(yaw=yaws)
def test_frames_without_shoulders_and_hips_use_their_neighbours(yaw):
    joints = rotate(make_facing_body(), yaw)
    joints[3] = joints[2]  # so that the frames around the gap agree
    joints[4] = joints[2]
    valid = torch.ones(6, 25, dtype=torch.bool)
    valid[3, [NTU.index(joint) for joint in ("left_shoulder", "right_hip")]] = False
    valid[5:, NTU.index("right_shoulder")] = valid[5:, NTU.index("left_hip")] = False
    joints[~valid] = torch.nan
    faced = face(joints, NTU, "frame", valid)
    head = NTU.index("head")
    torch.testing.assert_close(faced[3, head], faced[2, head])
    kept = torch.linalg.vector_norm(joints[5, head])
    torch.testing.assert_close(torch.linalg.vector_norm(faced[5, head]), kept)
    assert (faced[~valid] == 0).all()


def test_a_pair_with_a_missing_joint_adds_nothing_to_the_line():
    joints = make_facing_body()
    shoulders, hips = joints[:, 8] - joints[:, 4], joints[:, 16] - joints[:, 12]
    torch.testing.assert_close(compute_lateral_axis(joints, NTU), shoulders + hips)
    valid = torch.ones(6, 25, dtype=torch.bool)
    valid[1, 4] = valid[2, 16] = valid[3, 8] = valid[3, 12] = False
    line = compute_lateral_axis(joints, NTU, valid)
    torch.testing.assert_close(line[1:4], torch.stack([hips[1], shoulders[2], torch.zeros_like(hips[3])]))


@given(yaw=yaws)
def test_a_clip_is_rotated_by_its_valid_frames(yaw):
    joints = rotate(make_facing_body(), yaw)
    valid = torch.ones(6, 25, dtype=torch.bool)
    valid[2, [NTU.index("left_shoulder"), NTU.index("left_hip")]] = False  # no line in frame 2
    seen = [0, 1, 3, 4, 5]
    torch.testing.assert_close(face(joints, NTU, "clip", valid)[seen], face(joints[seen], NTU, "clip"))


def test_a_body_without_shoulders_and_hips_is_not_rotated():
    joints = make_facing_body()
    valid = torch.ones(6, 25, dtype=torch.bool)
    valid[:, [NTU.index("left_shoulder"), NTU.index("left_hip")]] = False
    for per in ("frame", "clip"):
        faced = face(joints, NTU, per, valid)
        assert torch.equal(faced, joints.masked_fill(~valid[..., None], 0.0))


@given(yaw=yaws)
def test_a_layout_with_z_up_is_rotated_about_z(yaw):
    """The same body laid over by a quarter turn about x, (x, y, z) -> (x, -z, y), and back."""
    up_z = Layout("up_z", NTU.joints, NTU.bones, NTU.pairs, NTU.root, NTU.torso, up="z")
    joints = rotate(make_facing_body(), yaw)
    sign = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    faced = face(joints[..., [0, 2, 1]] * sign, up_z)
    torch.testing.assert_close(faced, face(joints, NTU)[..., [0, 2, 1]] * sign)


@given(seed=st.integers(0, 20))
def test_persons_and_clips_are_rotated_independently(seed):
    batch = torch.stack([rotate(make_facing_body(seed=seed + k), k) for k in range(4)]).reshape(
        2, 2, 6, 25, 3
    )
    for per in ("frame", "clip"):
        faced = face(batch, NTU, per)
        for k in range(4):
            assert torch.equal(faced[k // 2, k % 2], face(batch[k // 2, k % 2], NTU, per))


@pytest.mark.errors
def test_a_layout_without_a_facing_direction_is_refused():
    with pytest.raises(ConfigError, match="needs depth"):
        face(torch.ones(5, 17, 3), LAYOUTS["coco17"])
    with pytest.raises(ConfigError, match="frame, block, clip"):
        face(torch.ones(5, 25, 3), NTU, "day")
    hand = Layout("hand", ("left_wrist", "left_thumb"), ((0, 1),), (), 0, 0)
    with pytest.raises(ConfigError, match="neither shoulders nor hips"):
        face(torch.ones(5, 2, 3), hand)
