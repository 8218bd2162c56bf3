"""What other few-shot learners do with features: class means, attention over supports, uncertain alignment.

Prototypical Nets (Snell et al., NeurIPS 2017), Matching Nets (Vinyals et al., NeurIPS 2016) and uDTW (Wang and
Koniusz, ECCV 2022), on whatever encoder a model has.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from jeanie.align import align
from jeanie.align.cost import squared_distances
from jeanie.errors import ShapeError
from jeanie.fewshot.config import AlignConfig
from jeanie.fewshot.features import Features

__all__ = [
    "Uncertainty",
    "attention_distances",
    "pair_squares",
    "prototypes",
    "reduced",
    "uncertain_cost",
    "uncertain_distances",
]

_LEAST = 0.1  # of the variance, which lies between it and 2 - it
_CHUNK = 2**22  # costs of uDTW held at once


def prototypes(support: Features, labels: Int[Tensor, " support"], way: int) -> Features:
    """Mean features of every class, one clip a class: c_k = mean over its supports of f(x).

    Features of a path through time are averaged block by block, so a class's motions need one number of blocks.
    """
    labels = labels.to(support.values.device)
    member = nn.functional.one_hot(labels, way).to(support.values.dtype)
    shots = member.sum(0)
    if bool((shots == 0).any()):
        raise ShapeError(
            f"every one of the {way} classes needs a support, got {shots.int().tolist()} of each"
        )
    counts = torch.stack([support.counts[labels == k].amax() for k in range(way)])
    if bool((counts[labels] != support.counts).any()):
        raise ShapeError(
            "the mean of motions needs as many blocks in each of a class: set inputs.prepare.frames, "
            "or align.method to 'pool'"
        )
    values = torch.einsum("sk,s...->k...", member / shots, support.values)
    return Features(values, counts)


def reduced(features: Features, config: AlignConfig) -> Features:
    """Means over time, views or both, where the method takes them."""
    if config.method in ("pool", "pool-views"):
        features = features.over_views()
    return features.over_time() if config.method in ("pool", "pool-time") else features


def attention_distances(
    distances: Float[Tensor, "query support"], labels: Int[Tensor, " support"], way: int
) -> Float[Tensor, "query way"]:
    """-log of the attention that falls on each class, a(q, s) = softmax over supports of cos(q, s).

    ``distances`` are those of metric "cosine", 2 - 2 cos, so that cos is 1 - d / 2. The class of the least is that
    of the largest sum of attention (Matching Nets, Eq. 1 with the labels as one-hot vectors).
    """
    attention = torch.log_softmax(-distances / 2, 1)
    classes = torch.arange(way, device=distances.device)
    other = labels.to(distances.device)[:, None] != classes
    return -torch.logsumexp(attention[:, :, None].masked_fill(other, -torch.inf), 1)


class Uncertainty(nn.Module):
    """sigma^2 of every block from its features: a linear map and a scaled sigmoid, 0.1 to 1.9, at the start 1."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, features: Float[Tensor, "*batch feature"]) -> Float[Tensor, "*batch"]:
        return _LEAST + 2 * (1 - _LEAST) * torch.sigmoid(features @ self.weight + self.bias)


def pair_squares(
    query: Float[Tensor, "query t *query_views feature"],
    support: Float[Tensor, "support s *support_views feature"],
) -> Float[Tensor, "pair t s *views"]:
    """|x - y|^2 of all blocks of every query and every support, pair by pair; views of the query come first."""
    flat = (x.reshape(1, -1, x.shape[-1]) for x in (query, support))
    squared = squared_distances(*flat)[0].view(*query.shape[:-1], *support.shape[:-1])
    first = query.dim() - 1  # where the support's axes begin
    return squared.movedim((first, first + 1), (1, 3)).flatten(0, 1)


def uncertain_cost(
    query: Float[Tensor, "query t *query_views feature"],
    support: Float[Tensor, "support s *support_views feature"],
    uncertainty: Callable[[Tensor], Tensor],
    base: Callable[[Tensor], Tensor],
    *,
    weight: float,
) -> Float[Tensor, "pair t s *views"]:
    """Costs of uDTW: d / sigma^2 + weight log sigma^2, sigma^2 the mean of both blocks' variances.

    A path's sum is its negative log-likelihood under Gaussians, up to constants, for d = |x - y|^2 and weight = 1.
    """
    left, right = uncertainty(query), uncertainty(support)
    first = left.dim()
    pairs = left.view(*left.shape, *[1] * right.dim()) + right
    variance = pairs.movedim((first, first + 1), (1, 3)).flatten(0, 1) / 2
    return base(pair_squares(query, support)) / variance + weight * variance.log()


def uncertain_distances(
    cost: Callable[[Tensor, Tensor], Tensor],
    query: Features,
    support: Features,
    config: AlignConfig,
    gamma: float,
) -> Float[Tensor, "query support"]:
    """Cost of the soft best path of every query to every support through the costs that ``cost`` makes."""
    n, m = len(query), len(support)
    cells = (
        query.values[0].numel()
        // query.values.shape[-1]
        * (support.values[0].numel() // query.values.shape[-1])
    )
    step = max(1, _CHUNK // (cells * m))
    rows = []
    for i in range(0, n, step):
        some = query[i : i + step]
        rows.append(
            align(
                cost(some.values, support.values),
                gamma=gamma,
                shift=config.shift,
                query_lengths=some.counts.repeat_interleave(m),
                support_lengths=support.counts.repeat(len(some)),
                band=config.band,
                plan=config.plan,
            ).view(-1, m)
        )
    found = torch.cat(rows)
    if config.normalise == "length":
        return found / (query.counts[:, None] + support.counts)
    return found / (query.counts[:, None] * support.counts) if config.normalise == "area" else found
