"""The nearest other motions of each motion of an archive, computed in blocks of pairs by one or more workers.

The blocks depend on the archive and the model alone, so the result does not depend on the number of workers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.compute.cancellation import raise_if_stopped
from jeanie.compute.tasks import map_tasks
from jeanie.fewshot.batching import (
    FIRST_BATCH,
    MAX_NUMBERS,
    Progress,
    count_numbers,
    encode_batches,
    evaluation_mode,
)
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.motion import Motion

__all__ = ["Neighbours", "find_neighbours"]

_STORE_BYTES = 2**30  # limit of the prepared motions in memory
_BLOCKS = 64  # of queries, at most
_MIN_BLOCK = 32  # queries


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest other motions of each motion, nearest first."""

    index: Int[Tensor, "motion neighbour"]
    distance: Float[Tensor, "motion neighbour"]


@torch.no_grad()
def find_neighbours(
    model: FewShotModel,
    motions: Sequence[Motion],
    count: int,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Neighbours:
    """Find the ``count`` nearest other motions of each motion.

    Time grows with the square of the number of motions, memory does not.

    Args:
        model: The model that measures distances.
        motions: The motions.
        count: Number of neighbours.
        jobs: Number of worker processes with one thread each.
        cluster: Address of a Dask scheduler whose workers compare motions.
        progress: Called with (pairs done, pairs in total).
    """
    total = len(motions)
    count = min(count, total - 1)
    index = torch.zeros(total, count, dtype=torch.int64)
    distance = torch.full((total, count), torch.inf, dtype=torch.float64)
    done = 0
    with evaluation_mode(model):
        blocks = _list_blocks(total, _measure_model(model, motions))
        results = map_tasks(
            _compare_block,
            blocks,
            shared=(_Comparison(model, motions, count),),
            jobs=jobs,
            cluster=cluster,
            ordered=True,
        )
        for block, (nearest, numbers) in results:
            rows = slice(block.queries.start, block.queries.stop)
            candidates = torch.cat([distance[rows], nearest], 1)
            distance[rows], column = candidates.topk(count, largest=False)
            index[rows] = torch.cat([index[rows], numbers], 1).gather(1, column)
            done += len(block.queries) * len(block.supports)
            if progress is not None:
                progress(done, total * total)
    return Neighbours(index, distance)


@dataclass(frozen=True)
class _Block:
    """A task: pairs of some queries and some supports."""

    queries: range
    supports: range


def _list_blocks(total: int, group: int) -> list[_Block]:
    """Return all pairs in blocks, group by group of supports that fit into memory."""
    size = max(_MIN_BLOCK, -(-total // _BLOCKS))
    return [_Block(queries, supports) for supports in _cut(total, group) for queries in _cut(total, size)]


def _cut(total: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, total)) for start in range(0, total, size))


def _measure_model(model: FewShotModel, motions: Sequence[Motion]) -> int:
    """Return how many motions fit into memory, by a few of them; they also give an untrained model its cost scale."""
    store = model.store(motions[:FIRST_BATCH])
    clips = torch.arange(len(store))
    features = model.features(store[clips], "support")
    if any(part.comparison.is_unmeasured for part in model.modules() if isinstance(part, FewShotModel)):
        model.compare(model.features(store[clips], "query"), features)
    return max(1, MAX_NUMBERS * len(clips) // count_numbers(features))


@dataclass(eq=False)
class _Comparison:
    """Arguments of all blocks. A worker keeps the prepared clips, and the features of the last group of supports."""

    model: FewShotModel
    motions: Sequence[Motion]
    count: int
    store: Store | None = None
    supports: range | None = None
    features: Features | None = None

    def open_store(self) -> Store:
        """Return the prepared clips."""
        if self.store is None:
            self.store = self.model.store(self.motions, limit=_STORE_BYTES)
        return self.store

    def encode_supports(self, supports: range) -> Features:
        """Return the features of supports."""
        if self.features is None or supports != self.supports:
            self.supports, self.features = supports, None
            clips = torch.arange(supports.start, supports.stop)
            batches = encode_batches(self.model, self.open_store(), clips, "support")
            self.features = Features.cat([features for _, features in batches])
        return self.features


def _compare_block(
    shared: _Comparison, block: _Block
) -> tuple[Float[Tensor, "query neighbour"], Int[Tensor, "query neighbour"]]:
    """Return the distances and numbers of the nearest supports of each query, other than the query itself."""
    clips = torch.arange(block.queries.start, block.queries.stop)
    numbers = torch.arange(block.supports.start, block.supports.stop)
    tables = []
    with evaluation_mode(shared.model):
        supports = shared.encode_supports(block.supports)
        for rows, features in encode_batches(shared.model, shared.open_store(), clips, "query"):
            raise_if_stopped()
            table = shared.model.compare(features, supports).cpu().double()
            table[clips[rows][:, None] == numbers] = torch.inf
            tables.append(table)
    nearest, column = torch.cat(tables).topk(min(shared.count, len(numbers)), largest=False)
    return nearest, numbers[column]
