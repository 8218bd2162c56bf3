"""Methods from outside: any object with ``distances(queries, supports)``."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.errors import ShapeError
from jeanie.fewshot.batching import Progress
from jeanie.skeleton.motion import Motion

__all__ = ["DistanceMethod", "measure_method_distances"]

_QUERIES = 16  # per call


@runtime_checkable
class DistanceMethod(Protocol):
    """A method that can be evaluated: a table of distances between motions, small for motions of the same action."""

    def distances(self, queries: Sequence[Motion], supports: Sequence[Motion]) -> Any:
        """Return the distance of every query to every support, ``[query, support]``, as a tensor or an array."""
        ...


def measure_method_distances(
    method: DistanceMethod,
    motions: Sequence[Motion],
    queries: Int[Tensor, " pair"],
    supports: Int[Tensor, " pair"],
    *,
    progress: Progress | None = None,
) -> Float[Tensor, " pair"]:
    """Return the distance of each query clip to its support clip, in float64; pairs are sorted by query.

    Several queries are compared in one call if at least half of the table is needed; otherwise each query is
    compared with its own supports.

    Raises:
        ShapeError: The method returns another shape, or NaN.
    """
    clips, counts = torch.unique_consecutive(queries, return_counts=True)
    result = torch.zeros(len(queries), dtype=torch.float64)
    done = 0
    for group, sizes in zip(clips.split(_QUERIES), counts.split(_QUERIES), strict=True):
        supports_per_query = supports[done : done + int(sizes.sum())].split(sizes.tolist())
        used = torch.unique(torch.cat(supports_per_query))
        if 2 * int(sizes.sum()) >= len(group) * len(used):
            table = _call(method, motions, group, used)
            rows = [
                row[torch.searchsorted(used, columns)]
                for row, columns in zip(table, supports_per_query, strict=True)
            ]
        else:
            rows = [
                _call(method, motions, clip[None], columns)[0]
                for clip, columns in zip(group, supports_per_query, strict=True)
            ]
        values = torch.cat(rows)
        result[done : done + len(values)] = values
        done += len(values)
        if progress is not None:
            progress(done, len(queries))
    return result


def _call(
    method: DistanceMethod, motions: Sequence[Motion], queries: Tensor, supports: Tensor
) -> Float[Tensor, "query support"]:
    batches = ([motions[clip] for clip in clips.tolist()] for clips in (queries, supports))
    distances = method.distances(*batches)
    table = torch.as_tensor(distances).detach().cpu().double()
    expected = (len(queries), len(supports))
    if table.shape != expected or bool(table.isnan().any()):
        problem = "NaN" if table.shape == expected else f"shape {tuple(table.shape)}"
        raise ShapeError(
            f"{type(method).__name__}.distances got {expected[0]} queries and {expected[1]} supports and needs to "
            f"return numbers of shape {expected}, got {problem}"
        )
    return table
