// Threads that outlive a call: starting one costs as much as aligning a few pairs.
#pragma once

#include <cstdint>

namespace jeanie {

// Runs work(context) here and on at most `helpers` other threads at once, and returns when all of them have. `work` must
// share out what there is to do: a helper that wakes late, since the machine is busy, is not waited for.
void together(int64_t helpers, void (*work)(void*), void* context);

}  // namespace jeanie
