"""Comparisons by alignment: soft-DTW and JEANIE, free viewpoint matching, and paths over means."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.alignment import distances
from jeanie.fewshot.comparison.base import Comparison
from jeanie.fewshot.config import FvmConfig, JeanieConfig, PoolTimeConfig, PoolViewsConfig, UncertainConfig
from jeanie.fewshot.features import Features
from jeanie.views import EulerSimple

__all__ = [
    "AlignedComparison",
    "FvmComparison",
    "JeanieComparison",
    "PoolTimeComparison",
    "PoolViewsComparison",
]


class AlignedComparison(Comparison):
    """The cost of the soft best path; with "euler-simple" views, the soft minimum over both rows."""

    config: JeanieConfig | FvmConfig | UncertainConfig | PoolViewsConfig | PoolTimeConfig

    def forward(self, query: Features, support: Features) -> Float[Tensor, "query support"]:
        """Return the distance of every query to every support; differentiable."""
        query, support = self._scale(self.reduce(query)), self._scale(self.reduce(support))
        gamma = self._measure_gamma(query, support)
        if not isinstance(self.views, EulerSimple) or query.values.dim() == 3:
            return self._align(query, support, gamma)
        rows = [
            self._align(query.select_views(row), support, gamma)
            for row in (self.views.azimuth_rows, self.views.altitude_rows)
        ]
        if self.config.gamma == 0:
            return torch.minimum(*rows)
        return -gamma * torch.logsumexp(torch.stack(rows) / -gamma, 0)

    def _align(self, query: Features, support: Features, gamma: float | Tensor) -> Tensor:
        return distances(
            query.values, support.values, metric=self._metric, sigma=self.config.sigma, gamma=gamma,
            query_lengths=query.counts, support_lengths=support.counts, normalise=self.config.normalise,
            band=self._band, **self._path_options(),
        )  # fmt: skip

    def _path_options(self) -> dict[str, Any]:
        """Return the arguments of ``distances`` that select the paths through views."""
        return {}


class JeanieComparison(AlignedComparison):
    """A smooth path through time and views (paper, Alg. 1); without views it is soft-DTW."""

    config: JeanieConfig

    def _view_shift(self, cost: Tensor) -> int:
        return self.config.shift

    @property
    def _band(self) -> float | None:
        return self.config.band

    def _path_options(self) -> dict[str, Any]:
        return {"shift": self.config.shift, "plan": self.config.plan}


class FvmComparison(AlignedComparison):
    """Free viewpoint matching: a path through time, any view at every step (paper, Suppl.)."""

    config: FvmConfig

    @property
    def _band(self) -> float | None:
        return self.config.band

    def _path_options(self) -> dict[str, Any]:
        view_gamma: float | Tensor | None = self.config.view_gamma
        if self.config.view_gamma and self.config.relative:
            view_gamma = self._scale_gamma(self.config.view_gamma)
        return {"matching": "fvm", "view_gamma": view_gamma}


class PoolViewsComparison(AlignedComparison):
    """A path through time over features that are means over views."""

    config: PoolViewsConfig

    def reduce(self, features: Features) -> Features:
        """Return the means over views."""
        return features.average_views()

    @property
    def _band(self) -> float | None:
        return self.config.band


class PoolTimeComparison(AlignedComparison):
    """The soft minimum over views of the base distance of means over time."""

    config: PoolTimeConfig

    def reduce(self, features: Features) -> Features:
        """Return the means over time."""
        return features.average_blocks()
