"""What BlockEncoder and its configuration say about input that cannot be used."""

import pytest
import torch

from jeanie.encoders import BlockEncoder, RawEncoderConfig
from jeanie.errors import ConfigError, ShapeError
from jeanie.fewshot import ModelConfig
from jeanie.skeleton import LAYOUTS

NTU = LAYOUTS["ntu25"]
KINDS = ("graph", "mlp", "raw")


@pytest.mark.errors
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 8, 20, 3), r"got shape \(2, 8, 20, 3\); convert the motion to ntu25 .*convert"),
        ((2, 6, 25, 3), r"cut with blocks\(joints, length=8\), or build the encoder with block=6"),
        ((2, 8, 25, 6), "or build the encoder with channels=6"),
        ((8, 25, 3), r"for one block use blocks\[None\]"),
        ((3,), r"cut motions with jeanie.blocks"),
    ],
    ids=["joints", "length", "channels", "one block", "no motion"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_another_shape_are_refused_with_a_remedy(kind, shape, message):
    encoder = BlockEncoder(NTU, config=ModelConfig(encoder={"kind": kind}).encoder)
    with pytest.raises(ShapeError, match=message):
        encoder(torch.zeros(shape))
    with pytest.raises(ShapeError, match=r"needs \(..., block, 8 frames, 25 joints of ntu25, 3 channels\)"):
        encoder(torch.zeros(shape))


@pytest.mark.errors
def test_a_raw_encoder_without_layout_still_minds_frames_and_channels():
    encoder = BlockEncoder(None, config=RawEncoderConfig())
    with pytest.raises(
        ShapeError, match=r"8 frames, any joints, 3 channels\), got shape \(2, 7, 4, 3\); cut"
    ):
        encoder(torch.zeros(2, 7, 4, 3))
    with pytest.raises(ConfigError, match="depends on the number of joints: give layout"):
        _ = encoder.features
    with pytest.raises(ConfigError, match="kind 'graph' needs a layout, got None"):
        BlockEncoder(None)


@pytest.mark.errors
def test_blocks_of_another_dtype_are_refused_before_torch_does():
    with pytest.raises(
        ShapeError, match=r"float32 on cpu, got blocks of torch.float64 on cpu; use encoder.to"
    ):
        BlockEncoder(NTU)(torch.zeros(2, 8, 25, 3, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"got blocks of torch.float32 on meta"):
        BlockEncoder(NTU)(torch.zeros(2, 8, 25, 3, device="meta"))


@pytest.mark.errors
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph": "gat"}, "graph: .*'gcn', 'sgc', 'appnp', 's2gc' or 'none', got 'gat'"),
        (
            {"kind": "cnn"},
            "kind needs one of 'graph', 'temporal', 'mlp', 'raw', 'image', 'image-thirds', 'va-rnn', 'va-cnn', "
            "'custom', got 'cnn'",
        ),
        ({"width": 0}, "width: .*greater than or equal to 1, got 0"),
        ({"dropout": 1.0}, "dropout: .*less than 1, got 1.0"),
        ({"alpha": -0.1}, "alpha: .*greater than or equal to 0"),
        ({"kind": "mlp", "mlp": (256, 0)}, "mlp.1: .*greater than or equal to 1"),
        ({"head": 3}, "head: no such option; the options are features, init, kind, graph"),
        (
            {"kind": "raw", "width": 3},
            "encoder.width: no such option; the options are kind",
        ),
    ],
    ids=lambda value: list(value)[-1] if isinstance(value, dict) else "",
)
def test_a_wrong_configuration_names_the_option(changes, message):
    with pytest.raises(ConfigError, match=message):
        ModelConfig(encoder=changes)


@pytest.mark.errors
def test_an_encoder_needs_a_frame_and_a_channel():
    with pytest.raises(ConfigError, match="at least 1 frame and 1 channel, got block=0 and channels=3"):
        BlockEncoder(NTU, block=0)
