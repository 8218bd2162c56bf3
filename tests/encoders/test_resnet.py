"""Residual networks are those of the literature: sizes, shapes, and images of any size."""

import pytest
import torch
from torch.testing import assert_close

from jeanie.encoders import BlockEncoder, ImageEncoderConfig, ViewAdaptiveEncoderConfig
from jeanie.encoders.resnet import ResNet
from jeanie.errors import ConfigError
from jeanie.skeleton.layout import LAYOUTS


@pytest.mark.parametrize(("name", "weights"), [("resnet18", 11_689_512), ("resnet50", 25_557_032)])
def test_the_weights_are_as_many_as_published_with_1000_outputs(name, weights):
    """The numbers of torchvision, whose names of weights are the same."""
    network = ResNet(name, 1000)
    assert sum(weight.numel() for weight in network.parameters()) == weights
    names = set(network.state_dict())
    assert {
        "conv1.weight",
        "bn1.running_mean",
        "layer1.0.conv2.weight",
        "layer4.1.bn2.bias",
        "fc.bias",
    } <= names
    assert "layer2.0.downsample.0.weight" in names
    assert ("layer1.0.conv3.weight" in names) == (name == "resnet50")
    assert all(tensor.is_floating_point() for tensor in network.state_dict().values())


def test_maps_shrink_as_published():
    network = ResNet("resnet18", 5).eval()
    shapes = []
    for layer in (network.maxpool, network.layer1, network.layer2, network.layer3, network.layer4):
        layer.register_forward_hook(lambda *args: shapes.append(tuple(args[-1].shape[1:])))
    with torch.no_grad():
        assert network(torch.randn(1, 3, 25, 32)).shape == (1, 5)
    assert shapes == [(64, 56, 56), (64, 56, 56), (128, 28, 28), (256, 14, 14), (512, 7, 7)]


@pytest.mark.parametrize(
    "config",
    [
        ImageEncoderConfig(network="resnet18", image_size=32, features=7),
        ImageEncoderConfig(kind="image-thirds", network="resnet18", image_size=32, features=7),
        ViewAdaptiveEncoderConfig(kind="va-cnn", network="resnet18", image_size=32, features=7),
    ],
    ids=lambda config: config.kind,
)
def test_blocks_become_features_and_a_trained_clip_does_not_depend_on_its_batch(config):
    torch.manual_seed(0)
    encoder = BlockEncoder(LAYOUTS["ntu25"], block=8, config=config)
    blocks = torch.randn(3, 2, 8, 25, 3)
    encoder.train()(blocks)  # moves the running means
    encoder.eval()
    with torch.no_grad():
        together = encoder(blocks)
        assert together.shape == (3, 2, 7)
        assert_close(encoder(blocks[1:2]), together[1:2], rtol=1e-4, atol=1e-4)


@pytest.mark.errors
def test_a_residual_network_reads_positions_alone():
    with pytest.raises(ConfigError, match="reads images with three colours, got 6 numbers per joint"):
        BlockEncoder(LAYOUTS["ntu25"], channels=6, config=ImageEncoderConfig(network="resnet18"))
