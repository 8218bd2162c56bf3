"""Residual networks for images of skeletons: ResNet-18 and ResNet-50 (He et al., CVPR 2016), from random weights.

Layers, sizes and names of the weights are those of torchvision, so that its ImageNet weights can be loaded with
``load_state_dict(weights, strict=False)``; the counters of batch normalisation are left out.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["ResNet", "ResNetName"]

ResNetName = Literal["resnet18", "resnet50"]
_LAYERS = {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}
_WIDTH = 64


class ResNet(nn.Module):
    """A residual network that turns images into feature vectors.

    Args:
        name: ``resnet18`` (11 million weights) or ``resnet50`` (24 million).
        features: Size of the output.
        size: Height and width that images are resized to.

    >>> import torch
    >>> ResNet("resnet18", 50, size=64)(torch.zeros(2, 3, 25, 32)).shape
    torch.Size([2, 50])
    """

    def __init__(self, name: ResNetName, features: int, *, size: int = 224) -> None:
        super().__init__()
        self.size = size
        self.conv1 = nn.Conv2d(3, _WIDTH, 7, 2, padding=3, bias=False)
        self.bn1 = _make_norm(_WIDTH)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        block = _BasicBlock if name == "resnet18" else _Bottleneck
        before, stages = _WIDTH, []
        for number, count in enumerate(_LAYERS[name]):
            width = _WIDTH * 2**number
            parts = []
            for position in range(count):
                parts.append(block(before, width, stride=2 if number and not position else 1))
                before = width * block.expansion
            stages.append(nn.Sequential(*parts))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(before, features)

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch feature"]:
        sized = nn.functional.interpolate(
            images, (self.size, self.size), mode="bilinear", align_corners=False
        )
        maps = self.maxpool(self.relu(self.bn1(self.conv1(sized))))
        maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        features: Tensor = self.fc(maps.mean((-2, -1)))
        return features


class _BasicBlock(nn.Module):
    """Two convolutions of 3 x 3 and a shortcut."""

    expansion = 1

    def __init__(self, before: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
        self.bn1 = _make_norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = _make_norm(width)
        self.downsample = _make_shortcut(before, width, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(
        self, x: Float[Tensor, "batch before height width"]
    ) -> Float[Tensor, "batch after rows columns"]:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        result: Tensor = self.relu(y + self.downsample(x))
        return result


class _Bottleneck(nn.Module):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1, and a shortcut; the stride is that of the middle one."""

    expansion = 4

    def __init__(self, before: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = _make_norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = _make_norm(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = _make_norm(4 * width)
        self.downsample = _make_shortcut(before, 4 * width, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(
        self, x: Float[Tensor, "batch before height width"]
    ) -> Float[Tensor, "batch after rows columns"]:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        result: Tensor = self.relu(y + self.downsample(x))
        return result


def _make_shortcut(before: int, after: int, stride: int) -> nn.Module:
    if before == after and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), _make_norm(after))


def _make_norm(channels: int) -> nn.BatchNorm2d:
    """Return batch normalisation without its counter, the only whole number among the weights of a model."""
    norm = nn.BatchNorm2d(channels)
    norm.num_batches_tracked = None
    return norm
