"""The encoding network: a block of frames becomes one feature vector (paper, Suppl., "Network configuration")."""

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from jeanie.config import Config
from jeanie.encoders.graph import GraphFilter, GraphKind
from jeanie.encoders.rivals import RIVALS, rival
from jeanie.encoders.temporal import TemporalEncoder
from jeanie.encoders.transformer import Transformer
from jeanie.errors import ConfigError, ShapeError
from jeanie.skeleton import Layout

__all__ = ["PRESETS", "BlockEncoder", "EncoderConfig"]

Size = Annotated[int, Field(ge=1)]


class EncoderConfig(Config):
    """What turns a block into features; the defaults are the paper's for small data sets.

    ``graph`` and everything down to ``dropout`` belong to kind "graph", those from ``strides`` to ``shares`` to
    kind "temporal" (with ``width`` and ``dropout``), ``mlp`` to kind "mlp", ``width`` to those of ``rivals`` (channels
    of the first layer, or an LSTM's numbers); "raw" reads none of them. Dropout acts where the paper puts it, in the
    MLP before the graph, and nowhere else.
    """

    kind: Literal["graph", "mlp", "temporal", "raw", "image", "image-thirds", "va-rnn", "va-cnn"] = Field(
        default="graph",
        description="graph: the paper's network; mlp: of the flattened block; temporal: along blocks; raw: nothing; "
        "image, image-thirds: CNNs of the block as a picture; va-rnn, va-cnn: view-adaptive",
    )
    features: Size = Field(default=50, description="numbers a block becomes, d'; raw keeps all of the block")
    init: Literal["xavier", "normal", "torch"] = Field(
        default="xavier", description="weights at the start; the paper's are normal, N(0, 1), which saturate"
    )
    graph: GraphKind = Field(default="s2gc", description="filter over the bones")
    layers: Size = Field(default=6, description="layers or hops of the filter, L")
    alpha: float = Field(
        default=0.5, ge=0, le=1, description="share of the unfiltered joints, appnp and s2gc"
    )
    width: Size = Field(default=32, description="numbers per joint, d")
    transformer: bool = Field(default=False, description="a transformer over the joints after the graph")
    hidden: Size = Field(default=64, description="size inside the transformer's MLP")
    heads: Size = Field(default=6, description="heads of the transformer")
    head_size: Size = Field(default=5, description="numbers per head of the transformer")
    depth: Size = Field(default=6, description="layers of the transformer")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="dropout in the MLP before the graph")
    strides: tuple[Size, ...] = Field(
        default=(2, 1, 1), min_length=1, description="blocks a step of each layer of kind temporal"
    )
    members: Size = Field(default=1, description="networks side by side of kind temporal")
    positions: float = Field(
        default=0.0, ge=0, description="gain of the joints' positions beside the features of kind temporal"
    )
    dense: bool = Field(
        default=False, description="whether kind temporal has an output for every block, whatever its strides"
    )
    scales: tuple[tuple[Size, ...], ...] = Field(
        default=(), description="strides of every member of kind temporal, where they are not all the same"
    )
    shares: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(), description="of every member of kind temporal in a squared distance; none: all the same"
    )
    mlp: tuple[Size, ...] = Field(default=(256,), description="hidden sizes of kind mlp")


# The paper prints every size but the head's. Ours is width / heads, rounded, except for NTU: there the paper
# counts 0.25 to 0.5 M parameters, which 25 joints and blocks of 8 frames reach with the transformer at head
# sizes 8 to 20 (NTU-60) and at head size 1 alone (NTU-120; size 2 has 514,272). Without the transformer no
# head size matters and the counts are 169,868 and 654,768. The transformer is on where the paper reports it.
PRESETS: Mapping[str, EncoderConfig] = MappingProxyType(
    {
        "small": EncoderConfig(),
        "ntu60": EncoderConfig(
            width=64, features=100, transformer=True, hidden=128, heads=12, head_size=8, depth=6, dropout=0.1
        ),
        "ntu120": EncoderConfig(
            width=128, features=200, transformer=True, hidden=256, heads=12, head_size=1, depth=6, dropout=0.1
        ),
        "kinetics": EncoderConfig(
            width=256, features=500, transformer=True, hidden=512, heads=12, head_size=21, depth=12, dropout=0.1
        ),
    }
)  # fmt: skip


class BlockEncoder(nn.Module):
    """Encodes blocks, each by itself (kind "temporal": with its neighbours); all go through in one call.

    ``block`` is the number of frames in a block, ``channels`` the numbers per joint and frame: 3, or 3 for each
    input stream. An output block stands for ``span`` input blocks, the next one begins ``stride`` blocks later. Kind
    "raw" has no weights and does without a layout: with ``None`` it takes any number of joints.

    >>> import torch
    >>> from jeanie.skeleton import LAYOUTS
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
    ) -> None:
        super().__init__()
        if block < 1 or channels < 1:
            raise ConfigError(
                f"a block has 1 frame and 1 channel or more, got block={block} and channels={channels}"
            )
        self.layout, self.block, self.channels, self.config = layout, block, channels, config
        self.net = _net(layout, block, channels, config)
        _initialise(self.net, config.init)

    @property
    def stride(self) -> int:
        """Input blocks from one output block to the next: 1 but for kind "temporal" that is not dense."""
        return 1 if self.config.dense else self.span

    @property
    def span(self) -> int:
        """Input blocks that one output block stands for: 1 but for kind "temporal"."""
        return prod(self.config.strides) if self.config.kind == "temporal" else 1

    @property
    def features(self) -> int:
        """Size of the output: d', that of all members (and positions) together, or all numbers of a raw block."""
        if self.config.kind == "temporal":
            joints = 0 if self.layout is None or not self.config.positions else len(self.layout)
            return self.config.features * self.config.members + 3 * self.block * joints
        if self.config.kind != "raw":
            return self.config.features
        if self.layout is None:
            raise ConfigError(
                "raw features have as many numbers as a block, which depends on the joints: give layout"
            )
        return self.block * len(self.layout) * self.channels

    def forward(
        self, blocks: Float[Tensor, "*batch block length joint channel"]
    ) -> Float[Tensor, "*batch output feature"]:
        """Features of every block (kind "temporal": of every ``stride`` blocks).

        Kind "raw" gives the block itself, flattened as frame, joint, channel: a view of the input where its
        memory allows one.
        """
        self._check(blocks)
        features: Tensor = self.net(blocks)
        return features

    def counts(self, counts: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """Numbers of output blocks for numbers of input blocks: the same but for kind "temporal"."""
        return torch.div(counts + self.stride - 1, self.stride, rounding_mode="floor")

    def extra_repr(self) -> str:
        """What printing the module says of it."""
        return f"{self._joints}, block={self.block}, channels={self.channels}, kind={self.config.kind!r}"

    @property
    def _joints(self) -> str:
        return "any joints" if self.layout is None else f"{len(self.layout)} joints of {self.layout.name}"

    def _check(self, blocks: Tensor) -> None:
        shape = tuple(blocks.shape)
        joints = shape[-2:-1] if self.layout is None else (len(self.layout),)
        if len(shape) < 4 or shape[-3:] != (self.block, *joints, self.channels):
            raise ShapeError(
                f"this encoder reads (..., block, {self.block} frames, {self._joints}, {self.channels} channels), "
                f"got shape {shape}; {self._remedy(shape)}"
            )
        weight = next(self.parameters(), None)
        if weight is not None and (blocks.dtype != weight.dtype or blocks.device != weight.device):
            raise ShapeError(
                f"this encoder's weights are {weight.dtype} on {weight.device}, got blocks of {blocks.dtype} "
                f"on {blocks.device}; use encoder.to(blocks.device, blocks.dtype), or move the blocks"
            )

    def _remedy(self, shape: tuple[int, ...]) -> str:
        """What to do about blocks of the wrong shape."""
        if len(shape) < 4:
            return "cut motions with jeanie.skeleton.blocks, and for one block use blocks[None]"
        if self.layout is not None and shape[-2] != len(self.layout):
            return (
                f"bring the motion to {self.layout.name} with jeanie.skeleton.convert, "
                "or build the encoder for its layout"
            )
        if shape[-3] != self.block:
            return (
                f"cut with blocks(joints, length={self.block}), or build the encoder with block={shape[-3]}"
            )
        return f"give it the streams it was built for, or build the encoder with channels={shape[-1]}"


def _net(layout: Layout | None, block: int, channels: int, config: EncoderConfig) -> nn.Module:
    if config.kind == "raw":
        return nn.Flatten(-3)
    if layout is None:
        raise ConfigError(
            f"an encoder of kind {config.kind!r} needs to know the joints: give layout, for example LAYOUTS['ntu25']"
        )
    numbers = block * len(layout) * channels
    if config.kind == "mlp":
        return _flat_mlp(numbers, config)
    if config.kind in RIVALS:
        return rival(config.kind, len(layout), channels, width=config.width, features=config.features)
    if config.kind == "temporal":
        _check_members(config)
        over_time = TemporalEncoder(
            numbers,
            width=config.width,
            features=config.features,
            strides=config.strides,
            dropout=config.dropout,
            members=config.members,
            positions=config.positions,
            channels=channels,
            dense=config.dense,
            scales=config.scales,
            shares=config.shares,
        )
        return nn.Sequential(nn.Flatten(-3), over_time)
    return _GraphEncoder(layout, block * channels, config)


def _check_members(config: EncoderConfig) -> None:
    """Raise where members would not have as many outputs, or there are not as many of them, or nobody has a share."""
    spans = {prod(own) for own in (config.strides, *config.scales)}
    if config.scales and (len(config.scales) != config.members or len(spans) > 1):
        raise ConfigError(
            f"scales has strides for each of {config.members} members, with the product of strides "
            f"{prod(config.strides)}, got {config.scales}"
        )
    if config.shares and (len(config.shares) != config.members or not sum(config.shares)):
        raise ConfigError(
            f"shares has a number for each of {config.members} members, some above 0, got {config.shares}"
        )


class _GraphEncoder(nn.Module):
    """MLP per joint, graph filter, then a transformer's token or all joints in a row, then FC -> d'."""

    def __init__(self, layout: Layout, numbers: int, config: EncoderConfig) -> None:
        super().__init__()
        joints, width = len(layout), config.width
        self.mlp = _joint_mlp(numbers, width, config.dropout)
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
        tracks = blocks.transpose(-3, -2).flatten(-2)  # [*batch, joint, frame and channel]
        features: Tensor = self.head(self.pool(self.graph(self.mlp(tracks))))
        return features


def _joint_mlp(numbers: int, width: int, dropout: float) -> nn.Sequential:
    """The MLP unit; with 3 channels ``numbers`` is the paper's 3M, and 6M and 9M follow."""
    return nn.Sequential(
        nn.Linear(numbers, 2 * numbers),
        nn.LayerNorm(2 * numbers),
        nn.ReLU(),
        nn.Linear(2 * numbers, 3 * numbers),
        nn.LayerNorm(3 * numbers),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(3 * numbers, width),
        nn.LayerNorm(width),
    )


def _flat_mlp(numbers: int, config: EncoderConfig) -> nn.Sequential:
    """Linear and ReLU in turn over the flattened block, a Linear last; made in this order, for the seed's sake."""
    sizes = (numbers, *config.mlp, config.features)
    parts: list[nn.Module] = [nn.Flatten(-3)]
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def _initialise(net: nn.Module, init: str) -> None:
    """Draws the weights of every FC and the transformer's token; biases are 0, LayerNorms stay 1 and 0.

    "torch" leaves what the constructors drew. The paper speaks of weights only, so biases are not drawn.
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
