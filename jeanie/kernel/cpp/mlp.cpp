// The MLP of one instruction set.
#include "mlp.h"

#include "kernel.h"

namespace JEANIE_ISA {

extern const jeanie::MlpKernel mlp_kernel;
const jeanie::MlpKernel mlp_kernel = {[](const JeanieMlp& job, bool is_double) {
  return is_double ? Mlp<double>(job).run() : Mlp<float>(job).run();
}};

}  // namespace JEANIE_ISA
