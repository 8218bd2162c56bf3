// A pool of threads that outlives a call: starting a thread costs as much as aligning a few pairs.
#pragma once

#include <cstdint>

namespace jeanie {

// Runs work(context) on the calling thread and on at most `helpers` others, and returns when all of them have finished.
// `work` must divide the work itself: the call does not wait for a helper that wakes after the work is done.
void run_parallel(int64_t helpers, void (*work)(void*) noexcept, void* context);

}  // namespace jeanie
