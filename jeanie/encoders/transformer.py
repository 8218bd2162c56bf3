"""A pre-norm transformer over the joints of a block (paper, Suppl., "Backbone with GNN and Transformer").

Z0  = [token; joints] + positions
Z'k = MHSA(LN(Z(k-1))) + Z(k-1)
Zk  = MLP(LN(Z'k)) + Z'k,                    k = 1..depth
y'  = LN(first row of the last Z)
"""

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from jeanie.encoders.constant import Constant

__all__ = ["Attention", "Layer", "Transformer", "encode_positions"]


def encode_positions(count: int, width: int) -> Float64[Tensor, "count width"]:
    """Return the sine-cosine encoding of positions.

    E[p, 2i] = sin(p / 10000^(2i / width)), E[p, 2i + 1] = cos(p / 10000^(2i / width))

    >>> encode_positions(26, 64)[0, :4].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    position = torch.arange(count, dtype=torch.float64)
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angle = position[:, None] * 10_000.0 ** (-even / width)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)[:, :width]


class Attention(nn.Module):
    """Multi-head self-attention; the head size may differ from width / heads.

    It does not use ``scaled_dot_product_attention``, whose fast kernels cannot be differentiated twice.
    """

    def __init__(self, width: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = head_size**-0.5
        self.inward = nn.Linear(width, 3 * heads * head_size)  # query, key and value, concatenated
        self.outward = nn.Linear(heads * head_size, width)

    def forward(self, tokens: Float[Tensor, "*batch token width"]) -> Float[Tensor, "*batch token width"]:
        """Return the attention output of every token, over all tokens of its sequence."""
        parts = self.inward(tokens).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.movedim(-3, 0).transpose(-3, -2)  # each [*batch, head, token, head_size]
        weights = (self.scale * query @ key.mT).softmax(-1)
        outputs: Tensor = self.outward((weights @ value).transpose(-3, -2).flatten(-2))
        return outputs


class Layer(nn.Module):
    """Attention, then an MLP with GELU, each with a LayerNorm before it and a residual connection."""

    def __init__(self, width: int, hidden: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, head_size)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, tokens: Float[Tensor, "*batch token width"]) -> Float[Tensor, "*batch token width"]:
        """Return the tokens after this layer."""
        tokens = tokens + self.attention(self.attention_norm(tokens))
        updated: Tensor = tokens + self.mlp(self.mlp_norm(tokens))
        return updated


class Transformer(nn.Module):
    """Returns one vector per block: the output of a learnt class token that is processed with the joints.

    There is no dropout: the paper has it only in the MLP before the graph.

    Args:
        joints: Number of joints.
        width: Features per joint.
        hidden: Hidden size of the MLP of a layer.
        heads: Number of attention heads.
        head_size: Features per head.
        depth: Number of layers.
    """

    def __init__(
        self, joints: int, width: int, *, hidden: int, heads: int, head_size: int, depth: int
    ) -> None:
        super().__init__()
        self.token = nn.Parameter(0.02 * torch.randn(1, width))
        self.positions = Constant(encode_positions(1 + joints, width))
        self.layers = nn.Sequential(*(Layer(width, hidden, heads, head_size) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, joints: Float[Tensor, "*batch joint width"]) -> Float[Tensor, "*batch width"]:
        """Return the normalised class token of every skeleton after the last layer."""
        token = self.token.expand(*joints.shape[:-2], 1, -1)
        tokens = self.layers(torch.cat((token, joints), -2) + self.positions())
        output: Tensor = self.norm(tokens[..., 0, :])
        return output
