"""Lower bounds of distances, from rows in 8 bits.

An alignment grows with every cost in it, and projected features are never farther apart than the features. What is left
is the error e of the rounding: along a path of n steps, sqrt(sum d^2) is at least sqrt(sum d'^2) - e sqrt(n) by the
triangle inequality, and sum d is at least sum d' - e n.

A quick bound needs no alignment: a path passes every block of the example, so its cost is at least the sum over these
blocks of the smallest cost to any block of the window. The compiled kernel computes it from whole numbers. That takes a
fraction of the time of an alignment, and less if only the main columns are multiplied.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import exp, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from jeanie.alignment import align
from jeanie.alignment.backends import native
from jeanie.encoders.matrix_product import multiply
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.rows import COLUMNS, Projection, unpack_rows

__all__ = ["BoundedQuery", "compute_bounds", "compute_quick_bounds", "prepare_query"]

_SLACK = 1e-4, 1e-6  # share and size by which a distance in float32 may be off
_PRODUCT_SLACK = 1e-5  # of |x|^2 + |y|^2, by which a squared distance from products in float32 may be off
_ROWS = 2048  # compared at once
_LEVELS = 2**15 - 1  # of a number of the example in 16 bits
_SQUARES_ROWS = 256  # the products with them stay in the cache of a processor core
Rows = NDArray[Any]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BoundedQuery:
    """The projected features of an example, and their rounding error.

    ``whole`` has the features and their mirror image in 16 bits, ``unit`` times these whole numbers; ``whole_error`` is
    the rounding error of both.
    """

    features: Features
    error: float
    whole: NDArray[np.int16]
    unit: float
    whole_error: float


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
    images = torch.cat(
        [projected.values, *([projected.mirrored.values] if projected.mirrored else [])]
    ).double()
    unit = max(float(images.abs().max()) / _LEVELS, 1e-30)
    whole = (images / unit).round()
    rounding = float((images - whole * unit).square().sum(-1).max().sqrt()) * (1 + 1e-4)
    error = max(errors)
    return BoundedQuery(projected, error, whole.short().numpy(), unit, error + rounding)


def compute_bounds(model: FewShotModel, query: BoundedQuery, rows: Rows) -> NDArray[np.float32]:
    """Return a lower bound of the distance of the example to every row."""
    if _has_squares(model, query, rows):
        return _bound_squares(model, query, rows, quick=False)
    return _join(_compute_some(model, query, np.ascontiguousarray(part)) for part in _split(rows, _ROWS))


def compute_quick_bounds(
    model: FewShotModel, query: BoundedQuery, rows: Rows, columns: int = COLUMNS
) -> NDArray[np.float32] | None:
    """Return smaller bounds, without alignments, or None if the model or the rows have none.

    They exist for the hard minimum of squared distances, for windows of equal length without views and of one person.

    Args:
        model: The model.
        query: The example.
        rows: The windows.
        columns: Number of main columns to multiply. Fewer are faster and give smaller bounds. An installation without
            the compiled kernel multiplies all.
    """
    if not _has_squares(model, query, rows):
        return None
    if native.is_available():
        return _bound_nearest(model, query, rows, columns)
    return _bound_squares(model, query, rows, quick=True)


def _split(rows: Rows, count: int) -> Iterator[Rows]:
    return (rows[at : at + count] for at in range(0, len(rows), count))


def _join(parts: Iterable[NDArray[np.float32]]) -> NDArray[np.float32]:
    return np.concatenate([np.empty(0, np.float32), *parts])


def _has_squares(model: FewShotModel, query: BoundedQuery, rows: Rows) -> bool:
    """Return whether the distance is the hard minimum of sums of squares along paths through one table."""
    names, features = rows.dtype.names or (), query.features
    is_paired = "second" in names or (features.paired is not None and bool(features.paired.any()))
    if not _is_square_root(model) or is_paired or "values" not in names or len(rows["values"].shape) != 3:
        return False
    has_full_length = int(features.counts[0]) == features.values.shape[1] and features.values.dim() == 3
    return has_full_length and bool((rows["blocks"] == rows["values"].shape[1]).all())


def _bound_nearest(model: FewShotModel, query: BoundedQuery, rows: Rows, columns: int) -> NDArray[np.float32]:
    """Return quick bounds by the compiled kernel."""
    count = 1 if query.features.mirrored is None or model.config.mirror_penalty is None else 2
    sums = native.sum_nearest_squares(
        rows["values"], rows["scale"], query.whole[:count], query.unit, COLUMNS - columns
    )
    steps = query.whole.shape[1]
    return _subtract_errors(model, query, rows, sums.astype(np.float64), steps, query.whole_error)


def _bound_squares(
    model: FewShotModel, query: BoundedQuery, rows: Rows, *, quick: bool
) -> NDArray[np.float32]:
    """Return bounds from the squared distances between all blocks of the example and of the rows."""
    # one buffer for all parts: the system needs longer to provide new memory than to fill it
    buffer = torch.empty(min(len(rows), _SQUARES_ROWS), *rows["values"].shape[1:])
    return _join(
        _bound_some_squares(model, query, part, buffer, quick) for part in _split(rows, _SQUARES_ROWS)
    )


@torch.no_grad()
def _bound_some_squares(
    model: FewShotModel, query: BoundedQuery, rows: Rows, buffer: Tensor, quick: bool
) -> NDArray[np.float32]:
    features = query.features
    images = [features.values[0]]
    if features.mirrored is not None and model.config.mirror_penalty is not None:
        images.append(features.mirrored.values[0])
    count, tau, blocks = len(images), images[0].shape[0], rows["values"].shape[1]
    sides = torch.cat(images).float()
    tables, unit, row_maximum = _multiply_blocks(sides, rows, buffer)
    query_squares = sides.square().sum(-1)
    if quick:
        costs = (unit[:, None] * tables.amin(1)).add_(query_squares).clamp_min_(0)
        sums, steps = costs.unflatten(1, (count, tau)).sum(2), tau
    else:
        tables += (query_squares / unit[:, None])[:, None]
        band = getattr(model.config.align, "band", None)
        paths = [align(table, gamma=0, band=band) for table in tables.unflatten(2, (count, tau)).unbind(2)]
        sums, steps = unit[:, None] * torch.stack(paths, 1), tau + blocks - 1
    largest = float(row_maximum + query_squares.max())
    least = np.maximum(sums.double().numpy() - steps * _PRODUCT_SLACK * largest, 0)
    return _subtract_errors(model, query, rows, least, steps, query.error)


def _subtract_errors(
    model: FewShotModel,
    query: BoundedQuery,
    rows: Rows,
    sums: Float[np.ndarray, "row image"],
    steps: int,
    query_error: float,
) -> NDArray[np.float32]:
    """Return bounds from sums of ``steps`` squared distances between rounded blocks."""
    tau, blocks = query.features.values.shape[1], rows["values"].shape[1]
    align: Any = model.config.align
    factor = rows["factor"].astype(np.float64)[:, None] if "factor" in (rows.dtype.names or ()) else 1.0
    divisor = {"length": tau + blocks, "area": tau * blocks}.get(align.normalise, 1)
    penalties = np.array([1.0, model.config.mirror_penalty or 1.0])[: sums.shape[1]]
    gain = factor * penalties * model.config.weight / model.config.unit / divisor
    error = (rows["error"].astype(np.float64) + query_error)[:, None]
    roots = np.maximum(np.sqrt(sums * gain) - error * np.sqrt(steps * gain), 0)
    return _round_down(np.square(roots).min(1))


@torch.no_grad()
def _multiply_blocks(
    sides: Float[Tensor, "query column"], rows: Rows, buffer: Float[Tensor, "most block column"]
) -> tuple[Float[Tensor, "row block query"], Float[Tensor, " row"], float]:
    """Return (|x - y|^2 - |x|^2) / u for blocks x of the example and y of rows, the unit u per row, and max |y|^2.

    With u = 2 scale, this is scale |whole|^2 / 2 - whole x for the whole numbers of y, so one subtraction is enough.
    The whole numbers are written to the buffer.
    """
    whole = buffer[: len(rows)]
    whole.numpy()[:] = rows["values"]
    scale = torch.from_numpy(rows["scale"].copy())
    lengths = torch.linalg.vector_norm(whole, dim=-1)
    halves = lengths.square() * (scale / 2)[:, None]
    products = multiply(whole.flatten(0, 1), sides).unflatten(0, halves.shape)
    largest = float((lengths.amax(1) * scale).max()) ** 2
    return torch.sub(halves[..., None], products, out=products), 2 * scale, largest


@torch.no_grad()
def _compute_some(model: FewShotModel, query: BoundedQuery, rows: Rows) -> NDArray[np.float32]:
    support = unpack_rows(rows)
    if query.features.second is None:
        support = replace(support, second=None, paired=None)
    values = model.compare(query.features, support)[0].double().numpy()
    margins = _compute_margins(model, query, rows, support)
    bounds = _subtract(model, values, margins)
    return _round_down(bounds)


def _round_down(bounds: Numbers) -> NDArray[np.float32]:
    """Return bounds that also hold for distances that were computed in float32."""
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
