"""Comparison without alignment: the base distance of means over time and views."""

from jaxtyping import Float
from torch import Tensor

from jeanie.fewshot.comparison.base import Comparison
from jeanie.fewshot.config import PoolConfig
from jeanie.fewshot.features import Features

__all__ = ["PooledComparison"]


class PooledComparison(Comparison):
    """The base distance of mean features."""

    config: PoolConfig

    def forward(self, query: Features, support: Features) -> Float[Tensor, "query support"]:
        """Return the distance of every query to every support."""
        query, support = self._scale(self.reduce(query)), self._scale(self.reduce(support))
        return self._block_costs(query.values[:, 0][None], support.values[:, 0][None])[0]

    def reduce(self, features: Features) -> Features:
        """Return the means over views and time."""
        return features.average_views().average_blocks()
