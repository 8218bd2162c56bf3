"""The alignment as GPU kernels in Triton. One program aligns one pair, or a few small ones, diagonal by diagonal.

All state is ``[pair, lane]``. A lane is one (row, view) of an anti-diagonal; rows are the blocks of the shorter side,
columns those of the other one. Two anti-diagonals stay in registers; neighbours are read by ``tl.gather``, which goes
through shared memory.

The numerics are those of the C++ kernel: P = exp(-R / gamma) is m 2^k with one exponent per lane, so a cell needs one
exp2 and no logarithm, and nothing overflows or underflows.
"""

import triton
import triton.language as tl

from jeanie.alignment.backends.triton_helpers import (
    compute_costs,
    compute_power,
    compute_weights,
    differentiate_metric,
    find_alive,
    merge_steps,
    normalise,
    offset_views,
    read_pairs,
    slide_minimum,
    slide_windows,
)

__all__ = ["align_hard", "align_soft"]

# status of a pair; triton.py turns it into an error
_FINE = tl.constexpr(0)
_BAD_NUMBER = tl.constexpr(1)
_BLOCKED = tl.constexpr(2)
_TOO_LARGE = tl.constexpr(3)
_BAD_LENGTH = tl.constexpr(4)

# sizes and strides change from batch to batch; the kernel is not compiled anew for them
_VARIABLE = ("shape", "counts", "left_strides", "right_strides", "plan_strides", "features")


@triton.jit(do_not_specialize=_VARIABLE)
def align_soft(
    left, right, counts, constants, value, status, plan, exponents, shape, left_strides, right_strides, plan_strides,
    features, longest,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
    SUPPORT_VIEWS: tl.constexpr, SHIFT: tl.constexpr, PAIRS: tl.constexpr, LANES: tl.constexpr, METRIC: tl.constexpr,
    HAS_COUNTS: tl.constexpr, HAS_BAND: tl.constexpr, IS_SWAPPED: tl.constexpr, WITH_PLAN: tl.constexpr,
    M: tl.constexpr, K: tl.constexpr, DEAD: tl.constexpr,
):  # fmt: skip
    """Write value, status and, WITH_PLAN, the plan of each pair: the gradient of the value by cost or squared distance.

    Pair p is (i, j) = (p // second count, p % second count). ``constants`` are gamma, gamma ln 2, its high and low
    part, band, sigma. ``exponents`` is scratch memory for the plan, with the plan's strides. ``longest`` bounds a path.
    """
    VIEWS: tl.constexpr = A * B * C * D
    pair, is_pair, i, j, row_count, column_count, is_bad = read_pairs(counts, shape, HAS_COUNTS, PAIRS)
    left += i * left_strides[0] + j * left_strides[1]
    right += i * right_strides[0] + j * right_strides[1]
    last = row_count + column_count - 2
    bound = tl.reduce(last, None, tl.standard._elementwise_max) + 1
    gamma, unit = tl.load(constants), tl.load(constants + 1)
    unit_high, unit_low = tl.load(constants + 2), tl.load(constants + 3)
    band, sigma = tl.load(constants + 4), tl.load(constants + 5)
    lane = tl.arange(0, LANES)[None] + pair * 0
    row, view = lane // VIEWS, lane % VIEWS
    ends = row == row_count - 1

    m1, m2 = tl.full((PAIRS, LANES), 0.0, M), tl.full((PAIRS, LANES), 0.0, M)
    k1, k2 = tl.full((PAIRS, LANES), DEAD, K), tl.full((PAIRS, LANES), DEAD, K)
    end_m, end_k = m1, k1
    largest, broken = tl.full((PAIRS, LANES), 0.0, M), tl.full((PAIRS, LANES), 0, tl.int32)
    if WITH_PLAN:
        offset = i * plan_strides[0] + j * plan_strides[1]
        offset += row * plan_strides[2] + offset_views(view, plan_strides, B, C, D)
        plan += offset
        exponents += offset
    for d in range(0, bound):
        column = d - row
        alive = find_alive(row, column, row_count, column_count, band, HAS_BAND)
        cost = compute_costs(
            left, right, row, column, view, alive, sigma, left_strides, features, B, C, D, SUPPORT_VIEWS, VIEWS,
            IS_SWAPPED, METRIC, M,
        )  # fmt: skip
        is_number = tl.abs(cost) < float("inf")
        broken = tl.where(is_number, broken, 1)
        cost = tl.where(is_number, cost, 0.0)
        if K == tl.int64:  # a pair beyond the limits of the exponents is rejected below
            largest = tl.maximum(largest, tl.abs(cost))
            cost = tl.where(tl.abs(cost).to(tl.float64) < unit * 17179869184.0, cost, 0.0)
        m, k = merge_steps(m1, k1, m2, k2, row, shape[2], lane, 1, VIEWS, DEAD, M, K)
        m, k = slide_windows(m, k, lane, A, B, C, D, SHIFT, DEAD, M, K)
        starts = column + row * 2 == 0
        m, k = tl.where(starts, 1.0, m), tl.where(starts, 0, k)
        w, n = compute_weights(cost, unit, unit_high, unit_low, M, K)
        m2, k2 = m1, k1
        m1, k1 = normalise(tl.where(alive, m * w, 0.0), k + n, DEAD, M, K)
        is_end = ends & (column == column_count - 1)
        end_m, end_k = tl.where(is_end, m1, end_m), tl.where(is_end, k1, end_k)
        if WITH_PLAN:
            tl.store(plan + column * plan_strides[3], m1, mask=alive)
            tl.store(exponents + column * plan_strides[3], k1, mask=alive)
    top = tl.reduce(end_k, 1, tl.standard._elementwise_max, keep_dims=True)
    z = tl.reduce(end_m * compute_power(end_k - top, M), 1, tl.standard._sum_combine, keep_dims=True)
    code = tl.where(z > 0.0, _FINE, _BLOCKED)
    if K == tl.int64:
        exponent = tl.reduce(largest, 1, tl.standard._elementwise_max, keep_dims=True).to(tl.float64) / unit
        is_large = (exponent >= 17179869184.0) | (exponent * longest >= 1125899906842624.0)  # 2^34, 2^50
        code = tl.where(is_large, _TOO_LARGE, code)
    is_broken = tl.reduce(broken, 1, tl.standard._elementwise_max, keep_dims=True) > 0
    code = tl.where(is_bad, _BAD_LENGTH, tl.where(is_broken, _BAD_NUMBER, code))
    z = tl.where(z > 0.0, z, 1.0)
    result = -(top.to(tl.float64) * unit + gamma * tl.log(z.to(tl.float64)))
    tl.store(status + pair, code, mask=is_pair)
    tl.store(value + pair, tl.where(code == _FINE, result, float("nan")).to(M), mask=is_pair)

    if WITH_PLAN:
        tl.debug_barrier()
        m1, m2 = tl.full((PAIRS, LANES), 0.0, M), tl.full((PAIRS, LANES), 0.0, M)
        k1, k2 = tl.full((PAIRS, LANES), DEAD, K), tl.full((PAIRS, LANES), DEAD, K)
        share = tl.where(code == _FINE, 1.0 / z, float("nan")).to(M)
        for e in range(0, bound):
            column = bound - 1 - e - row
            alive = find_alive(row, column, row_count, column_count, band, HAS_BAND)
            cost = compute_costs(
                left, right, row, column, view, alive, sigma, left_strides, features, B, C, D, SUPPORT_VIEWS, VIEWS,
                IS_SWAPPED, METRIC, M,
            )  # fmt: skip
            m, k = merge_steps(m1, k1, m2, k2, row, shape[2], lane, -1, VIEWS, DEAD, M, K)
            m, k = slide_windows(m, k, lane, A, B, C, D, SHIFT, DEAD, M, K)
            is_end = ends & (column == column_count - 1)
            m, k = tl.where(is_end, 1.0, m), tl.where(is_end, 0, k)
            w, n = compute_weights(cost, unit, unit_high, unit_low, M, K)
            m2, k2 = m1, k1
            m1, k1 = normalise(tl.where(alive, m * w, 0.0), k + n, DEAD, M, K)
            address = plan + column * plan_strides[3]
            p = tl.load(address, mask=alive, other=0.0)
            q = tl.load(exponents + column * plan_strides[3], mask=alive, other=0)
            # p or m is 0 where an exponent is dead; the sum of exponents then may be any number
            power = compute_power(tl.minimum(q + k - top, 100), M)
            slope = differentiate_metric(cost, sigma, METRIC, M)
            tl.store(address, p * m * share * power * slope, mask=alive)


@triton.jit(do_not_specialize=_VARIABLE)
def align_hard(
    left, right, counts, constants, value, status, plan, table, shape, left_strides, right_strides, plan_strides,
    features, longest,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
    SUPPORT_VIEWS: tl.constexpr, SHIFT: tl.constexpr, PAIRS: tl.constexpr, LANES: tl.constexpr, METRIC: tl.constexpr,
    HAS_COUNTS: tl.constexpr, HAS_BAND: tl.constexpr, IS_SWAPPED: tl.constexpr, WITH_PLAN: tl.constexpr,
    M: tl.constexpr, K: tl.constexpr, DEAD: tl.constexpr,
):  # fmt: skip
    """Write value, status and, WITH_PLAN, the best path of each pair, for gamma 0, in float64.

    The arguments are those of ``align_soft``; ``table`` is scratch memory for R. The plan needs costs from a table.
    """
    VIEWS: tl.constexpr = A * B * C * D
    pair, is_pair, i, j, row_count, column_count, is_bad = read_pairs(counts, shape, HAS_COUNTS, PAIRS)
    left += i * left_strides[0] + j * left_strides[1]
    right += i * right_strides[0] + j * right_strides[1]
    bound = tl.reduce(row_count + column_count - 1, None, tl.standard._elementwise_max)
    band, sigma = tl.load(constants + 4), tl.load(constants + 5)
    lane = tl.arange(0, LANES)[None] + pair * 0
    row, view = lane // VIEWS, lane % VIEWS
    if WITH_PLAN:
        start = i * plan_strides[0] + j * plan_strides[1] + offset_views(view, plan_strides, B, C, D)
        plan += start
        table += start

    r1 = tl.full((PAIRS, LANES), float("inf"), tl.float64)
    r2, end = r1, r1
    broken = tl.full((PAIRS, LANES), 0, tl.int32)
    for d in range(0, bound):
        column = d - row
        alive = find_alive(row, column, row_count, column_count, band, HAS_BAND)
        cost = compute_costs(
            left, right, row, column, view, alive, sigma, left_strides, features, B, C, D, SUPPORT_VIEWS, VIEWS,
            IS_SWAPPED, METRIC, M,
        )  # fmt: skip
        is_number = tl.abs(cost) < float("inf")
        broken = tl.where(is_number, broken, 1)
        above = tl.gather(tl.minimum(r1, r2), tl.where(row > 0, lane - VIEWS, 0), 1)
        r = tl.minimum(r1, tl.where(row > 0, above, float("inf")))
        r = slide_minimum(r, lane, D, 1, min(SHIFT, D - 1))
        r = slide_minimum(r, lane, C, D, min(SHIFT, C - 1))
        r = slide_minimum(r, lane, B, C * D, min(SHIFT, B - 1))
        r = slide_minimum(r, lane, A, B * C * D, min(SHIFT, A - 1))
        r = tl.where(column + row * 2 == 0, 0.0, r)
        r2 = r1
        r1 = tl.where(alive & is_number, r + cost.to(tl.float64), float("inf"))
        end = tl.where((row == row_count - 1) & (column == column_count - 1), r1, end)
        if WITH_PLAN:
            tl.store(table + row * plan_strides[2] + column * plan_strides[3], r1, mask=alive)
    least = tl.reduce(end, 1, tl.standard._elementwise_min, keep_dims=True)
    code = tl.where(least < float("inf"), _FINE, _BLOCKED)
    is_broken = tl.reduce(broken, 1, tl.standard._elementwise_max, keep_dims=True) > 0
    code = tl.where(is_bad, _BAD_LENGTH, tl.where(is_broken, _BAD_NUMBER, code))
    tl.store(status + pair, code, mask=is_pair)
    tl.store(value + pair, tl.where(code == _FINE, least, float("nan")).to(M), mask=is_pair)

    if WITH_PLAN:
        tl.debug_barrier()
        # walk back from the last cell (t, s, v) of every pair; the lanes of row 0 stand for the views
        a, b, c, d4 = view // (B * C * D), view // (C * D) % B, view // D % C, view % D
        t, s = row_count - 1, column_count - 1
        v = tl.reduce(tl.where(end == least, view, VIEWS), 1, tl.standard._elementwise_min, keep_dims=True)
        is_walking = is_pair & (code == _FINE)
        for _ in range(0, bound):
            address = plan + t * plan_strides[2] + s * plan_strides[3]
            tl.store(address, 1.0, mask=is_walking & (lane == v))
            near = is_walking & (lane < VIEWS) & (tl.abs(a - v // (B * C * D)) <= SHIFT)
            near = near & (tl.abs(b - v // (C * D) % B) <= SHIFT)
            near = near & (tl.abs(c - v // D % C) <= SHIFT) & (tl.abs(d4 - v % D) <= SHIFT)
            best = tl.full((PAIRS, 1), float("inf"), tl.float64)
            next_t, next_s, next_v = t, s, v
            for step in tl.static_range(3):  # a tie prefers the diagonal
                old_t, old_s = t - (1 if step < 2 else 0), s - (0 if step == 1 else 1)
                allowed = (old_t >= 0) & (old_s >= 0)
                if HAS_BAND:
                    allowed = allowed & find_alive(old_t, old_s, row_count, column_count, band, HAS_BAND)
                r = tl.load(
                    table + old_t * plan_strides[2] + old_s * plan_strides[3],
                    mask=near & allowed,
                    other=float("inf"),
                )
                least = tl.reduce(r, 1, tl.standard._elementwise_min, keep_dims=True)
                where = tl.where(r == least, view, VIEWS)
                where = tl.reduce(where, 1, tl.standard._elementwise_min, keep_dims=True)
                is_better = least < best
                best = tl.where(is_better, least, best)
                next_t, next_s = tl.where(is_better, old_t, next_t), tl.where(is_better, old_s, next_s)
                next_v = tl.where(is_better, where, next_v)
            is_walking = is_walking & ((t > 0) | (s > 0))
            t, s, v = next_t, next_s, next_v
