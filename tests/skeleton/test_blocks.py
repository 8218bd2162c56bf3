"""Temporal blocks: where they start, what they hold, and batches of different lengths."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jeanie.errors import ConfigError, ShapeError
from jeanie.skeleton.blocks import blocks, compute_stride, count_blocks, list_block_starts


def list_starts(frames: int, length: int, stride: int) -> list[int]:
    """0, S, 2S, ... as long as a whole block fits; one last block if the last frame was not reached."""
    found = [0]
    while found[-1] + stride + length <= frames:
        found.append(found[-1] + stride)
    if found[-1] + length < frames:
        found.append(frames - length)
    return found


def make_numbers(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


@settings(max_examples=300)
@given(frames=st.integers(1, 200), length=st.integers(1, 40), stride=st.integers(1, 40))
def test_block_starts_follow_the_definition(frames, length, stride):
    expected = list_starts(frames, length, stride)
    assert list_block_starts(frames, length, stride).tolist() == expected
    assert int(count_blocks(frames, length, stride)) == len(expected)


@pytest.mark.parametrize(
    ("frames", "expected"), [(1, [0]), (8, [0]), (9, [0, 1]), (13, [0, 5]), (14, [0, 5, 6]), (18, [0, 5, 10])]
)
def test_the_papers_default_block_starts(frames, expected):
    assert compute_stride(8, 0.6) == 5
    assert list_block_starts(frames).tolist() == expected


@pytest.mark.parametrize(
    ("length", "ratio", "stride"), [(8, 0.6, 5), (8, 0.01, 1), (6, 0.5, 3), (10, 1.0, 10)]
)
def test_the_stride_is_a_rounded_fraction_of_the_length(length, ratio, stride):
    assert compute_stride(length, ratio) == stride


@given(frames=st.integers(1, 30), length=st.integers(1, 9), ratio=st.sampled_from([0.1, 0.5, 0.6, 1.0]))
def test_blocks_hold_their_frames_and_a_short_motion_repeats_its_last(frames, length, ratio):
    joints = make_numbers(2, frames, 3, 3)
    cut = blocks(joints, length, ratio)
    first = list_starts(frames, length, compute_stride(length, ratio))
    assert cut.shape == (2, len(first), length, 3, 3)
    for block, start in enumerate(first):
        for offset in range(length):
            assert torch.equal(cut[:, block, offset], joints[:, min(start + offset, frames - 1)])
    covered = {start + offset for start in first for offset in range(length)}
    assert covered >= set(range(frames))


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 25), min_size=1, max_size=5),
    length=st.integers(1, 9),
    ratio=st.sampled_from([0.2, 0.6, 1.0]),
    views=st.sampled_from([(), (2,), (2, 3)]),
    padding=st.sampled_from([0.0, float("nan"), 1e9]),
)
def test_a_padded_batch_gives_the_same_blocks_as_each_motion_alone(lengths, length, ratio, views, padding):
    frames = max(lengths) + 2
    joints = make_numbers(len(lengths), *views, frames, 2, 3)
    for clip, real in enumerate(lengths):
        joints[clip, ..., real:, :, :] = padding
    cut = blocks(joints, length, ratio, lengths=torch.tensor(lengths))
    counts = count_blocks(torch.tensor(lengths), length, compute_stride(length, ratio))
    assert cut.shape == (len(lengths), *views, int(counts.max()), length, 2, 3)
    for clip, real in enumerate(lengths):
        alone = blocks(joints[clip, ..., :real, :, :], length, ratio)
        count = int(counts[clip])
        assert alone.shape[-4] == count
        assert torch.equal(cut[clip, ..., :count, :, :, :], alone)
        assert (cut[clip, ..., count:, :, :, :] == 0).all()


def test_full_lengths_are_the_same_as_no_lengths():
    joints = make_numbers(2, 3, 20, 4, 3)
    assert torch.equal(blocks(joints, lengths=torch.full((2, 3), 20)), blocks(joints))
    assert torch.equal(blocks(joints, lengths=torch.tensor([20, 20])), blocks(joints))


@pytest.mark.parametrize(
    "lengths", [None, [20, 7], [[20, 7, 1], [3, 19, 12]]], ids=["full", "clips", "persons"]
)
def test_planes_in_memory_are_cut_like_rows(lengths):
    """Simulated views keep x, y and z apart in memory; that must not show."""
    joints = make_numbers(2, 3, 20, 4, 3)
    planes = joints.movedim(-1, -3).contiguous().movedim(-3, -1)
    assert planes.stride(-1) != 1
    real = None if lengths is None else torch.tensor(lengths)
    assert torch.equal(blocks(planes, lengths=real), blocks(joints, lengths=real))


def test_every_person_of_every_clip_may_have_its_own_length():
    joints = make_numbers(2, 2, 3, 14, 2, 3) + 1
    lengths = torch.tensor([[14, 9], [2, 13]])
    cut = blocks(joints, lengths=lengths)
    for clip in range(2):
        for person in range(2):
            alone = blocks(joints[clip, person], lengths=lengths[clip, person].expand(3))
            count = alone.shape[-4]
            assert torch.equal(cut[clip, person, :, :count], alone)
            assert (cut[clip, person, :, count:] == 0).all()
    assert torch.equal(joints, make_numbers(2, 2, 3, 14, 2, 3) + 1)


def test_a_mask_is_cut_like_its_joints():
    valid = torch.rand(2, 12, 4, generator=torch.Generator().manual_seed(0)) > 0.5
    cut = blocks(valid[..., None], lengths=torch.tensor([12, 5]))[..., 0]
    assert cut.dtype == torch.bool
    expected = blocks(valid[..., None].float(), lengths=torch.tensor([12, 5]))[..., 0]
    assert torch.equal(cut, expected.bool())


def test_gradients_flow_to_every_frame_as_often_as_it_is_used():
    joints = torch.zeros(1, 12, 1, 3, requires_grad=True)
    blocks(joints, lengths=torch.tensor([10])).sum().backward()
    uses = [0] * 12
    for start in list_starts(10, 8, 5):
        for offset in range(8):
            uses[start + offset] += 1
    assert joints.grad is not None
    assert joints.grad[0, :, 0, 0].tolist() == uses


@pytest.mark.errors
def test_wrong_lengths_and_options_are_refused():
    joints = torch.zeros(2, 10, 3, 3)
    for lengths in ([0, 4], [4, 11]):
        with pytest.raises(ShapeError, match="1 to the 10 frames"):
            blocks(joints, lengths=torch.tensor(lengths))
    for lengths in (torch.tensor([4, 4, 4]), torch.tensor([4.0, 4.0]), torch.ones(2, 10, dtype=torch.long)):
        with pytest.raises(ShapeError, match="whole numbers with the first axes of joints"):
            blocks(joints, lengths=lengths)
    with pytest.raises(ShapeError, match="frame, joint, feature"):
        blocks(torch.zeros(3, 3))
    with pytest.raises(ShapeError, match="at least 1 frame"):
        list_block_starts(0)
    with pytest.raises(ConfigError, match="stride_ratio above 0"):
        blocks(joints, stride_ratio=0.0)
    with pytest.raises(ConfigError, match="length of 1 or more"):
        blocks(joints, length=0)
    with pytest.raises(ConfigError, match="1 frame or more"):
        count_blocks(8, 8, 0)
