"""The encoder: one feature vector per block of frames (paper, Suppl., "Network configuration")."""

from itertools import pairwise
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from jeanie.encoders.baselines import build_baseline
from jeanie.encoders.config import (
    PRESETS,
    CustomEncoderConfig,
    EncoderConfig,
    GraphEncoderConfig,
    MlpEncoderConfig,
    RawEncoderConfig,
    TemporalEncoderConfig,
)
from jeanie.encoders.custom import FoldedEncoder
from jeanie.encoders.graph import GraphFilter
from jeanie.encoders.joint_mlp import JointMlp
from jeanie.encoders.matrix_product import apply_linear
from jeanie.encoders.temporal import TemporalEncoder
from jeanie.encoders.transformer import Transformer
from jeanie.errors import ConfigError, ShapeError
from jeanie.skeleton import Layout

__all__ = ["BlockEncoder"]


class BlockEncoder(nn.Module):
    """Encoder of blocks: each block separately, or with its neighbours (kind "temporal").

    Args:
        layout: Joints of the blocks. Only kind "raw" takes ``None``, which allows any number of joints.
        block: Frames per block.
        channels: Numbers per joint and frame: 3 for each input stream.
        config: Kind and sizes of the network.
        module: The network of kind "custom": it maps blocks [n, block, joint, channel] to features [n, feature].

    Attributes:
        span: Input blocks that one output covers; 1 except for kind "temporal".
        stride: Input blocks from one output to the next; 1 except for kind "temporal" that is not dense.

    Raises:
        ConfigError: If the configuration does not fit the layout or the channels.

    >>> import torch
    >>> from jeanie import LAYOUTS
    >>> encoder = BlockEncoder(LAYOUTS["ntu25"])
    >>> encoder(torch.zeros(2, 7, 8, 25, 3)).shape  # 2 motions of 7 blocks
    torch.Size([2, 7, 50])
    """

    def __init__(
        self,
        layout: Layout | None,
        *,
        block: int = 8,
        channels: int = 3,
        config: EncoderConfig = PRESETS["small"],
        module: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if block < 1 or channels < 1:
            raise ConfigError(
                f"a block needs at least 1 frame and 1 channel, got block={block} and channels={channels}"
            )
        self.layout, self.block, self.channels, self.config = layout, block, channels, config
        self.span = self.stride = 1
        if isinstance(config, TemporalEncoderConfig):
            self.span = prod(config.strides)
            self.stride = 1 if config.dense else self.span
        self.net = _build_network(layout, block, channels, config, module)
        if not isinstance(config, RawEncoderConfig | CustomEncoderConfig):
            _initialise(self.net, config.init)

    @property
    def features(self) -> int:
        """Size of the features of an output.

        Raises:
            ConfigError: If the kind is "raw" and the layout is unknown.
        """
        config = self.config
        if isinstance(config, TemporalEncoderConfig):
            joints = 0 if self.layout is None or not config.positions else len(self.layout)
            return config.features * config.members + 3 * self.block * joints
        if not isinstance(config, RawEncoderConfig) and config.features is not None:
            return config.features
        if self.layout is None:
            raise ConfigError("the size of raw features depends on the number of joints: give layout")
        return self.block * len(self.layout) * self.channels

    @property
    def is_per_block(self) -> bool:
        """Whether a network encodes every block separately; kind "raw" has no network."""
        return not isinstance(self.config, RawEncoderConfig | TemporalEncoderConfig)

    def forward(
        self, blocks: Float[Tensor, "*batch block length joint channel"]
    ) -> Float[Tensor, "*batch output feature"]:
        """Return the features of every block (kind "temporal": of every ``stride`` blocks).

        Kind "raw" returns the block flattened as frame, joint, channel: a view of the input if its memory
        layout allows one.

        Raises:
            ShapeError: If blocks have another shape, dtype or device than the encoder needs.
        """
        self._check(blocks)
        features: Tensor = self.net(blocks)
        return features

    def counts(self, counts: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """Return the numbers of outputs for numbers of input blocks; they differ only for kind "temporal"."""
        return torch.div(counts + self.stride - 1, self.stride, rounding_mode="floor")

    def extra_repr(self) -> str:
        """Return the text inside the module's ``repr``."""
        return f"{self._joint_text}, block={self.block}, channels={self.channels}, kind={self.config.kind!r}"

    @property
    def _joint_text(self) -> str:
        return "any joints" if self.layout is None else f"{len(self.layout)} joints of {self.layout.name}"

    def _check(self, blocks: Tensor) -> None:
        shape = tuple(blocks.shape)
        joints = shape[-2:-1] if self.layout is None else (len(self.layout),)
        if len(shape) < 4 or shape[-3:] != (self.block, *joints, self.channels):
            raise ShapeError(
                f"this encoder needs (..., block, {self.block} frames, {self._joint_text}, {self.channels} channels), "
                f"got shape {shape}; {self._suggest_fix(shape)}"
            )
        weight = next(self.parameters(), None)
        if weight is not None and (blocks.dtype != weight.dtype or blocks.device != weight.device):
            raise ShapeError(
                f"this encoder's weights are {weight.dtype} on {weight.device}, got blocks of {blocks.dtype} "
                f"on {blocks.device}; use encoder.to(blocks.device, blocks.dtype), or move the blocks"
            )

    def _suggest_fix(self, shape: tuple[int, ...]) -> str:
        """Return advice on blocks of the wrong shape."""
        if len(shape) < 4:
            return "cut motions with jeanie.blocks, and for one block use blocks[None]"
        if self.layout is not None and shape[-2] != len(self.layout):
            return (
                f"convert the motion to {self.layout.name} with jeanie.convert, "
                "or build the encoder for its layout"
            )
        if shape[-3] != self.block:
            return (
                f"cut with blocks(joints, length={self.block}), or build the encoder with block={shape[-3]}"
            )
        return f"use {self.channels // 3} streams, or build the encoder with channels={shape[-1]}"


def _build_network(
    layout: Layout | None, block: int, channels: int, config: EncoderConfig, module: nn.Module | None
) -> nn.Module:
    if isinstance(config, RawEncoderConfig):
        return nn.Flatten(-3)
    if isinstance(config, CustomEncoderConfig):
        if module is None:
            raise ConfigError("an encoder of kind 'custom' is given by the argument module")
        return FoldedEncoder(module)
    if layout is None:
        raise ConfigError(
            f"an encoder of kind {config.kind!r} needs a layout, got None; give for example LAYOUTS['ntu25']"
        )
    numbers = block * len(layout) * channels
    match config:
        case GraphEncoderConfig():
            return _GraphEncoder(layout, block * channels, config)
        case TemporalEncoderConfig():
            return nn.Sequential(nn.Flatten(-3), TemporalEncoder(numbers, config, channels=channels))
        case MlpEncoderConfig():
            return _build_mlp(numbers, config)
    return build_baseline(config, len(layout), channels)


class _GraphEncoder(nn.Module):
    """MLP per joint, graph filter, the transformer's token or all joints flattened, FC -> d'."""

    def __init__(self, layout: Layout, numbers: int, config: GraphEncoderConfig) -> None:
        super().__init__()
        joints, width = len(layout), config.width
        self.mlp = JointMlp(numbers, width, config.dropout)
        self.graph = GraphFilter(layout, width, kind=config.graph, layers=config.layers, alpha=config.alpha)
        self.pool: nn.Module = nn.Flatten(-2)
        if config.transformer:
            self.pool = Transformer(
                joints,
                width,
                hidden=config.hidden,
                heads=config.heads,
                head_size=config.head_size,
                depth=config.depth,
            )
        self.head = nn.Linear(width if config.transformer else joints * width, config.features)

    def forward(
        self, blocks: Float[Tensor, "*batch length joint channel"]
    ) -> Float[Tensor, "*batch feature"]:
        joints = self.mlp(blocks)
        if self.graph.weights or isinstance(self.pool, Transformer):
            features: Tensor = self.head(self.pool(self.graph(joints)))
            return features
        # filter and head are both linear: one product with the filtered weight instead of two with all joints
        return apply_linear(self.pool(joints), self.graph.filter_weight(self.head.weight), self.head.bias)


def _build_mlp(numbers: int, config: MlpEncoderConfig) -> nn.Sequential:
    """Return linear layers with ReLU between them, over the flattened block.

    They are created in order, so that a seed always gives the same weights.
    """
    sizes = (numbers, *config.mlp, config.features)
    parts: list[nn.Module] = [nn.Flatten(-3)]
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def _initialise(net: nn.Module, init: str) -> None:
    """Draw the weights of every linear layer and the transformer's token; biases are 0, LayerNorms 1 and 0.

    "torch" keeps the weights of the constructors. The paper only mentions weights, so biases are not drawn.
    """
    if init == "torch":
        return
    draw = nn.init.normal_ if init == "normal" else nn.init.xavier_uniform_
    for part in net.modules():
        if isinstance(part, nn.Linear):
            draw(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, Transformer) and init == "normal":
            nn.init.normal_(part.token)
