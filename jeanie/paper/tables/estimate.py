"""Estimate time and memory of measurements before they start, from their settings alone: no data is read.

The estimate counts encoder operations and alignment cells. Its constants fit the measured episodes of
docs/results/six-d.md on one core of two server processors. So it says whether a table takes minutes, hours or weeks,
and whether it fits into memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from jeanie.evaluation.protocols import get_protocol
from jeanie.fewshot.config import ModelConfig, NoViewsConfig
from jeanie.paper.tables.cells import Cell
from jeanie.skeleton.blocks import compute_stride, count_blocks
from jeanie.training.config import TrainConfig

__all__ = ["Estimate", "estimate_cell", "estimate_cells"]

_OPERATIONS_PER_SECOND = 2e10  # multiplications and additions of an encoder
_SECONDS_PER_CELL = 8e-9  # distance and alignment of one cell, without gradient
_GRADIENT = 3.0  # times the cost of the forward pass
_EPISODE_SECONDS = 0.004  # whatever the sizes are
_BASE_BYTES = 2e9  # interpreter, libraries, prepared clips, evaluation in chunks; measured on MSRAction3D
_KEPT_COSTS, _KEPT_BLOCK_BYTES = (
    3 * 2**27 * 4,
    1.5e9,
)  # more than these are computed again in the backward pass
_EPISODES = 100  # of validation
_GB = 1e9


@dataclass(frozen=True)
class _Typical:
    """Typical values of a data set: frames and persons per clip, joints, clips per class."""

    frames: int
    joints: int
    persons: int
    clips: int


_TYPICAL = {
    "msraction3d": _Typical(40, 20, 1, 28),
    "action-pairs": _Typical(100, 20, 1, 30),
    "uwa3d": _Typical(100, 15, 1, 23),
    "uwa3d-multiview": _Typical(100, 15, 1, 36),
    "ntu60": _Typical(85, 25, 2, 948),
    "ntu120": _Typical(85, 25, 2, 954),
    "kinetics": _Typical(300, 18, 2, 650),
    "nw-ucla": _Typical(40, 20, 1, 148),
    "sbu": _Typical(25, 15, 2, 35),
    "synthetic": _Typical(60, 15, 1, 30),
}


@dataclass(frozen=True)
class Estimate:
    """Hours of one core, and the largest memory of one process in gigabytes."""

    hours: float
    gigabytes: float

    def describe(self, jobs: int = 1) -> str:
        """Return the estimate as a sentence.

        >>> Estimate(0.5, 1.25).describe(2)
        'about 15 minutes on 2 processes, up to 1.2 GB of memory each'
        """
        minutes = 60 * self.hours / jobs
        if minutes < 90:
            time = "a minute" if minutes < 1.5 else f"{round(minutes)} minutes"
        elif minutes < 60 * 48:
            time = f"{minutes / 60:.0f} hours"
        else:
            time = f"{minutes / 60 / 24:.0f} days"
        on = "one process" if jobs == 1 else f"{jobs} processes"
        per_process = "" if jobs == 1 else " each"
        return f"about {time} on {on}, up to {self.gigabytes:.1f} GB of memory{per_process}"


def estimate_cells(cells: Sequence[Cell]) -> Estimate:
    """Estimate several measurements together; a training that several share counts once."""
    trained: set[str] = set()
    hours, gigabytes = 0.0, 0.0
    for cell in {cell.key: cell for cell in cells}.values():
        cell_estimate = estimate_cell(cell, with_training=cell.run_key not in trained)
        trained.add(cell.run_key)
        hours, gigabytes = hours + cell_estimate.hours, max(gigabytes, cell_estimate.gigabytes)
    return Estimate(hours, gigabytes)


def estimate_cell(cell: Cell, *, with_training: bool = True) -> Estimate:
    """Estimate one measurement: search, training with validation, and test."""
    protocol = get_protocol(cell.protocol)
    typical = _TYPICAL[protocol.dataset]
    splits = len(cell.names) or protocol.split_count
    splits = splits if cell.splits is None else min(splits, cell.splits)
    counts = protocol.counts(cell.train_classes)
    way = min(cell.way or protocol.way, max(test for *_, test in counts))
    queries = protocol.rules.episodes * protocol.rules.queries * way
    if protocol.rules.exemplars:
        queries = way * min(typical.clips, cell.limit or typical.clips)
    elif cell.limit is not None:
        queries = min(queries, cell.limit * way)
    if cell.recipe is None:
        seconds = splits * queries * way * 1e-3
        return Estimate(seconds / 3600, _BASE_BYTES / _GB)
    model, train = cell.recipe.model, cell.recipe.train
    supports = way * protocol.shot
    seconds = _compare_seconds(model, typical, queries, supports, queries * supports)
    if with_training:
        rounds = 1 + (cell.tune_trials or 0)
        validated_way = min(way, max(held_out for _, held_out, _ in counts))
        validation = _estimate_validation_seconds(
            model, typical, validated_way, protocol.shot, cell.validation_limit
        )
        seconds += rounds * _estimate_training_seconds(model, train, typical, way, supports, validation)
    return Estimate(
        splits * seconds / 3600, _estimate_training_bytes(model, train, typical, way, supports) / _GB
    )


def _estimate_validation_seconds(
    model: ModelConfig, typical: _Typical, way: int, shot: int, limit: int | None
) -> float:
    """Return the seconds of one validation."""
    queries = way * min(_EPISODES, limit or _EPISODES)
    return _compare_seconds(model, typical, queries, queries * shot, queries * way * shot)


def _estimate_training_seconds(
    model: ModelConfig, train: TrainConfig, typical: _Typical, way: int, supports: int, validation: float
) -> float:
    """Return the seconds of one training, with ``validation`` seconds for every validation."""
    queries = train.queries * min(way, train.query_classes or way)
    compared = _compare_seconds(model, typical, queries, supports, queries * supports)
    return train.episodes * (_EPISODE_SECONDS + _GRADIENT * compared + validation / train.validate_every)


def _compare_seconds(
    model: ModelConfig, typical: _Typical, queries: float, supports: float, pairs: float
) -> float:
    """Return the seconds to encode queries and supports, and to align pairs of them, without gradients."""
    total = 0.0
    for part in (model, *model.components):
        blocks, views, support_views = _count_views(part, typical)
        encoded = (queries * views + supports * support_views) * blocks * typical.persons
        total += encoded * _count_block_operations(part, typical.joints) / _OPERATIONS_PER_SECOND
        if part.align.method not in ("pool", "pool-time"):
            total += pairs * blocks**2 * views * support_views * _SECONDS_PER_CELL
    return total


def _estimate_training_bytes(
    model: ModelConfig, train: TrainConfig, typical: _Typical, way: int, supports: int
) -> float:
    """Return the memory of a training step, which keeps what the gradient needs of all its episodes."""
    queries = train.queries * min(way, train.query_classes or way)
    total = _BASE_BYTES
    for part in (model, *model.components):
        blocks, views, support_views = _count_views(part, typical)
        encoded = (queries * views + supports * support_views) * blocks * typical.persons * train.batch
        total += min(4 * encoded * _count_block_numbers(part, typical.joints), _KEPT_BLOCK_BYTES)
        costs = train.batch * queries * supports * blocks**2 * views * support_views
        total += min(12 * costs, _KEPT_COSTS)
    return total


def _count_views(model: ModelConfig, typical: _Typical) -> tuple[int, int, int]:
    """Return the blocks of a clip, and the views of a query and of a support."""
    inputs, grid = model.inputs, model.views
    frames = inputs.prepare.frames or typical.frames
    blocks = int(
        count_blocks(torch.tensor(frames), inputs.block, compute_stride(inputs.block, inputs.stride))
    )
    if isinstance(grid, NoViewsConfig):
        return blocks, 1, 1
    sizes = [2 * round(angle / grid.step) + 1 for angle in (grid.azimuth, grid.altitude)]
    views = sum(sizes) if grid.kind == "euler-simple" else prod(sizes)
    return blocks, views, views if grid.sides == "both" else 1


def _count_block_operations(model: ModelConfig, joints: int) -> float:
    """Return the operations of the encoder per block."""
    encoder, length = model.encoder, model.inputs.block
    if encoder.kind == "graph":
        inputs = model.inputs.channels * length
        joint = 2 * inputs**2 + 6 * inputs**2 + 3 * inputs * encoder.width
        total = joints * (joint + joints * encoder.width + encoder.width * encoder.features)
        if encoder.transformer:
            inner = encoder.heads * encoder.head_size
            layer = 4 * encoder.width * inner + 2 * encoder.width * encoder.hidden + 2 * joints * inner
            total += encoder.depth * (joints + 1) * layer
        return 2.0 * total
    if encoder.kind == "raw":
        return 2.0 * joints * length * model.inputs.channels
    return 2.0 * _NETWORK_OPERATIONS.get(getattr(encoder, "network", ""), 2e4 * joints * length)


# multiplications per image of 224 x 224 pixels (He et al., CVPR 2016)
_NETWORK_OPERATIONS = {"resnet18": 1.8e9, "resnet50": 3.8e9}


def _count_block_numbers(model: ModelConfig, joints: int) -> float:
    """Return the numbers per block that the gradient of the encoder needs."""
    encoder, length = model.encoder, model.inputs.block
    if encoder.kind == "graph":
        inputs = model.inputs.channels * length
        total = joints * (inputs + 3 * 2 * inputs + 3 * 3 * inputs + 3 * encoder.width)
        if encoder.transformer:
            inner = encoder.heads * encoder.head_size
            layer = 6 * encoder.width + 4 * inner + 2 * encoder.hidden + encoder.heads * (joints + 1)
            total += encoder.depth * (joints + 1) * layer
        return float(total)
    if getattr(encoder, "network", "small") != "small":
        return 2.5e7 if getattr(encoder, "network", "") == "resnet50" else 6e6
    return float(joints * length * 100)
