"""uDTW: alignment weighted by a learnt uncertainty per block (Wang and Koniusz, ECCV 2022)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jeanie.alignment import align
from jeanie.encoders import BlockEncoder
from jeanie.fewshot.comparison.aligned import AlignedComparison
from jeanie.fewshot.comparison.base import Views
from jeanie.fewshot.config import UncertainConfig
from jeanie.fewshot.features import Features

__all__ = ["UncertainComparison", "Uncertainty"]

_MIN_VARIANCE = 0.1  # the largest variance is 2 minus this
_CHUNK = 2**22  # costs in memory at once


class Uncertainty(nn.Module):
    """Variance sigma^2 of every block: a scaled sigmoid of a linear map of its features.

    Its range is 0.1 to 1.9, and its initial value 1.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, features: Float[Tensor, "*batch feature"]) -> Float[Tensor, "*batch"]:
        """Return one variance per feature vector."""
        return _MIN_VARIANCE + 2 * (1 - _MIN_VARIANCE) * torch.sigmoid(features @ self.weight + self.bias)


class UncertainComparison(AlignedComparison):
    """The cost of the soft best path through d / sigma^2 + weight log sigma^2."""

    config: UncertainConfig

    def __init__(self, config: UncertainConfig, views: Views, encoder: BlockEncoder) -> None:
        super().__init__(config, views, encoder)
        self.uncertainty = Uncertainty(encoder.features)

    def _pair_costs(self, query: Features, support: Features) -> Float[Tensor, "pair t s *views"]:
        """Return the costs of uDTW: d / sigma^2 + weight log sigma^2.

        sigma^2 is the mean variance of both blocks. For d = |x - y|^2 and weight = 1, the sum along a path is its
        negative log-likelihood under Gaussians, up to constants.
        """
        left, right = self.uncertainty(query.values), self.uncertainty(support.values)
        first = left.dim()
        pairs = left.view(*left.shape, *[1] * right.dim()) + right
        variance = pairs.movedim((first, first + 1), (1, 3)).flatten(0, 1) / 2
        costs: Tensor = super()._pair_costs(query, support) / variance
        total: Tensor = costs + self.config.uncertainty * variance.log()
        return total

    def _view_shift(self, cost: Tensor) -> int:
        return self.config.shift

    @property
    def _band(self) -> float | None:
        return self.config.band

    def _align(self, query: Features, support: Features, gamma: float | Tensor) -> Tensor:
        config, count = self.config, len(support)
        cells = query.values[0, ..., 0].numel() * support.values[0, ..., 0].numel()
        step = max(1, _CHUNK // (cells * count))
        rows = []
        for start in range(0, len(query), step):
            part = query[start : start + step]
            path_costs = align(
                self._pair_costs(part, support),
                gamma=gamma,
                shift=config.shift,
                query_lengths=part.counts.repeat_interleave(count),
                support_lengths=support.counts.repeat(len(part)),
                band=config.band,
                plan=config.plan,
            )
            rows.append(path_costs.view(-1, count))
        table = torch.cat(rows)
        if config.normalise == "length":
            return table / (query.counts[:, None] + support.counts)
        return table / (query.counts[:, None] * support.counts) if config.normalise == "area" else table
