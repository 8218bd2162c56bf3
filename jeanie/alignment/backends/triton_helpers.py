"""Parts of the Triton kernels: numbers m 2^k, windows over views, base distances. The compiler inlines them."""

import triton
import triton.language as tl

__all__ = [
    "add",
    "compute_costs",
    "compute_power",
    "compute_rbf",
    "compute_weights",
    "differentiate_metric",
    "find_alive",
    "merge_steps",
    "normalise",
    "offset_views",
    "read_pairs",
    "select_lanes",
    "slide_minimum",
    "slide_window",
    "slide_windows",
]

_SERIES_BELOW = tl.constexpr(0.35)  # of |x|, where exp(x) - 1 would lose digits


@triton.jit
def compute_power(e, M: tl.constexpr):
    """Return 2^e for whole e; 0 below the range of the type M."""
    if M == tl.float64:
        bits = (tl.maximum(e, -1023).to(tl.int64) + 1023) << 52
    else:
        bits = (tl.maximum(e, -127).to(tl.int32) + 127) << 23
    return bits.to(M, bitcast=True)


@triton.jit
def normalise(m, k, DEAD: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    """Return m 2^k with m in [1, 2); a zero is dead."""
    if M == tl.float64:
        bits = m.to(tl.int64, bitcast=True)
        exponent = (bits >> 52) - 1023
        mantissa = (bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
    else:
        bits = m.to(tl.int32, bitcast=True)
        exponent = (bits >> 23) - 127
        mantissa = (bits & 0x7FFFFF) | 0x3F800000
    return tl.where(m > 0, mantissa.to(M, bitcast=True), 0.0), tl.where(m > 0, k + exponent.to(K), DEAD)


@triton.jit
def add(m, k, other_m, other_k, M: tl.constexpr):
    """Return the sum of two numbers m 2^k, with the larger exponent."""
    top = tl.maximum(k, other_k)
    return m * compute_power(k - top, M) + other_m * compute_power(other_k - top, M), top


@triton.jit
def select_lanes(m, k, lane, inside, DEAD: tl.constexpr, K: tl.constexpr):
    """Return the numbers m 2^k of the lanes ``lane``; dead where they lie outside."""
    lane = tl.where(inside & (lane < m.shape[1]), lane, 0)  # lanes of no row may point anywhere
    if K == tl.int32:  # one trip through shared memory for both; m is never negative
        packed = (k.to(tl.int64) << 32) | m.to(tl.int32, bitcast=True).to(tl.int64)
        packed = tl.gather(packed, lane, 1)
        m, k = packed.to(tl.int32).to(tl.float32, bitcast=True), (packed >> 32).to(tl.int32)
    else:
        m, k = tl.gather(m, lane, 1), tl.gather(k, lane, 1)
    return tl.where(inside, m, 0.0), tl.where(inside, k, DEAD)


@triton.jit
def slide_window(
    m, k, lane, SIZE: tl.constexpr, STRIDE: tl.constexpr, REACH: tl.constexpr,
    DEAD: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Return the sum over neighbours up to REACH apart on one view axis, clipped at the edge of the grid."""
    if REACH == 0:
        return m, k
    place = (lane // STRIDE) % SIZE
    sum_m, sum_k = m, k
    for step in range(1, REACH + 1):
        near_m, near_k = select_lanes(m, k, lane - step * STRIDE, place >= step, DEAD, K)
        sum_m, sum_k = add(sum_m, sum_k, near_m, near_k, M)
        near_m, near_k = select_lanes(m, k, lane + step * STRIDE, place + step < SIZE, DEAD, K)
        sum_m, sum_k = add(sum_m, sum_k, near_m, near_k, M)
    return sum_m, sum_k


@triton.jit
def slide_windows(
    m, k, lane, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
    SHIFT: tl.constexpr, DEAD: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Return the sum over neighbours on every axis of the grid A x B x C x D; the window is separable."""
    m, k = slide_window(m, k, lane, D, 1, min(SHIFT, D - 1), DEAD, M, K)
    m, k = slide_window(m, k, lane, C, D, min(SHIFT, C - 1), DEAD, M, K)
    m, k = slide_window(m, k, lane, B, C * D, min(SHIFT, B - 1), DEAD, M, K)
    return slide_window(m, k, lane, A, B * C * D, min(SHIFT, A - 1), DEAD, M, K)


@triton.jit
def merge_steps(
    m1, k1, m2, k2, row, rows, lane, STEP: tl.constexpr, VIEWS: tl.constexpr,
    DEAD: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Return the sum over three temporal neighbours: two on the adjacent anti-diagonal (1), one on the next (2)."""
    both_m, both_k = add(m1, k1, m2, k2, M)
    inside = (row >= STEP) & (row - STEP < rows)
    both_m, both_k = select_lanes(both_m, both_k, lane - STEP * VIEWS, inside, DEAD, K)
    return add(m1, k1, both_m, both_k, M)


@triton.jit
def find_alive(row, column, row_count, column_count, band, HAS_BAND: tl.constexpr):
    """Return the lanes whose cell lies inside the lengths and the band (plus 1e-9 for rounding)."""
    alive = (row < row_count) & (column >= 0) & (column < column_count)
    if HAS_BAND:
        distance = tl.abs(row * column_count - column * row_count).to(tl.float64)
        alive = alive & (distance <= band * (row_count * column_count).to(tl.float64))
    return alive


@triton.jit
def compute_rbf(squared, sigma, M: tl.constexpr):
    """Return 2 - 2 exp(-squared / (2 sigma^2)) without cancellation."""
    x = squared / (-2 * sigma * sigma).to(M)
    series = x * 0.0 + 1.0
    for i in tl.static_range(14 if M == tl.float64 else 8, 1, -1):
        series = series * x / i + 1.0
    return -2 * tl.where(tl.abs(x) < _SERIES_BELOW, x * series, tl.exp(x) - 1.0)


@triton.jit
def offset_views(view, strides, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    """Return the offset of a view in a tensor; strides are (i, j, row, column, a, b, c, d)."""
    offset = view // (B * C * D) * strides[4] + view // (C * D) % B * strides[5]
    return offset + view // D % C * strides[6] + view % D * strides[7]


@triton.jit
def read_pairs(counts, shape, HAS_COUNTS: tl.constexpr, PAIRS: tl.constexpr):
    """Return i, j, the clamped (row, column) counts and whether they are invalid, of the pairs of this program.

    ``counts`` are (rows, columns, their strides by i and j); ``shape`` is (pairs, second count, rows, columns).
    """
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)[:, None]
    is_pair = pair < shape[0]
    i, j = (pair // shape[1]).to(tl.int64), (pair % shape[1]).to(tl.int64)
    row_count, column_count = pair * 0 + shape[2], pair * 0 + shape[3]
    if HAS_COUNTS[0]:
        row_count = tl.load(counts[0] + i * counts[2] + j * counts[3], mask=is_pair, other=1).to(tl.int32)
    if HAS_COUNTS[1]:
        column_count = tl.load(counts[1] + i * counts[4] + j * counts[5], mask=is_pair, other=1).to(tl.int32)
    is_bad = (row_count < 1) | (row_count > shape[2]) | (column_count < 1) | (column_count > shape[3])
    row_count = tl.where(
        is_pair, tl.minimum(tl.maximum(row_count, 1), shape[2]), 0
    )  # a pair beyond the last one has no cell
    column_count = tl.where(is_pair, tl.minimum(tl.maximum(column_count, 1), shape[3]), 0)
    return pair, is_pair, i, j, row_count, column_count, is_bad


@triton.jit
def compute_costs(
    left, right, row, column, view, alive, sigma, strides, features,
    B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, SUPPORT_VIEWS: tl.constexpr, VIEWS: tl.constexpr,
    IS_SWAPPED: tl.constexpr, METRIC: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """Return the costs of the lanes: read from a table, or from the features of both sides [feature, (block, view)].

    ``features`` are (number of features, stride of a feature on the left, on the right).
    """
    if METRIC == "cost":
        offset = row * strides[2] + column * strides[3] + offset_views(view, strides, B, C, D)
        return tl.load(left + offset, mask=alive, other=0.0).to(M)
    query_view, support_view = view // SUPPORT_VIEWS, view % SUPPORT_VIEWS
    if IS_SWAPPED:
        left += row * SUPPORT_VIEWS + support_view
        right += column * (VIEWS // SUPPORT_VIEWS) + query_view
    else:
        left += row * (VIEWS // SUPPORT_VIEWS) + query_view
        right += column * SUPPORT_VIEWS + support_view
    total = tl.full(alive.shape, 0.0, M)
    for _ in range(features[0]):
        difference = tl.load(left, mask=alive, other=0.0).to(M) - tl.load(right, mask=alive, other=0.0).to(M)
        total += difference * difference
        left += features[1]
        right += features[2]
    if METRIC == "rbf":
        return compute_rbf(total, sigma, M)
    if METRIC == "euclidean":
        return tl.sqrt(total)
    return total


@triton.jit
def differentiate_metric(cost, sigma, METRIC: tl.constexpr, M: tl.constexpr):
    """Return the derivative of the cost by the squared distance, from the cost itself."""
    if METRIC == "rbf":
        return (2.0 - cost) / (2 * sigma * sigma).to(M)
    if METRIC == "euclidean":
        return tl.where(cost == 0.0, 0.0, 0.5 / tl.where(cost == 0.0, 1.0, cost))
    return cost * 0.0 + 1.0


@triton.jit
def compute_weights(cost, unit, unit_high, unit_low, M: tl.constexpr, K: tl.constexpr):
    """Return exp(-cost / gamma) as w 2^n; ``unit`` is gamma ln 2, also as the unevaluated sum high + low."""
    scale = (-1.0 / unit).to(M)
    if M == tl.float32:
        high = unit.to(tl.float32)
        low = (unit - high.to(tl.float64)).to(tl.float32)
    else:
        high, low = unit_high, unit_low
    high, low = tl.broadcast_to(high, cost.shape), tl.broadcast_to(low, cost.shape)
    n = tl.floor(cost * scale + 0.5)
    rest = tl.fma(n, low, tl.fma(n, high, cost))
    if M == tl.float32 and K == tl.int64:  # n itself may be rounded
        more = tl.floor(rest * scale + 0.5)
        return tl.exp2(tl.fma(more, high, rest) * scale), n.to(K) + more.to(K)
    return tl.exp2(rest * scale), n.to(K)


@triton.jit
def slide_minimum(r, lane, SIZE: tl.constexpr, STRIDE: tl.constexpr, REACH: tl.constexpr):
    """Return the minimum over neighbours up to REACH apart on one view axis."""
    if REACH == 0:
        return r
    place = (lane // STRIDE) % SIZE
    least = r
    for step in range(1, REACH + 1):
        before = tl.gather(r, tl.where(place >= step, lane - step * STRIDE, lane), 1)
        after = tl.minimum(lane + step * STRIDE, r.shape[1] - 1)  # lanes of no row may point anywhere
        after = tl.gather(r, tl.where(place + step < SIZE, after, lane), 1)
        least = tl.minimum(least, tl.minimum(before, after))
    return least
