"""The transformer against torch's own with copied weights, against loops over scalars, and its laws."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from jeanie.encoders.transformer import Attention, Layer, Transformer, encode_positions


def tokens(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def randomise_weights(module, seed=1):
    """The module with every weight drawn anew, LayerNorms and biases too, so that none hides behind 1 or 0."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return module


def build_torch_layer(layer, width, hidden, heads):
    """torch.nn's layer with the weights of ours."""
    other = nn.TransformerEncoderLayer(
        width, heads, hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).double()
    pairs = [
        (other.self_attn.in_proj_weight, layer.attention.inward.weight),
        (other.self_attn.in_proj_bias, layer.attention.inward.bias),
        (other.self_attn.out_proj.weight, layer.attention.outward.weight),
        (other.self_attn.out_proj.bias, layer.attention.outward.bias),
        (other.norm1.weight, layer.attention_norm.weight),
        (other.norm1.bias, layer.attention_norm.bias),
        (other.linear1.weight, layer.mlp[0].weight),
        (other.linear1.bias, layer.mlp[0].bias),
        (other.linear2.weight, layer.mlp[2].weight),
        (other.linear2.bias, layer.mlp[2].bias),
        (other.norm2.weight, layer.mlp_norm.weight),
        (other.norm2.bias, layer.mlp_norm.bias),
    ]
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)
    assert len(pairs) == len(list(other.parameters())) == len(list(layer.parameters()))
    return other


def table(count, width):
    """Positions, number by number."""
    rows = [[0.0] * width for _ in range(count)]
    for place in range(count):
        for column in range(width):
            angle = place / 10000 ** ((column - column % 2) / width)
            rows[place][column] = math.cos(angle) if column % 2 else math.sin(angle)
    return torch.tensor(rows, dtype=torch.float64)


def attend(x, module, heads, size):
    """Multi-head attention of one sequence, head by head and token by token."""
    inward, shift = module.inward.weight.detach().numpy(), module.inward.bias.detach().numpy()
    gathered = np.zeros((len(x), heads * size))
    for head in range(heads):
        rows = [slice((part * heads + head) * size, (part * heads + head + 1) * size) for part in range(3)]
        query, key, value = (x @ inward[row].T + shift[row] for row in rows)
        for token in range(len(x)):
            weight = np.array([math.exp(query[token] @ other / math.sqrt(size)) for other in key])
            gathered[token, head * size : (head + 1) * size] = weight @ value / weight.sum()
    return gathered @ module.outward.weight.detach().numpy().T + module.outward.bias.detach().numpy()


@pytest.mark.parametrize(("count", "width"), [(26, 64), (1, 2), (5, 7), (34, 256), (3, 1)])
def test_positions_are_sines_and_cosines(count, width):
    assert_close(encode_positions(count, width), table(count, width), atol=1e-13, rtol=0)


def test_every_joint_and_the_token_have_a_position_of_their_own():
    place = encode_positions(34, 32)
    assert torch.cdist(place, place).fill_diagonal_(1).min() > 0.1


@pytest.mark.parametrize(("width", "hidden", "heads"), [(12, 20, 3), (32, 64, 4), (8, 8, 1), (64, 128, 8)])
def test_a_layer_equals_torchs_pre_norm_layer_with_the_same_weights(width, hidden, heads):
    layer = randomise_weights(Layer(width, hidden, heads, width // heads))
    x = tokens(5, 9, width)
    assert_close(layer(x), build_torch_layer(layer, width, hidden, heads)(x), atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("depth", [1, 3])
def test_the_stack_is_token_positions_layers_and_the_norm_of_the_token(depth):
    module = randomise_weights(Transformer(6, 12, hidden=20, heads=3, head_size=4, depth=depth))
    joints = tokens(5, 6, 12)
    state = torch.cat((module.token.detach().expand(5, 1, 12), joints), 1) + table(7, 12)
    for layer in module.layers:
        state = build_torch_layer(layer, 12, 20, 3)(state)
    first = state[:, 0]
    centred = first - first.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    assert_close(module(joints), normed * module.norm.weight + module.norm.bias, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(("heads", "size"), [(1, 1), (3, 1), (2, 5), (12, 8)])
def test_the_head_size_is_free_of_the_width(heads, size):
    module = randomise_weights(Attention(6, heads, size))
    x = tokens(4, 6)
    assert_close(
        module(x).detach(), torch.from_numpy(attend(x.numpy(), module, heads, size)), atol=1e-11, rtol=1e-11
    )


def test_only_positions_tell_joints_apart():
    """Attention sees a set: joints that change place and take their positions along give the same token."""
    module = randomise_weights(Transformer(6, 8, hidden=10, heads=2, head_size=3, depth=2))
    joints, place = tokens(3, 6, 8), encode_positions(7, 8)[1:]
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    moved = (joints + place)[:, order] - place
    assert_close(module(moved), module(joints), atol=1e-11, rtol=1e-11)
    assert (module(joints[:, order]) - module(joints)).abs().max() > 1e-3


def test_every_leading_axis_is_a_batch():
    module = randomise_weights(Transformer(5, 8, hidden=10, heads=2, head_size=4, depth=2))
    joints = tokens(2, 3, 4, 5, 8)
    found = module(joints)
    assert found.shape == (2, 3, 4, 8)
    for clip in range(2):
        for view in range(3):
            for block in range(4):
                assert_close(
                    found[clip, view, block], module(joints[clip, view, block]), atol=1e-12, rtol=1e-12
                )


def test_gradients_are_right_once_and_twice():
    module = randomise_weights(Transformer(3, 4, hidden=5, heads=2, head_size=2, depth=1))
    joints = tokens(1, 3, 4).requires_grad_()
    assert gradcheck(module, (joints,))
    assert gradgradcheck(module, (joints,))


def test_large_scores_do_not_overflow():
    module = randomise_weights(Attention(4, 2, 3))
    found = module(1e6 * tokens(5, 4))
    assert found.isfinite().all()


def test_positions_are_exact_in_float64_and_saved_nowhere():
    module = Transformer(25, 64, hidden=128, heads=12, head_size=8, depth=1)
    assert_close(module.double().positions(), encode_positions(26, 64), atol=0, rtol=0)
    assert not [name for name in module.state_dict() if "position" in name]
