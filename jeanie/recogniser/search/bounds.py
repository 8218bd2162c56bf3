"""Lower bounds of distances, from rows in 8 bits.

An alignment grows with every cost in it, and projected features are never farther apart than the features. What is left
is the error e of the rounding: along a path of n steps, sqrt(sum d^2) is at least sqrt(sum d'^2) - e sqrt(n) by the
triangle inequality, and sum d is at least sum d' - e n.
"""

from dataclasses import dataclass, replace
from math import exp, sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.rows import Projection, unpack_rows

__all__ = ["BoundedQuery", "compute_bounds", "prepare_query"]

_SLACK = 1e-4, 1e-6  # share and size by which a distance in float32 may be off
_ROWS = 2048  # compared at once
Rows = NDArray[Any]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BoundedQuery:
    """The projected features of an example, and their rounding error."""

    features: Features
    error: float


@torch.no_grad()
def prepare_query(query: Features, projection: Projection) -> BoundedQuery:
    """Return the example as ``compute_bounds`` needs it."""
    errors: list[float] = []

    def project(values: Tensor) -> Tensor:
        columns, noise = projection.project(values)
        errors.append(float(noise.max()))
        return columns

    def project_all(features: Features) -> Features:
        second = None if features.second is None else project(features.second)
        mirrored = None if features.mirrored is None else project_all(features.mirrored)
        return replace(features, values=project(features.values), second=second, mirrored=mirrored)

    projected = project_all(query)
    return BoundedQuery(projected, max(errors))


def compute_bounds(model: FewShotModel, query: BoundedQuery, rows: Rows) -> NDArray[np.float32]:
    """Return a lower bound of the distance of the example to every row."""
    parts = [
        _compute_some(model, query, np.ascontiguousarray(rows[at : at + _ROWS]))
        for at in range(0, len(rows), _ROWS)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


@torch.no_grad()
def _compute_some(model: FewShotModel, query: BoundedQuery, rows: Rows) -> NDArray[np.float32]:
    support = unpack_rows(rows)
    if query.features.second is None:
        support = replace(support, second=None, paired=None)
    values = model.compare(query.features, support)[0].double().numpy()
    margins = _compute_margins(model, query, rows, support)
    bounds = _subtract(model, values, margins)
    safe: NDArray[np.float32] = (bounds - _SLACK[0] * np.abs(bounds) - _SLACK[1]).astype(np.float32)
    return safe


def _subtract(model: FewShotModel, values: Numbers, margins: Numbers) -> Numbers:
    """Return distances minus what the rounding may have added."""
    roots = np.maximum(np.sqrt(np.maximum(values, 0)) - margins, 0)
    least: Numbers = np.square(roots) if _is_square_root(model) else values - margins
    return least


def _is_square_root(model: FewShotModel) -> bool:
    align: Any = model.config.align
    return bool(align.metric == "sqeuclidean" and align.gamma == 0)


def _compute_margins(model: FewShotModel, query: BoundedQuery, rows: Rows, support: Features) -> Numbers:
    """Return what the rounding may add to a distance, or to its square root for the hard minimum of squares."""
    align: Any = model.config.align
    tau = query.features.counts.double().max().item()
    blocks = support.counts.double().numpy()
    divisor = {"length": tau + blocks, "area": tau * blocks}.get(align.normalise, np.ones_like(blocks))
    factor = np.ones_like(blocks) if support.factor is None else support.factor.double().numpy()
    gain = factor * model.config.weight / model.config.unit * max(1.0, model.config.mirror_penalty or 1.0)
    share = gain * (tau + blocks - 1) / divisor
    error = rows["error"].astype(np.float64) + query.error
    gap: Numbers = np.sqrt(share) if _is_square_root(model) else share * _compute_slope(model, query, support)
    return error * gap


def _compute_slope(model: FewShotModel, query: BoundedQuery, support: Features) -> float:
    """Return the largest slope of the base distance by |x - y|."""
    align: Any = model.config.align
    if align.metric == "euclidean":
        return 1.0
    if align.metric == "rbf":
        return 2 * exp(-0.5) / float(align.sigma)
    sides = (query.features, query.features.mirrored, support)
    lengths = [_measure_length(side) for side in sides if side is not None]
    return 2 * (max(lengths[:-1]) + lengths[-1]) + 1e-3


def _measure_length(features: Features) -> float:
    parts = [part for part in (features.values, features.second) if part is not None]
    return max(sqrt(float(part.square().sum(-1).max())) for part in parts)
