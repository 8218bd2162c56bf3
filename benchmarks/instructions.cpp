// Runs the kernel once on random costs, for `valgrind --tool=callgrind --toggle-collect=jeanie_align`.
// Usage: instructions LIBRARY PAIRS BLOCKS VIEWS_A VIEWS_B SHIFT BACKWARD
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../jeanie/kernel/cpp/abi.h"

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  void* library = dlopen(argv[1], RTLD_NOW);
  if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  auto align = reinterpret_cast<int (*)(const JeanieAlign*, int)>(dlsym(library, "jeanie_align"));
  const int64_t pairs = std::atoll(argv[2]), blocks = std::atoll(argv[3]), a = std::atoll(argv[4]), b = std::atoll(argv[5]);
  const int64_t cells = blocks * blocks * a * b;
  std::vector<float> cost(pairs * cells), plan(pairs * cells), value(pairs);
  std::vector<int64_t> at(pairs);
  std::mt19937 random(0);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (float& c : cost) c = uniform(random);
  for (int64_t p = 0; p < pairs; ++p) at[p] = p * cells;
  JeanieAlign job{};
  job.cost = cost.data(), job.value = value.data(), job.cost_offsets = job.plan_offsets = at.data();
  if (std::atoi(argv[7])) job.plan = plan.data();
  job.cost_stride = job.plan_stride = blocks * a * b;
  job.cost_size = job.plan_size = pairs * cells, job.pair_size = pairs;
  job.pairs = pairs, job.rows = job.columns = blocks;
  job.axes = a * b > 1 ? 2 : 0, job.grid[0] = a, job.grid[1] = b;
  job.shift = std::atoll(argv[6]), job.threads = 1, job.gamma = 0.01, job.band = -1;
  const double scale = -1 / (job.gamma * std::log(2.0));
  job.scale_hi = float(scale), job.scale_lo = scale - job.scale_hi;
  const int status = align(&job, 0);
  std::printf("%d %g\n", status, value[0]);
  return status;
}
