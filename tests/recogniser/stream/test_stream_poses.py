"""Poses of a stream: sampled at ticks and kept for a bounded time."""

import torch
from movements import open_clip

from jeanie.recogniser.explain.bodies import compute_bodies
from jeanie.recogniser.stream.motion_buffer import MotionBuffer
from jeanie.recogniser.stream.pose_sampler import PoseSampler
from jeanie.skeleton import LAYOUTS

NTU = LAYOUTS["ntu25"]


def test_speed_is_that_of_the_body():
    """Someone is carried at 0.6 metres per second; speeds are relative to the size of the body."""
    pose = open_clip("wave").joints[:1]
    times = torch.arange(90) / 30
    carried = pose + times.reshape(-1, 1, 1, 1) * torch.tensor([0.6, 0.0, 0.0])
    clock = PoseSampler(NTU, 1, 30)
    ticks = clock.push(carried, torch.ones(90, 1, 25, dtype=torch.bool))
    size = float(compute_bodies(open_clip("wave").replace(joints=carried[:90], valid=None)).size[0])
    assert len(ticks) == 45
    assert clock.rate == 15
    torch.testing.assert_close(ticks.speeds[10:, 0], torch.full((35,), 0.6 / size), atol=2e-3, rtol=0)


def test_poses_of_ticks_are_normal_bodies():
    wave = open_clip("wave")
    clock = PoseSampler(NTU, 1, 30)
    ticks = torch.cat(
        [clock.push(wave.joints[at : at + 5], wave.valid[at : at + 5]).poses for at in range(0, 96, 5)]
    )
    normal = compute_bodies(wave).joints[:, :, :15]
    means = normal[: len(ticks) * 2].unflatten(0, (-1, 2)).mean(1)
    # facing and size are those of the last two seconds, not of the whole clip
    assert (ticks - means)[-10:].abs().max() < 0.05


def test_the_past_is_bounded_and_keeps_its_numbers():
    past = MotionBuffer(10)
    for start in range(0, 100, 7):
        past.add(torch.arange(start, start + 7))
        assert len(past._rows) <= 20 + 7
    assert past.end == 105
    assert past.read(96, 105).tolist() == list(range(96, 105))
    assert past.read(0, 105).tolist()[-10:] == list(range(95, 105))
    assert past.read(0, 3).tolist() == []
