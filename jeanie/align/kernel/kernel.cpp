// One instruction set's kernel: chooses the representation, spreads groups of pairs over threads.
#include <atomic>
#include <new>
#include <optional>
#include <thread>

#include "hard.h"
#include "matched.h"
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
  std::vector<int64_t> order;
  std::atomic<int64_t> next{0};
  std::atomic<int> status{kDone};

  explicit Plan(const JeanieJob& job_) : job(job_), order(by_length(job_)) {}
};

// Takes groups until none is left.
template <int L, class Worker, class Job> void work(Plan& plan, const Job& job) {
  FlushToZero flush;
  try {
    Worker worker(job);
    for (int64_t start; (start = plan.next.fetch_add(L)) < plan.job.pairs && plan.status == kDone;) {
      const JeanieStatus status = worker.run(&plan.order[start], int(std::min<int64_t>(L, plan.job.pairs - start)));
      if (status != kDone) plan.status = status;
    }
  } catch (const std::bad_alloc&) {
    plan.status = kNoMemory;
  }
}

template <int L, class Worker, class Job> int spread(const Job& job, const JeanieJob& shape) {
  Plan plan(shape);
  int64_t groups = (shape.pairs + L - 1) / L, helpers = std::min(shape.threads, groups) - 1;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < helpers; ++i) threads.emplace_back(work<L, Worker, Job>, std::ref(plan), std::cref(job));
  work<L, Worker>(plan, job);
  for (auto& thread : threads) thread.join();
  return plan.status;
}

// The representation `First` may give up on a group (kSpread); `Second` then does it and all later ones.
template <class First, class Second> class Either {
  const JeanieJob& job;
  First first;
  std::optional<Second> second;

 public:
  explicit Either(const JeanieJob& job_) : job(job_), first(job_) {}
  JeanieStatus run(const int64_t* chosen, int count) {
    const JeanieStatus status = second ? kSpread : first.run(chosen, count);
    if (status != kSpread) return status;
    if (!second) second.emplace(job);
    return second->run(chosen, count);
  }
};

template <class C> int run(const JeanieJob& job) {
  constexpr int W = kWidth<float>;
  if (job.gamma == 0) return spread<W, HardSweep<C, W>>(job, job);
  if (views_of(job) > 1) return spread<W, Either<Sweep<Shared<C, W>>, Sweep<Own<C, W, 0>>>>(job, job);
  // one view: a second register a pack hides the latency of the chain from cell to cell
  if (job.pairs > W * job.threads) return spread<2 * W, Sweep<Own<C, 2 * W, 1>>>(job, job);
  return spread<W, Sweep<Own<C, W, 1>>>(job, job);
}

template <class C> int run_matched(const JeanieMatched& matched) {
  constexpr int W = kWidth<float>;
  if (matched.job.pairs > W * matched.job.threads) return spread<2 * W, Matched<C, 2 * W>>(matched, matched.job);
  return spread<W, Matched<C, W>>(matched, matched.job);
}

int run_float(const JeanieJob& job) { return run<float>(job); }
int run_double(const JeanieJob& job) { return run<double>(job); }
int matched_float(const JeanieMatched& job) { return run_matched<float>(job); }
int matched_double(const JeanieMatched& job) { return run_matched<double>(job); }
int squares_float(const JeanieSquares& job) { return Squares<float>(job).run(); }
int squares_double(const JeanieSquares& job) { return Squares<double>(job).run(); }

}  // namespace JEANIE_ISA
