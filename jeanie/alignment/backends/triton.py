"""Alignment by one Triton kernel: values and plans of a batch in one launch, from costs or straight from features.

The kernel is compiled for CUDA and ROCm devices. Tensors on the CPU run in Triton's interpreter, which is slow and
serves tests; the environment of the process is not changed for it.

Nothing here waits for the device. So a pair on a GPU whose numbers, lengths or band are invalid gets the value NaN
instead of an error; ``torch.autograd.set_detect_anomaly(True)`` makes it an error again, and the CPU always has errors.
"""

import functools
import importlib.util
import inspect
import math
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jeanie.alignment.backends.gamma import split_gamma
from jeanie.alignment.validation import BAD_FEATURES, NO_PATH, NOT_FINITE, reject, reject_large_costs
from jeanie.errors import ConfigError, ShapeError

__all__ = [
    "Table",
    "align_costs",
    "align_features",
    "check_availability",
    "count_lanes",
    "find_limit",
    "is_available",
]

Gamma = float | Tensor
_HAS_TRITON = importlib.util.find_spec("triton") is not None
_MAX_LANES = 2**14
LANES_PER_WARP = 256  # compiled with 64, each warp has as many instructions, so more warps gain nothing
_FEW_LANES = 128  # a program with fewer lanes takes several pairs
_BYTES_PER_LANE = 8  # of shared memory, for one gather
_DEAD = {torch.int32: -(2**30), torch.int64: -(2**60)}  # exponent of a cell that no path reaches
_LN2_LOW = 2.3190468138462996e-17  # ln 2 minus its double


def is_available() -> bool:
    """Return whether the package ``triton`` can be imported."""
    return _HAS_TRITON


def check_availability(device: torch.device) -> None:
    """Raise ConfigError unless the kernel can run on ``device``."""
    if not is_available():
        raise ConfigError(
            "backend 'triton' needs the package triton, which is not installed; use pip install 'jeanie[triton]', or "
            "backend 'auto'"
        )
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(
            f"backend 'triton' runs on CUDA and ROCm devices, and in an interpreter on the CPU, got {device}; "
            "use 'auto'"
        )


def count_lanes(rows: int, columns: int, grid: Sequence[int]) -> int:
    """Return the cells of the longest anti-diagonal with all views: the shorter time axis times the views."""
    return min(rows, columns) * math.prod(grid)


def find_limit(device: torch.device) -> int:
    """Return the largest number of lanes that one program can hold on ``device``."""
    if device.type != "cuda":
        return _MAX_LANES
    properties = torch.cuda.get_device_properties(device)
    shared = getattr(properties, "shared_memory_per_block_optin", 65536)
    return min(_MAX_LANES, 1 << ((shared - 1) // _BYTES_PER_LANE).bit_length() - 1)


@functools.cache
def load_kernel(name: str, is_interpreted: bool) -> Any:
    """Return a kernel, compiled or in the interpreter.

    The interpreter gets copies of the kernel and of its helpers as plain functions, so both can be used in one process.
    """
    kernels, helpers = (
        importlib.import_module(f"jeanie.alignment.backends.triton_{part}") for part in ("kernels", "helpers")
    )
    if not is_interpreted:
        return getattr(kernels, name)
    interpreter = importlib.import_module("triton.runtime.interpreter")
    space = {**vars(helpers), **vars(kernels)}
    for key, function in list(space.items()):
        plain = inspect.unwrap(function.fn) if hasattr(function, "fn") else None
        if isinstance(plain, types.FunctionType):
            space[key] = types.FunctionType(plain.__code__, space, key, plain.__defaults__)
    return interpreter.InterpretedFunction(space[name])


class Table(NamedTuple):
    """What the kernel reads: costs ``[i, j, t, s, *views]``, or features ``[i or j, feature, (block, view)]``.

    ``grid`` is the number of views on each axis, ``support_views`` the product of the axes of the support.
    """

    query: Tensor
    support: Tensor | None
    shape: tuple[int, int]  # pairs (i, j)
    blocks: tuple[int, int]  # query, support
    grid: tuple[int, ...]
    support_views: int
    metric: str
    sigma: float
    is_matched: bool


def describe_gamma(gamma: Gamma) -> list[float] | Tensor:
    """Return gamma, gamma ln 2, and gamma ln 2 as the sum of a part of 18 bits and the rest."""
    if not isinstance(gamma, Tensor):
        parts = split_gamma(gamma, torch.float64)
        return [gamma, parts.unit, parts.unit_hi, parts.unit_lo]
    gamma = gamma.detach().double().reshape(())
    unit = gamma * math.log(2)
    mantissa, exponent = torch.frexp(unit)
    high = torch.ldexp((mantissa * 2**18).floor(), exponent - 18)
    return torch.stack([gamma, unit, high, (unit - high) + gamma * _LN2_LOW])


@functools.lru_cache(256)
def _make_constants(gamma: float, band: float, sigma: float, device: torch.device) -> Tensor:
    numbers = describe_gamma(gamma)
    assert isinstance(numbers, list)
    return torch.tensor([*numbers, band, sigma], dtype=torch.float64, device=device)


def _collect_constants(gamma: Gamma, band: float | None, sigma: float, device: torch.device) -> Tensor:
    limit = 0.0 if band is None else band + 1e-9
    if not isinstance(gamma, Tensor):
        return _make_constants(float(gamma), limit, sigma, device)
    described = describe_gamma(gamma.to(device))
    assert isinstance(described, Tensor)
    return torch.cat([described, _make_constants(1.0, limit, sigma, device)[4:]])


def _needs_wide_exponents(table: Table, gamma: Gamma) -> bool:
    """Return whether exponents may leave int32: only costs between 0 and 2 and a known gamma exclude it."""
    if table.query.dtype == torch.float64 or table.metric != "rbf" or isinstance(gamma, Tensor):
        return True
    largest = 2 / (gamma * math.log(2)) if gamma else 0.0
    return not (largest < 2.0**22 and largest * sum(table.blocks) < 2.0**28)


def _count_packed_pairs(pairs: int, lanes: int, device: torch.device) -> int:
    """Return how many pairs share a program: enough to fill a few warps, and all in the interpreter."""
    most_lanes = _MAX_LANES if device.type == "cpu" else _FEW_LANES
    return max(1, min(most_lanes // lanes, 1 << (pairs - 1).bit_length()))


def _get_strides(x: Tensor | None, order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(0 if x is None or axis < 0 else x.stride(axis) for axis in order)


def _run(
    table: Table,
    lengths: tuple[Tensor | None, Tensor | None],
    gamma: Gamma,
    shift: int,
    band: float | None,
    plan: Tensor | None,
) -> Tensor:
    """Launch the kernel once, fill ``plan[i, j, t, s, *views]`` (strides of any kind) and return the values [i, j]."""
    device, dtype = table.query.device, table.query.dtype
    is_hard = not isinstance(gamma, Tensor) and gamma == 0
    lanes, limit = count_lanes(*table.blocks, table.grid), find_limit(device)
    if lanes > limit:
        raise ConfigError(
            f"backend 'triton' needs at most {limit} cells on an anti-diagonal (blocks of the shorter motion times "
            f"views) on {device}, got {lanes}; use backend 'auto' or 'reference', or fewer views"
        )
    tensors = (table.query, table.support, plan)
    if any(x is not None and x.numel() >= 2**31 for x in tensors):
        raise ConfigError(
            "backend 'triton' needs tensors below 2^31 numbers; split the batch, or use 'reference'"
        )
    is_swapped = table.blocks[1] < table.blocks[0]
    row, column = (1, 0) if is_swapped else (0, 1)
    grid = (1,) * (4 - len(table.grid)) + table.grid
    axes = (0, 1, 2 + row, 2 + column, *[-1] * (4 - len(table.grid)), *range(4, 4 + len(table.grid)))
    value = torch.empty(table.shape, dtype=dtype, device=device)
    status = torch.empty(table.shape, dtype=torch.int32, device=device)
    exponent = torch.int64 if is_hard or _needs_wide_exponents(table, gamma) else torch.int32
    scratch = value
    if plan is not None:
        kind = torch.float64 if is_hard else exponent
        scratch = torch.empty_strided(plan.shape, plan.stride(), dtype=kind, device=device)
    left = right = table.query
    features = (0, 0, 0)
    left_strides, right_strides = _get_strides(None, axes), _get_strides(None, axes)
    if table.support is None:
        left_strides = _get_strides(left, axes)
    else:
        sides = table.query, table.support
        left, right = sides[row], sides[column]
        strides = ((table.query.stride(0), 0), (0, table.support.stride(0)))
        if table.is_matched:
            strides = strides[0], strides[1][::-1]
        left_strides, right_strides = strides[row], strides[column]
        features = (left.shape[1], left.stride(1), right.stride(1))
    counts = lengths[row], lengths[column]
    has_counts = tuple(x is not None for x in counts)
    pointers = tuple(value if x is None else x for x in counts)
    count_strides = (*_get_strides(counts[0], (0, 1)), *_get_strides(counts[1], (0, 1)))
    block = max(16, 1 << (lanes - 1).bit_length())
    packed = _count_packed_pairs(value.numel(), block, device)
    language = importlib.import_module("triton.language")
    kernel = load_kernel("align_hard" if is_hard else "align_soft", device.type == "cpu")
    kernel[(-(-value.numel() // packed),)](
        left, right, (*pointers, *count_strides), _collect_constants(gamma, band, table.sigma, device), value, status,
        value if plan is None else plan, scratch,
        (value.numel(), table.shape[1], table.blocks[row], table.blocks[column]), left_strides, right_strides,
        _get_strides(plan, axes), features, float(sum(table.blocks)),
        A=grid[0], B=grid[1], C=grid[2], D=grid[3], SUPPORT_VIEWS=table.support_views,
        SHIFT=min(shift, max(grid)), PAIRS=packed, LANES=block, METRIC=table.metric, HAS_COUNTS=has_counts,
        HAS_BAND=band is not None, IS_SWAPPED=is_swapped, WITH_PLAN=plan is not None,
        M=language.float64 if dtype == torch.float64 else language.float32,
        K=language.int64 if exponent == torch.int64 else language.int32, DEAD=_DEAD[exponent],
        num_warps=min(32, max(1, packed * block // LANES_PER_WARP)), enable_fp_fusion=True,
    )  # fmt: skip
    if device.type == "cpu" or torch.is_anomaly_enabled():
        _raise_errors(status, gamma, table)
    return value


def _raise_errors(status: Tensor, gamma: Gamma, table: Table) -> None:
    """Raise the error of the first kind that some pair has; this waits for the device."""
    codes = set(status.unique().tolist())
    if 4 in codes:
        raise ShapeError(
            f"lengths must lie between 1 and the padded lengths {table.blocks}; a motion needs at least one block, and "
            "no more than the tensor holds"
        )
    if 1 in codes:
        reject(NOT_FINITE if table.support is None else BAD_FEATURES)
    if 3 in codes:
        reject_large_costs(float(gamma))
    if 2 in codes:
        reject(NO_PATH)


def align_costs(
    cost: Tensor,
    query_lengths: Tensor | None,
    support_lengths: Tensor | None,
    gamma: Gamma,
    shift: int,
    band: float | None,
    with_plan: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return value ``[query, support]`` and plan (like cost) of ``cost[query, support, t, s, *views]``.

    Lengths have the shape of the value. Strides may be any.
    """
    cost = cost.resolve_neg()
    table = Table(
        cost, None, (cost.shape[0], cost.shape[1]), (cost.shape[2], cost.shape[3]), tuple(cost.shape[4:]), 1, "cost",
        1.0, False,
    )  # fmt: skip
    plan = torch.zeros(cost.shape, dtype=cost.dtype, device=cost.device) if with_plan else None
    value = _run(table, (query_lengths, support_lengths), gamma, shift, band, plan)
    return value, plan


def align_features(
    query: Tensor,
    support: Tensor,
    lengths: tuple[Tensor | None, Tensor | None],
    metric: str,
    sigma: float,
    gamma: Gamma,
    shift: int,
    band: float | None,
    plan: Tensor | None,
    is_matched: bool,
) -> Tensor:
    """Return the distances ``[query, support]`` of features ``[motion, block, *views, feature]``; costs are not stored.

    ``plan[query, support, t, s, *query views, *support views]`` of zeros, if given, becomes the derivative of the
    distances by the squared base distances. Matched pairs are ``[query, 1]``.
    """
    rows = [x.resolve_neg().flatten(1, -2).mT.contiguous() for x in (query, support)]
    grid = (*query.shape[2:-1], *support.shape[2:-1])
    table = Table(
        rows[0], rows[1], (len(query), 1 if is_matched else len(support)), (query.shape[1], support.shape[1]), grid,
        math.prod(support.shape[2:-1]), metric, sigma, is_matched,
    )  # fmt: skip
    return _run(table, lengths, gamma, shift, band, plan)
