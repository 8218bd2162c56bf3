"""BlockEncoder: the paper's network written out in NumPy, its sizes, and what one call over many blocks owes."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from jeanie.encoders import (
    PRESETS,
    BlockEncoder,
    GraphEncoderConfig,
    MlpEncoderConfig,
    RawEncoderConfig,
)
from jeanie.encoders.transformer import Transformer
from jeanie.skeleton import LAYOUTS, count_blocks

NTU = LAYOUTS["ntu25"]
TINY = GraphEncoderConfig(width=6, features=7, hidden=8, heads=2, head_size=3, depth=2, layers=2)
KINDS = {
    **{graph: TINY.with_values(graph=graph) for graph in ("gcn", "sgc", "appnp", "s2gc", "none")},
    "transformer": TINY.with_values(transformer=True),
    "gcn-transformer": TINY.with_values(graph="gcn", transformer=True),
    "mlp": MlpEncoderConfig(mlp=(9, 8), features=7),
    "raw": RawEncoderConfig(),
}
KIND = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
LEARNT = pytest.mark.parametrize(
    "config",
    [config for config in KINDS.values() if config.kind != "raw"],
    ids=[name for name in KINDS if name != "raw"],
)


def motion(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def make_encoder(config, layout="openni15", seed=0, **options):
    torch.manual_seed(seed)
    return BlockEncoder(LAYOUTS[layout], config=config, **options).double().eval()


def bits(tensor):
    return tensor.contiguous().view({4: torch.int32, 8: torch.int64}[tensor.element_size()])


def weights(module):
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}


def normalise(x, scale, shift):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def s2gc(layout, layers, alpha):
    looped = np.eye(len(layout))
    for parent, child in layout.bones:
        looped[parent, child] = looped[child, parent] = 1
    root = np.diag(looped.sum(1) ** -0.5)
    step = root @ looped @ root
    powers = [np.linalg.matrix_power(step, hops) for hops in range(1, layers + 1)]
    return sum((1 - alpha) * power + alpha * np.eye(len(layout)) for power in powers) / layers


@pytest.mark.parametrize("name", ["openni15", "ntu25"])
@pytest.mark.parametrize(("block", "channels"), [(4, 3), (1, 6)])
def test_the_network_is_the_papers_written_out(name, block, channels):
    """FC, LN, ReLU, FC, LN, ReLU, FC, LN for every joint, then S2GC, then all joints into one FC."""
    layout = LAYOUTS[name]
    encoder = make_encoder(TINY, name, block=block, channels=channels)
    with torch.no_grad():
        for parameter in encoder.parameters():  # norms and biases away from 1 and 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    w = weights(encoder.net)
    blocks = motion(3, block, len(layout), channels)
    for index, one in enumerate(blocks.numpy()):
        joints = []
        for joint in range(len(layout)):
            x = np.array([one[f, joint, c] for f in range(block) for c in range(channels)])
            for fc in (0, 3, 7):
                x = w[f"mlp.{fc}.weight"] @ x + w[f"mlp.{fc}.bias"]
                x = normalise(x, w[f"mlp.{fc + 1}.weight"], w[f"mlp.{fc + 1}.bias"])
                x = x if fc == 7 else np.maximum(x, 0)
            joints.append(x)
        mixed = s2gc(layout, TINY.layers, TINY.alpha) @ np.stack(joints)
        expected = w["head.weight"] @ mixed.reshape(-1) + w["head.bias"]
        assert_close(encoder(blocks)[index].detach(), torch.from_numpy(expected), atol=1e-11, rtol=1e-11)


def test_with_a_transformer_the_token_alone_goes_into_the_last_layer():
    encoder = make_encoder(TINY.with_values(transformer=True))
    blocks = motion(4, 8, 15, 3)
    token = encoder.net.pool(encoder.net.graph(encoder.net.mlp(blocks)))
    assert token.shape == (4, 6)
    expected = token @ encoder.net.head.weight.T + encoder.net.head.bias
    assert_close(encoder(blocks), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("channels", [3, 9])
def test_the_joint_mlp_doubles_and_triples_the_blocks_numbers(channels):
    encoder = BlockEncoder(NTU, channels=channels)
    numbers = 8 * channels
    shapes = [tuple(part.weight.shape) for part in encoder.net.mlp if isinstance(part, nn.Linear)]
    assert shapes == [(2 * numbers, numbers), (3 * numbers, 2 * numbers), (32, 3 * numbers)]


PAPER = {  # width, features, hidden, heads, depth, dropout
    "small": (32, 50, 64, 6, 6, 0.5),
    "ntu60": (64, 100, 128, 12, 6, 0.1),
    "ntu120": (128, 200, 256, 12, 6, 0.1),
    "kinetics": (256, 500, 512, 12, 12, 0.1),
}


def test_the_presets_have_the_papers_sizes():
    found = {
        name: (row.width, row.features, row.hidden, row.heads, row.depth, row.dropout)
        for name, row in PRESETS.items()
    }
    assert found == PAPER
    assert {(row.graph, row.layers, row.alpha) for row in PRESETS.values()} == {("s2gc", 6, 0.5)}


def count_parameters(name, *, transformer, head_size, joints=25, numbers=24):
    """Parameters by hand: weights and biases of every FC, two numbers a feature of every LayerNorm."""
    width, features, hidden, heads, depth, _ = PAPER[name]
    fc = lambda a, b: a * b + b  # noqa: E731
    mlp = fc(numbers, 2 * numbers) + fc(2 * numbers, 3 * numbers) + fc(3 * numbers, width)
    mlp += 2 * (2 * numbers + 3 * numbers + width)
    if not transformer:
        return mlp + fc(joints * width, features)
    inner = heads * head_size
    layer = fc(width, 3 * inner) + fc(inner, width) + fc(width, hidden) + fc(hidden, width) + 4 * width
    return mlp + width + depth * layer + 2 * width + fc(width, features)


COUNTS = {
    ("small", False): 47_418,
    ("small", True): 58_806,
    ("ntu60", False): 169_868,
    ("ntu60", True): 267_020,
    ("ntu120", False): 654_768,
    ("ntu120", True): 477_192,
    ("kinetics", False): 3_224_668,
    ("kinetics", True): 6_429_388,
}


@pytest.mark.parametrize(("name", "transformer"), COUNTS, ids=lambda value: str(value))
def test_the_parameters_are_as_many_as_the_sizes_say(name, transformer):
    config = PRESETS[name].with_values(transformer=transformer)
    found = sum(weight.numel() for weight in BlockEncoder(NTU, config=config).parameters())
    assert found == COUNTS[name, transformer]
    assert found == count_parameters(name, transformer=transformer, head_size=config.head_size)


@pytest.mark.parametrize("name", ["ntu60", "ntu120"])
def test_the_ntu_presets_have_a_quarter_to_half_a_million_parameters(name):
    found = sum(weight.numel() for weight in BlockEncoder(NTU, config=PRESETS[name]).parameters())
    assert 250_000 <= found <= 500_000


def test_the_head_sizes_that_reach_the_papers_count_are_the_ones_named():
    def reach(name):
        sizes = range(1, 65)
        return [
            size
            for size in sizes
            if 250_000 <= count_parameters(name, transformer=True, head_size=size) <= 500_000
        ]

    assert reach("ntu60") == list(range(8, 21))
    assert reach("ntu120") == [1]
    assert count_parameters("ntu120", transformer=True, head_size=2) == 514_272


@KIND
def test_every_block_is_encoded_by_itself(config):
    encoder = make_encoder(config)
    blocks = motion(6, 8, 15, 3)
    order = torch.tensor([3, 5, 0, 1, 4, 2])
    together = encoder(blocks)
    assert_close(encoder(blocks[order]), together[order], atol=1e-12, rtol=1e-12)
    changed = blocks.clone()
    changed[2] += 1
    differs = (encoder(changed) != together).any(-1)
    assert differs.tolist() == [block == 2 for block in range(6)]


@KIND
def test_one_call_equals_a_loop_over_clips_views_and_blocks(config):
    encoder = make_encoder(config)
    blocks = motion(2, 3, 2, 4, 8, 15, 3)
    found = encoder(blocks)
    assert found.shape == (2, 3, 2, 4, encoder.features)
    for place in np.ndindex(2, 3, 2, 4):
        assert_close(found[place], encoder(blocks[place][None])[0], atol=1e-12, rtol=1e-12)


@KIND
def test_no_blocks_give_no_features(config):
    encoder = make_encoder(config)
    assert encoder(motion(0, 8, 15, 3)).shape == (0, encoder.features)
    assert encoder(motion(2, 0, 8, 15, 3)).shape == (2, 0, encoder.features)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("config", [KINDS["s2gc"], KINDS["transformer"], KINDS["raw"]], ids=lambda c: c.kind)
def test_every_layout_has_an_encoder(name, config):
    encoder = BlockEncoder(LAYOUTS[name], block=5, channels=6, config=config)
    found = encoder(motion(2, 3, 5, len(LAYOUTS[name]), 6, dtype=torch.float32))
    assert found.shape == (2, 3, encoder.features)
    assert found.isfinite().all()


@KIND
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_dtype_follows_the_input(config, dtype):
    found = make_encoder(config).to(dtype)(motion(2, 8, 15, 3, dtype=dtype))
    assert found.dtype == dtype
    assert found.isfinite().all()


@KIND
def test_the_device_follows_the_input(config):
    found = make_encoder(config).to("meta")(torch.zeros(2, 8, 15, 3, dtype=torch.float64, device="meta"))
    assert found.device.type == "meta"


@LEARNT
def test_float32_agrees_with_float64(config):
    encoder, blocks = make_encoder(config), motion(9, 8, 15, 3)
    exact = encoder(blocks)
    assert_close(encoder.float()(blocks.float()).double(), exact, atol=2e-5, rtol=2e-5)


@KIND
def test_the_input_is_left_as_it_was(config):
    blocks = motion(2, 8, 15, 3)
    before = blocks.clone()
    make_encoder(config)(blocks)
    assert torch.equal(blocks, before)


@LEARNT
def test_a_state_dict_carries_the_encoder_to_another(config):
    one, other = make_encoder(config, seed=1), make_encoder(config, seed=2)
    blocks = motion(3, 8, 15, 3)
    assert not torch.equal(one(blocks), other(blocks))
    other.load_state_dict(one.state_dict())
    assert torch.equal(bits(one(blocks)), bits(other(blocks)))
    assert set(one.state_dict()) == {name for name, _ in one.named_parameters()}


@LEARNT
def test_gradients_reach_every_weight_and_the_input(config):
    encoder = make_encoder(config).train()
    blocks = motion(16, 8, 15, 3).requires_grad_()
    encoder(blocks).square().sum().backward()
    assert blocks.grad.abs().sum() > 0
    still = [name for name, weight in encoder.named_parameters() if not weight.grad.abs().sum() > 0]
    assert still == []


def test_raw_is_the_flattened_block_bit_for_bit():
    encoder = BlockEncoder(NTU, config=RawEncoderConfig())
    blocks = motion(2, 3, 8, 25, 3, dtype=torch.float32)
    blocks[0, 0, 0, 0] = torch.tensor([-0.0, float("nan"), float("inf")])
    found = encoder(blocks)
    assert encoder.features == 600
    assert list(encoder.parameters()) == []
    assert list(encoder.state_dict()) == []
    for clip in range(2):
        for block in range(3):
            row = [blocks[clip, block, f, j, c] for f in range(8) for j in range(25) for c in range(3)]
            assert torch.equal(bits(found[clip, block]), bits(torch.stack(row)))


def test_raw_does_without_a_layout():
    encoder = BlockEncoder(None, block=2, config=RawEncoderConfig())
    for joints in (1, 15, 25):
        blocks = motion(4, 2, joints, 3)
        assert torch.equal(encoder(blocks), blocks.reshape(4, -1))


def test_the_published_mlp_is_a_plain_sequential_bit_for_bit():
    """480-256-64 of the published NW-UCLA protocol: 8 frames of 20 joints, torch's own first weights."""
    torch.manual_seed(0)
    encoder = BlockEncoder(
        LAYOUTS["kinect20"], config=MlpEncoderConfig(mlp=(256,), features=64, init="torch")
    )
    after = torch.rand(1)
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(480, 256), nn.ReLU(), nn.Linear(256, 64))
    assert torch.equal(torch.rand(1), after)  # no draw more, no draw less
    blocks = motion(5, 7, 8, 20, 3, dtype=torch.float32)
    ours, theirs = list(encoder.parameters()), list(plain.parameters())
    assert len(ours) == len(theirs) == 4
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(ours, theirs, strict=True))
    assert torch.equal(bits(encoder(blocks)), bits(plain(blocks.reshape(5, 7, 480))))


@pytest.mark.parametrize("sizes", [(), (5,), (6, 5, 4)])
def test_the_mlp_has_the_hidden_sizes_it_was_given(sizes):
    encoder = BlockEncoder(NTU, block=1, config=MlpEncoderConfig(mlp=sizes, features=3))
    found = [part.weight.shape[0] for part in encoder.net if isinstance(part, nn.Linear)]
    assert found == [*sizes, 3]
    assert not isinstance(encoder.net[-1], nn.ReLU)
    assert sum(isinstance(part, nn.ReLU) for part in encoder.net) == len(sizes)


def linears(encoder):
    return [part for part in encoder.modules() if isinstance(part, nn.Linear)]


@pytest.mark.parametrize("name", ["small", "ntu60"])
def test_normal_weights_have_mean_zero_and_deviation_one(name):
    torch.manual_seed(3)
    config = PRESETS[name].with_values(init="normal", transformer=True, graph="gcn")
    encoder = BlockEncoder(NTU, config=config)
    drawn = [part.weight for part in linears(encoder)]
    drawn.append(next(part for part in encoder.modules() if isinstance(part, Transformer)).token)
    for weight in drawn:
        error = weight.numel() ** -0.5  # five standard errors, or one weight in two million runs
        assert abs(weight.mean().item()) < 5 * error
        assert abs(weight.square().mean().item() - 1) < 5 * 2**0.5 * error
    everything = torch.cat([weight.detach().flatten() for weight in drawn])
    within = (everything.abs() < 1).double().mean().item()
    assert within == pytest.approx(0.6827, abs=0.01)  # a normal distribution, not a uniform one


def test_xavier_weights_are_uniform_up_to_glorots_bound():
    torch.manual_seed(3)
    for part in linears(BlockEncoder(NTU, config=PRESETS["ntu60"])):
        rows, columns = part.weight.shape
        bound = (6 / (rows + columns)) ** 0.5
        assert part.weight.abs().max() <= bound
        assert part.weight.abs().max() > 0.97 * bound
        assert part.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)


@pytest.mark.parametrize("init", ["xavier", "normal"])
def test_biases_start_at_zero_and_norms_at_one(init):
    encoder = BlockEncoder(NTU, config=PRESETS["small"].with_values(init=init, transformer=True))
    assert all(part.bias.eq(0).all() for part in linears(encoder))
    norms = [part for part in encoder.modules() if isinstance(part, nn.LayerNorm)]
    assert len(norms) == 3 + 2 * 6 + 1
    assert all(part.weight.eq(1).all() and part.bias.eq(0).all() for part in norms)


def test_dropout_acts_in_training_alone_and_only_where_asked():
    blocks = motion(3, 8, 15, 3)
    encoder = make_encoder(TINY.with_values(dropout=0.5))
    assert torch.equal(encoder(blocks), encoder(blocks))
    encoder.train()
    assert not torch.equal(encoder(blocks), encoder(blocks))
    without = make_encoder(TINY.with_values(dropout=0, transformer=True))
    assert torch.equal(without(blocks), without.train()(blocks))


def test_the_dropout_is_the_configured_share():
    encoder = BlockEncoder(NTU, config=PRESETS["ntu60"]).train()
    (dropped,) = (part for part in encoder.modules() if isinstance(part, nn.Dropout))
    torch.manual_seed(0)
    share = dropped(torch.ones(100_000)).eq(0).double().mean().item()
    assert share == pytest.approx(0.1, abs=0.005)


def test_every_block_keeps_its_place_in_time():
    encoder = BlockEncoder(NTU)
    counts = count_blocks(torch.tensor([3, 8, 9, 100]))
    assert encoder.stride == 1
    assert torch.equal(encoder.counts(counts), counts)


def test_the_default_is_the_small_preset_in_blocks_of_eight():
    encoder = BlockEncoder(NTU)
    assert encoder.config == PRESETS["small"] == GraphEncoderConfig()
    assert (encoder.block, encoder.channels, encoder.features) == (8, 3, 50)
    assert "25 joints of ntu25, block=8, channels=3" in repr(encoder)


def test_a_configuration_survives_json():
    for config in (*PRESETS.values(), *KINDS.values()):
        assert type(config).model_validate_json(config.model_dump_json()) == config
