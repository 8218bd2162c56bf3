// Products of rows of numbers with one factor per row.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "abi.h"
#include "threads.h"

namespace JEANIE_ISA {

template <class T> class Scaling {
  const JeanieScale& job;
  std::atomic<int64_t> next{0};  // row

  // Scales rows until none is left.
  static void run_rows(void* context) noexcept {
    auto& all = *static_cast<Scaling*>(context);
    for (int64_t row; (row = all.next.fetch_add(1)) < all.job.rows;) {
      const T factor = static_cast<const T*>(all.job.factors)[row], *from = static_cast<const T*>(all.job.x) + row * all.job.size;
      T* to = static_cast<T*>(all.job.out) + row * all.job.size;
      for (int64_t i = 0; i < all.job.size; ++i) to[i] = from[i] * factor;
    }
  }

 public:
  explicit Scaling(const JeanieScale& job_) : job(job_) {}
  int run() {
    const int64_t share = int64_t(1) << 20;  // numbers that are worth a thread
    jeanie::run_parallel(std::min(job.threads, job.rows * job.size / share) - 1, &Scaling::run_rows, this);
    return kDone;
  }
};

}  // namespace JEANIE_ISA
