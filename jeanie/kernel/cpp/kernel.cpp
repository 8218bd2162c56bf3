// The kernel of one instruction set: selects the representation and distributes groups of pairs over threads.
#include "kernel.h"

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

// Subnormal numbers cost a hundred cycles each and do not change the result.
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

// State that the threads of a call share: the remaining groups.
template <class Job> struct GroupQueue {
  const Job& job;
  const JeanieAlign& table;
  const std::vector<int64_t> order = order_by_length(table);
  std::atomic<int64_t> next{0};
  std::atomic<int> status{kDone};
};

// Runs groups until none is left or one fails.
template <class Worker, class Job> void run_groups(void* context) noexcept {
  auto& queue = *static_cast<GroupQueue<Job>*>(context);
  FlushToZero flush;
  try {
    std::optional<Worker> worker;  // a thread that comes too late needs none
    for (int64_t start; (start = queue.next.fetch_add(kLanes)) < queue.table.pairs && queue.status == kDone;) {
      if (!worker) worker.emplace(queue.job);
      const int count = int(std::min<int64_t>(kLanes, queue.table.pairs - start));
      const JeanieStatus status = worker->run(&queue.order[start], count);
      if (status != kDone) queue.status = status;
    }
  } catch (const std::bad_alloc&) {
    queue.status = kNoMemory;
  } catch (...) {
    queue.status = kFailed;
  }
}

template <class Worker, class Job> int distribute(const Job& job, const JeanieAlign& table) {
  GroupQueue<Job> queue{job, table};
  const int64_t groups = (table.pairs + kLanes - 1) / kLanes;
  jeanie::run_parallel(std::min(table.threads, groups) - 1, run_groups<Worker, Job>, &queue);
  return queue.status;
}

// Runs groups with `First` until one returns kSpread; `Second` then runs it and all later ones.
template <class First, class Second> class WithFallback {
  const JeanieAlign& job;
  First first;
  std::optional<Second> second;

 public:
  explicit WithFallback(const JeanieAlign& job_) : job(job_), first(job_) {}
  JeanieStatus run(const int64_t* chosen, int count) {
    const JeanieStatus status = second ? kSpread : first.run(chosen, count);
    if (status != kSpread) return status;
    if (!second) second.emplace(job);
    return second->run(chosen, count);
  }
};

template <class C> int run_align(const JeanieAlign& job) {
  using ManyViews = WithFallback<Sweep<SharedExponent<C, kLanes>>, Sweep<OwnExponents<C, kLanes, 0>>>;
  if (job.gamma == 0) return distribute<HardSweep<C, kLanes>>(job, job);
  if (count_views(job) > 1) return distribute<ManyViews>(job, job);
  return distribute<Sweep<OwnExponents<C, kLanes, 1>>>(job, job);
}

template <class C> int run_matched(const JeanieMatched& job) { return distribute<Matched<C, kLanes>>(job, job.align); }

extern const jeanie::Kernel kernel;
const jeanie::Kernel kernel = {
    JEANIE_NAME,
    [](const JeanieAlign& job, bool is_double) { return is_double ? run_align<double>(job) : run_align<float>(job); },
    [](const JeanieMatched& job, bool is_double) { return is_double ? run_matched<double>(job) : run_matched<float>(job); },
    [](const JeanieSquares& job, bool is_double) { return is_double ? Squares<double>(job).run() : Squares<float>(job).run(); },
    [](const JeanieScale& job, bool is_double) { return is_double ? Scaling<double>(job).run() : Scaling<float>(job).run(); },
};

}  // namespace JEANIE_ISA
