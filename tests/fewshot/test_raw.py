"""Models without learning: the reference is the sum that a page of scalar loops makes, and plain DTW stays plain."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.errors import ConfigError
from jeanie.fewshot.config import RAW, RAWS, REFERENCE
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.canonical_body import compute_canonical_body


def motion(seed, layout="kinect20", frames=24, persons=1):
    """A body that stands and moves its joints smoothly."""
    generator = torch.Generator().manual_seed(seed)
    names = LAYOUTS[layout]
    rest = torch.randn(1, persons, len(names), 3, generator=torch.Generator().manual_seed(7))
    time = torch.linspace(0, 1, frames)[:, None, None, None]
    phase, speed = torch.rand(2, 1, persons, len(names), 3, generator=generator)
    return Motion(rest + 0.4 * torch.sin(2 * math.pi * (1 + 2 * speed) * time + 6 * phase), names, rate=30.0)


def dtw(left, right):
    """Least sum of squared distances along a path, over the sum of both lengths, by scalar loops."""
    table = np.full((len(left) + 1, len(right) + 1), np.inf)
    table[0, 0] = 0
    for t in range(len(left)):
        for s in range(len(right)):
            cost = sum((a - b) ** 2 for a, b in zip(left[t], right[s], strict=True))
            table[t + 1, s + 1] = cost + min(table[t, s], table[t, s + 1], table[t + 1, s])
    return table[-1, -1] / (len(left) + len(right))


def streams(clip):
    """Positions with tripled deviations; velocities; positions in windows of 8 frames, every 4."""
    body = compute_canonical_body(clip, 32, torch.float64)[0][:, 0].numpy()  # [frame, joint, 3]
    mean = body.mean(0)
    fine = [np.concatenate([frame, 3 * (frame - mean)], 1).ravel() for frame in body]
    around = [body[1] - body[0]]
    around += [(body[t + 1] - body[t - 1]) / 2 for t in range(1, 31)]
    around += [body[31] - body[30]]
    windows = [body[t : t + 8].ravel() for t in range(0, 25, 4)]
    return fine, [frame.ravel() for frame in around], windows


def test_the_reference_is_the_weighted_sum_of_three_alignments():
    one, two = motion(0), motion(1, frames=31)
    parts = [dtw(left, right) for left, right in zip(streams(one), streams(two), strict=True)]
    expected = parts[0] / 1.8 + 0.2 * parts[1] / 0.021 + 0.2 * parts[2] / 3.6
    assert_close(FewShotModel.raw().distances([one], [two]).item(), expected, rtol=1e-4, atol=0)


def test_each_part_of_the_reference_counts():
    clips = [motion(seed) for seed in range(4)]
    whole = FewShotModel.raw().distances(clips, clips)
    for number in (0, 1):
        components = tuple(part for at, part in enumerate(REFERENCE.components) if at != number)
        less = FewShotModel.raw(REFERENCE.with_values(components=components)).distances(clips, clips)
        assert bool((whole - less)[~torch.eye(4, dtype=torch.bool)].min() > 0.01)


@pytest.mark.parametrize("degrees", [30.0, -75.0])
def test_the_reference_does_not_mind_where_one_stands_how_large_and_how_turned(degrees):
    clips, other = [motion(seed) for seed in range(3)], motion(5)
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn = torch.tensor([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    moved = other.replace(joints=1.3 * other.joints @ turn.T + torch.tensor([0.5, 0.1, 2.0]))
    model = FewShotModel.raw()
    assert_close(model.distances([moved], clips), model.distances([other], clips), rtol=2e-3, atol=1e-4)
    plain = FewShotModel.raw("dtw")
    assert not torch.allclose(plain.distances([moved], clips), plain.distances([other], clips), rtol=0.01)


def test_two_persons_may_come_in_either_order():
    pair, other = motion(1, persons=2), motion(2, persons=2)
    swapped = pair.replace(joints=pair.joints.flip(1), valid=pair.valid.flip(1))
    model = FewShotModel.raw()
    assert_close(model.distances([pair], [other]), model.distances([swapped], [other]), rtol=1e-4, atol=1e-6)


def test_layouts_and_frame_rates_mix():
    model = FewShotModel.raw()
    clips = [motion(0, "ntu25", 40), motion(1, "kinect20", 25), motion(2, "mediapipe33", 31)]
    assert model.distances(clips, clips).argmin(1).tolist() == [0, 1, 2]


def test_raw_models_have_names_and_learn_nothing():
    assert FewShotModel.raw().config == RAWS["reference"] == REFERENCE
    assert FewShotModel.raw("dtw").config == RAWS["dtw"] == RAW
    assert FewShotModel.raw(RAW.with_values({"inputs.prepare.frames": 8})).config.inputs.prepare.frames == 8
    for name in RAWS:
        assert list(FewShotModel.raw(name).parameters()) == []


@pytest.mark.errors
def test_an_unknown_raw_model_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="no raw model 'rare'; the known raw models are dtw, reference"):
        FewShotModel.raw("rare")
