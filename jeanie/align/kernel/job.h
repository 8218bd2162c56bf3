// What one call asks for: the C ABI between jeanie/align/native.py (which mirrors this struct) and the kernel.
#pragma once

#include <cstdint>

extern "C" {

struct JeanieJob {
  const void* cost;         // float or double; row r of pair p starts at cost_at[p] + r * cost_row, columns * views numbers
  void* plan;               // like cost, or null when no gradient is wanted
  void* value;              // [pair]
  int64_t* path;            // hard minimum only, or null: [pair, rows + columns - 1, 3] of (row, column, flat view)
  int64_t* path_length;     // [pair]
  const int64_t* cost_at;   // [pair] offsets in elements
  const int64_t* plan_at;
  const int64_t* rows_of;   // [pair] lengths, or null: all are full
  const int64_t* columns_of;
  int64_t cost_row, plan_row;
  int64_t pairs, rows, columns;
  int64_t axes, grid[4];    // view axes
  int64_t shift, threads;
  double gamma;             // 0: the hard minimum
  double scale_hi, scale_lo;  // -1 / (gamma ln 2) as an unevaluated sum, scale_hi rounded to the cost's dtype
  double unit_hi, unit_lo;    // gamma ln 2 likewise, unit_hi with 18 significant bits
  double band;              // largest |t / tau - s / tau'|, negative: none
};

// Matrices of `batch` products: x [rows, features], y [columns, features], out [rows, columns].
struct JeanieSquares {
  void* out;                // in: the matrix product, out: squared distances
  const void *x, *y;
  int64_t batch, rows, columns, features, threads;
  double small;             // share of |x|^2 + |y|^2 below which the plain sum is taken
  int64_t may_refuse;       // give up untouched (kCancels) where that would be needed almost everywhere
};

enum JeanieMetric : int64_t { kEuclidean = 0, kSquared = 1, kRbf = 2 };  // the order of METRICS in jeanie/align/cost.py

// Pairs straight from their features: x [pair, rows, features] with y [pair, columns, features], no views, gamma > 0.
struct JeanieMatched {
  JeanieJob job;            // its costs, plan and path are not used: they only exist for a few pairs at a time
  const void *x, *y;
  void *grad_x, *grad_y;    // derivatives of every pair's value, like x and y, or null
  int64_t features, metric;  // JeanieMetric
  double sigma;             // of kRbf
  double small;             // as in JeanieSquares
};

// out = x times by, a row of x [rows, size] for each number of by
struct JeanieScale {
  void* out;
  const void *x, *by;
  int64_t rows, size, threads;
};

enum JeanieStatus : int {
  kDone = 0,
  kNotFinite = 1,   // NaN or infinity where a path may pass
  kOutOfRange = 2,  // exponents may overflow in this dtype
  kNoPath = 3,      // the band leaves no way through
  kNoMemory = 4,
  kSpread = 5,      // internal: views differ by more than one shared exponent can hold
  kCancels = 6,     // squared distances: take a common offset off first
};

}  // extern "C"
