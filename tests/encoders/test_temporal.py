"""The temporal encoder is a residual convolution along blocks, written here once more by torch's own layers."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from jeanie.encoders import BlockEncoder, TemporalEncoderConfig
from jeanie.encoders.temporal import TemporalEncoder
from jeanie.errors import ConfigError
from jeanie.skeleton import LAYOUTS

PLAIN = TemporalEncoderConfig(width=8, features=5, dropout=0.0)


def run_by_torch(member: nn.Module, x: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The same by Conv1d on [batch, width, time]."""
    x = functional.linear(x, member.enter.weight, member.enter.bias)
    for layer, stride in zip(member.layers, strides, strict=True):
        width = x.shape[-1]
        normed = functional.layer_norm(x, (width,), layer.norm.weight, layer.norm.bias)
        kernel = layer.wide.weight.unflatten(1, (3, width)).permute(0, 2, 1)
        inner = functional.conv1d(normed.mT, kernel, layer.wide.bias, stride=stride, padding=1).mT
        inner = functional.linear(functional.gelu(inner), layer.point.weight, layer.point.bias)
        groups = [x[:, i : i + stride].mean(1) for i in range(0, x.shape[1], stride)]
        x = torch.stack(groups, 1) + inner
    x = functional.layer_norm(x, (x.shape[-1],), member.norm.weight, member.norm.bias)
    x = functional.linear(x, member.leave.weight, member.leave.bias)
    return x / x.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("strides", [(2, 1, 1), (1,), (2, 3)])
@pytest.mark.parametrize("blocks", [1, 7, 32])
def test_it_is_the_convolution_that_torch_computes(strides, blocks):
    torch.manual_seed(0)
    net = TemporalEncoder(12, PLAIN.with_values(strides=strides)).double()
    x = torch.randn(3, blocks, 12, dtype=torch.float64)
    assert_close(net(x), run_by_torch(net.members[0], x, strides))


def test_squared_distances_of_an_ensemble_are_the_means_of_its_members():
    torch.manual_seed(0)
    net = TemporalEncoder(12, PLAIN.with_values(members=3)).double()
    x, y = torch.randn(2, 1, 6, 12, dtype=torch.float64)
    whole = (net(x) - net(y)).square().sum(-1)
    alone = torch.stack([(member(x) - member(y)).square().sum(-1) for member in net.members])
    assert_close(whole, alone.mean(0))
    assert_close(net(x).norm(dim=-1), torch.ones(1, 3, dtype=torch.float64))


def test_a_block_encoder_of_this_kind_says_its_counts_and_sizes():
    config = TemporalEncoderConfig(width=8, features=5, strides=(2, 2), members=2, dropout=0.0)
    encoder = BlockEncoder(LAYOUTS["core15"], block=1, channels=9, config=config)
    blocks = torch.randn(2, 3, 9, 1, 15, 9)
    assert encoder(blocks).shape == (2, 3, 3, 10)
    assert (encoder.stride, encoder.features) == (4, 10)
    assert encoder.counts(torch.tensor([1, 4, 5, 9])).tolist() == [1, 1, 2, 3]
    assert_close(encoder(blocks)[1, 2], encoder(blocks[1, 2]))


@pytest.mark.parametrize("blocks", [1, 7, 32])
def test_positions_lie_beside_the_features(blocks):
    """Means of the first three of nine numbers a joint, over the two blocks of an output, times the gain."""
    torch.manual_seed(0)
    plain = TemporalEncoderConfig(width=8, features=5, dropout=0.0)
    without = BlockEncoder(LAYOUTS["core15"], block=1, channels=9, config=plain)
    beside = BlockEncoder(LAYOUTS["core15"], block=1, channels=9, config=plain.with_values(positions=0.3))
    beside.load_state_dict(without.state_dict())
    x = torch.randn(2, blocks, 1, 15, 9)
    found = beside(x)
    assert beside.features == found.shape[-1] == 5 + 45
    assert_close(found[..., :5], without(x))
    groups = [x[:, at : at + 2, 0, :, :3].mean(1).flatten(1) for at in range(0, blocks, 2)]
    assert_close(found[..., 5:], 0.3 * torch.stack(groups, 1))


@pytest.mark.parametrize("strides", [(2, 1), (3,), (1, 1), (2, 2)])
@pytest.mark.parametrize("blocks", [1, 4, 7])
def test_a_dense_encoder_reads_the_motion_from_every_block_on(strides, blocks):
    """Output k is what a sparse encoder says of the blocks from k on, as far as its steps from there lead."""
    torch.manual_seed(0)
    plain = TemporalEncoderConfig(width=8, features=5, strides=strides, dropout=0.0, positions=0.5)
    sparse = BlockEncoder(LAYOUTS["core15"], block=1, channels=3, config=plain).double()
    dense = BlockEncoder(
        LAYOUTS["core15"], block=1, channels=3, config=plain.with_values(dense=True)
    ).double()
    dense.load_state_dict(sparse.state_dict())
    x = torch.randn(2, blocks, 1, 15, 3, dtype=torch.float64)
    span = torch.Size(strides).numel()
    found = dense(x)
    assert found.shape == (2, blocks, 5 + 45)
    assert (sparse.stride, sparse.span, dense.stride, dense.span) == (span, span, 1, span)
    assert dense.counts(torch.tensor([1, blocks])).tolist() == [1, blocks]
    for k in range(blocks):
        phase = k % span
        later = torch.cat([x[:, phase:], *[x[:, -1:]] * phase], 1)
        assert_close(found[:, k], sparse(later)[:, k // span])


def test_members_may_have_strides_of_their_own():
    torch.manual_seed(0)
    plain = TemporalEncoderConfig(width=8, features=5, strides=(1, 2), dropout=0.0)
    both = plain.with_values(members=2, scales=((1, 2), (2, 1)), dense=True)
    joined = BlockEncoder(LAYOUTS["core15"], block=1, channels=3, config=both).double()
    x = torch.randn(2, 7, 1, 15, 3, dtype=torch.float64)
    found = joined(x)
    for number, strides in enumerate(both.scales):
        alone = BlockEncoder(
            LAYOUTS["core15"], block=1, channels=3, config=plain.with_values(strides=strides, dense=True)
        ).double()
        mark = f"members.{number}."
        own = {
            name.replace(mark, "members.0."): one for name, one in joined.state_dict().items() if mark in name
        }
        alone.load_state_dict(own)
        assert_close(found[..., 5 * number : 5 * number + 5] * 2**0.5, alone(x))
    assert joined.span == 2


def test_a_squared_distance_is_the_weighted_mean_of_the_members_own():
    torch.manual_seed(0)
    plain = TemporalEncoderConfig(width=8, features=5, strides=(1, 2), dropout=0.0, members=3)
    alike = BlockEncoder(LAYOUTS["core15"], block=1, channels=3, config=plain).double()
    x, y = torch.randn(2, 4, 6, 1, 15, 3, dtype=torch.float64)
    own = (alike(x) - alike(y)).unflatten(-1, (3, 5)).square().sum(-1) * 3
    for shares in ((1.0, 1.0, 1.0), (1.0, 3.0, 0.0), (0.0, 0.0, 0.2)):
        weighted = BlockEncoder(
            LAYOUTS["core15"], block=1, channels=3, config=plain.with_values(shares=shares)
        ).double()
        weighted.load_state_dict(alike.state_dict())
        share = torch.tensor(shares, dtype=torch.float64)
        assert_close((weighted(x) - weighted(y)).square().sum(-1), own @ (share / share.sum()))


@pytest.mark.errors
@pytest.mark.parametrize("shares", [(1.0,), (0.0, 0.0)])
def test_every_member_needs_a_share_and_one_of_them_some(shares):
    with pytest.raises(ConfigError, match="a number for each of 2 members, at least one above 0"):
        TemporalEncoderConfig(strides=(1, 2), members=2, shares=shares)


@pytest.mark.errors
@pytest.mark.parametrize("scales", [((1, 2),), ((1, 2), (2, 2))], ids=["too few", "other outputs"])
def test_members_need_as_many_outputs(scales):
    with pytest.raises(ConfigError, match="each of 2 members, each with the product 2"):
        TemporalEncoderConfig(strides=(1, 2), members=2, scales=scales)
