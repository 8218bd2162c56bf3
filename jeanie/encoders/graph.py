"""Graph filters over the joints of a skeleton: GCN, SGC, APPNP and S2GC (paper, "GNN notations").

S = D^-1/2 (A + I) D^-1/2 is the layout's adjacency with self-loops, normalised by the degrees D of A + I.
Only GCN has weights of its own; the others are one joint x joint matrix, computed once from the layout.
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

__all__ = ["Fixed", "GraphFilter", "GraphKind", "normalised_adjacency", "propagation"]

Fixed = Literal["sgc", "appnp", "s2gc", "none"]
GraphKind = Literal["gcn", "sgc", "appnp", "s2gc", "none"]
Square = Float64[Tensor, "joint joint"]


def normalised_adjacency(layout: Layout) -> Float64[Tensor, "joint joint"]:
    """S = D^-1/2 (A + I) D^-1/2, float64: symmetric, eigenvalues above -1 and at most 1.

    A joint without bones keeps its self-loop and is passed through as it is.
    """
    looped = layout.adjacency.double() + torch.eye(len(layout), dtype=torch.float64)
    scale = looped.sum(-1).rsqrt()  # the self-loop makes every degree 1 or more
    return scale[:, None] * looped * scale


def _sgc(step: Square, layers: int, alpha: float) -> Square:
    """S^L."""
    power: Tensor = torch.linalg.matrix_power(step, layers)
    return power


def _appnp(step: Square, layers: int, alpha: float) -> Square:
    """H <- (1 - alpha) S H + alpha H0, L times, as a matrix that acts on H0."""
    start = torch.eye(len(step), dtype=step.dtype)
    state = start
    for _ in range(layers):
        state = (1 - alpha) * step @ state + alpha * start
    return state


def _s2gc(step: Square, layers: int, alpha: float) -> Square:
    """Mean over l = 1..L of (1 - alpha) S^l + alpha I."""
    start = torch.eye(len(step), dtype=step.dtype)
    power, total = start, torch.zeros_like(start)
    for _ in range(layers):
        power = step @ power
        total = total + power
    return (1 - alpha) * total / layers + alpha * start


def _none(step: Square, layers: int, alpha: float) -> Square:
    return torch.eye(len(step), dtype=step.dtype)


_FILTERS: MappingProxyType[str, Callable[[Square, int, float], Square]] = MappingProxyType(
    {"sgc": _sgc, "appnp": _appnp, "s2gc": _s2gc, "none": _none}
)


def propagation(
    layout: Layout, kind: Fixed = "s2gc", layers: int = 6, alpha: float = 0.5
) -> Float64[Tensor, "joint joint"]:
    """The matrix of a filter without weights, float64: filtered = matrix @ [joint, feature].

    sgc    S^L
    appnp  H <- (1 - alpha) S H + alpha H0, L times. The paper's last line prints H^L where its recursion
           gives H^(L-1); an L-layer filter takes L steps here, as the other three do.
    s2gc   mean over l = 1..L of (1 - alpha) S^l + alpha I
    none   I

    ``alpha`` is the share of the unfiltered joints that comes back; sgc and none have no use for it.

    >>> from jeanie.skeleton import LAYOUTS
    >>> propagation(LAYOUTS["ntu25"], "s2gc").shape
    torch.Size([25, 25])
    """
    if kind not in _FILTERS:
        raise ConfigError(
            f"a filter without weights is one of {', '.join(_FILTERS)}, got {kind!r}; "
            "for gcn, which learns, use GraphFilter"
        )
    _check(layers, alpha)
    return _FILTERS[kind](normalised_adjacency(layout), layers, float(alpha))


class GraphFilter(nn.Module):
    """Mixes the features of joints that share bones; sgc, appnp, s2gc and none have no weights.

    gcn is ReLU(S H Theta) in every layer but the last, S H Theta there; the Thetas are ``width`` x ``width``
    without bias. The others multiply by ``propagation(layout, kind, layers, alpha)``.
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
        _check(layers, alpha)
        self.kind = kind
        matrix = normalised_adjacency(layout) if kind == "gcn" else propagation(layout, kind, layers, alpha)
        self.matrix = Constant(matrix)
        learnt = layers if kind == "gcn" else 0
        self.weights = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(learnt))

    def forward(self, joints: Float[Tensor, "*batch joint width"]) -> Float[Tensor, "*batch joint width"]:
        """The filtered joints of every skeleton in the batch."""
        mixed = self._mix(joints)
        for layer, weight in enumerate(self.weights):
            mixed = weight(mixed if layer == 0 else self._mix(mixed.relu()))
        return mixed

    def _mix(self, joints: Float[Tensor, "*batch joint width"]) -> Float[Tensor, "*batch joint width"]:
        return torch.einsum("ij,...jw->...iw", self.matrix(), joints)

    def extra_repr(self) -> str:
        """What printing the module says of it."""
        return f"kind={self.kind!r}"


def _check(layers: int, alpha: float) -> None:
    if layers < 1 or not 0 <= alpha <= 1:
        raise ConfigError(
            f"a graph filter has 1 layer or more and alpha from 0 to 1, got {layers} and {alpha}; "
            "the paper's are 6 and 0.5"
        )
