"""Clips that are prepared together are what each of them is alone."""

import pytest
import torch
from torch.testing import assert_close

from jeanie.fewshot.inputs import Store
from jeanie.fewshot.preparation import PrepareConfig, prepare, prepare_clips
from jeanie.skeleton import LAYOUTS, Motion

LAYOUT = LAYOUTS["kinect20"]
CONFIGS = {
    "usual": PrepareConfig(),
    "one person": PrepareConfig(persons=1),
    "no gaps filled": PrepareConfig(gaps=0),
    "another layout": PrepareConfig(layout="core15"),
    "other options": PrepareConfig(frames=12, size="bones", facing="clip"),
    "canonical": PrepareConfig(body="canonical"),
}


def make_motion(number, share):
    """Return a motion of 1 to 3 persons from which a share of the joints is missing."""
    generator = torch.Generator().manual_seed(number)
    frames, persons = 1 + 7 * (number % 5), 1 + number % 3
    joints = torch.randn(frames, persons, len(LAYOUT), 3, generator=generator)
    valid = torch.rand(joints.shape[:-1], generator=generator) >= share
    valid[0, 0, 0] = True
    if number % 4 == 1:
        valid[:, 0, LAYOUT.torso] = False
    return Motion(joints, LAYOUT, valid=valid, rate=30)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clips_prepared_together_are_those_prepared_alone(config, share, dtype):
    motions = [make_motion(number, share) for number in range(12)]
    for found, motion in zip(prepare_clips(motions, config, dtype), motions, strict=True):
        expected = prepare(motion, config, dtype)
        assert found.layout == expected.layout
        assert torch.equal(found.valid, expected.valid)
        assert_close(found.joints, expected.joints, rtol=0, atol=1e-6)


def test_motions_of_several_layouts_are_prepared_one_by_one():
    other = Motion(torch.rand(4, 1, 25, 3), LAYOUTS["ntu25"])
    found = prepare_clips([make_motion(0, 0.1), other], PrepareConfig())
    assert [clip.layout.name for clip in found] == ["kinect20", "ntu25"]


def test_a_gap_does_not_reach_into_the_next_body():
    """The last frame of one person and the first of the next are neighbours in memory only."""
    first, second = torch.rand(6, 1, len(LAYOUT), 3), torch.rand(6, 1, len(LAYOUT), 3)
    valid = torch.ones(6, 1, len(LAYOUT), dtype=torch.bool)
    valid[-2:, 0, 3] = valid[:2, 0, 4] = False
    clips = prepare_clips(
        [Motion(first, LAYOUT, valid=valid), Motion(second, LAYOUT, valid=valid)], PrepareConfig()
    )
    assert all(torch.equal(clip.valid, valid) for clip in clips)


def test_motions_are_not_changed():
    motions = [make_motion(number, 0.1) for number in range(3)]
    before = [motion.joints.clone() for motion in motions]
    prepare_clips(motions, PrepareConfig())
    assert all(torch.equal(motion.joints, joints) for motion, joints in zip(motions, before, strict=True))


@pytest.mark.parametrize("limit", [0, 5000, 2**30])
def test_a_store_returns_the_same_batch_from_any_cache(limit):
    motions = [make_motion(number, 0.1) for number in range(6)]
    expected = Store(motions, PrepareConfig(), limit=2**30)[range(6)]
    store = Store(motions, PrepareConfig(), limit=limit)
    for indices in ([3, 1], [1, 1, 4], list(range(6))):
        batch = store[indices]
        assert batch.frames.tolist() == [len(motions[index]) for index in indices]
        longest = batch.joints.shape[2]
        assert_close(
            batch.joints, expected.joints[indices, : batch.joints.shape[1], :longest], rtol=0, atol=1e-6
        )


def test_clips_prepared_ahead_are_used_once_more_and_then_forgotten(monkeypatch):
    motions, counts = [make_motion(number, 0.1) for number in range(6)], []

    def count_clips(motions, *options):
        counts.append(len(motions))
        return prepare_clips(motions, *options)

    monkeypatch.setattr("jeanie.fewshot.inputs.prepare_clips", count_clips)
    store = Store(motions, PrepareConfig(), limit=0)
    store.prepare_ahead([0, 1, 2, 3])
    first, second = store[[0, 1]], store[[2, 3]]
    assert counts == [4]
    store.prepare_ahead([4])
    assert_close(store[[0, 1]].joints, first.joints, rtol=0, atol=1e-6)
    assert counts == [4, 1, 2]
    assert len(second) == 2
