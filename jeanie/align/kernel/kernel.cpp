// One instruction set's kernel: chooses the representation, spreads groups of pairs over threads.
#include <atomic>
#include <new>
#include <optional>

#include "hard.h"
#include "matched.h"
#include "scale.h"
#include "squares.h"
#include "sweep.h"
#include "threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace JEANIE_ISA {

constexpr int kLanes = kWidth<float>;  // pairs of a group

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

// What the threads of a call share: which groups are left to do.
template <class Job> struct Plan {
  const Job& job;
  const JeanieJob& shape;
  const std::vector<int64_t> order = by_length(shape);
  std::atomic<int64_t> next{0};
  std::atomic<int> status{kDone};
};

// Takes groups until none is left.
template <class Worker, class Job> void work(void* context) {
  auto& plan = *static_cast<Plan<Job>*>(context);
  FlushToZero flush;
  try {
    std::optional<Worker> worker;  // a thread that comes too late needs none
    for (int64_t start; (start = plan.next.fetch_add(kLanes)) < plan.shape.pairs && plan.status == kDone;) {
      if (!worker) worker.emplace(plan.job);
      const int count = int(std::min<int64_t>(kLanes, plan.shape.pairs - start));
      const JeanieStatus status = worker->run(&plan.order[start], count);
      if (status != kDone) plan.status = status;
    }
  } catch (const std::bad_alloc&) {
    plan.status = kNoMemory;
  }
}

template <class Worker, class Job> int spread(const Job& job, const JeanieJob& shape) {
  Plan<Job> plan{job, shape};
  const int64_t groups = (shape.pairs + kLanes - 1) / kLanes;
  jeanie::together(std::min(shape.threads, groups) - 1, work<Worker, Job>, &plan);
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
  if (job.gamma == 0) return spread<HardSweep<C, kLanes>>(job, job);
  if (views_of(job) > 1) return spread<Either<Sweep<Shared<C, kLanes>>, Sweep<Own<C, kLanes, 0>>>>(job, job);
  return spread<Sweep<Own<C, kLanes, 1>>>(job, job);
}

template <class C> int run_matched(const JeanieMatched& matched) {
  return spread<Matched<C, kLanes>>(matched, matched.job);
}

int run_float(const JeanieJob& job) { return run<float>(job); }
int run_double(const JeanieJob& job) { return run<double>(job); }
int matched_float(const JeanieMatched& job) { return run_matched<float>(job); }
int matched_double(const JeanieMatched& job) { return run_matched<double>(job); }
int squares_float(const JeanieSquares& job) { return Squares<float>(job).run(); }
int squares_double(const JeanieSquares& job) { return Squares<double>(job).run(); }
void scale_float(const JeanieScale& job) { Scaling<float>(job).run(); }
void scale_double(const JeanieScale& job) { Scaling<double>(job).run(); }

}  // namespace JEANIE_ISA
