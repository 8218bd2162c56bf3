"""Baselines that the paper compares with: skeletons as images, and view-adaptive networks.

Networks are ``small``, with the size of the paper's encoder, 0.1 to 0.5 million weights, or the residual networks of
the published systems. All start from random weights; some published ones are pretrained on ImageNet. Small networks
normalise over groups of channels of one image, so that a clip's features do not depend on the other clips of its batch;
residual networks normalise over the batch in training, as published.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jeanie.encoders.config import ImageEncoderConfig, ViewAdaptiveEncoderConfig
from jeanie.encoders.resnet import ResNet
from jeanie.errors import ConfigError

__all__ = ["ImageEncoder", "ViewAdaptive", "arrange_colour_thirds", "build_baseline", "make_euler_rotation"]

_GROUPS = 8
_POSE_WIDTH = (
    64  # channels of the network that estimates the view of a published VA-CNN; its second layer has 128
)
_GRID = 4  # an image is averaged to 4 x 4 cells, which keep the approximate position of an event


def build_baseline(
    config: ImageEncoderConfig | ViewAdaptiveEncoderConfig, joints: int, channels: int
) -> nn.Module:
    """Return a network that turns blocks [*batch, length, joint, channel] into [*batch, feature].

    Raises:
        ConfigError: If the kind does not support the number of channels or the width.
    """
    kind, width, features = config.kind, config.width, config.features
    if kind != "image" and channels != 3:
        raise ConfigError(
            f"an encoder of kind {kind!r} needs positions only, 3 numbers per joint, got {channels}; "
            "set inputs.streams to ('joints',)"
        )
    if config.network != "small" and channels != 3:
        raise ConfigError(
            f"network {config.network!r} reads images with three colours, got {channels} numbers per joint; "
            "set inputs.streams to ('joints',)"
        )
    if kind == "va-rnn":
        return ViewAdaptive(_FramePoses(joints, width), _Recurrent(joints, width, features))
    if config.network == "small" and width % _GROUPS:
        raise ConfigError(f"an encoder of kind {kind!r} needs a width in steps of {_GROUPS}, got {width}")
    layers: nn.Module = (
        _SmallNetwork(channels, width, features)
        if config.network == "small"
        else ResNet(config.network, features, size=config.image_size)
    )
    image = ImageEncoder(layers, thirds=kind == "image-thirds")
    if kind != "va-cnn":
        return image
    pose = _BlockPose(width) if config.network == "small" else _BlockPose(_POSE_WIDTH, kernel=5)
    return ViewAdaptive(pose, image)


def arrange_colour_thirds(
    blocks: Float[Tensor, "*batch length joint 3"],
) -> Float[Tensor, "*batch length column 3"]:
    """Return an image with three neighbouring joints as colours and the axes side by side (Skeleton-DML).

    image[f, axis * n + j // 3, j % 3] = block[f, j, axis] with n = ceil(joints / 3); colours without a joint are 0.
    """
    missing = -blocks.shape[-2] % 3
    tracks = nn.functional.pad(blocks.transpose(-2, -1), (0, missing))  # [*batch, length, axis, joint]
    image: Tensor = tracks.unflatten(-1, (-1, 3)).flatten(-3, -2)
    return image


class ImageEncoder(nn.Module):
    """A CNN over a block as an image: one row per joint, column per frame, colour per axis (SL-DML).

    With ``thirds`` the image is that of ``arrange_colour_thirds``.
    """

    def __init__(self, network: nn.Module, *, thirds: bool = False) -> None:
        super().__init__()
        self.thirds, self.network = thirds, network

    def forward(
        self, blocks: Float[Tensor, "*batch length joint channel"]
    ) -> Float[Tensor, "*batch feature"]:
        image = arrange_colour_thirds(blocks) if self.thirds else blocks
        batch = image.shape[:-3]
        picture = image.reshape(-1, *image.shape[-3:]).movedim(-1, 1).transpose(2, 3)
        features: Tensor = self.network(picture)
        return features.view(*batch, -1)


class _SmallNetwork(nn.Sequential):
    """Three convolutions of 3 x 3, the later two with stride 2, means over 4 x 4 cells, a linear map."""

    def __init__(self, channels: int, width: int, features: int) -> None:
        super().__init__(
            *_build_convolution(channels, width, stride=1),
            *_build_convolution(width, 2 * width, stride=2),
            *_build_convolution(2 * width, 4 * width, stride=2),
            nn.AdaptiveAvgPool2d(_GRID),
            nn.Flatten(),
            nn.Linear(4 * width * _GRID**2, features),
        )


def _build_convolution(before: int, after: int, *, stride: int, kernel: int = 3) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, kernel, stride, padding=kernel // 2),
        nn.GroupNorm(_GROUPS, after),
        nn.ReLU(),
    ]


class ViewAdaptive(nn.Module):
    """Encode joints from a viewpoint that a sub-network estimates (Zhang et al., ICCV 2017 and TPAMI 2019).

    v'[f, j] = R[f] (v[f, j] - d[f]), with R the rotation by three Euler angles and d the position of the observer

    ``poses`` estimates (angles, d) per frame or once per block. Its last layer starts at 0, so that the initial
    view is the recorded one.
    """

    def __init__(self, poses: nn.Module, encoder: nn.Module) -> None:
        super().__init__()
        self.poses, self.encoder = poses, encoder

    def change_viewpoint(
        self, blocks: Float[Tensor, "*batch length joint 3"]
    ) -> Float[Tensor, "*batch length joint 3"]:
        """Return the joints as seen from the estimated viewpoints."""
        pose: Tensor = self.poses(blocks)
        rotation, position = make_euler_rotation(pose[..., :3]), pose[..., None, 3:]
        return (blocks - position) @ rotation.mT

    def forward(self, blocks: Float[Tensor, "*batch length joint 3"]) -> Float[Tensor, "*batch feature"]:
        features: Tensor = self.encoder(self.change_viewpoint(blocks))
        return features


def make_euler_rotation(angles_rad: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """Return R_z(c) R_y(b) R_x(a) of angles (a, b, c): column vectors, right-handed, radians."""
    (ca, cb, cc), (sa, sb, sc) = angles_rad.cos().unbind(-1), angles_rad.sin().unbind(-1)
    rows = (
        (cc * cb, cc * sb * sa - sc * ca, cc * sb * ca + sc * sa),
        (sc * cb, sc * sb * sa + cc * ca, sc * sb * ca - cc * sa),
        (-sb, cb * sa, cb * ca),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


class _ZeroLinear(nn.Module):
    """A linear map with initial weights of 0, which the initialisation of the network does not change."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        return nn.functional.linear(x, self.weight, self.bias)


class _FramePoses(nn.Module):
    """Rotation and position per frame: one LSTM over the frames for each (VA-RNN)."""

    def __init__(self, joints: int, width: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.LSTM(3 * joints, width, batch_first=True) for _ in range(2))
        self.heads = nn.ModuleList(_ZeroLinear(width, 3) for _ in range(2))

    def forward(self, blocks: Float[Tensor, "*batch length joint 3"]) -> Float[Tensor, "*batch length 6"]:
        frames = blocks.reshape(-1, blocks.shape[-3], blocks.shape[-2] * 3)
        parts = [head(branch(frames)[0]) for branch, head in zip(self.branches, self.heads, strict=True)]
        return torch.cat(parts, -1).view(*blocks.shape[:-2], 6)


class _BlockPose(nn.Module):
    """One rotation and position per block: a CNN over the block as an image, its mean, a linear map (VA-CNN)."""

    def __init__(self, width: int, *, kernel: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_build_convolution(3, width, stride=2, kernel=kernel),
            *_build_convolution(width, 2 * width, stride=2, kernel=kernel),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = _ZeroLinear(2 * width, 6)

    def forward(self, blocks: Float[Tensor, "*batch length joint 3"]) -> Float[Tensor, "*batch 1 6"]:
        picture = blocks.reshape(-1, *blocks.shape[-3:]).movedim(-1, 1).transpose(2, 3)
        pose: Tensor = self.head(self.layers(picture))
        return pose.view(*blocks.shape[:-3], 1, 6)


class _Recurrent(nn.Module):
    """Three LSTM layers over the frames, the mean of the last outputs, a linear map to the features."""

    def __init__(self, joints: int, width: int, features: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3 * joints, width, num_layers=3, batch_first=True)
        self.head = nn.Linear(width, features)

    def forward(self, blocks: Float[Tensor, "*batch length joint 3"]) -> Float[Tensor, "*batch feature"]:
        frames = blocks.reshape(-1, blocks.shape[-3], blocks.shape[-2] * 3)
        features: Tensor = self.head(self.lstm(frames)[0].mean(1))
        return features.view(*blocks.shape[:-3], -1)
