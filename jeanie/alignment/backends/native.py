"""Alignment by the compiled kernel: the whole recursion of many pairs in one call, on the CPU."""

import ctypes
import functools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jeanie.alignment.backends.gamma import split_gamma
from jeanie.alignment.validation import BAD_FEATURES, NO_PATH, NOT_FINITE, reject, reject_large_costs
from jeanie.errors import ShapeError
from jeanie.kernel import library
from jeanie.kernel.library import (
    AlignJob,
    MatchedJob,
    NearestJob,
    ScaleJob,
    SquaresJob,
    get_address,
    get_instruction_set,
    get_layout,
    is_available,
    load_library,
)

__all__ = [
    "align_costs",
    "align_matched",
    "allocate_like",
    "compute_squares",
    "find_paths",
    "get_instruction_set",
    "is_available",
    "scale_rows",
    "sum_nearest_squares",
]

# A matrix product leaves an error of about 1e-7 of |x|^2 + |y|^2; a square below this share of it is recomputed.
REPAIR_BELOW = 4e-3

_LARGE = 2**22  # bytes that certainly contain a large page


def _run(name: str, job: ctypes.Structure, dtype: torch.dtype, not_finite: str = NOT_FINITE) -> bool:
    """Call the function ``name`` of the library and return whether it did the work; False if the work is refused.

    Raises:
        OverflowError: The exponents do not fit into ``dtype``; float64 may hold them.
        ShapeError, ConfigError: The input has no alignment; ``not_finite`` is the message for NaN and infinity.
    """
    status = library.run(name, job, dtype)
    if status in (library.NOT_FINITE, library.NO_PATH):
        reject(not_finite if status == library.NOT_FINITE else NO_PATH)
    return status != library.CANCELS


def allocate_like(x: Tensor) -> Tensor:
    """Return an uninitialised tensor like ``x``, in large pages if the system has them.

    New memory costs one page fault per page; with pages of 4 KB the faults took as long as the alignment.
    """
    fresh = torch.empty_like(x)
    size = fresh.numel() * fresh.element_size()
    if size >= _LARGE and fresh.is_cpu:
        library = load_library()
        if library is not None:
            library.jeanie_prefer_large_pages(fresh.data_ptr(), size)
    return fresh


def _is_row_major(cost: Tensor) -> bool | None:
    """Return which time axis of ``cost[query, support, t, s, view]`` the kernel can read as rows.

    A row is a run of (column, view) numbers. True: rows are query blocks. False: rows are support blocks (the recursion
    is symmetric in time). None: neither axis has such rows.
    """
    views = cost.shape[4]
    if cost.stride(4) != 1 and views > 1:
        return None
    if cost.stride(3) == views or cost.shape[3] == 1:
        return True
    if cost.stride(2) == views or cost.shape[2] == 1:
        return False
    return None


@functools.lru_cache(8)  # chunks of one call, and the episodes of one training, share their shape
def _compute_offsets(queries: int, supports: int, query_stride: int, support_stride: int) -> Tensor:
    """Return the offset of every pair in numbers, in the order of the pairs."""
    query = torch.arange(queries, device="cpu") * query_stride
    return (query[:, None] + torch.arange(supports, device="cpu") * support_stride).flatten()


def _list_offsets(x: Tensor) -> Tensor:
    return _compute_offsets(x.shape[0], x.shape[1], x.stride(0), x.stride(1))


def _run_align(
    cost: Tensor,
    lengths: tuple[Tensor, Tensor] | None,
    gamma: float,
    shift: int,
    band: float | None,
    grid: tuple[int, ...],
    plan: Tensor | None = None,
    path: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Call the kernel on ``cost[query, support, t, s, view]``; fill ``plan`` and ``path`` and return the values."""
    row, column = (2, 3) if _is_row_major(cost) else (3, 2)
    dtype, shape = cost.dtype, cost.shape
    pairs = shape[0] * shape[1]
    value = torch.empty((shape[0], shape[1]), dtype=dtype, device="cpu")
    cost_address, cost_stride, cost_size = get_layout(cost, dtype, row)
    plan_address, plan_stride, plan_size = get_layout(plan, dtype, row)
    query_lengths, support_lengths = lengths or (None, None)
    row_counts, column_counts = (
        (query_lengths, support_lengths) if row == 2 else (support_lengths, query_lengths)
    )
    steps, step_counts = path or (None, None)
    cost_offsets, plan_offsets = _list_offsets(cost), None if plan is None else _list_offsets(plan)
    constants = split_gamma(gamma, dtype)
    job = AlignJob(
        cost=cost_address, plan=plan_address, value=get_address(value, dtype, pairs),
        path=get_address(steps, torch.int64, pairs * (shape[2] + shape[3] - 1) * 3),
        path_lengths=get_address(step_counts, torch.int64, pairs),
        cost_offsets=get_address(cost_offsets, torch.int64, pairs),
        plan_offsets=get_address(plan_offsets, torch.int64, pairs),
        row_counts=get_address(row_counts, torch.int64, pairs),
        column_counts=get_address(column_counts, torch.int64, pairs),
        cost_stride=cost_stride, plan_stride=plan_stride, cost_size=cost_size, plan_size=plan_size,
        pair_size=value.numel(), pairs=pairs, rows=shape[row], columns=shape[column], axes=len(grid), grid=grid,
        shift=min(shift, max(grid, default=0)), threads=torch.get_num_threads(), gamma=gamma,
        scale_hi=constants.scale_hi, scale_lo=constants.scale_lo, unit_hi=constants.unit_hi, unit_lo=constants.unit_lo,
        band=-1.0 if band is None else band,
    )  # fmt: skip
    _run("align", job, dtype)
    return value


def _fits_first_time(cost: Tensor, gamma: float) -> bool:
    """Return whether no group of pairs can need its costs again after the plan of another group replaced them.

    Views may need that if their exponents differ too much, and float32 if exponents leave its range (the limits of
    kernel/sweep.h). Otherwise each row is read before it is written.
    """
    if cost.shape[4] > 1:
        return False
    if cost.dtype == torch.float64 or not cost.numel():
        return True
    largest = max(map(abs, map(float, torch.aminmax(cost)))) * abs(split_gamma(gamma, cost.dtype).scale_hi)
    return largest < 2.0**22 and largest * (cost.shape[2] + cost.shape[3]) < 2.0**28


def align_costs(
    cost: Tensor,
    lengths: tuple[Tensor, Tensor] | None,
    gamma: float,
    shift: int,
    band: float | None,
    with_plan: bool,
    in_place: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return value ``[query, support]`` and plan (like cost) of ``cost[query, support, t, s, *views]``.

    ``lengths`` are int64 tensors with one number per pair. ``in_place`` lets the plan overwrite the cost, which saves
    as much memory; the plan then is the tensor of the cost.
    """
    grid = tuple(cost.shape[4:])
    flat = cost.resolve_neg()
    flat = flat.flatten(4) if grid else flat.unsqueeze(4)
    row_major = _is_row_major(flat)
    if row_major is None:
        flat, row_major = flat.contiguous(), True
    plan = None
    if with_plan:
        # cells that the kernel does not visit must be 0, and a hard plan marks only the path
        visits_all = lengths is None and band is None and gamma > 0
        if visits_all and in_place and _fits_first_time(flat, gamma):
            plan = flat
        else:
            plan = allocate_like(flat) if visits_all else allocate_like(flat).zero_()
        if _is_row_major(plan) != row_major:
            plan, flat = plan.contiguous(), flat.contiguous()
    try:
        value = _run_align(flat, lengths, gamma, shift, band, grid, plan)
    except OverflowError:
        if cost.dtype == torch.float64:
            reject_large_costs(gamma)
        wide, wide_plan = align_costs(cost.double(), lengths, gamma, shift, band, with_plan)
        return wide.to(cost.dtype), None if wide_plan is None else wide_plan.to(cost.dtype)
    return value, None if plan is None else plan.view(cost.shape)


def find_paths(
    cost: Tensor, lengths: tuple[Tensor, Tensor] | None, shift: int, band: float | None
) -> list[Tensor]:
    """Return the best path of every pair of ``cost[pair, t, s, *views]``: indices ``[step, 2 + views]``."""
    pairs, queries, supports, *grid = cost.shape
    flat = cost.double().resolve_neg().contiguous().view(pairs, 1, queries, supports, -1)
    steps = torch.zeros(pairs, queries + supports - 1, 3, dtype=torch.int64, device="cpu")
    counts = torch.zeros(pairs, dtype=torch.int64, device="cpu")
    _run_align(flat, lengths, 0.0, shift, band, tuple(grid), path=(steps, counts))
    views = torch.stack(torch.unravel_index(steps[..., 2], grid), dim=-1) if grid else steps[..., :0]
    full = torch.cat([steps[..., :2], views], dim=-1)
    return [path[:count] for path, count in zip(full, counts.tolist(), strict=True)]


def align_matched(
    query: Tensor,
    support: Tensor,
    lengths: tuple[Tensor, Tensor] | None,
    metric: int,
    sigma: float,
    gamma: float,
    band: float | None,
    needs_gradient: tuple[bool, bool],
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return soft-DTW of ``query[pair, t, feature]`` with ``support[pair, s, feature]`` and its two gradients.

    One native call handles a few pairs at a time, so costs and plans stay in the cache. ``metric`` is the index of the
    base distance in ``base_distance.METRICS``; ``needs_gradient`` selects the gradients.
    """
    query, support = query.resolve_neg().contiguous(), support.resolve_neg().contiguous()
    dtype, (pairs, rows, features), columns = query.dtype, query.shape, support.shape[1]
    value = torch.empty(pairs, dtype=dtype, device="cpu")
    grads = [
        allocate_like(x) if need else None for x, need in zip((query, support), needs_gradient, strict=True)
    ]
    query_lengths, support_lengths = lengths or (None, None)
    constants, query_size, support_size = (
        split_gamma(gamma, dtype),
        pairs * rows * features,
        pairs * columns * features,
    )
    job = MatchedJob(
        AlignJob(
            value=get_address(value, dtype, pairs), row_counts=get_address(query_lengths, torch.int64, pairs),
            column_counts=get_address(support_lengths, torch.int64, pairs), pair_size=value.numel(),
            pairs=pairs, rows=rows, columns=columns, threads=torch.get_num_threads(), gamma=gamma,
            scale_hi=constants.scale_hi, scale_lo=constants.scale_lo,
            unit_hi=constants.unit_hi, unit_lo=constants.unit_lo, band=-1.0 if band is None else band,
        ),
        get_address(query, dtype, query_size), get_address(support, dtype, support_size),
        get_address(grads[0], dtype, query_size), get_address(grads[1], dtype, support_size),
        features, metric, sigma, REPAIR_BELOW,
    )  # fmt: skip
    try:
        _run("matched", job, dtype, BAD_FEATURES)
    except OverflowError:
        if dtype == torch.float64:
            reject_large_costs(gamma)
        wide = align_matched(
            query.double(), support.double(), lengths, metric, sigma, gamma, band, needs_gradient
        )
        value, *grads = (None if x is None else x.to(dtype) for x in wide)  # type: ignore[assignment]
    return value, grads[0], grads[1]


def scale_rows(x: Tensor, factors: Tensor, in_place: bool) -> Tensor:
    """Return contiguous ``x[pair, ...]`` times ``factors[pair]``.

    Torch would do the same with threads of its own, which keep spinning for a while and slow down the kernel's.
    """
    out, factors = x if in_place else allocate_like(x), factors.resolve_neg().contiguous()
    rows, size = x.shape[0], x.numel()
    job = ScaleJob(
        get_address(out, x.dtype, size), get_address(x, x.dtype, size), get_address(factors, x.dtype, rows),
        rows, size // rows, torch.get_num_threads(),
    )  # fmt: skip
    _run("scale", job, x.dtype)
    return out


def compute_squares(x: Tensor, y: Tensor, may_refuse: bool) -> Tensor | None:
    """Return |x_i - y_j|^2 from the product x_i y_j, and from the plain sum where the product loses digits.

    With ``may_refuse``, return None if nearly every entry needs the plain sum; subtract a common offset first then.
    """
    x, y = x.resolve_neg().contiguous(), y.resolve_neg().contiguous()
    product = x @ y.mT
    batch, rows, columns, features, dtype = *product.shape, x.shape[2], x.dtype
    job = SquaresJob(
        get_address(product, dtype, batch * rows * columns), get_address(x, dtype, batch * rows * features),
        get_address(y, dtype, batch * columns * features), batch, rows, columns, features, torch.get_num_threads(),
        REPAIR_BELOW, may_refuse,
    )  # fmt: skip
    return product if _run("squares", job, dtype, BAD_FEATURES) else None


def sum_nearest_squares(
    values: NDArray[np.int8],
    scales: NDArray[np.float32],
    example: NDArray[np.int16],
    unit: float,
    first_column: int = 0,
) -> NDArray[np.float32]:
    """Return sums over the blocks of an example of the smallest squared distance to a block of each window.

    Args:
        values: Whole numbers ``[window, block, column]`` of the windows; the blocks of a window are contiguous.
        scales: The numbers of window i are ``scales[i]`` times whole numbers.
        example: Whole numbers ``[image, block, column]`` of the images of the example.
        unit: The numbers of the example are ``unit`` times whole numbers.
        first_column: Earlier columns contribute by their lengths only. The result is smaller, and faster to compute.

    Returns:
        An array ``[window, image]``. No number is above the true sum.
    """
    (windows, blocks, columns), (images, example_blocks, _) = values.shape, example.shape
    scales, example = np.ascontiguousarray(scales), np.ascontiguousarray(example)
    stride, *inner = values.strides
    is_fitting = values.dtype == np.int8 and scales.dtype == np.float32 and example.dtype == np.int16
    if (
        not is_fitting
        or example.shape[2] != columns
        or scales.shape != (windows,)
        or inner != [columns, 1]
        or stride < 0
    ):
        raise ShapeError(
            "the kernel needs windows and an example of equal columns, "
            f"got {values.shape} with strides {values.strides}, {scales.shape} and {example.shape} "
            f"of {values.dtype}, {scales.dtype} and {example.dtype}"
        )
    out: NDArray[Any] = np.empty((windows, images), np.float32)
    if windows:
        job = NearestJob(
            out.ctypes.data, values.ctypes.data, scales.ctypes.data, example.ctypes.data,
            (windows - 1) * stride + blocks * columns, stride, windows, blocks, columns,
            images, example_blocks, first_column, torch.get_num_threads(), unit,
        )  # fmt: skip
        _run("nearest", job, torch.float32, BAD_FEATURES)
    return out
