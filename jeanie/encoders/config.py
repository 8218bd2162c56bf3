"""Configurations of the encoders, one class per kind of network."""

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from jeanie.config import Config
from jeanie.encoders.graph import GraphKind
from jeanie.errors import ConfigError

__all__ = [
    "PRESETS",
    "CustomEncoderConfig",
    "EncoderConfig",
    "GraphEncoderConfig",
    "ImageEncoderConfig",
    "MlpEncoderConfig",
    "RawEncoderConfig",
    "TemporalEncoderConfig",
    "ViewAdaptiveEncoderConfig",
]

Size = Annotated[int, Field(ge=1)]


class _NetworkConfig(Config):
    features: Size = Field(default=50, description="size of the features of a block, d'")
    init: Literal["xavier", "normal", "torch"] = Field(
        default="xavier",
        description="initial weights: xavier; normal is N(0, 1) as in the paper, which saturates; torch is the "
        "default of torch",
    )


class GraphEncoderConfig(_NetworkConfig):
    """The paper's network: an MLP per joint, a graph filter, optionally a transformer over the joints.

    The defaults are those of the paper for small data sets. As in the paper, dropout is only in the MLP before the
    graph filter.

    >>> GraphEncoderConfig(width=64).graph
    's2gc'
    """

    kind: Literal["graph"] = "graph"
    graph: GraphKind = Field(default="s2gc", description="filter over the bones")
    layers: Size = Field(default=6, description="layers or hops of the filter, L")
    alpha: float = Field(
        default=0.5, ge=0, le=1, description="weight of the unfiltered joints, for appnp and s2gc"
    )
    width: Size = Field(default=32, description="features per joint, d")
    transformer: bool = Field(default=False, description="add a transformer over the joints after the graph")
    hidden: Size = Field(default=64, description="hidden size of the transformer's MLP")
    heads: Size = Field(default=6, description="heads of the transformer")
    head_size: Size = Field(default=5, description="features per head of the transformer")
    depth: Size = Field(default=6, description="layers of the transformer")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="dropout in the MLP before the graph")


class TemporalEncoderConfig(_NetworkConfig):
    """An ensemble of residual convolutions along the blocks; see ``TemporalEncoder``.

    Raises:
        ConfigError: If scales or shares do not fit the members.

    >>> TemporalEncoderConfig(members=3).strides
    (2, 1, 1)
    """

    kind: Literal["temporal"] = "temporal"
    width: Size = Field(default=32, description="features inside a member")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="dropout in every layer")
    strides: tuple[Size, ...] = Field(
        default=(2, 1, 1), min_length=1, description="blocks per step of each layer"
    )
    members: Size = Field(default=1, description="members of the ensemble")
    positions: float = Field(
        default=0.0, ge=0, description="gain of the joints' positions, which are appended to the features"
    )
    dense: bool = Field(default=False, description="return one output per block, independent of the strides")
    scales: tuple[tuple[Size, ...], ...] = Field(
        default=(), description="strides of every member, if they are not all the same"
    )
    shares: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(), description="weight of every member in a squared distance; empty: equal weights"
    )

    @model_validator(mode="after")
    def _check_members(self) -> "TemporalEncoderConfig":
        """Check that members have equal numbers of outputs, and that scales and shares have one entry per member."""
        spans = {prod(strides) for strides in (self.strides, *self.scales)}
        if self.scales and (len(self.scales) != self.members or len(spans) > 1):
            raise ConfigError(
                f"scales needs strides for each of {self.members} members, each with the product "
                f"{prod(self.strides)}, got {self.scales}"
            )
        if self.shares and (len(self.shares) != self.members or not sum(self.shares)):
            raise ConfigError(
                f"shares needs a number for each of {self.members} members, at least one above 0, got {self.shares}"
            )
        return self


class MlpEncoderConfig(_NetworkConfig):
    """An MLP over the flattened block.

    >>> MlpEncoderConfig(mlp=(128, 64)).features
    50
    """

    kind: Literal["mlp"] = "mlp"
    mlp: tuple[Size, ...] = Field(default=(256,), description="hidden sizes")


class RawEncoderConfig(Config):
    """No network: the coordinates of a block are its features.

    >>> RawEncoderConfig().kind
    'raw'
    """

    kind: Literal["raw"] = "raw"


class _ImageNetworkConfig(_NetworkConfig):
    network: Literal["small", "resnet18", "resnet50"] = Field(
        default="small", description="network over images: three convolutions, or a residual network"
    )
    image_size: Size = Field(
        default=224, description="height and width of the images of a residual network, in pixels"
    )


class ImageEncoderConfig(_ImageNetworkConfig):
    """A CNN over the block as an image: one colour per axis, or three neighbouring joints as colours (thirds)."""

    kind: Literal["image", "image-thirds"] = "image"
    width: Size = Field(default=32, description="channels of the first layer of the small network")


class ViewAdaptiveEncoderConfig(_ImageNetworkConfig):
    """A view-adaptive LSTM (va-rnn) or CNN (va-cnn); ``network`` is that of the CNN."""

    kind: Literal["va-rnn", "va-cnn"] = "va-rnn"
    width: Size = Field(default=32, description="channels of the first layer, or the state size of an LSTM")


class CustomEncoderConfig(Config):
    """An encoder from outside: any torch module that maps blocks to features.

    This is the record of a module. It is built from ``FewShotModel(..., encoder=...)``; nothing is imported because a
    configuration names it.
    """

    kind: Literal["custom"] = "custom"
    module: str = Field(default="", description="import path of the encoder, package.module:Class")
    options: dict[str, Any] | None = Field(
        default={},
        description="keyword arguments of the class; null: unknown, as the encoder was given as an object",
    )
    features: int | None = Field(
        default=None, ge=1, description="size of the features, measured when it is built"
    )


EncoderConfig = Annotated[
    GraphEncoderConfig
    | TemporalEncoderConfig
    | MlpEncoderConfig
    | RawEncoderConfig
    | ImageEncoderConfig
    | ViewAdaptiveEncoderConfig
    | CustomEncoderConfig,
    Field(discriminator="kind"),
]
"""Any encoder; ``kind`` selects the class."""

# The paper prints every size except that of a head. Here it is width / heads, rounded, except for NTU. There the
# paper counts 0.25 to 0.5 M parameters. With 25 joints and blocks of 8 frames, the transformer has this number at
# head sizes 8 to 20 (NTU-60) and only at head size 1 (NTU-120; size 2 has 514,272). Without the transformer, the
# counts are 169,868 and 654,768. The presets use the transformer where the paper reports it.
PRESETS: Mapping[str, GraphEncoderConfig] = MappingProxyType(
    {
        "small": GraphEncoderConfig(),
        "ntu60": GraphEncoderConfig(
            width=64, features=100, transformer=True, hidden=128, heads=12, head_size=8, depth=6, dropout=0.1
        ),
        "ntu120": GraphEncoderConfig(
            width=128, features=200, transformer=True, hidden=256, heads=12, head_size=1, depth=6, dropout=0.1
        ),
        "kinetics": GraphEncoderConfig(
            width=256, features=500, transformer=True, hidden=512, heads=12, head_size=21, depth=12, dropout=0.1
        ),
    }
)  # fmt: skip
"""The sizes of the paper by data set."""
