"""The table of comparisons: one class per method."""

from collections.abc import Mapping
from types import MappingProxyType

from jeanie.alignment.base_distance import BaseDistance
from jeanie.encoders import BlockEncoder
from jeanie.fewshot.comparison.aligned import (
    FvmComparison,
    JeanieComparison,
    PoolTimeComparison,
    PoolViewsComparison,
)
from jeanie.fewshot.comparison.base import Comparison, Views
from jeanie.fewshot.comparison.pooled import PooledComparison
from jeanie.fewshot.comparison.uncertain import UncertainComparison
from jeanie.fewshot.config import AlignConfig

__all__ = ["build_comparison"]

_CLASSES: Mapping[str, type[Comparison]] = MappingProxyType(
    {
        "jeanie": JeanieComparison,
        "fvm": FvmComparison,
        "udtw": UncertainComparison,
        "pool": PooledComparison,
        "pool-time": PoolTimeComparison,
        "pool-views": PoolViewsComparison,
    }
)


def build_comparison(
    config: AlignConfig, views: Views, encoder: BlockEncoder, metric: BaseDistance | None = None
) -> Comparison:
    """Return the comparison of the method that a configuration names, with a base distance from outside if given."""
    comparison = _CLASSES[config.method](config, views, encoder)
    comparison.custom_metric = metric
    return comparison
