// The sums of nearest squares of one instruction set.
#include "nearest.h"

#include "kernel.h"

namespace JEANIE_ISA {

extern const jeanie::NearestKernel nearest_kernel;
const jeanie::NearestKernel nearest_kernel = {
    [](const JeanieNearest& job, bool is_double) { return is_double ? int(kBadArguments) : Nearest(job).run(); }};

}  // namespace JEANIE_ISA
