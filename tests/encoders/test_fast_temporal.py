"""The fast temporal encoder: the features of the network that it replaces."""

import pytest
import torch

from jeanie.encoders.config import TemporalEncoderConfig
from jeanie.encoders.fast_temporal import FastTemporalEncoder, can_run_fast
from jeanie.encoders.temporal import TemporalEncoder
from jeanie.errors import ShapeError

SCALES = [(2, 1, 1), (1, 2, 1), (1, 1, 2), (1, 1, 1, 2), (2,)]


def make_encoder(**options):
    torch.manual_seed(0)
    return TemporalEncoder(9, TemporalEncoderConfig(width=16, features=8, dense=True, **options)).eval()


@pytest.mark.parametrize("strides", SCALES, ids=str)
@pytest.mark.parametrize("blocks", [8, 10, 16, 32])
def test_features_are_those_of_the_network(strides, blocks):
    encoder = make_encoder(strides=strides, members=2, shares=(1.0, 3.0))
    x = torch.randn(5, blocks, 9)
    assert can_run_fast(encoder)
    with torch.no_grad():
        torch.testing.assert_close(FastTemporalEncoder(encoder)(x), encoder(x), atol=2e-6, rtol=0)


def test_a_motion_has_the_same_features_in_any_batch():
    """A search relies on it: equal windows have equal distances."""
    fast = FastTemporalEncoder(make_encoder(members=2))
    x = torch.randn(16, 32, 9)
    assert torch.equal(fast(x)[3], fast(x.flip(0))[12])


def test_other_networks_are_not_run_fast():
    for options in (
        {"strides": (1, 1)},
        {"strides": (2, 2)},
        {"positions": 1.0},
        {"members": 2, "shares": (0, 1)},
    ):
        assert not can_run_fast(make_encoder(**options))
    assert not can_run_fast(make_encoder().train())
    assert not can_run_fast(torch.nn.Linear(1, 1))


@pytest.mark.errors
@pytest.mark.parametrize("blocks", [6, 9])
def test_short_and_odd_motions_are_refused(blocks):
    with pytest.raises(ShapeError, match="even number of at least 8 blocks"):
        FastTemporalEncoder(make_encoder())(torch.zeros(1, blocks, 9))
