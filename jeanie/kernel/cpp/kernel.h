// The entry points of one instruction set. kernel.cpp, mlp.cpp and nearest.cpp define tables per build, dispatch.cpp selects them.
#pragma once

#include "abi.h"

namespace jeanie {

struct Kernel {
  const char* name;
  int (*align)(const JeanieAlign&, bool is_double);
  int (*matched)(const JeanieMatched&, bool is_double);
  int (*squares)(const JeanieSquares&, bool is_double);
  int (*scale)(const JeanieScale&, bool is_double);
};

// The entry points of mlp.cpp and nearest.cpp, which also have a build for AVX-512.
struct MlpKernel {
  int (*run)(const JeanieMlp&, bool is_double);
};
struct NearestKernel {
  int (*run)(const JeanieNearest&, bool is_double);
};

}  // namespace jeanie
