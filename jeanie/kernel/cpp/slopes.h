// Gradients of weighted squared distances, row by row; weights below rounding are skipped.
//
//   g_i = 2 (x_i sum_k w_ik - sum_k w_ik y_k)
#pragma once

#include <algorithm>
#include <vector>

#include "registers.h"

namespace JEANIE_ISA {

template <class T> class Slopes {
  static constexpr int W = kWidth<T>, kRows = 2, kWide = 4;  // rows, and registers of features, that are summed at once
  const int64_t features, padded;                            // sizes of a row of out and of a row of the motions
  std::vector<int64_t> kept;                                 // columns that are not skipped

  struct Stripe {
    const T *x[kRows], *w[kRows];
    T* out[kRows];
    T total[kRows];  // of the weights
    int64_t found;   // columns that are not skipped in any of the rows
  };

 public:
  Slopes(int64_t features_, int64_t padded_, int64_t most_columns)
      : features(features_), padded(padded_), kept(most_columns) {}

  // g_i for `count` rows: x and out [row, feature], y [column, feature], w[row * stride + column], which is 0 up to a
  // whole register of columns.
  void operator()(const T* x, int64_t count, const T* y, int64_t columns, const T* w, int64_t stride, T* out) {
    for (int64_t i = 0; i < count; i += kRows) {
      Stripe stripe;
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {  // the last stripe may repeat a row
        const int64_t at = std::min(i + r, count - 1);
        stripe.x[r] = x + at * padded, stripe.w[r] = w + at * stride, stripe.out[r] = out + at * features;
      }
      find(&stripe, columns);
      int64_t f = 0;
      for (; f + kWide * W <= padded; f += kWide * W) weighted<kWide>(stripe, y, f);
      for (; f < padded; f += W) weighted<1>(stripe, y, f);
    }
  }

 private:
  // Lists the columns with a weight that is not below all rounding: at a small gamma one or two a row
  void find(Stripe* stripe, int64_t columns) {
    Register<T> negligible[kRows];
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      Register<T> sum = {};
      for (int64_t k = 0; k < columns; k += W) sum += load(stripe->w[r] + k);
      stripe->total[r] = sum_of<T>(sum);
      negligible[r] = spread_over((sizeof(T) == 4 ? T(0x1p-40) : T(0x1p-80)) * stripe->total[r]);
    }
    stripe->found = 0;
    for (int64_t start = 0; start < columns; start += 64) {
      uint64_t lanes = 0;
      for (int64_t k = start; k < std::min(start + 64, columns); k += W) {
        Register<Integer<T>> some = {};
#pragma GCC unroll 2
        for (int r = 0; r < kRows; ++r) some |= load(stripe->w[r] + k) > negligible[r];
        lanes |= lanes_of<Integer<T>>(some) << (k - start);
      }
      if (columns - start < 64) lanes &= (uint64_t(1) << (columns - start)) - 1;  // not the fill of the last register
      for (; lanes; lanes &= lanes - 1) kept[stripe->found++] = start + __builtin_ctzll(lanes);
    }
  }

  // N registers of features of a stripe, from feature f
  template <int N> __attribute__((noinline)) void weighted(const Stripe& stripe, const T* y, int64_t f) const {
    const T* w[kRows];
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) w[r] = stripe.w[r];
    Register<T> sum[kRows][N] = {};
    for (int64_t n = 0; n < stripe.found; ++n) {
      const T* from = y + kept[n] * padded + f;
      Register<T> right[N];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) right[j] = load(from + j * W);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) sum[r][j] += spread_over(w[r][kept[n]]) * right[j];
    }
    T buffer[N * W];  // what does not fill its registers goes through it
    const bool whole = f + N * W <= features;
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      T* to = whole ? stripe.out[r] + f : buffer;
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j)
        store(to + j * W, T(2) * (stripe.total[r] * load(stripe.x[r] + f + j * W) - sum[r][j]));
      if (!whole) std::copy(buffer, buffer + features - f, stripe.out[r] + f);
    }
  }
};

}  // namespace JEANIE_ISA
