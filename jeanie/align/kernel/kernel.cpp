// One instruction set's kernel: chooses the representation, spreads groups of pairs over threads.
#include <atomic>
#include <new>
#include <optional>
#include <thread>

#include "hard.h"
#include "squares.h"
#include "sweep.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace JEANIE_ISA {

// Numbers below the normal range cost a hundred cycles each and carry nothing here.
class FlushToZero {
#if defined(__x86_64__)
  unsigned before = _mm_getcsr();

 public:
  FlushToZero() { _mm_setcsr(before | 0x8040); }
  ~FlushToZero() { _mm_setcsr(before); }
#else
 public:
  FlushToZero() {}
#endif
};

struct Plan {
  const JeanieJob& job;
  int64_t views = 1;
  std::vector<int64_t> grid, order;
  std::atomic<int64_t> next{0};
  std::atomic<int> status{kDone};

  explicit Plan(const JeanieJob& job_) : job(job_), order(by_length(job_)) {
    for (int64_t a = 0; a < job.axes; ++a) views *= job.grid[a], grid.push_back(job.grid[a]);
  }
};

// Takes groups until none is left. `first` may give up on a group (kSpread); `second` then does it and all later ones.
template <int L, class First, class Second> void work(Plan& plan) {
  FlushToZero flush;
  try {
    First first(plan.job, plan.views, plan.grid);
    std::optional<Second> second;
    for (int64_t start; (start = plan.next.fetch_add(L)) < plan.job.pairs && plan.status == kDone;) {
      int count = int(std::min<int64_t>(L, plan.job.pairs - start));
      JeanieStatus status = second ? kSpread : first.run(&plan.order[start], count);
      if (status == kSpread) {
        if (!second) second.emplace(plan.job, plan.views, plan.grid);
        status = second->run(&plan.order[start], count);
      }
      if (status != kDone) plan.status = status;
    }
  } catch (const std::bad_alloc&) {
    plan.status = kNoMemory;
  }
}

template <int L, class First, class Second = First> int spread(const JeanieJob& job) {
  Plan plan(job);
  int64_t groups = (job.pairs + L - 1) / L, helpers = std::min(job.threads, groups) - 1;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < helpers; ++i) threads.emplace_back(work<L, First, Second>, std::ref(plan));
  work<L, First, Second>(plan);
  for (auto& thread : threads) thread.join();
  return plan.status;
}

template <class C> int run(const JeanieJob& job) {
  constexpr int W = kWidth<float>;
  if (job.gamma == 0) return spread<W, HardSweep<C, W>>(job);
  int64_t views = 1;
  for (int64_t a = 0; a < job.axes; ++a) views *= job.grid[a];
  if (views > 1) return spread<W, Sweep<Shared<C, W>>, Sweep<Own<C, W, 0>>>(job);
  // one view: a second register a pack hides the latency of the chain from cell to cell
  if (job.pairs > W * job.threads) return spread<2 * W, Sweep<Own<C, 2 * W, 1>>>(job);
  return spread<W, Sweep<Own<C, W, 1>>>(job);
}

int run_float(const JeanieJob& job) { return run<float>(job); }
int run_double(const JeanieJob& job) { return run<double>(job); }
int squares_float(const JeanieSquares& job) { return Squares<float>(job).run(); }
int squares_double(const JeanieSquares& job) { return Squares<double>(job).run(); }

}  // namespace JEANIE_ISA
