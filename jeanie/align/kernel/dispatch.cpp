// The entry points of the shared library: the widest instruction set that this processor has, or a named one.
#include <cstdlib>
#include <cstring>

#include "job.h"
#include "memory.h"

#define JEANIE_EXPORT extern "C" __attribute__((visibility("default")))

namespace baseline {
int run_float(const JeanieJob&);
int run_double(const JeanieJob&);
int matched_float(const JeanieMatched&);
int matched_double(const JeanieMatched&);
int squares_float(const JeanieSquares&);
int squares_double(const JeanieSquares&);
void scale_float(const JeanieScale&);
void scale_double(const JeanieScale&);
}  // namespace baseline
#if defined(__x86_64__)
namespace avx2 {
int run_float(const JeanieJob&);
int run_double(const JeanieJob&);
int matched_float(const JeanieMatched&);
int matched_double(const JeanieMatched&);
int squares_float(const JeanieSquares&);
int squares_double(const JeanieSquares&);
void scale_float(const JeanieScale&);
void scale_double(const JeanieScale&);
}  // namespace avx2
#endif

static bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi");
#else
  return false;
#endif
}

// JEANIE_ISA=baseline in the environment forces the narrow build (for tests and comparisons).
JEANIE_EXPORT const char* jeanie_instruction_set() {
  const char* wanted = std::getenv("JEANIE_ISA");
  return has_avx2() && !(wanted && !std::strcmp(wanted, "baseline")) ? "avx2" : "baseline";
}

JEANIE_EXPORT int jeanie_align(const JeanieJob* job, int is_double) {
#if defined(__x86_64__)
  if (!std::strcmp(jeanie_instruction_set(), "avx2")) return is_double ? avx2::run_double(*job) : avx2::run_float(*job);
#endif
  return is_double ? baseline::run_double(*job) : baseline::run_float(*job);
}

JEANIE_EXPORT int jeanie_matched(const JeanieMatched* job, int is_double) {
#if defined(__x86_64__)
  if (!std::strcmp(jeanie_instruction_set(), "avx2"))
    return is_double ? avx2::matched_double(*job) : avx2::matched_float(*job);
#endif
  return is_double ? baseline::matched_double(*job) : baseline::matched_float(*job);
}

JEANIE_EXPORT int jeanie_squares(const JeanieSquares* job, int is_double) {
#if defined(__x86_64__)
  if (!std::strcmp(jeanie_instruction_set(), "avx2"))
    return is_double ? avx2::squares_double(*job) : avx2::squares_float(*job);
#endif
  return is_double ? baseline::squares_double(*job) : baseline::squares_float(*job);
}

JEANIE_EXPORT void jeanie_scale(const JeanieScale* job, int is_double) {
#if defined(__x86_64__)
  if (!std::strcmp(jeanie_instruction_set(), "avx2"))
    return is_double ? avx2::scale_double(*job) : avx2::scale_float(*job);
#endif
  return is_double ? baseline::scale_double(*job) : baseline::scale_float(*job);
}

JEANIE_EXPORT void jeanie_prefer_large_pages(void* start, int64_t bytes) {
  jeanie::prefer_large_pages(start, size_t(bytes));
}
