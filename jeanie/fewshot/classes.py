"""Classes: their mean features, distances of queries to them, and the class of a query.

Prototypical Nets (Snell et al., NeurIPS 2017) and Matching Nets (Vinyals et al., NeurIPS 2016).
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from jeanie.errors import ConfigError, ShapeError
from jeanie.fewshot.features import Features

__all__ = ["Rule", "average_classes", "classify", "compute_attention_distances", "compute_class_distances"]

Rule = Literal["nearest", "mean"]


def classify(
    distances: Float[Tensor, "query support"],
    support_labels: Int[Tensor, " support"],
    way: int,
    rule: Rule = "nearest",
) -> Int[Tensor, " query"]:
    """Return the class of every query.

    Args:
        distances: Distance of every query to every support.
        support_labels: Class of every support, from 0 to ``way`` - 1.
        way: Number of classes.
        rule: "nearest": the class of the nearest support; "mean": the class with the smallest mean distance.

    Raises:
        ConfigError: If the rule is unknown.
        ShapeError: If a class has no support and the rule is "mean".

    >>> classify(torch.tensor([[0.2, 0.1, 0.9]]), torch.tensor([0, 1, 1]), 2, "mean")
    tensor([0])
    """
    support_labels = support_labels.to(distances.device)
    if rule == "nearest":
        return support_labels[distances.argmin(1)]
    if rule != "mean":
        raise ConfigError(f"rule is 'nearest' or 'mean', got {rule!r}")
    if len(support_labels.unique()) < way:
        raise ShapeError(f"the rule 'mean' needs a support of each of the {way} classes")
    return compute_class_distances(distances, support_labels, way, rule).argmin(1)


def compute_class_distances(
    distances: Float[Tensor, "query support"], support_labels: Int[Tensor, " support"], way: int, rule: Rule
) -> Float[Tensor, "query way"]:
    """Return the distance of every query to every class: to its nearest support, or the mean over its supports."""
    reduce = {"nearest": "amin", "mean": "mean"}[rule]
    index = support_labels.expand(len(distances), -1)
    empty = distances.new_full((len(distances), way), torch.inf)
    return empty.scatter_reduce(1, index, distances, reduce, include_self=False)


def average_classes(support: Features, labels: Int[Tensor, " support"], way: int) -> Features:
    """Return the mean features of every class, c_k = mean over its supports of f(x) (Prototypical Nets).

    Features are averaged block by block. If the supports of a class differ in their numbers of blocks, they are first
    interpolated to the rounded mean of these numbers.

    Raises:
        ShapeError: If a class has no support.
    """
    labels = labels.to(support.values.device)
    member = one_hot(labels, way).to(support.values.dtype)
    shots = member.sum(0)
    if bool((shots == 0).any()):
        raise ShapeError(
            f"each of the {way} classes needs a support, got {shots.int().tolist()} supports per class"
        )
    block_counts = support.counts.to(member.dtype)
    counts = ((member.T @ block_counts) / shots).round().to(support.counts.dtype)
    values = support.values
    if bool((counts[labels] != support.counts).any()):
        values = _interpolate_blocks(values, support.counts, counts[labels])
    return Features(torch.einsum("sk,s...->k...", member / shots, values), counts)


def _interpolate_blocks(
    values: Float[Tensor, "clip block *rest"], before: Int[Tensor, " clip"], after: Int[Tensor, " clip"]
) -> Float[Tensor, "clip longest *rest"]:
    """Return sequences of ``before`` blocks interpolated linearly to ``after`` blocks; the ends stay the ends."""
    steps = torch.arange(int(after.amax()), device=values.device)
    ratio = (before - 1).double() / (after - 1).clamp_min(1)
    place = (steps * ratio[:, None]).clamp_max((before - 1)[:, None])
    place = torch.where((after == 1)[:, None], (before - 1)[:, None] / 2, place)  # one block: the middle
    low = place.floor().long()
    high = torch.minimum(low + 1, (before - 1)[:, None])
    share = (place - low).to(values.dtype).view(*low.shape, *[1] * (values.dim() - 2))
    rows = torch.arange(len(values), device=values.device)[:, None]
    return torch.lerp(values[rows, low], values[rows, high], share)


def compute_attention_distances(
    distances: Float[Tensor, "query support"], labels: Int[Tensor, " support"], way: int
) -> Float[Tensor, "query way"]:
    """Return -log of the attention per class, a(q, s) = softmax over supports of cos(q, s) (Matching Nets, Eq. 1).

    ``distances`` are those of the metric "cosine", 2 - 2 cos, so that cos is 1 - d / 2. The smallest value belongs to
    the class with the largest sum of attention.
    """
    attention = torch.log_softmax(-distances / 2, 1)
    classes = torch.arange(way, device=distances.device)
    is_other = labels.to(distances.device)[:, None] != classes
    return -torch.logsumexp(attention[:, :, None].masked_fill(is_other, -torch.inf), 1)
