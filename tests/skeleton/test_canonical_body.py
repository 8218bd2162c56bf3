"""A normal body is the same wherever someone stands, however large, turned, or often recorded a second."""

import math

import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets import open_dataset
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.canonical_body import BODY, average_over_time, compute_canonical_body, rotate_about_y

CORE = LAYOUTS["core15"]


@pytest.fixture(scope="module")
def clip() -> Motion:
    found = open_dataset("synthetic")[0]
    return found.replace(joints=found.joints, valid=found.valid).fill_gaps(1000)


def spin(motion: Motion, degrees: float) -> Motion:
    angle = math.radians(degrees)
    c, s = math.cos(angle), math.sin(angle)
    turn = torch.tensor([[c, 0, -s], [0, 1, 0], [s, 0, c]])
    return motion.replace(joints=motion.joints @ turn.T)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.replace(joints=m.joints * 1.7),
        lambda m: m.replace(joints=m.joints + torch.tensor([3.0, -1.0, 5.0])),
        lambda m: spin(m, 75),
        lambda m: spin(m, -160),
    ],
    ids=["larger", "elsewhere", "turned", "from behind"],
)
def test_the_canonical_body_does_not_depend_on_place_size_and_direction(clip, change):
    expected, _ = compute_canonical_body(clip, 32)
    found, _ = compute_canonical_body(change(clip), 32)
    assert_close(found, expected, atol=2e-4, rtol=0)


def test_the_body_is_centred_faces_the_camera_and_has_a_path(clip):
    joints, valid = compute_canonical_body(clip, 32)
    assert joints.shape == (32, 1, 16, 3)
    assert len(BODY) == 16
    assert bool(valid.all())
    left, right = (
        [CORE.index(f"{side}_{part}") for part in ("shoulder", "hip")] for side in ("left", "right")
    )
    assert_close(joints[:, 0, left + right].mean(1), torch.zeros(32, 3), atol=1e-5, rtol=0)
    line = (joints[:, 0, right] - joints[:, 0, left]).sum((0, 1))
    assert line[0] > 0
    assert abs(line[2]) < 1e-3 * line[0]
    assert_close(joints[:, 0, 15].mean(0), torch.zeros(3), atol=1e-5, rtol=0)


def test_two_persons_face_each_other():
    generator = torch.Generator().manual_seed(0)
    rest = torch.randn(15, 3, generator=generator) * 0.3
    one, two = rest, rest + torch.tensor([2.0, 0.0, 1.0])
    motion = Motion(torch.stack([one, two])[None].repeat(9, 1, 1, 1), CORE)
    joints, _ = compute_canonical_body(motion, 8)
    # each turned by another angle, so that the partner lies straight ahead: towards -z
    ahead = torch.tensor([2.0, 0.0, 1.0])
    angle = torch.atan2(-ahead[0], -ahead[2])
    expected = rotate_about_y((rest - rest[[3, 6, 9, 12]].mean(0))[None, None], -angle[None])[0, 0]
    size = expected.norm() / joints[0, 0, :15].norm()
    assert_close(joints[0, 0, :15] * size, expected, atol=1e-4, rtol=0)


def test_a_missing_joint_is_0_and_marked_in_the_mask(clip):
    valid = clip.valid.clone()
    hand = clip.layout.index("left_hand") if "left_hand" in clip.layout.joints else 0
    valid[
        :,
        :,
        [
            hand,
            *[i for i, name in enumerate(clip.layout.joints) if name.startswith("left_") and "wrist" in name],
        ],
    ] = False
    for name in ("left_hand_tip", "left_thumb"):
        if name in clip.layout.joints:
            valid[:, :, clip.layout.index(name)] = False
    joints, seen = compute_canonical_body(clip.replace(valid=valid), 32)
    at = CORE.index("left_hand")
    assert not seen[:, 0, at].any()
    assert not joints[:, 0, at].any()
    assert bool(seen[:, 0, CORE.index("right_hand")].all())


def test_averaging_equals_the_mean_of_linear_interpolation():
    line = torch.arange(65.0)[:, None, None].expand(65, 15, 3)
    found = average_over_time(line, 32)
    assert_close(found[1:-1, 0, 0], torch.linspace(0, 64, 32)[1:-1], atol=1e-4, rtol=0)
    assert bool((found[1:] > found[:-1]).all())


@pytest.mark.parametrize("frames", [1, 2, 31, 300])
def test_any_number_of_frames_is_accepted(clip, frames):
    joints, _ = compute_canonical_body(clip.to_length(frames), 32)
    assert joints.shape == (32, 1, 16, 3)
    assert bool(joints.isfinite().all())
