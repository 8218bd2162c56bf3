"""The multi-similarity loss on mined pairs, through the library pytorch-metric-learning (extra ``metric``)."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from jeanie.errors import ConfigError

__all__ = ["class_numbers", "multi_similarity_loss"]

# of the released settings of Skeleton-DML, and the margin of Wang et al., CVPR 2019
_ALPHA, _BETA, _BASE, _MARGIN = 0.1, 40.0, 0.5, 0.1


def multi_similarity_loss(
    distances: Float[Tensor, "*episode query support"], same: Bool[Tensor, "*episode query support"]
) -> Float[Tensor, ""]:
    """Multi-similarity loss of queries (anchors) and supports, the mean over episodes (Wang et al., CVPR 2019).

    log(1 + sum over mined positives of exp(-alpha (S - base))) / alpha
        + log(1 + sum over mined negatives of exp(beta (S - base))) / beta, the mean over queries

    S = 1 - d / 2, which is the cosine where the distance is that of metric "cosine". The miner keeps negatives
    that are more similar than the least similar positive less 0.1, and positives the other way round.
    """
    criterion, miner = _library()
    table = distances.shape[-2:]
    values = []
    for one, own in zip(distances.reshape(-1, *table), same.reshape(-1, *table), strict=True):
        similarity = 1 - one / 2
        labels, others = class_numbers(own)
        # rows of similarities against unit vectors: their inner products are the similarities themselves
        unit = torch.eye(similarity.shape[1], device=one.device, dtype=one.dtype)
        pairs = miner(similarity, labels, unit, others)
        values.append(criterion(similarity, labels, pairs, unit, others))
    return torch.stack(values).mean()


def class_numbers(
    same: Bool[Tensor, "query support"],
) -> tuple[Int[Tensor, " query"], Int[Tensor, " support"]]:
    """Numbers of the classes of queries and supports, from which of them are alike.

    A class is numbered by its first support; a support whose class has no query is a class by itself.
    """
    queries = same.int().argmax(1)
    asked = same.any(0)
    supports = torch.where(
        asked, queries[same.int().argmax(0)], torch.arange(same.shape[1], device=same.device)
    )
    return queries, supports


def _library() -> tuple[Any, Any]:
    """Loss and miner; inner products of rows that are already similarities take the place of cosines."""
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
