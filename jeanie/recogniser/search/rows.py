"""Rows: the features of windows in 8 bits, with a bound of the error that this causes.

Features are projected onto a few orthonormal directions. One more column has the length of the rest, so rows are never
farther apart than features. Each row has one scale; ``error`` is the largest distance between a block and its 8 bits.
The 32-bit words of a row add up to ``_CHECK``: a search detects damaged rows without another file.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from jeanie.errors import DataError
from jeanie.fewshot.features import Features
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.search.windows import compute_centre_and_basis

__all__ = [
    "COLUMNS",
    "Projection",
    "are_intact",
    "build_row_type",
    "compute_projection",
    "pack_rows",
    "unpack_rows",
]

COLUMNS = 56  # 55 directions and the rest
_LIMIT = 127
_CHECK = np.int32(0x6A65616E)
_SUM_ERROR = 1e-6  # relative error of a sum of squares in float32
_MAX_BLOCKS = 2**16
Rows = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Projection:
    """Maps features to the columns of rows: (x - centre) basis, and the length of what the basis leaves out."""

    centre: Float[Tensor, " feature"]
    basis: Float[Tensor, "feature direction"]

    def project(
        self, values: Float[Tensor, "*any feature"]
    ) -> tuple[Float[Tensor, "*any column"], Float[Tensor, "*any"]]:
        """Return the columns and their rounding error."""
        moved = values - self.centre
        inside = moved @ self.basis
        total = moved.square().sum(-1)
        rest = (total - inside.square().sum(-1)).clamp_min(0).sqrt()
        noise = _SUM_ERROR * total
        return torch.cat([inside, rest[..., None]], -1), 1.5 * noise / torch.maximum(
            rest, noise.sqrt()
        ).clamp_min(1e-30)

    def get_bytes(self) -> bytes:
        """Return the numbers of the projection, to identify it."""
        return b"".join(
            np.ascontiguousarray(part.cpu().numpy()).tobytes() for part in (self.centre, self.basis)
        )


def compute_projection(model: FewShotModel) -> Projection | None:
    """Return the projection of a model, or None if its distances have no lower bound; see ``compute_coarse_basis``."""
    centre_and_basis = compute_centre_and_basis(model)
    if centre_and_basis is None:
        return None
    centre, basis = centre_and_basis
    return Projection(centre, basis[:, -(COLUMNS - 1) :].contiguous())


@lru_cache(64)
def build_row_type(shape: tuple[int, ...] | None, *, has_second: bool, has_factor: bool) -> np.dtype[Any]:
    """Return the type of rows whose features have ``shape`` (blocks, views, columns); None: no features.

    Raises:
        DataError: If the shape is not that of features.
    """
    fields: list[tuple[Any, ...]] = []
    if shape is not None:
        if len(shape) < 2 or min(shape) < 1 or max(shape) > _MAX_BLOCKS or shape[-1] != COLUMNS:
            raise DataError(f"{shape} is not the shape of features")
        fields = [("values", "i1", shape), ("scale", "<f4"), ("error", "<f4"), ("blocks", "<i4")]
        if has_second:
            fields += [("second", "i1", shape), ("second_scale", "<f4"), ("paired", "<i4")]
        if has_factor:
            fields += [("factor", "<f4")]
    return np.dtype([*fields, ("window", "<i4", (3,)), ("check", "<i4")])


def pack_rows(features: Features, windows: Tensor, projection: Projection | None) -> Rows:
    """Return rows of ``features`` with ``windows``, three numbers each. Without a projection they hold only these."""
    if projection is None:
        rows = np.zeros(len(windows), build_row_type(None, has_second=False, has_factor=False))
    else:
        rows = _pack_features(features, projection)
    rows["window"] = windows.numpy()
    rows["check"] = _CHECK - _add_words(rows)
    return rows


def _pack_features(features: Features, projection: Projection) -> Rows:
    paired, second = features.paired, features.second
    has_second = paired is not None and second is not None and bool(paired.any())
    columns, noise = projection.project(features.values)
    shape = tuple(columns.shape[1:])
    kind = build_row_type(shape, has_second=has_second, has_factor=features.factor is not None)
    rows = np.zeros(len(features), kind)
    rows["values"], rows["scale"], rows["error"] = _quantise(columns, noise)
    rows["blocks"] = features.counts.numpy()
    if has_second and second is not None and paired is not None:
        values, scale, error = _quantise(*projection.project(second))
        rows["second"], rows["second_scale"], rows["paired"] = values, scale, paired.numpy()
        rows["error"] = np.maximum(rows["error"], np.where(paired.numpy(), error, 0))
    if features.factor is not None:
        rows["factor"] = features.factor.numpy()
    return rows


def _quantise(columns: Tensor, noise: Tensor) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return 8-bit numbers, a scale per window and the largest error of a block."""
    flat = columns.flatten(1)
    scale = (flat.abs().amax(1) / _LIMIT).float().clamp_min(1e-30)
    shaped = scale.to(columns.dtype).view(-1, *[1] * (columns.dim() - 1))
    rounded = (columns / shaped).round().clamp(-_LIMIT, _LIMIT)
    error = ((columns - rounded * shaped).square().sum(-1).sqrt() + noise).flatten(1).amax(1) * (1 + 1e-4)
    return rounded.to(torch.int8).numpy(), scale.numpy(), error.float().numpy()


def unpack_rows(rows: Rows) -> Features:
    """Return the features of rows in float32."""
    names = rows.dtype.names or ()
    values, blocks = _scale_back(rows, "values", "scale"), torch.from_numpy(rows["blocks"].astype(np.int64))
    factor = torch.from_numpy(rows["factor"].copy()) if "factor" in names else None
    if "second" not in names:
        paired = torch.zeros(len(rows), dtype=torch.bool)
        return Features(values, blocks, second=values, paired=paired, factor=factor)
    paired = torch.from_numpy(rows["paired"] != 0)
    return Features(
        values, blocks, second=_scale_back(rows, "second", "second_scale"), paired=paired, factor=factor
    )


def _scale_back(rows: Rows, values: str, scale: str) -> Tensor:
    shape = (-1, *[1] * (rows[values].ndim - 1))
    return torch.from_numpy(rows[values].astype(np.float32) * rows[scale].reshape(shape))


def are_intact(rows: Rows) -> NDArray[np.bool_]:
    """Return per row whether its words add up to the fixed sum."""
    is_intact: NDArray[np.bool_] = _add_words(rows) == _CHECK
    return is_intact


def _add_words(rows: Rows) -> NDArray[np.int32]:
    words = np.ascontiguousarray(rows).view("<i4").reshape(len(rows), -1)
    total: NDArray[np.int32] = words.sum(1, dtype=np.int32)
    return total
