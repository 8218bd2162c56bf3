// The exported functions: check the job, run the build for this processor, return a status. No exception leaves them.
#include <cstdlib>
#include <cstring>
#include <new>

#include "checks.h"
#include "kernel.h"
#include "memory.h"

#define JEANIE_EXPORT extern "C" __attribute__((visibility("default")))

namespace baseline {
extern const jeanie::Kernel kernel;
extern const jeanie::MlpKernel mlp_kernel;
extern const jeanie::NearestKernel nearest_kernel;
}
#if defined(__x86_64__)
namespace avx2 {
extern const jeanie::Kernel kernel;
extern const jeanie::MlpKernel mlp_kernel;
extern const jeanie::NearestKernel nearest_kernel;
}
namespace avx512 {
extern const jeanie::MlpKernel mlp_kernel;
extern const jeanie::NearestKernel nearest_kernel;
}
#endif

namespace {

#if defined(__x86_64__)
// Whether JEANIE_ISA in the environment is the name of a build: it forbids wider ones.
bool is_limited_to(const char* name) {
  const char* wanted = std::getenv("JEANIE_ISA");
  return wanted && !std::strcmp(wanted, name);
}
bool has_avx2() {
  return !is_limited_to("baseline") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi");
}
bool has_avx512() {
  return has_avx2() && !is_limited_to("avx2") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

// The widest build that this processor runs
const jeanie::Kernel& select_kernel() {
#if defined(__x86_64__)
  if (has_avx2()) return avx2::kernel;
#endif
  return baseline::kernel;
}
const jeanie::Kernel& kernel() {
  static const jeanie::Kernel& selected = select_kernel();
  return selected;
}
const jeanie::MlpKernel& select_mlp_kernel() {
#if defined(__x86_64__)
  if (has_avx512()) return avx512::mlp_kernel;
  if (has_avx2()) return avx2::mlp_kernel;
#endif
  return baseline::mlp_kernel;
}
const jeanie::MlpKernel& mlp_kernel() {
  static const jeanie::MlpKernel& selected = select_mlp_kernel();
  return selected;
}

const jeanie::NearestKernel& select_nearest_kernel() {
#if defined(__x86_64__)
  if (has_avx512()) return avx512::nearest_kernel;
  if (has_avx2()) return avx2::nearest_kernel;
#endif
  return baseline::nearest_kernel;
}
const jeanie::NearestKernel& nearest_kernel() {
  static const jeanie::NearestKernel& selected = select_nearest_kernel();
  return selected;
}

template <class Job> int run_guarded(int (*function)(const Job&, bool), const Job* job, int dtype) noexcept {
  if (!job || (dtype != kFloat32 && dtype != kFloat64) || !jeanie::is_valid(*job)) return kBadArguments;
  try {
    return function(*job, dtype == kFloat64);
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (...) {
    return kFailed;
  }
}

}  // namespace

JEANIE_EXPORT int64_t jeanie_abi_version() { return kAbiVersion; }

// sizeof of the structs in the order of abi.h; -1 after the last one
JEANIE_EXPORT int64_t jeanie_struct_size(int64_t index) {
  constexpr int64_t sizes[] = {sizeof(JeanieAlign), sizeof(JeanieMatched), sizeof(JeanieSquares), sizeof(JeanieScale),
                               sizeof(JeanieMlp), sizeof(JeanieNearest)};
  return 0 <= index && index < int64_t(sizeof sizes / sizeof *sizes) ? sizes[index] : -1;
}

JEANIE_EXPORT const char* jeanie_instruction_set() { return kernel().name; }

JEANIE_EXPORT int jeanie_align(const JeanieAlign* job, int dtype) { return run_guarded(kernel().align, job, dtype); }

JEANIE_EXPORT int jeanie_matched(const JeanieMatched* job, int dtype) {
  return run_guarded(kernel().matched, job, dtype);
}

JEANIE_EXPORT int jeanie_squares(const JeanieSquares* job, int dtype) {
  return run_guarded(kernel().squares, job, dtype);
}

JEANIE_EXPORT int jeanie_scale(const JeanieScale* job, int dtype) { return run_guarded(kernel().scale, job, dtype); }

JEANIE_EXPORT int jeanie_mlp(const JeanieMlp* job, int dtype) { return run_guarded(mlp_kernel().run, job, dtype); }

JEANIE_EXPORT int jeanie_nearest(const JeanieNearest* job, int dtype) {
  return run_guarded(nearest_kernel().run, job, dtype);
}

JEANIE_EXPORT void jeanie_prefer_large_pages(void* start, int64_t bytes) {
  if (start && bytes > 0) jeanie::prefer_large_pages(start, size_t(bytes));
}
