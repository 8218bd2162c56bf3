"""The compiled kernel, loaded with ctypes: the whole recursion of many pairs in one call, on the CPU.

The library is plain C (``kernel/job.h``): it knows nothing of Python or torch, so one build serves every Python.
"""

import contextlib
import ctypes
import functools
import math
import sys
from collections.abc import Iterator
from decimal import Decimal, localcontext
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from jeanie.align.cells import BAD_FEATURES, NO_PATH, NOT_FINITE, reject
from jeanie.errors import ConfigError

__all__ = [
    "available",
    "fresh_like",
    "instruction_set",
    "matched",
    "path",
    "scaled",
    "soft_or_hard",
    "squares",
]

# A matrix product leaves an error of about 1e-7 of |x|^2 + |y|^2; what is smaller than this share of it is recomputed.
SMALL = 4e-3

_NOT_FINITE, _OUT_OF_RANGE, _NO_PATH, _NO_MEMORY = 1, 2, 3, 4
_LARGE = 2**22  # bytes that are sure to hold a large page
_I64, _F64, _PTR = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class _Job(ctypes.Structure):
    """Mirror of ``JeanieJob`` in kernel/job.h, field by field."""

    _fields_ = (
        *((name, _PTR) for name in ("cost", "plan", "value", "path", "path_length")),
        *((name, _PTR) for name in ("cost_at", "plan_at", "rows_of", "columns_of")),
        *((name, _I64) for name in ("cost_row", "plan_row", "pairs", "rows", "columns", "axes")),
        ("grid", _I64 * 4),
        *((name, _I64) for name in ("shift", "threads")),
        *((name, _F64) for name in ("gamma", "scale_hi", "scale_lo", "unit_hi", "unit_lo", "band")),
    )


class _Matched(ctypes.Structure):
    """Mirror of ``JeanieMatched`` in kernel/job.h."""

    _fields_ = (
        ("job", _Job),
        *((name, _PTR) for name in ("x", "y", "grad_x", "grad_y")),
        *((name, _I64) for name in ("features", "metric")),
        *((name, _F64) for name in ("sigma", "small")),
    )


class _Squares(ctypes.Structure):
    """Mirror of ``JeanieSquares`` in kernel/job.h."""

    _fields_ = (
        *((name, _PTR) for name in ("out", "x", "y")),
        *((name, _I64) for name in ("batch", "rows", "columns", "features", "threads")),
        ("small", _F64),
        ("may_refuse", _I64),
    )


class _Scale(ctypes.Structure):
    """Mirror of ``JeanieScale`` in kernel/job.h."""

    _fields_ = (
        *((name, _PTR) for name in ("out", "x", "by")),
        *((name, _I64) for name in ("rows", "size", "threads")),
    )


def _folders() -> Iterator[Path]:
    """Where the library may lie: in the package, or, for an editable install, where pip put the built files."""
    yield from map(Path, sys.modules["jeanie.align"].__path__)  # the attribute jeanie.align is the function
    with contextlib.suppress(metadata.PackageNotFoundError):
        yield Path(str(metadata.distribution("jeanie").locate_file("jeanie/align")))


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The shared library, or None in a build without it."""
    for folder in _folders():
        file = folder / "_kernel.so"
        if file.is_file():
            library = ctypes.CDLL(str(file))
            library.jeanie_instruction_set.restype = ctypes.c_char_p
            library.jeanie_align.argtypes = (ctypes.POINTER(_Job), ctypes.c_int)
            library.jeanie_align.restype = ctypes.c_int
            library.jeanie_matched.argtypes = (ctypes.POINTER(_Matched), ctypes.c_int)
            library.jeanie_matched.restype = ctypes.c_int
            library.jeanie_squares.argtypes = (ctypes.POINTER(_Squares), ctypes.c_int)
            library.jeanie_squares.restype = ctypes.c_int
            library.jeanie_scale.argtypes = (ctypes.POINTER(_Scale), ctypes.c_int)
            library.jeanie_scale.restype = None
            library.jeanie_prefer_large_pages.argtypes = (_PTR, _I64)
            library.jeanie_prefer_large_pages.restype = None
            return library
    return None


def available() -> bool:
    """Whether this installation carries the compiled kernel."""
    return _library() is not None


def instruction_set() -> str:
    """The build that this processor runs: ``avx2`` or ``baseline`` (SSE2, NEON); ``none`` without a kernel."""
    library = _library()
    return library.jeanie_instruction_set().decode() if library else "none"


def fresh_like(x: Tensor) -> Tensor:
    """An uninitialised tensor like ``x``, in large pages if the system has them.

    Memory that comes anew from the system costs a fault a page; with 4 KB a page they took as long as the alignment.
    """
    fresh = torch.empty_like(x)
    library, size = _library(), fresh.numel() * fresh.element_size()
    if library is not None and size >= _LARGE and x.device.type == "cpu":
        library.jeanie_prefer_large_pages(fresh.data_ptr(), size)
    return fresh


@functools.lru_cache(64)
def _constants(gamma: float, dtype: torch.dtype) -> tuple[float, float, float, float]:
    """-1 / (gamma ln 2) and gamma ln 2, each as an unevaluated sum of a rounded and a correcting part."""
    if gamma == 0:
        return 0.0, 0.0, 0.0, 0.0
    with localcontext(prec=60):
        unit = Decimal(gamma) * Decimal(2).ln()
        scale = -1 / unit
        hi = float(scale) if dtype == torch.float64 else ctypes.c_float(float(scale)).value
        mantissa, exponent = math.frexp(float(unit))
        unit_hi = math.ldexp(math.floor(mantissa * 2**18), exponent - 18)
        return hi, float(scale - Decimal(hi)), unit_hi, float(unit - Decimal(unit_hi))


def _row_major(cost: Tensor) -> bool | None:
    """Which time axis of ``cost[query, support, t, s, view]`` has its (column, view) numbers side by side.

    True: rows are query blocks. False: rows are support blocks (the recursion is symmetric in time). None: neither.
    """
    views = cost.shape[4]
    if cost.stride(4) != 1 and views > 1:
        return None
    if cost.stride(3) == views or cost.shape[3] == 1:
        return True
    if cost.stride(2) == views or cost.shape[2] == 1:
        return False
    return None


def _offsets(cost: Tensor) -> Tensor:
    """Element offset of every pair of ``cost[query, support, ...]``, in the order of the pairs."""
    return _offset_table(*cost.shape[:2], *cost.stride()[:2])


@functools.lru_cache(8)  # chunks of one call, and the episodes of one training, share their shape
def _offset_table(queries: int, supports: int, query_stride: int, support_stride: int) -> Tensor:
    query, support = torch.arange(queries) * query_stride, torch.arange(supports) * support_stride
    return (query[:, None] + support).flatten()


def _run(
    cost: Tensor,
    lengths: tuple[Tensor, Tensor] | None,
    gamma: float,
    shift: int,
    band: float | None,
    grid: tuple[int, ...],
    plan: Tensor | None,
    path: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, bool]:
    """One kernel call on ``cost[query, support, t, s, view]``; fills plan and path, returns values and time order."""
    library = _library()
    if library is None:
        raise ConfigError(
            "backend 'native' needs the compiled kernel, which this installation was built without; "
            "use backend='auto' or reinstall with a C++ compiler and without JEANIE_NO_NATIVE"
        )
    forward = _row_major(cost)
    assert forward is not None
    by_row, by_column = (2, 3) if forward else (3, 2)
    value = cost.new_empty(cost.shape[:2])
    cost_at = _offsets(cost)
    plan_at = cost_at if plan is None or plan.stride() == cost.stride() else _offsets(plan)
    rows_of, columns_of = (None, None) if lengths is None else (lengths if forward else lengths[::-1])
    pointer = [None if x is None else x.data_ptr() for x in (rows_of, columns_of, *(path or (None, None)))]
    hi, lo, unit_hi, unit_lo = _constants(gamma, cost.dtype)
    job = _Job(
        cost=cost.data_ptr(), plan=None if plan is None else plan.data_ptr(), value=value.data_ptr(),
        path=pointer[2], path_length=pointer[3], cost_at=cost_at.data_ptr(), plan_at=plan_at.data_ptr(),
        rows_of=pointer[0], columns_of=pointer[1],
        cost_row=cost.stride(by_row), plan_row=0 if plan is None else plan.stride(by_row),
        pairs=value.numel(), rows=cost.shape[by_row], columns=cost.shape[by_column],
        axes=len(grid), grid=(_I64 * 4)(*grid), shift=min(shift, max(grid, default=0)), threads=torch.get_num_threads(),
        gamma=gamma, scale_hi=hi, scale_lo=lo, unit_hi=unit_hi, unit_lo=unit_lo, band=-1.0 if band is None else band,
    )  # fmt: skip
    status = library.jeanie_align(ctypes.byref(job), int(cost.dtype == torch.float64))
    _check(status, NOT_FINITE)
    return value, forward


def _check(status: int, not_finite: str) -> None:
    """Raise what a kernel's status means; OverflowError asks for float64."""
    if status == _OUT_OF_RANGE:
        raise OverflowError
    if status == _NO_MEMORY:
        raise MemoryError("the alignment kernel could not get its workspace")
    if status in (_NOT_FINITE, _NO_PATH):
        reject({_NOT_FINITE: not_finite, _NO_PATH: NO_PATH}[status])


def _too_large(gamma: float) -> ConfigError:
    return ConfigError(
        f"costs / gamma must stay below 2^34, got costs beyond {gamma * 2.0**34 * math.log(2):.3g} with "
        f"gamma {gamma}; use a larger gamma, or gamma=0 for the hard minimum"
    )


def matched(
    query: Tensor,
    support: Tensor,
    lengths: tuple[Tensor, Tensor] | None,
    metric: int,
    sigma: float,
    gamma: float,
    band: float | None,
    needed: tuple[bool, bool],
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Soft-DTW of ``query[pair, t, feature]`` with ``support[pair, s, feature]``: values and their gradients by both.

    One native call, a few pairs at a time, so that costs and plans stay in the cache. ``metric`` is the place of the
    base distance in cost.METRICS; ``needed`` says which gradients are wanted.
    """
    library = _library()
    assert library is not None
    query, support = query.contiguous(), support.contiguous()
    value = query.new_empty(query.shape[0])
    grads = [fresh_like(x) if want else None for x, want in zip((query, support), needed, strict=True)]
    pointers = [None if x is None else x.data_ptr() for x in (*(lengths or (None, None)), *grads)]
    hi, lo, unit_hi, unit_lo = _constants(gamma, query.dtype)
    job = _Matched(
        _Job(
            value=value.data_ptr(), rows_of=pointers[0], columns_of=pointers[1],
            pairs=query.shape[0], rows=query.shape[1], columns=support.shape[1], threads=torch.get_num_threads(),
            gamma=gamma, scale_hi=hi, scale_lo=lo, unit_hi=unit_hi, unit_lo=unit_lo,
            band=-1.0 if band is None else band,
        ),
        query.data_ptr(), support.data_ptr(), *pointers[2:], query.shape[2], metric, sigma, SMALL,
    )  # fmt: skip
    try:
        _check(library.jeanie_matched(ctypes.byref(job), int(query.dtype == torch.float64)), BAD_FEATURES)
    except OverflowError:
        if query.dtype == torch.float64:
            raise _too_large(gamma) from None
        wide, *slopes = matched(query.double(), support.double(), lengths, metric, sigma, gamma, band, needed)
        value, grads = wide.to(query.dtype), [None if g is None else g.to(query.dtype) for g in slopes]
    return value, grads[0], grads[1]


def scaled(x: Tensor, by: Tensor, in_place: bool) -> Tensor:
    """``x[pair, ...]``, contiguous, times ``by[pair]``; torch's threads, which spin on for a while, are left alone."""
    library = _library()
    assert library is not None
    out, by = x if in_place else fresh_like(x), by.contiguous()
    rows, *shape = x.shape
    job = _Scale(out.data_ptr(), x.data_ptr(), by.data_ptr(), rows, math.prod(shape), torch.get_num_threads())
    library.jeanie_scale(ctypes.byref(job), int(x.dtype == torch.float64))
    return out


def squares(x: Tensor, y: Tensor, small: float, may_refuse: bool) -> Tensor | None:
    """|x_i - y_j|^2 from the product x_i y_j; what is below ``small`` (|x|^2 + |y|^2) is summed plainly.

    None where that would be nearly everything (``may_refuse``), so that a common offset should be taken off first.
    """
    library = _library()
    assert library is not None
    x, y = x.contiguous(), y.contiguous()
    product = x @ y.mT
    job = _Squares(
        product.data_ptr(),
        x.data_ptr(),
        y.data_ptr(),
        *product.shape,
        x.shape[2],
        torch.get_num_threads(),
        small,
        may_refuse,
    )
    status = library.jeanie_squares(ctypes.byref(job), int(product.dtype == torch.float64))
    if status == _NOT_FINITE:
        reject(BAD_FEATURES)
    return product if status == 0 else None


def _one_attempt(cost: Tensor, gamma: float) -> bool:
    """Whether no group of pairs can need its costs a second time, after another's were overwritten by the plan.

    Views may: their exponents may not fit together. So may float32, where exponents could leave its range (the limits
    of kernel/sweep.h). Otherwise each row is read before it is written.
    """
    if cost.shape[4] > 1:
        return False
    if cost.dtype == torch.float64 or not cost.numel():
        return True
    largest = max(map(abs, map(float, torch.aminmax(cost)))) * abs(_constants(gamma, cost.dtype)[0])
    return largest < 2.0**22 and largest * (cost.shape[2] + cost.shape[3]) < 2.0**28


def soft_or_hard(
    cost: Tensor,
    lengths: tuple[Tensor, Tensor] | None,
    gamma: float,
    shift: int,
    band: float | None,
    with_plan: bool,
    in_place: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Value ``[query, support]`` and plan (like cost) of ``cost[query, support, t, s, *views]``.

    ``in_place`` allows the plan to overwrite the cost, which spares as much memory; it then is the cost's own tensor.
    """
    grid = tuple(cost.shape[4:])
    flat = cost.flatten(4) if grid else cost.unsqueeze(4)
    if _row_major(flat) is None:
        flat = flat.contiguous()
    plan = None
    if with_plan:
        # cells that the kernel does not visit must be 0, and a hard plan marks only the path
        visits_all = lengths is None and band is None and gamma > 0
        if visits_all and in_place and _one_attempt(flat, gamma):
            plan = flat
        else:
            plan = fresh_like(flat) if visits_all else fresh_like(flat).zero_()
        if _row_major(plan) != _row_major(flat):
            plan = plan.contiguous()
            flat = flat.contiguous()
    try:
        value, _ = _run(flat, lengths, gamma, shift, band, grid, plan, None)
    except OverflowError:
        if cost.dtype == torch.float64:
            raise _too_large(gamma) from None
        wide, wide_plan = soft_or_hard(cost.double(), lengths, gamma, shift, band, with_plan)
        return wide.to(cost.dtype), None if wide_plan is None else wide_plan.to(cost.dtype)
    return value, None if plan is None else plan.view(cost.shape)


def path(cost: Tensor, lengths: tuple[Tensor, Tensor] | None, shift: int, band: float | None) -> list[Tensor]:
    """The best path of every pair of ``cost[pair, t, s, *views]``: tensors ``[step, 2 + views]`` of indices."""
    grid = tuple(cost.shape[3:])
    flat = cost.double().contiguous()[:, None].reshape(cost.shape[0], 1, *cost.shape[1:3], -1)
    steps = cost.shape[1] + cost.shape[2] - 1
    found = torch.zeros(cost.shape[0], steps, 3, dtype=torch.int64)
    count = torch.zeros(cost.shape[0], dtype=torch.int64)
    _, forward = _run(flat, lengths, 0.0, shift, band, grid, None, (found, count))
    if not forward:
        found = found[..., [1, 0, 2]]
    views = torch.stack(torch.unravel_index(found[..., 2], grid), dim=-1) if grid else found[..., :0]
    full = torch.cat([found[..., :2], views], dim=-1)
    return [row[:n] for row, n in zip(full, count.tolist(), strict=True)]
