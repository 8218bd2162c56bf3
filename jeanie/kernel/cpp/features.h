// Base distances between the blocks of one pair, and their gradients, in tiles that stay in the cache.
//
//   d_ij = |x_i|^2 + |y_j|^2 - 2 x_i y_j relative to the mean of y; the plain sum of squares where this cancels
#pragma once

#include <algorithm>
#include <cmath>

#include "memory.h"
#include "registers.h"
#include "slopes.h"
#include "transpose.h"

namespace JEANIE_ISA {

// One pair at a time: x [rows, features] against y [columns, features].
template <class T> class Features {
  static constexpr int W = kWidth<T>, kRows = 6, kWide = 2;  // a tile of the product: rows, registers of columns
  const int64_t features, padded;
  jeanie::Block memory;
  T *mean, *own_x, *own_y, *sizes_x, *sizes_y, *panel, *turned;
  Slopes<T> slope;
  const T *x = nullptr, *y = nullptr, *next_x = nullptr, *next_y = nullptr;
  int64_t rows = 0, columns = 0;

 public:
  Features(int64_t most_rows, int64_t most_columns, int64_t features_)
      : features(features_), padded(rounded_up(features_, W)), slope(features, padded, std::max(most_rows, most_columns)) {
    const int64_t r = rounded_up(most_rows, W), c = rounded_up(most_columns, W);
    memory = jeanie::Block(sizeof(T) * (padded + (r + 2 * c) * padded + r + c + r * c));
    mean = static_cast<T*>(memory.start());
    own_x = mean + padded, own_y = own_x + r * padded, panel = own_y + c * padded;
    sizes_x = panel + c * padded, sizes_y = sizes_x + r, turned = sizes_y + c;
  }

  // Features of the next pair are prefetched into the cache during the arithmetic
  void expect(const T* x_, const T* y_) { next_x = x_, next_y = y_; }

  // Sets the current pair: x [rows, features] and y [columns, features]
  void set(const T* x_, int64_t rows_, const T* y_, int64_t columns_) {
    x = x_, rows = rows_, y = y_, columns = columns_;
  }

  // out[i * stride + j], rows padded to a whole register; returns false if features or their squares are not finite.
  // `offset` tells whether the features have a common offset that is large compared with their spread.
  bool squares(T* out, int64_t stride, T small, bool* offset) {
    const T total = centre(), middle = plain(mean, nullptr);
    if (!std::isfinite(total + middle)) return false;
    *offset = middle * T(rows + columns) > 4 * total;
    for (int64_t j = 0; j < columns; j += W) turn(own_y + j * padded, panel + j * padded);
    for (int64_t j = 0; j < columns; j += kWide * W)
      for (int64_t i = 0; i < rows; i += kRows) {
        prefetch(j / (kWide * W), i);
        if (j + W < columns)
          tile<kWide>(i, j, out, stride, small);
        else
          tile<1>(i, j, out, stride, small);
      }
    return true;
  }

  // Gradients of sum_ij w[i * stride + j] |x_i - y_j|^2, if requested; w is padded with 0 to a whole register.
  // Features are taken relative to the mean if an `offset` would cancel or if they do not fill registers.
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
  // With panel `part` of columns, the same number of panels of the next pair is prefetched; with row i, its rows
  void prefetch(int64_t part, int64_t i) const {
    if (!next_x) return;
    constexpr int64_t line = 64 / sizeof(T);
    const int64_t parts = (columns + kWide * W - 1) / (kWide * W), size = rows * features;
    const int64_t from = (part * rows + i) * features / parts, to = (part * rows + i + kRows) * features / parts;
    for (int64_t f = from; f < std::min(to, size); f += line) __builtin_prefetch(next_x + f, 0, 2);
    for (int64_t f = from; f < std::min(to, columns * features); f += line) __builtin_prefetch(next_y + f, 0, 2);
  }

  // Computes the mean of y, subtracts it from x and y, and returns the sum of all squared lengths
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
  // Rows and features are padded with 0 to a whole register
  T centre(const T* from, int64_t count, T* to, T* sizes) const {
    T total = 0;
    for (int64_t i = 0; i < count; ++i, from += features, to += padded) {
      Register<T> part[2] = {};
      int64_t f = 0;
      for (; f + 2 * W <= features; f += 2 * W)
#pragma GCC unroll 2
        for (int n = 0; n < 2; ++n) {
          const Register<T> centred = load(from + f + n * W) - load(mean + f + n * W);
          store(to + f + n * W, centred);
          part[n] += centred * centred;
        }
      T size = sum_of<T>(part[0] + part[1]);
      for (; f < padded; ++f) to[f] = f < features ? from[f] - mean[f] : T(0), size += to[f] * to[f];
      total += sizes[i] = size;
    }
    std::fill(to, to + (rounded_up(count, W) - count) * padded, T(0));
    std::fill(sizes + count, sizes + rounded_up(count, W), T(0));
    return total;
  }

  // W rows of features become one register per feature
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

  // Squared distances of kRows rows and N registers of columns. A separate function: its sums fill the registers.
  template <int N> __attribute__((noinline)) void tile(int64_t i, int64_t j, T* out, int64_t stride, T small) const {
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
    for (int r = kRows - 1; r >= 0; --r) {
      const int64_t at = std::min(i + r, rows - 1);
      Pack<Integer<T>, W> cancels = {};
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) {
        const Register<T> both = load(sizes_y + j + n * W) + sizes_x[at], square = both - T(2) * sum[r][n];
        cancels.r[0] |= square < small * both;
        store(out + at * stride + j + n * W, square);
      }
      if (any(cancels)) repair(at, j, std::min(j + N * W, columns), out + at * stride, small);
    }
  }

  __attribute__((noinline)) void repair(int64_t i, int64_t j, int64_t end, T* out, T small) const {
    for (; j < end; ++j)
      if (out[j] < small * (sizes_x[i] + sizes_y[j])) out[j] = plain(x + i * features, y + j * features);
  }
  // |a - b|^2; a null b is 0
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
};

}  // namespace JEANIE_ISA
