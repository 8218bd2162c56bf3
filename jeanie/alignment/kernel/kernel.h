// The entry points of one instruction set. kernel.cpp defines one table per build, dispatch.cpp selects one.
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

}  // namespace jeanie
