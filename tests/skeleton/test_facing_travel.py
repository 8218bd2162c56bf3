"""The direction of the torso's path, and bodies turned by it."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.errors import ConfigError
from jeanie.skeleton.facing import compute_travel_direction, rotate_to_travel
from jeanie.skeleton.layout import LAYOUTS

LAYOUT = LAYOUTS["kinect20"]


def walk(direction_deg, frames=12, seed=0):
    """A body that shakes and goes one metre in a direction, counted from +x towards the depth."""
    generator = torch.Generator().manual_seed(seed)
    body = 0.05 * torch.randn(frames, len(LAYOUT), 3, generator=generator, dtype=torch.float64)
    angle = math.radians(direction_deg)
    step = torch.tensor([math.cos(angle), 0.0, math.sin(angle)], dtype=torch.float64)
    return (
        body
        + torch.linspace(0, 1, frames, dtype=torch.float64)[:, None, None] * step
        + torch.tensor([0.3, 1, 3])
    )


def test_the_direction_is_the_slope_of_the_least_squares_line():
    joints = walk(30)
    torso = joints[:, list(LAYOUT.centre)].mean(1).numpy()
    slope = np.polyfit(np.arange(12), torso, 1)[0]
    found = compute_travel_direction(joints, LAYOUT).numpy()
    assert_close(
        torch.from_numpy(found / np.linalg.norm(found)), torch.from_numpy(slope / np.linalg.norm(slope))
    )


@pytest.mark.parametrize("degrees", [0, 75, 180, -120])
def test_a_rotated_body_travels_along_x(degrees):
    turned = rotate_to_travel(walk(degrees), LAYOUT)
    line = compute_travel_direction(turned, LAYOUT)
    assert line[0] > 0
    assert_close(line[2], torch.zeros((), dtype=torch.float64), atol=1e-9, rtol=0)


def test_frames_without_a_torso_do_not_count():
    joints = walk(50)
    valid = torch.ones(12, len(LAYOUT), dtype=torch.bool)
    valid[3:6, LAYOUT.centre[0]] = False
    kept = [f for f in range(12) if not 3 <= f < 6]
    torso = joints[:, list(LAYOUT.centre)].mean(1)[kept].numpy()
    slope = np.polyfit(kept, torso, 1)[0]
    broken = torch.where(valid[..., None], joints, 100.0)
    found = compute_travel_direction(broken, LAYOUT, valid).numpy()
    assert_close(
        torch.from_numpy(found / np.linalg.norm(found)), torch.from_numpy(slope / np.linalg.norm(slope))
    )


def test_travel_blocks_are_rotated_independently():
    blocks = torch.stack([walk(10), walk(100, seed=1)])
    found = rotate_to_travel(blocks, LAYOUT)
    for block in range(2):
        assert_close(found[block], rotate_to_travel(blocks[block], LAYOUT))


def test_a_body_that_stands_still_is_not_rotated():
    joints = walk(40)[:1].expand(5, -1, -1)
    assert_close(rotate_to_travel(joints, LAYOUT), joints)


@pytest.mark.errors
def test_a_layout_with_two_dimensions_is_refused():
    flat = LAYOUTS["openpose18"]
    with pytest.raises(
        ConfigError, match=r"needs depth, layout 'openpose18' has 2 dimensions; lift it first"
    ):
        rotate_to_travel(torch.zeros(4, len(flat), 3), flat)
