"""The multi-similarity loss on mined pairs, from the library pytorch-metric-learning (extra ``metric``)."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from jeanie.errors import ConfigError

__all__ = ["multi_similarity_loss", "number_classes"]

# the released settings of Skeleton-DML, and the margin of Wang et al., CVPR 2019
_ALPHA, _BETA, _BASE, _MARGIN = 0.1, 40.0, 0.5, 0.1


def multi_similarity_loss(
    distances: Float[Tensor, "*episode query support"], same: Bool[Tensor, "*episode query support"]
) -> Float[Tensor, ""]:
    """Return the multi-similarity loss of queries (anchors) and supports (Wang et al., CVPR 2019).

    log(1 + sum over mined positives of exp(-alpha (S - base))) / alpha
        + log(1 + sum over mined negatives of exp(beta (S - base))) / beta, the mean over queries and episodes

    S = 1 - d / 2, which is the cosine for distances of the metric "cosine". The miner selects negatives whose
    similarity is above that of the least similar positive minus 0.1, and positives whose similarity is below that of
    the most similar negative plus 0.1.

    Args:
        distances: Distances of queries to supports.
        same: Whether query and support have the same class.

    Raises:
        ConfigError: If pytorch-metric-learning is not installed.
    """
    criterion, miner = _build_loss_and_miner()
    shape = distances.shape[-2:]
    losses = []
    for table, is_same in zip(distances.reshape(-1, *shape), same.reshape(-1, *shape), strict=True):
        similarity = 1 - table / 2
        query_labels, support_labels = number_classes(is_same)
        # the inner product of a row of similarities and a unit vector is the similarity itself
        unit = torch.eye(similarity.shape[1], device=table.device, dtype=table.dtype)
        pairs = miner(similarity, query_labels, unit, support_labels)
        losses.append(criterion(similarity, query_labels, pairs, unit, support_labels))
    return torch.stack(losses).mean()


def number_classes(
    same: Bool[Tensor, "query support"],
) -> tuple[Int[Tensor, " query"], Int[Tensor, " support"]]:
    """Return class numbers of queries and supports that agree with ``same``.

    The number of a class is the index of its first support. A support whose class has no query is a class of its own.
    """
    queries = same.int().argmax(1)
    has_query = same.any(0)
    supports = torch.where(
        has_query, queries[same.int().argmax(0)], torch.arange(same.shape[1], device=same.device)
    )
    return queries, supports


def _build_loss_and_miner() -> tuple[Any, Any]:
    """Return loss and miner for rows that are similarities: they use inner products instead of cosines."""
    try:
        from pytorch_metric_learning.distances import DotProductSimilarity  # noqa: PLC0415  an extra
        from pytorch_metric_learning.losses import MultiSimilarityLoss  # noqa: PLC0415
        from pytorch_metric_learning.miners import MultiSimilarityMiner  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"loss 'multi-similarity' needs pytorch-metric-learning ({error}): pip install 'jeanie[metric]'"
        ) from None
    similarity = DotProductSimilarity(normalize_embeddings=False)
    criterion = MultiSimilarityLoss(alpha=_ALPHA, beta=_BETA, base=_BASE, distance=similarity)
    return criterion, MultiSimilarityMiner(epsilon=_MARGIN, distance=similarity)
