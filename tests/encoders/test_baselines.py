"""Encoders of compared systems: what their images hold, and that view adaptation is a rigid motion."""

import math

import pytest
import torch
from torch.testing import assert_close

from jeanie.encoders import BlockEncoder, ImageEncoderConfig, ViewAdaptiveEncoderConfig
from jeanie.encoders.baselines import ImageEncoder, arrange_colour_thirds, make_euler_rotation
from jeanie.errors import ConfigError
from jeanie.skeleton import LAYOUTS

LAYOUT = LAYOUTS["core15"]
WIDTHS = {"image": 32, "image-thirds": 32, "va-rnn": 100, "va-cnn": 32}


def configure(kind, **options):
    return (ImageEncoderConfig if "image" in kind else ViewAdaptiveEncoderConfig)(kind=kind, **options)


def encoder(kind, block=6, seed=0, width=8, init="xavier"):
    torch.manual_seed(seed)
    config = configure(kind, width=width, features=5, init=init)
    return BlockEncoder(LAYOUT, block=block, config=config).double()


def clips(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, len(LAYOUT), 3, generator=generator, dtype=torch.float64)


def build_encoder(kind, **options):
    """A view-adaptive encoder whose sub-network has learnt to say something."""
    built = encoder(kind, **options)
    torch.manual_seed(1)
    for name, weight in built.net.poses.named_parameters():
        if "head" in name:
            torch.nn.init.normal_(weight)
    return built


@pytest.mark.parametrize("kind", WIDTHS)
def test_a_baseline_has_the_size_of_the_papers_encoder(kind):
    config = configure(kind, width=WIDTHS[kind], features=50)
    net = BlockEncoder(LAYOUTS["ntu25"], block=32, config=config)
    assert 100_000 < sum(weight.numel() for weight in net.parameters()) < 500_000


@pytest.mark.parametrize("kind", WIDTHS)
def test_each_block_is_encoded_by_itself(kind):
    net, blocks = encoder(kind), clips(2, 3, 6)
    found = net(blocks)
    assert found.shape == (2, 3, 5)
    for clip in range(2):
        for block in range(3):
            assert_close(net(blocks[clip, block : block + 1])[0], found[clip, block])


@pytest.mark.parametrize("kind", WIDTHS)
def test_the_order_of_frames_and_of_joints_is_seen(kind):
    net, blocks = encoder(kind), clips(1, 1, 6)
    assert not torch.allclose(net(blocks), net(blocks.flip(-3)))
    assert not torch.allclose(net(blocks), net(blocks.flip(-2)))


@pytest.mark.parametrize("joints", [15, 16, 20])
def test_thirds_put_three_joints_into_the_colours_and_axes_side_by_side(joints):
    block = torch.arange(2 * joints * 3, dtype=torch.float64).view(2, joints, 3) + 1
    columns = math.ceil(joints / 3)
    expected = torch.zeros(2, 3 * columns, 3, dtype=torch.float64)
    for frame in range(2):
        for joint in range(joints):
            for axis in range(3):
                expected[frame, axis * columns + joint // 3, joint % 3] = block[frame, joint, axis]
    assert torch.equal(arrange_colour_thirds(block), expected)


def test_rows_of_an_image_are_joints_and_columns_are_frames():
    """A convolution that looks along its columns alone mixes frames of one joint."""
    torch.manual_seed(0)
    net = ImageEncoder(torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())).double()
    seen = {}
    net.network.register_forward_pre_hook(lambda module, inputs: seen.update(image=inputs[0]))
    block = clips(1, 6)
    net(block)
    for frame in range(6):
        for joint in range(len(LAYOUT)):
            assert torch.equal(seen["image"][0, :, joint, frame], block[0, frame, joint])


def test_rotations_are_products_of_turns_about_the_axes():
    a, b, c = 0.3, -1.1, 2.0
    x = torch.tensor([[1, 0, 0], [0, math.cos(a), -math.sin(a)], [0, math.sin(a), math.cos(a)]])
    y = torch.tensor([[math.cos(b), 0, math.sin(b)], [0, 1, 0], [-math.sin(b), 0, math.cos(b)]])
    z = torch.tensor([[math.cos(c), -math.sin(c), 0], [math.sin(c), math.cos(c), 0], [0, 0, 1]])
    assert_close(make_euler_rotation(torch.tensor([a, b, c])), z @ y @ x)


def test_rotations_are_orthogonal_and_keep_handedness():
    angles = 10 * torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turns = make_euler_rotation(angles)
    assert_close(turns @ turns.mT, torch.eye(3, dtype=torch.float64).expand(50, 3, 3))
    assert_close(torch.linalg.det(turns), torch.ones(50, dtype=torch.float64))


@pytest.mark.parametrize("init", ["xavier", "normal", "torch"])
@pytest.mark.parametrize("kind", ["va-rnn", "va-cnn"])
def test_the_first_view_is_that_of_the_recording(kind, init):
    net, blocks = encoder(kind, init=init).net, clips(2, 2, 6)
    assert torch.equal(net.change_viewpoint(blocks), blocks)
    assert_close(net(blocks), net.encoder(blocks))


@pytest.mark.parametrize("kind", ["va-rnn", "va-cnn"])
def test_adapted_views_keep_every_bodys_shape(kind):
    net, blocks = build_encoder(kind).net, clips(2, 2, 6)
    seen = net.change_viewpoint(blocks)
    assert not torch.allclose(seen, blocks)
    assert_close(torch.cdist(seen, seen), torch.cdist(blocks, blocks), atol=1e-6, rtol=1e-6)


def test_a_view_adaptive_cnn_has_one_view_a_block_and_the_lstm_one_a_frame():
    blocks = clips(1, 1, 6)
    for kind, rigid in (("va-cnn", True), ("va-rnn", False)):
        whole = build_encoder(kind).net.change_viewpoint(blocks).flatten(-3, -2)
        before = blocks.flatten(-3, -2)
        assert torch.allclose(torch.cdist(whole, whole), torch.cdist(before, before), atol=1e-5) == rigid


@pytest.mark.parametrize("kind", ["va-rnn", "va-cnn"])
def test_the_sub_network_learns_from_the_first_step_on(kind):
    net = encoder(kind)
    net(clips(2, 2, 6)).square().sum().backward()
    heads = [weight for name, weight in net.net.poses.named_parameters() if "head" in name]
    assert heads
    assert all(bool((weight.grad != 0).any()) for weight in heads)


@pytest.mark.errors
@pytest.mark.parametrize("kind", ["image-thirds", "va-rnn", "va-cnn"])
def test_encoders_of_positions_refuse_other_streams(kind):
    with pytest.raises(ConfigError, match=rf"{kind!r} needs positions only, .* got 6; set inputs.streams"):
        BlockEncoder(LAYOUT, block=4, channels=6, config=configure(kind))


@pytest.mark.errors
def test_a_width_that_makes_no_groups_is_refused():
    with pytest.raises(ConfigError, match=r"'image' needs a width in steps of 8, got 12"):
        BlockEncoder(LAYOUT, block=4, config=ImageEncoderConfig(width=12))
