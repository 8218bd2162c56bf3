// Base distances between the blocks of one pair, and their gradients, in tiles that stay in the cache.
//
//   d_ij = |x_i|^2 + |y_j|^2 - 2 x_i y_j about the mean of y, and the plain sum where that cancels
//   g_i  = 2 (x_i sum_j w_ij - sum_j w_ij y_j) for weights w
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "job.h"
#include "memory.h"
#include "pack.h"
#include "transpose.h"

namespace JEANIE_ISA {

template <class T> JEANIE_INLINE Register<T> load(const T* at) { return *reinterpret_cast<const Unaligned<T>*>(at); }
template <class T> JEANIE_INLINE void store(T* at, Register<T> x) { *reinterpret_cast<Unaligned<T>*>(at) = x; }
template <class T> JEANIE_INLINE Register<T> spread_over(T x) { return x - Register<T>{}; }  // 0 + x would not fold: -0
template <class T> JEANIE_INLINE T sum_of(Register<T> x) {
  T total = 0;
  for (int w = 0; w < kWidth<T>; ++w) total += x[w];
  return total;
}
inline int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

template <class T> constexpr T inverse_factorial(int n) { return n < 2 ? T(1) : inverse_factorial<T>(n - 1) / T(n); }

// expm1(u) and exp(u) for u <= 0, to rounding: expm1(n ln 2 + r) = 2^n expm1(r) + (2^n - 1)
template <class T> JEANIE_INLINE Register<T> expm1_below(Register<T> u, Register<T>* exp) {
  using P = Pack<T, kWidth<T>>;
  constexpr T lowest = sizeof(T) == 4 ? T(-60) : T(-600), round = Format<T>::kRound;
  // ln 2 with so few bits that n times it is exact, and the rest
  constexpr T coarse = sizeof(T) == 4 ? T(0x1.62e4p-1) : T(0x1.62e42feep-1);
  constexpr T fine = sizeof(T) == 4 ? T(0x1.7f7d1cf79abcap-20) : T(0x1.a39ef35793c76p-33);
  constexpr int terms = sizeof(T) == 4 ? 9 : 15;
  u = u > lowest ? u : spread_over<T>(lowest);
  const Register<T> rounded = u * T(M_LOG2E) + round, n = rounded - round;
  const Register<T> r = (u - n * coarse) - n * fine;
  Register<T> q = spread_over<T>(inverse_factorial<T>(terms));  // expm1(r) / r
#pragma GCC unroll 16
  for (int i = terms - 1; i > 0; --i) q = q * r + inverse_factorial<T>(i);
  P whole;
  whole.r[0] = rounded;
  const Register<T> power = power_of_two<T>(bits(whole) - bits(P::all(round))).r[0];
  *exp = power * (r * q) + power;
  return power * (r * q) + (power - T(1));
}

// One pair at a time: x [rows, features] against y [columns, features].
template <class T> class Features {
  static constexpr int W = kWidth<T>, kRows = 6, kWide = 2;  // a tile of the product: rows, registers of columns
  const int64_t features, padded;
  jeanie::Block memory;
  T *mean, *own_x, *own_y, *sizes_x, *sizes_y, *panel, *turned;
  std::vector<int64_t> kept;  // first columns of squares that count
  const T *x = nullptr, *y = nullptr;
  int64_t rows = 0, columns = 0;

 public:
  Features(int64_t most_rows, int64_t most_columns, int64_t features_)
      : features(features_), padded(rounded_up(features_, W)) {
    const int64_t r = rounded_up(most_rows, W), c = rounded_up(most_columns, W);
    memory = jeanie::Block(sizeof(T) * (padded + (r + 2 * c) * padded + r + c + r * c));
    mean = static_cast<T*>(memory.start());
    own_x = mean + padded, own_y = own_x + r * padded, panel = own_y + c * padded;
    sizes_x = panel + c * padded, sizes_y = sizes_x + r, turned = sizes_y + c;
    kept.resize(std::max(r, c));
  }

  // x [rows, features] and y [columns, features] are looked at from now on
  void set(const T* x_, int64_t rows_, const T* y_, int64_t columns_) {
    x = x_, rows = rows_, y = y_, columns = columns_;
  }

  // out[i * stride + j], rows filled up to a whole register; false where features or their squares are not finite.
  // `offset` says whether they share one that is large beside their spread.
  bool squares(T* out, int64_t stride, T small, bool* offset) {
    const T total = centre(), middle = plain(mean, nullptr);
    if (!std::isfinite(total + middle)) return false;
    *offset = middle * T(rows + columns) > 4 * total;
    for (int64_t j = 0; j < columns; j += W) turn(own_y + j * padded, panel + j * padded);
    for (int64_t j = 0; j < columns; j += kWide * W)
      for (int64_t i = 0; i < rows; i += kRows) {
        const bool whole = j + W < columns;
        whole ? tile<kWide>(i, j, out, stride) : tile<1>(i, j, out, stride);
        finish(i, j, j + (whole ? kWide : 1) * W, out, stride, small);
      }
    return true;
  }

  // Gradients of sum_ij w[i * stride + j] |x_i - y_j|^2, each where it is wanted; w is 0 up to a whole register of j.
  // About the mean, where an `offset` would cancel or features do not fill registers, else as they are.
  void slopes(const T* w, int64_t stride, bool offset, T* grad_x, T* grad_y) {
    const T *left = x, *right = y;
    if (offset || features != padded) centre(), left = own_x, right = own_y;
    if (grad_x) slope(left, rows, right, columns, w, stride, grad_x);
    if (!grad_y) return;
    const int64_t across = rounded_up(rows, W);
    for (int64_t i = 0; i < rows; i += W)
      for (int64_t j = 0; j < columns; j += W) {
        Register<T> a[W];
#pragma GCC unroll 8
        for (int r = 0; r < W; ++r) a[r] = i + r < rows ? load(w + (i + r) * stride + j) : Register<T>{};
        Square<W>::transpose(a);
#pragma GCC unroll 8
        for (int r = 0; r < W; ++r) store(turned + (j + r) * across + i, a[r]);
      }
    slope(right, columns, left, rows, turned, across, grad_y);
  }

 private:
  // The mean of y, x and y less it, and all their squared lengths, whose sum is returned
  T centre() {
    int64_t f = 0;
    for (; f + 4 * W <= features; f += 4 * W) {  // sums in registers
      Register<T> sum[4] = {};
      for (int64_t j = 0; j < columns; ++j)
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sum[i] += load(y + j * features + f + i * W);
      for (int i = 0; i < 4; ++i) store(mean + f + i * W, sum[i] * (1 / T(columns)));
    }
    for (; f < features; ++f) {
      T sum = 0;
      for (int64_t j = 0; j < columns; ++j) sum += y[j * features + f];
      mean[f] = sum / T(columns);
    }
    return centre(x, rows, own_x, sizes_x) + centre(y, columns, own_y, sizes_y);
  }
  // Rows and features are filled up to a whole register with 0
  T centre(const T* from, int64_t count, T* to, T* sizes) const {
    T total = 0;
    for (int64_t i = 0; i < count; ++i, from += features, to += padded) {
      Register<T> part = {};
      int64_t f = 0;
      for (; f + W <= features; f += W) {
        const Register<T> centred = load(from + f) - load(mean + f);
        store(to + f, centred);
        part += centred * centred;
      }
      T size = sum_of<T>(part);
      for (; f < padded; ++f) to[f] = f < features ? from[f] - mean[f] : T(0), size += to[f] * to[f];
      total += sizes[i] = size;
    }
    std::fill(to, to + (rounded_up(count, W) - count) * padded, T(0));
    std::fill(sizes + count, sizes + rounded_up(count, W), T(0));
    return total;
  }

  // W rows of features become one register a feature
  void turn(const T* from, T* to) const {
    for (int64_t f = 0; f < padded; f += W) {
      Register<T> a[W];
#pragma GCC unroll 8
      for (int i = 0; i < W; ++i) a[i] = load(from + i * padded + f);
      Square<W>::transpose(a);
#pragma GCC unroll 8
      for (int i = 0; i < W; ++i) store(to + (f + i) * W, a[i]);
    }
  }

  // Products x_i y_j of kRows rows and N registers of columns. A function of its own: its sums fill the registers.
  template <int N> __attribute__((noinline)) void tile(int64_t i, int64_t j, T* out, int64_t stride) const {
    const T* left[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) left[r] = own_x + std::min(i + r, rows - 1) * padded;
    const T *first = panel + j * padded, *second = first + (N - 1) * W * padded;
    Register<T> sum[kRows][N] = {};
    for (int64_t f = 0; f < features; ++f) {
      Register<T> b[N];
      b[0] = load(first + f * W);
      if (N > 1) b[N - 1] = load(second + f * W);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) sum[r][n] += spread_over(left[r][f]) * b[n];
    }
    // from the last row down: one that repeats the last valid row is overwritten by it
#pragma GCC unroll 8
    for (int r = kRows - 1; r >= 0; --r)
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) store(out + std::min(i + r, rows - 1) * stride + j + n * W, sum[r][n]);
  }

  // The products of a tile become squared distances
  void finish(int64_t i, int64_t j, int64_t end, T* out, int64_t stride, T small) const {
    for (const int64_t last = std::min(i + kRows, rows); i < last; ++i) {
      T* row = out + i * stride;
      Pack<Integer<T>, W> cancels = {};
      for (int64_t s = j; s < end; s += W) {
        const Register<T> both = load(sizes_y + s) + sizes_x[i], square = both - T(2) * load(row + s);
        cancels.r[0] |= square < small * both;
        store(row + s, square);
      }
      if (any(cancels)) repair(i, j, std::min(end, columns), row, small);
    }
  }

  __attribute__((noinline)) void repair(int64_t i, int64_t j, int64_t end, T* out, T small) const {
    for (; j < end; ++j)
      if (out[j] < small * (sizes_x[i] + sizes_y[j])) out[j] = plain(x + i * features, y + j * features);
  }
  // |a - b|^2; b null counts as 0
  T plain(const T* a, const T* b) const {
    Register<T> part = {};
    int64_t f = 0;
    for (; f + W <= features; f += W) {
      const Register<T> d = b ? load(a + f) - load(b + f) : load(a + f);
      part += d * d;
    }
    T total = sum_of<T>(part);
    for (; f < features; ++f) {
      const T d = b ? a[f] - b[f] : a[f];
      total += d * d;
    }
    return total;
  }

  // Some rows of weights at a time: where they lie, their sums, and the squares of columns that count.
  struct Stripe {
    const T* row[kRows];
    T total[kRows];
    int64_t valid, found, columns;
  };

  // out_i = 2 (left_i sum_k w_ik - sum_k w_ik right_k), where w_ik = 0 up to a whole register of k.
  // A square whose weights are all below rounding is left out: at a small gamma that is nearly everything.
  void slope(const T* left, int64_t count, const T* right, int64_t other, const T* w, int64_t stride, T* out) {
    constexpr T negligible = sizeof(T) == 4 ? T(0x1p-40) : T(0x1p-80);
    Stripe stripe;
    stripe.columns = other;
    for (int64_t i = 0; i < count; i += kRows, left += kRows * padded, out += kRows * features) {
      stripe.valid = std::min<int64_t>(kRows, count - i);
      Register<T> least[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        stripe.row[r] = w + (i + std::min<int64_t>(r, stripe.valid - 1)) * stride;
        Register<T> sum = {};
        for (int64_t k = 0; k < other; k += W) sum += load(stripe.row[r] + k);
        stripe.total[r] = sum_of<T>(sum);
        least[r] = spread_over(negligible * stripe.total[r]);
      }
      stripe.found = 0;
      for (int64_t k = 0; k < other; k += W) {
        Pack<Integer<T>, W> some = {};
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) some.r[0] |= load(stripe.row[r] + k) > least[r];
        kept[stripe.found] = k;
        stripe.found += any(some);
      }
      int64_t f = 0;
      for (; f + kWide * W <= padded; f += kWide * W) weighted<kWide>(stripe, left, right, out, f);
      if (f < padded) weighted<1>(stripe, left, right, out, f);
    }
  }

  // N registers of features of a stripe, from feature f
  template <int N>
  __attribute__((noinline)) void weighted(const Stripe& stripe, const T* left, const T* right, T* out, int64_t f) const {
    Register<T> sum[kRows][N] = {};
    const T* row[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) row[r] = stripe.row[r];
    auto add = [&](int64_t k) __attribute__((always_inline)) {
      Register<T> b[N];
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j) b[j] = load(right + k * padded + f + j * W);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
        for (int j = 0; j < N; ++j) sum[r][j] += spread_over(row[r][k]) * b[j];
    };
    for (int64_t n = 0; n < stripe.found; ++n)
      if (const int64_t first = kept[n]; first + W <= stripe.columns)
        for (int64_t k = first; k < first + W; ++k) add(k);
      else
        for (int64_t k = first; k < stripe.columns; ++k) add(k);
    // what does not fill its registers goes through a buffer
    T buffer[kRows * N * W];
    const bool whole = f + N * W <= features;
    T* to = whole ? out + f : buffer;
    const int64_t stride = whole ? features : N * W;
#pragma GCC unroll 8
    for (int r = kRows - 1; r >= 0; --r) {  // from the last row down, as in tile
      const int64_t at = std::min<int64_t>(r, stripe.valid - 1);
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j)
        store(to + at * stride + j * W, T(2) * (stripe.total[r] * load(left + at * padded + f + j * W) - sum[r][j]));
    }
    for (int64_t r = 0; !whole && r < stripe.valid; ++r)
      std::copy(buffer + r * stride, buffer + r * stride + features - f, out + r * features + f);
  }
};

}  // namespace JEANIE_ISA
