"""Graph filters over the joints of a skeleton: GCN, SGC, APPNP and S2GC (paper, "GNN notations").

S = D^-1/2 (A + I) D^-1/2 is the adjacency of the layout with self-loops, normalised by the degrees D of A + I.
Only GCN has weights; each of the others is one joint x joint matrix, computed once from the layout.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from jeanie.encoders.constant import Constant
from jeanie.errors import ConfigError
from jeanie.skeleton import Layout

__all__ = ["Fixed", "GraphFilter", "GraphKind", "compute_propagation", "normalise_adjacency"]

Fixed = Literal["sgc", "appnp", "s2gc", "none"]
GraphKind = Literal["gcn", "sgc", "appnp", "s2gc", "none"]
Square = Float64[Tensor, "joint joint"]


def normalise_adjacency(layout: Layout) -> Float64[Tensor, "joint joint"]:
    """Return S = D^-1/2 (A + I) D^-1/2 in float64: symmetric, with eigenvalues above -1 and at most 1.

    A joint without bones has only its self-loop, so S does not change its features.
    """
    adjacency = layout.adjacency.double() + torch.eye(len(layout), dtype=torch.float64)
    scale = adjacency.sum(-1).rsqrt()  # the self-loop makes every degree 1 or more
    return scale[:, None] * adjacency * scale


def _compute_sgc(step: Square, layers: int, alpha: float) -> Square:
    """Return S^L."""
    power: Tensor = torch.linalg.matrix_power(step, layers)
    return power


def _compute_appnp(step: Square, layers: int, alpha: float) -> Square:
    """Return the matrix that maps H0 to the result of L steps H <- (1 - alpha) S H + alpha H0."""
    identity = torch.eye(len(step), dtype=step.dtype)
    state = identity
    for _ in range(layers):
        state = (1 - alpha) * step @ state + alpha * identity
    return state


def _compute_s2gc(step: Square, layers: int, alpha: float) -> Square:
    """Return the mean over l = 1..L of (1 - alpha) S^l + alpha I."""
    identity = torch.eye(len(step), dtype=step.dtype)
    power, total = identity, torch.zeros_like(identity)
    for _ in range(layers):
        power = step @ power
        total = total + power
    return (1 - alpha) * total / layers + alpha * identity


def _compute_identity(step: Square, layers: int, alpha: float) -> Square:
    return torch.eye(len(step), dtype=step.dtype)


_FILTERS: MappingProxyType[str, Callable[[Square, int, float], Square]] = MappingProxyType(
    {"sgc": _compute_sgc, "appnp": _compute_appnp, "s2gc": _compute_s2gc, "none": _compute_identity}
)


def compute_propagation(
    layout: Layout, kind: Fixed = "s2gc", layers: int = 6, alpha: float = 0.5
) -> Float64[Tensor, "joint joint"]:
    """Return the matrix of a filter without weights in float64: filtered = matrix @ [joint, feature].

    sgc    S^L
    appnp  H <- (1 - alpha) S H + alpha H0, L times. The paper's last line prints H^L, but its recursion gives
           H^(L-1). Here, an L-layer filter takes L steps, like the other filters.
    s2gc   mean over l = 1..L of (1 - alpha) S^l + alpha I
    none   I

    Args:
        layout: Joints and bones.
        kind: The filter.
        layers: Number of layers or hops, L.
        alpha: Weight of the unfiltered joints; sgc and none do not use it.

    Raises:
        ConfigError: If an argument is out of range, or the kind has weights.

    >>> from jeanie.skeleton import LAYOUTS
    >>> compute_propagation(LAYOUTS["ntu25"], "s2gc").shape
    torch.Size([25, 25])
    """
    if kind not in _FILTERS:
        raise ConfigError(
            f"a filter without weights is one of {', '.join(_FILTERS)}, got {kind!r}; "
            "for gcn, which has weights, use GraphFilter"
        )
    _check_options(layers, alpha)
    return _FILTERS[kind](normalise_adjacency(layout), layers, float(alpha))


class GraphFilter(nn.Module):
    """Combines the features of joints that share bones; sgc, appnp, s2gc and none have no weights.

    Every layer of gcn is ReLU(S H Theta), except the last, which is S H Theta. Theta is ``width`` x ``width`` without
    bias. The other kinds multiply by ``compute_propagation(layout, kind, layers, alpha)``.
    """

    def __init__(
        self,
        layout: Layout,
        width: int,
        *,
        kind: GraphKind = "s2gc",
        layers: int = 6,
        alpha: float = 0.5,
    ) -> None:
        super().__init__()
        _check_options(layers, alpha)
        self.kind = kind
        matrix = (
            normalise_adjacency(layout) if kind == "gcn" else compute_propagation(layout, kind, layers, alpha)
        )
        self.matrix = Constant(matrix)
        count = layers if kind == "gcn" else 0
        self.weights = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(count))

    def forward(self, joints: Float[Tensor, "*batch joint width"]) -> Float[Tensor, "*batch joint width"]:
        """Return the filtered joints of every skeleton in the batch."""
        filtered = self._multiply(joints)
        for layer, weight in enumerate(self.weights):
            filtered = weight(filtered if layer == 0 else self._multiply(filtered.relu()))
        return filtered

    def filter_weight(self, weight: Float[Tensor, "feature numbers"]) -> Float[Tensor, "feature numbers"]:
        """Return the weight V of a linear layer for which V x = W (filter of x), with x = joints flattened.

        V[o, j, w] = sum over i of W[o, i, w] M[i, j] for the matrix M of a filter without weights.
        """
        joints = len(self.matrix())
        by_joint = weight.unflatten(-1, (joints, -1))
        return torch.einsum("oiw,ij->ojw", by_joint, self.matrix()).flatten(-2)

    def _multiply(self, joints: Float[Tensor, "*batch joint width"]) -> Float[Tensor, "*batch joint width"]:
        return torch.einsum("ij,...jw->...iw", self.matrix(), joints)

    def extra_repr(self) -> str:
        """Return the text inside the module's ``repr``."""
        return f"kind={self.kind!r}"


def _check_options(layers: int, alpha: float) -> None:
    if layers < 1 or not 0 <= alpha <= 1:
        raise ConfigError(
            f"a graph filter needs 1 layer or more and alpha from 0 to 1, got {layers} and {alpha}; "
            "the paper uses 6 and 0.5"
        )
