"""The base of all comparisons: base distance, softmin temperature, and the path of a pair."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jeanie.alignment import Alignment, trace
from jeanie.alignment.base_distance import BaseDistance, apply_metric, compute_block_costs
from jeanie.encoders import BlockEncoder
from jeanie.fewshot.config import AlignConfig
from jeanie.fewshot.features import Features
from jeanie.views import CameraViews, EulerSimple, EulerViews

__all__ = ["Comparison", "Views"]

Views = EulerViews | EulerSimple | CameraViews | None

_MOMENTUM = 0.05
_SAMPLE = 512  # blocks of a clip side that measure the scale of a base distance from outside


class Comparison(nn.Module):
    """A way to compare two sequences of block features.

    If gamma is relative, it is multiplied by the running mean of the base distance. The buffer ``cost_scale`` contains
    that mean. Training updates it, and the first comparison measures it if it is 0.

    Args:
        config: Options of the comparison.
        views: The simulated views of the features.
        encoder: The encoder of the features.

    Attributes:
        custom_metric: A base distance from outside, instead of the one that the configuration names.
    """

    config: AlignConfig
    custom_metric: BaseDistance | None

    def __init__(self, config: AlignConfig, views: Views, encoder: BlockEncoder) -> None:
        super().__init__()
        self.config, self.views, self.custom_metric = config, views, None
        self.register_buffer("cost_scale", torch.zeros((), dtype=torch.float64))

    def forward(self, query: Features, support: Features) -> Float[Tensor, "query support"]:
        """Return the distance of every query to every support, for the first persons; differentiable."""
        raise NotImplementedError

    def reduce(self, features: Features) -> Features:
        """Return the means over time or views that the comparison uses; by default the features themselves."""
        return features

    def costs(self, query: Features, support: Features) -> Float[Tensor, "pair t s *views"]:
        """Return the cost of every query block, support block and view; pairs are in the order of the queries."""
        return self._pair_costs(self._scale(query), self._scale(support))

    def trace(self, pairs: Sequence[tuple[Features, Features]]) -> Alignment:
        """Return the best path through the mean costs of pairs of clips.

        With "euler-simple" views, the path is the one through the better row, and views are indices in that row.
        """
        if not isinstance(self.views, EulerSimple):
            return self._trace_grid(pairs)
        rows = (self.views.azimuth_rows, self.views.altitude_rows)
        paths = [
            self._trace_grid([(query.select_views(row), support) for query, support in pairs]) for row in rows
        ]
        return min(paths, key=lambda path: float(path.distance))

    @property
    def is_unmeasured(self) -> bool:
        """Whether gamma is relative and the scale of the costs is not yet known."""
        return self.config.relative and not bool(self.get_buffer("cost_scale") > 0)

    def _trace_grid(self, pairs: Sequence[tuple[Features, Features]]) -> Alignment:
        cost = torch.stack([self.costs(query, support) for query, support in pairs]).mean(0)
        gamma = self._measure_gamma(*pairs[0])
        return trace(cost, gamma=float(gamma), shift=self._view_shift(cost), band=self._band)[0]

    def _pair_costs(self, query: Features, support: Features) -> Tensor:
        """Return costs of all blocks of every query and every support; the query's views come first."""
        flat = (x.values.reshape(1, -1, x.values.shape[-1]) for x in (query, support))
        costs = self._block_costs(*flat)[0].view(*query.values.shape[:-1], *support.values.shape[:-1])
        first = query.values.dim() - 1  # where the support's axes begin
        return costs.movedim((first, first + 1), (1, 3)).flatten(0, 1)

    def _view_shift(self, cost: Tensor) -> int:
        """Return the largest change of view per step of a path: by default any."""
        return max(cost.shape[3:], default=0)

    @property
    def _band(self) -> float | None:
        return None

    def _scale(self, features: Features) -> Features:
        """Return the features, normalised to length 1 for the metric "cosine"."""
        return features.normalise() if self.config.metric == "cosine" else features

    @property
    def _metric(self) -> str | BaseDistance:
        """The base distance of scaled features: for vectors of length 1, |x - y|^2 = 2 - 2 cos."""
        if self.custom_metric is not None:
            return self.custom_metric
        return "sqeuclidean" if self.config.metric == "cosine" else self.config.metric

    def _block_costs(self, x: Tensor, y: Tensor) -> Float[Tensor, "batch left right"]:
        """Return the base distance of every block of ``x`` and every block of ``y``."""
        return compute_block_costs(x, y, self._metric, self.config.sigma)

    def _measure_gamma(self, query: Features, support: Features) -> float | Tensor:
        """Return gamma, multiplied by the scale of the costs if it is relative; training measures that scale.

        The product is a tensor on a GPU, because a number would have to wait for the device.
        """
        if not self.config.relative or self.config.gamma == 0:
            return self.config.gamma
        scale = self.get_buffer("cost_scale")
        if self.training or self.is_unmeasured:
            mean = self._average_cost(query, support)
            scale.copy_(torch.where(scale > 0, scale + _MOMENTUM * (mean - scale), mean))
        return self._scale_gamma(self.config.gamma)

    def _scale_gamma(self, gamma: float) -> float | Tensor:
        """Return a temperature times the scale of the costs."""
        scaled = gamma * self.get_buffer("cost_scale").clamp_min(1e-12)
        return scaled.item() if scaled.device.type == "cpu" else scaled

    @torch.no_grad()
    def _average_cost(self, query: Features, support: Features) -> Tensor:
        """Return the base distance of the mean squared distance: E|x - y|^2 = E|x|^2 + E|y|^2 - 2 E x E y.

        A base distance from outside is averaged over a sample of the blocks.
        """
        metric = self._metric
        if not isinstance(metric, str):
            sides = (part.flatten_blocks() for part in (query, support))
            sample = (x[:: -(-len(x) // _SAMPLE)][None] for x in sides)
            return self._block_costs(*sample).double().mean()
        (x, x_squared), (y, y_squared) = (part.average_all() for part in (query, support))
        squared = x_squared + y_squared - 2 * (x * y).sum()
        return apply_metric(squared.clamp_min(0), metric, self.config.sigma)
