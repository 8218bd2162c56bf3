// Squared distances from a matrix product, in one pass: |x|^2 + |y|^2 - 2 x y; the plain sum where this cancels.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

#include "abi.h"
#include "pack.h"
#include "threads.h"

namespace JEANIE_ISA {

template <class T> class Squares {
  const JeanieSquares& job;
  std::vector<T> size_x, size_y;
  std::atomic<int64_t> next{0};  // row

  // |x - y|^2 by registers; a null y is 0
  static T distance(const T* x, const T* y, int64_t features) {
    constexpr int W = kWidth<T>;
    Register<T> part[2] = {};
    int64_t f = 0;
    for (; f + 2 * W <= features; f += 2 * W)
      for (int i = 0; i < 2; ++i) {
        Register<T> d = *reinterpret_cast<const Unaligned<T>*>(x + f + i * W);
        if (y) d -= *reinterpret_cast<const Unaligned<T>*>(y + f + i * W);
        part[i] += d * d;
      }
    part[0] += part[1];
    T total = 0;
    for (int w = 0; w < W; ++w) total += part[0][w];
    for (; f < features; ++f) {
      const T d = y ? x[f] - y[f] : x[f];
      total += d * d;
    }
    return total;
  }
  const T* left(int64_t row) const { return static_cast<const T*>(job.x) + row * job.features; }
  const T* right(int64_t row) const { return static_cast<const T*>(job.y) + row * job.features; }
  T* out(int64_t row) const { return static_cast<T*>(job.out) + row * job.columns; }

  // One row of the batch: x_i y_j in `out` becomes |x_i - y_j|^2
  void finish(int64_t row) {
    const int64_t batch = row / job.rows, columns = job.columns;
    const T *sizes = size_y.data() + batch * columns, *x = left(row);
    const T own = size_x[row], small = T(job.repair_below);
    T* here = out(row);
    int cancels = 0;
    for (int64_t j = 0; j < columns; ++j) {
      const T both = own + sizes[j], square = both - 2 * here[j];
      here[j] = square;
      cancels |= square < small * both;
    }
    for (int64_t j = 0; cancels && j < columns; ++j)
      if (here[j] < small * (own + sizes[j])) here[j] = distance(x, right(batch * columns + j), job.features);
  }

  // Takes rows, some at a time, until none is left
  static void run_rows(void* context) noexcept {
    auto& all = *static_cast<Squares*>(context);
    const int64_t rows = all.job.batch * all.job.rows, some = std::max<int64_t>(1, (int64_t(1) << 16) / all.job.columns);
    for (int64_t start; (start = all.next.fetch_add(some)) < rows;)
      for (int64_t r = start; r < std::min(start + some, rows); ++r) all.finish(r);
  }

  // Whether a quarter of a sample of the products would have to be summed again
  bool mostly_cancels() const {
    const int64_t cells = job.batch * job.rows * job.columns, step = std::max<int64_t>(1, cells / 4096);
    int64_t seen = 0, bad = 0;
    for (int64_t i = 0; i < cells; i += step, ++seen) {
      const int64_t row = i / job.columns, column = i % job.columns;
      const T both = size_x[row] + size_y[row / job.rows * job.columns + column];
      bad += both - 2 * out(row)[column] < T(job.repair_below) * both;
    }
    return 4 * bad > seen;
  }

 public:
  explicit Squares(const JeanieSquares& job_)
      : job(job_), size_x(job_.batch * job_.rows), size_y(job_.batch * job_.columns) {}

  int run() {
    T total = 0;
    for (size_t i = 0; i < size_x.size(); ++i) total += size_x[i] = distance(left(int64_t(i)), nullptr, job.features);
    for (size_t i = 0; i < size_y.size(); ++i) total += size_y[i] = distance(right(int64_t(i)), nullptr, job.features);
    if (!std::isfinite(total)) return kNotFinite;
    if (job.may_refuse && mostly_cancels()) return kCancels;
    const int64_t rows = job.batch * job.rows, worth = int64_t(1) << 19;
    jeanie::run_parallel(std::min(job.threads, rows * job.columns / worth) - 1, &Squares::run_rows, this);
    return kDone;
  }
};

}  // namespace JEANIE_ISA
