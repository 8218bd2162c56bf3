"""Poses of a stream: sampled at ticks, kept for a bounded time, and matched with the poses of examples."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from movements import open_clip

from jeanie.recogniser.explain.bodies import compute_bodies
from jeanie.recogniser.stream.motion_buffer import MotionBuffer
from jeanie.recogniser.stream.pose_sampler import PoseSampler
from jeanie.recogniser.stream.subsequence import Templates, match_templates
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


def match_slowly(poses, template):
    """The best (score, start, end) by plain dynamic programming from every start."""
    best = (np.inf, 0, 0)
    n = len(template)
    cost = ((poses[:, None] - template[None]) ** 2).sum((-1, -2)) / 15
    for start in range(len(poses)):
        table = np.full((len(poses), n), np.inf)
        for t in range(start, len(poses)):
            for i in range(n):
                if t == start and i == 0:
                    before = 0.0
                else:
                    before = min(
                        table[t - 1, i] if t > start else np.inf,
                        table[t, i - 1] if i else np.inf,
                        table[t - 1, i - 1] if t > start and i else np.inf,
                    )
                table[t, i] = cost[t, i] + before
            length = t + 1 - start
            if n <= 2 * length and length <= 2 * n:
                best = min(best, (table[t, n - 1] / (n + length), start, t + 1))
    return best


@given(st.integers(0, 10**6))
@settings(max_examples=15)
def test_a_place_that_is_in_the_poses_is_found(seed):
    """A template that was cut out is found where it was, at no cost; and its cost is that of plain alignment."""
    rng = np.random.default_rng(seed)
    poses = rng.normal(size=(24, 15, 3))
    start, length = int(rng.integers(0, 14)), int(rng.integers(4, 10))
    template = poses[start : start + length]
    padded = torch.zeros(1, 12, 45, dtype=torch.float64)
    padded[0, :length] = torch.tensor(template.reshape(length, 45))
    templates = Templates(("cut",), padded, torch.tensor([length]))
    (place,) = match_templates(torch.tensor(poses), templates)
    assert (place.start, place.end) == (start, start + length)
    assert place.score == pytest.approx(0, abs=1e-9)


@given(st.integers(0, 10**6))
@settings(max_examples=15)
def test_places_cost_what_plain_alignment_says(seed):
    """Smooth poses at another tempo. The start follows the cheapest path to each end, so no place is cheaper."""
    rng = np.random.default_rng(seed)
    poses = rng.normal(size=(16, 15, 3)).cumsum(0)
    template = poses[4:12:2] + 0.1 * rng.normal(size=(4, 15, 3))
    templates = Templates(("it",), torch.tensor(template.reshape(1, 4, 45)), torch.tensor([4]))
    (place,) = match_templates(torch.tensor(poses), templates)
    score, _, _ = match_slowly(poses, template)
    assert place.score >= score - 1e-9
    own = match_slowly(poses[place.start : place.end], template)
    assert own[0] <= place.score + 1e-9
    cost = ((poses[place.start : place.end, None] - template[None]) ** 2).sum((-1, -2)) / 15
    table = np.full((len(cost) + 1, 5), np.inf)
    table[0, 0] = 0
    for t in range(len(cost)):
        for i in range(4):
            table[t + 1, i + 1] = cost[t, i] + min(table[t, i], table[t, i + 1], table[t + 1, i])
    assert place.score == pytest.approx(table[-1, -1] / (4 + len(cost)), rel=1e-9)


def test_the_past_is_bounded_and_keeps_its_numbers():
    past = MotionBuffer(10)
    for start in range(0, 100, 7):
        past.add(torch.arange(start, start + 7))
        assert len(past._rows) <= 20 + 7
    assert past.end == 105
    assert past.read(96, 105).tolist() == list(range(96, 105))
    assert past.read(0, 105).tolist()[-10:] == list(range(95, 105))
    assert past.read(0, 3).tolist() == []
