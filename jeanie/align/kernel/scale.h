// Rows of numbers, each times a number of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "job.h"
#include "threads.h"

namespace JEANIE_ISA {

template <class T> class Scaling {
  const JeanieScale& job;
  std::atomic<int64_t> next{0};  // row

  // Takes rows until none is left
  static void share(void* context) {
    auto& all = *static_cast<Scaling*>(context);
    for (int64_t row; (row = all.next.fetch_add(1)) < all.job.rows;) {
      const T by = static_cast<const T*>(all.job.by)[row], *from = static_cast<const T*>(all.job.x) + row * all.job.size;
      T* to = static_cast<T*>(all.job.out) + row * all.job.size;
      for (int64_t i = 0; i < all.job.size; ++i) to[i] = from[i] * by;
    }
  }

 public:
  explicit Scaling(const JeanieScale& job_) : job(job_) {}
  void run() {
    const int64_t worth = int64_t(1) << 20;  // numbers a thread
    jeanie::together(std::min(job.threads, job.rows * job.size / worth) - 1, &Scaling::share, this);
  }
};

}  // namespace JEANIE_ISA
